// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/attend.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "quant/kv_rows.h"
#include "quant/vector_ops.h"

namespace lowmem {
namespace {

constexpr size_t kPageTokens = KvCache::kPageTokens;

// Multiplications that are worth handing to another thread: a few microseconds,
// several times what waking one costs.
constexpr uint64_t kProductsPerGrain = uint64_t{1} << 17;
// What a number of a softmax costs, in those.
constexpr uint64_t kProductsPerExp = 32;

// Tokens whose scores are held together share a walk over keys and values.
// Measured with a chunk of 128 at position 4096, one thread, milliseconds a
// layer by tokens held, where one by one and head by head it was 34 and 58:
//           1     2     4     8     16    32
//   SmolLM2 16.2  14.1  11.0  10.1  10.8  11.1
//   Qwen2.5 20.4  19.1  15.9  16.1  16.8  18.3
// A token takes 144 and 224 KiB there. Chunks are small where memory is.
constexpr uint64_t kScoreBytes = uint64_t{1} << 20;
constexpr uint32_t kChunkTokensPerScoredToken = 16;

size_t PagesFor(size_t num_positions) {
  return (num_positions + kPageTokens - 1) / kPageTokens;
}

// Floats from the scores of one row to those of the next.
size_t ScoreStride(size_t num_positions) {
  return PagesFor(num_positions) * kPageTokens;
}

// Some tokens of a chunk and some key-value heads, whose scores are held at
// once.
struct Block {
  size_t first_token;  // in the chunk
  size_t num_tokens;
  size_t first_kv_head;
  size_t num_kv_heads;
};

// Three loops over a whole block, so that there is work for every thread
// whatever the number of heads and tokens: scores are split by position,
// softmax by row, sums of values by column. A row is a query head of a token;
// rows are in the order of [num_kv_heads, num_tokens, group_size].
class BlockAttention {
 public:
  BlockAttention(const PassContext& pass, const ModelConfig& config,
                 uint32_t layer_idx, const Chunk& chunk, const Block& block,
                 const KvCache& kv, float* scores)
      : pass_(pass),
        kv_(kv),
        layer_idx_(layer_idx),
        block_(block),
        num_heads_(config.num_heads),
        head_dim_(config.head_dim),
        group_size_(config.num_heads / config.num_kv_heads),
        first_pos_(chunk.first_pos + block.first_token),
        end_pos_(first_pos_ + block.num_tokens),
        score_stride_(ScoreStride(end_pos_)),
        scores_(scores) {}

  // Errors: kCancelled.
  absl::Status Run(const float* q, float* out) {
    RunScores(q);
    if (!Stopped()) RunSoftmax();
    if (!Stopped()) RunValues(out);
    return stopped_.load(std::memory_order_relaxed)
               ? absl::CancelledError("interrupted")
               : absl::OkStatus();
  }

 private:
  // The flag may be taken back before this thread looks at it again; what was
  // left out must be known all the same.
  bool Stopped() {
    if (pass_.Cancelled()) stopped_.store(true, std::memory_order_relaxed);
    return stopped_.load(std::memory_order_relaxed);
  }

  // Calls body(begin, end) for ranges of items that cost so many products each.
  template <typename Body>
  void ParallelFor(size_t num_items, uint64_t products_per_item, Body body) {
    const auto grain = static_cast<size_t>(
        std::max<uint64_t>(1, kProductsPerGrain / products_per_item));
    pass_.pool.ParallelFor(
        num_items, grain,
        [&](size_t begin, size_t end, size_t) { body(begin, end); });
  }

  size_t num_pages() const { return PagesFor(end_pos_); }
  size_t num_rows() const {
    return block_.num_kv_heads * block_.num_tokens * group_size_;
  }
  // Positions that token t of the block sees.
  size_t NumPositions(size_t t) const { return first_pos_ + t + 1; }
  // The first token of the block that sees position `pos`.
  size_t FirstTokenSeeing(size_t pos) const {
    return pos > first_pos_ ? pos - first_pos_ : 0;
  }

  const uint8_t* Keys(size_t h, size_t page) const {
    return kv_.KeyPage(layer_idx_,
                       static_cast<uint32_t>(block_.first_kv_head + h),
                       static_cast<uint32_t>(page));
  }
  const uint8_t* Values(size_t h, size_t page) const {
    return kv_.ValuePage(layer_idx_,
                         static_cast<uint32_t>(block_.first_kv_head + h),
                         static_cast<uint32_t>(page));
  }
  float* Scores(size_t h, size_t t) const {
    return scores_ + (h * block_.num_tokens + t) * group_size_ * score_stride_;
  }
  // Rows of q or out that belong to head h of the block, for tokens [t, end).
  template <typename Float>
  GroupRows<Float> Rows(Float* data, size_t h, size_t t, size_t end) const {
    const size_t head_idx = (block_.first_kv_head + h) * group_size_;
    return {.data = data + ((block_.first_token + t) * num_heads_ + head_idx) *
                               head_dim_,
            .num_tokens = end - t,
            .group_size = group_size_,
            .token_stride = num_heads_ * head_dim_,
            .n = head_dim_};
  }

