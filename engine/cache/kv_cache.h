// SPDX-License-Identifier: Apache-2.0
// Keys and values of one sequence, in pages that are taken as the sequence
// grows. A page holds kPageTokens positions of every layer, laid out as
//   [num_layers][keys, values][num_kv_heads][kPageTokens] rows
// so that attention, which walks the positions of one head of one layer, reads
// whole pages' worth of contiguous rows. A row is head_dim numbers encoded by
// quant/kv_codec.h; what is rounded is rounded once, when it is stored.

#ifndef LOWMEM_ENGINE_CACHE_KV_CACHE_H_
#define LOWMEM_ENGINE_CACHE_KV_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "quant/kv_codec.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"

namespace lowmem {

struct KvShape {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  KvFormat format = KvFormat::kF32;
};

// Thread safety: one writer; readers of completed rows may run together, and so
// may writers of different rows. Memory: BytesPerToken for each position, in
// whole pages, charged as they are taken.
class KvCache {
 public:
  static constexpr uint32_t kPageTokens = 16;

  // REQUIRES: the shape is of a proved ModelConfig.
  static uint64_t BytesPerToken(const KvShape& shape);

  // Takes no memory before Reserve.
  KvCache(const KvShape& shape, uint32_t max_tokens, MemoryAccount& account);

  // Makes room for positions [size(), size() + num_tokens).
  // Errors: kOutOfRange beyond max_tokens; kResourceExhausted. Nothing is taken
  // then.
  absl::Status Reserve(uint32_t num_tokens);

  // Encodes the key and the value of one position and head, [head_dim] each.
  // REQUIRES: room was reserved for `pos`.
  void Store(uint32_t layer_idx, uint32_t kv_head_idx, uint32_t pos,
             const float* key, const float* value);

  // The encoded rows of one head in one page, that is of positions page_idx *
  // kPageTokens and following: kPageTokens rows, contiguous. REQUIRES: room was
  // reserved for the first of them.
  const uint8_t* KeyPage(uint32_t layer_idx, uint32_t kv_head_idx,
                         uint32_t page_idx) const {
    return pages_[page_idx].data() + RowsOffset(layer_idx, 0, kv_head_idx);
  }
  const uint8_t* ValuePage(uint32_t layer_idx, uint32_t kv_head_idx,
                           uint32_t page_idx) const {
    return pages_[page_idx].data() + RowsOffset(layer_idx, 1, kv_head_idx);
  }

  const KvShape& shape() const { return shape_; }
  // Positions that are complete.
  uint32_t size() const { return size_; }
  uint32_t max_tokens() const { return max_tokens_; }
  // Declares `num_tokens` further positions complete.
  // REQUIRES: room was reserved for them.
  void Advance(uint32_t num_tokens) { size_ += num_tokens; }
  // Forgets every position from `new_size` on, reserved ones too, and gives
  // whole pages back. REQUIRES: new_size <= size().
  void Truncate(uint32_t new_size);
  uint64_t allocated_bytes() const { return pages_.size() * page_bytes_; }

 private:
  // Where a page keeps the rows of one head's keys or values.
  uint64_t RowsOffset(uint32_t layer_idx, uint32_t is_value,
                      uint32_t kv_head_idx) const {
    const uint64_t block =
        (uint64_t{layer_idx} * 2 + is_value) * shape_.num_kv_heads +
        kv_head_idx;
    return block * kPageTokens * row_bytes_;
  }

  const KvShape shape_;
  const uint32_t max_tokens_;
  const uint64_t row_bytes_;
  const uint64_t page_bytes_;
  MemoryAccount& account_;
  std::vector<AlignedBuffer> pages_;
  uint32_t size_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_CACHE_KV_CACHE_H_