  // Items are pages, head by head.
  void RunScores(const float* q) {
    const auto scale =
        static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim_)));
    ParallelFor(block_.num_kv_heads * num_pages(),
                block_.num_tokens * group_size_ * kPageTokens * head_dim_,
                [&](size_t begin, size_t end) {
                  for (size_t i = begin; i < end && !Stopped(); ++i) {
                    const size_t h = i / num_pages();
                    const size_t page = i % num_pages();
                    const size_t pos = page * kPageTokens;
                    const size_t t = FirstTokenSeeing(pos);
                    const uint8_t* next =
                        page + 1 < num_pages() ? Keys(h, page + 1) : nullptr;
                    DotKeys(kv_.shape().format,
                            Rows(q, h, t, block_.num_tokens), Keys(h, page),
                            next, std::min(kPageTokens, end_pos_ - pos), scale,
                            Scores(h, t) + pos, score_stride_);
                  }
                });
  }

  void RunSoftmax() {
    ParallelFor(num_rows(), end_pos_ * kProductsPerExp,
                [&](size_t begin, size_t end) {
                  for (size_t i = begin; i < end && !Stopped(); ++i) {
                    const size_t t = i / group_size_ % block_.num_tokens;
                    Softmax(NumPositions(t), scores_ + i * score_stride_);
                  }
                });
  }

  // Items are blocks of columns, head by head.
  void RunValues(float* out) {
    const size_t blocks_per_head =
        (head_dim_ + kColumnAlignment - 1) / kColumnAlignment;
    const size_t num_items = block_.num_kv_heads * blocks_per_head;
    const uint64_t products = uint64_t{num_rows()} * end_pos_ * head_dim_;
    // A part for each thread, since few columns of a row are read slowly.
    const auto num_parts = static_cast<size_t>(std::clamp<uint64_t>(
        products / kProductsPerGrain, 1, pass_.pool.num_threads()));
    pass_.pool.ParallelFor(
        num_items, (num_items + num_parts - 1) / num_parts,
        [&](size_t begin, size_t end, size_t) {
          for (size_t i = begin; i < end;) {
            const size_t h = i / blocks_per_head;
            const size_t head_end = std::min(end, (h + 1) * blocks_per_head);
            const size_t first_col = i % blocks_per_head * kColumnAlignment;
            const size_t end_col =
                first_col + (head_end - i) * kColumnAlignment;
            SumValues(h, first_col, std::min(end_col, head_dim_), out);
            i = head_end;
          }
        });
  }

  // Columns [begin, end) of the rows of head h.
  void SumValues(size_t h, size_t begin, size_t end, float* out) {
    const GroupRows<float> rows = Rows(out, h, 0, block_.num_tokens);
    for (size_t i = 0; i < rows.num_rows(); ++i) {
      std::fill(rows.Row(i) + begin, rows.Row(i) + end, 0.0f);
    }
    for (size_t page = 0; page < num_pages() && !Stopped(); ++page) {
      const size_t pos = page * kPageTokens;
      const uint8_t* next =
          page + 1 < num_pages() ? Values(h, page + 1) : nullptr;
      const auto add = [&](size_t t, size_t end_token, size_t num_values) {
        AddWeightedValues(kv_.shape().format, Scores(h, t) + pos, score_stride_,
                          Values(h, page), next, num_values, begin, end,
                          Rows(out, h, t, end_token));
      };
      // Those that end within the page see a part of it each.
      const size_t first_whole =
          std::min(FirstTokenSeeing(pos + kPageTokens - 1), block_.num_tokens);
      for (size_t t = FirstTokenSeeing(pos); t < first_whole; ++t) {
        add(t, t + 1, NumPositions(t) - pos);
      }
      if (first_whole < block_.num_tokens) {
        add(first_whole, block_.num_tokens, kPageTokens);
      }
    }
  }

  const PassContext& pass_;
  const KvCache& kv_;
  const uint32_t layer_idx_;
  const Block block_;
  const size_t num_heads_;
  const size_t head_dim_;
  const size_t group_size_;
  const size_t first_pos_;
  const size_t end_pos_;
  const size_t score_stride_;
  float* const scores_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

uint64_t ScoreFloats(const ModelConfig& config, uint32_t chunk_tokens,
                     uint32_t context_tokens) {
  const uint64_t token_floats =
      uint64_t{config.num_heads} * ScoreStride(context_tokens);
  const uint64_t num_tokens =
      std::max<uint64_t>(1, chunk_tokens / kChunkTokensPerScoredToken);
  // One key-value head of one token at least. Never less for a longer context.
  return std::max(
      token_floats / config.num_kv_heads,
      std::min(token_floats * num_tokens, kScoreBytes / sizeof(float)));
}

absl::Status Attend(const PassContext& pass, const ModelConfig& config,
                    uint32_t layer_idx, const Chunk& chunk, const float* q,
                    const KvCache& kv, absl::Span<float> scores, float* out) {
  const size_t num_kv_heads = config.num_kv_heads;
  const size_t group_size = config.num_heads / num_kv_heads;
  // Tokens of a key-value head whose scores fit.
  const size_t num_held =
      scores.size() /
      (group_size * ScoreStride(chunk.first_pos + chunk.num_tokens));
  const size_t max_kv_heads = std::min(num_kv_heads, num_held);
  const size_t max_tokens = std::max<size_t>(1, num_held / num_kv_heads);
  for (size_t t = 0; t < chunk.num_tokens; t += max_tokens) {
    for (size_t h = 0; h < num_kv_heads; h += max_kv_heads) {
      const Block block = {
          .first_token = t,
          .num_tokens = std::min<size_t>(max_tokens, chunk.num_tokens - t),
          .first_kv_head = h,
          .num_kv_heads = std::min(max_kv_heads, num_kv_heads - h)};
      BlockAttention attention(pass, config, layer_idx, chunk, block, kv,
                               scores.data());
      if (absl::Status status = attention.Run(q, out); !status.ok()) {
        return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lowmem
