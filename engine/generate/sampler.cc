// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/generate/random.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Tokens by likelihood as whole numbers, so that sorting takes no look-ups and
// has one result: the smaller, the more likely; of equal logits the smaller id.
// REQUIRES: `logit` is at most 0, so that what is left of its bits without the
// sign grows as the logit falls, and both zeros are one.
uint64_t RankOf(float logit, uint32_t id) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(logit) & 0x7fffffffu;
  return uint64_t{magnitude} << 32 | id;
}
uint32_t IdOf(uint64_t rank) { return static_cast<uint32_t>(rank); }
float LogitOf(uint64_t rank) {
  return -std::bit_cast<float>(static_cast<uint32_t>(rank >> 32));
}

// The `count` most likely tokens, sorted, at the begin of `ranks` [n]. One pass
// over the logits; those that cannot be among them are passed over by vectors.
// REQUIRES: count < n.
void SelectMostLikely(absl::Span<const float> logits, size_t count,
                      absl::Span<uint64_t> ranks) {
  // Room for as many again, so that a selection is due only after `count` more.
  const size_t room = std::min(logits.size(), std::max<size_t>(2 * count, 256));
  for (size_t id = 0; id < room; ++id) {
    ranks[id] = RankOf(logits[id], static_cast<uint32_t>(id));
  }
  const auto begin = ranks.begin();
  size_t num_found = room;
  size_t id = room;
  while (true) {
    std::nth_element(begin, begin + (count - 1), begin + num_found);
    if (id == logits.size()) break;
    num_found = count;
    // A later token with an equal logit has a larger id: it is less likely.
    const float threshold = LogitOf(ranks[count - 1]);
    while (num_found < room) {
      id = FindAbove(logits.data(), id, logits.size(), threshold);
      if (id == logits.size()) break;
      ranks[num_found++] = RankOf(logits[id], static_cast<uint32_t>(id));
      ++id;
    }
  }
  std::sort(begin, begin + count);
}

// Ranks of the tokens above `threshold`, at the begin of `ranks` [n], in the
// order of ids. Returns how many.
size_t CollectAbove(absl::Span<const float> logits, float threshold,
                    absl::Span<uint64_t> ranks) {
  const size_t n = logits.size();
  size_t num_found = 0;
  for (size_t id = FindAbove(logits.data(), 0, n, threshold); id < n;
       id = FindAbove(logits.data(), id + 1, n, threshold)) {
    ranks[num_found++] = RankOf(logits[id], static_cast<uint32_t>(id));
  }
  return num_found;
}

// Sorts `ranks` as far as the sum of probabilities, the most likely first,
// stays below `mass`. Returns how many reach it; 0 when all do not. A few
// usually do, and sorting 150,000 would take longer than a small model's token.
size_t SortUntil(float mass, absl::Span<const float> probabilities,
                 absl::Span<uint64_t> ranks) {
  size_t num_sorted = 0;
  double sum = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == num_sorted) {
      const auto begin = ranks.begin() + num_sorted;
      num_sorted = std::min(ranks.size(), std::max<size_t>(64, 4 * num_sorted));
      const auto end = ranks.begin() + num_sorted;
      if (end != ranks.end()) std::nth_element(begin, end, ranks.end());
      std::sort(begin, end);
    }
    sum += probabilities[IdOf(ranks[i])];
    if (sum >= mass) return i + 1;
  }
  return 0;
}

}  // namespace

uint64_t SamplerBuffers::BytesFor(uint32_t vocab_size) {
  return vocab_size * uint64_t{2 * sizeof(float) + sizeof(uint64_t)};
}

absl::StatusOr<SamplerBuffers> SamplerBuffers::Create(uint32_t vocab_size,
                                                      MemoryAccount& account) {
  LOWMEM_ASSIGN_OR_RETURN(
      AlignedBuffer block,
      AlignedBuffer::Allocate(BytesFor(vocab_size), account));
  return SamplerBuffers(std::move(block), vocab_size);
}

absl::Span<float> SamplerBuffers::logits() {
  return {reinterpret_cast<float*>(block_.data()), vocab_size_};
}
absl::Span<float> SamplerBuffers::probabilities() {
  return {logits().data() + vocab_size_, vocab_size_};
}
absl::Span<uint64_t> SamplerBuffers::ranks() {
  return {reinterpret_cast<uint64_t*>(block_.data()) + vocab_size_,
          vocab_size_};
}

Sampler::Sampler(const SamplingPlan& plan, absl::Span<const int32_t> prompt_ids,
                 SamplerBuffers& buffers)
    : plan_(plan), penalties_(plan.penalties, prompt_ids), buffers_(buffers) {}

int32_t Sampler::Choose(absl::Span<const float> logits, uint64_t pos) {
  if (penalties_.active()) {
    absl::Span<float> changed = buffers_.logits();
    std::copy(logits.begin(), logits.end(), changed.begin());
    penalties_.Apply(changed);
    logits = changed;
  }
  const int32_t id =
      plan_.temperature == 0.0f
          ? static_cast<int32_t>(ArgMax(logits.data(), logits.size()))
          : Draw(logits, pos);
  penalties_.Add(id);
  return id;
}

uint32_t Sampler::Kept::id(size_t i) const {
  return ranks.empty() ? static_cast<uint32_t>(i) : IdOf(ranks[i]);
}

int32_t Sampler::Draw(absl::Span<const float> logits, uint64_t pos) {
  const float largest = logits[ArgMax(logits.data(), logits.size())];
  if (!(largest >= -kLargest)) return 0;  // no number above minus infinity
  const absl::Span<float> scaled = buffers_.logits();
  ScaleLogits(logits.data(), std::min(largest, kLargest), plan_.temperature,
              logits.size(), scaled.data());

  Kept kept;
  if (plan_.top_k != 0 && plan_.top_k < scaled.size()) {
    kept = KeepTopP(KeepTopK(scaled));
  } else {
    kept.weights = buffers_.probabilities();
    std::copy(scaled.begin(), scaled.end(), kept.weights.begin());
    Softmax(kept.weights.size(), kept.weights.data());
    if (plan_.top_p < 1.0f) kept = KeepTopPOfAll(kept.weights);
  }
  kept = KeepMinP(kept);

  double total = 0;
  for (const float weight : kept.weights) total += weight;
  const double target = RandomUnit(plan_.seed, pos) * total;
  double sum = 0;
  size_t last_possible = 0;
  for (size_t i = 0; i < kept.weights.size(); ++i) {
    if (!(kept.weights[i] > 0)) continue;
    sum += kept.weights[i];
    last_possible = i;
    if (sum > target) break;
  }
  return static_cast<int32_t>(kept.id(last_possible));
}

Sampler::Kept Sampler::KeepTopK(absl::Span<const float> logits) {
  const absl::Span<uint64_t> ranks = buffers_.ranks();
  SelectMostLikely(logits, plan_.top_k, ranks);
  const Kept kept = {buffers_.probabilities().first(plan_.top_k),
                     ranks.first(plan_.top_k)};
  for (size_t i = 0; i < plan_.top_k; ++i) {
    kept.weights[i] = logits[IdOf(kept.ranks[i])];
  }
  Softmax(kept.weights.size(), kept.weights.data());
  return kept;
}

// Of tokens sorted by likelihood.
Sampler::Kept Sampler::KeepTopP(Kept kept) {
  if (plan_.top_p >= 1.0f) return kept;
  double sum = 0;
  for (size_t i = 0; i < kept.weights.size(); ++i) {
    sum += kept.weights[i];
    if (sum < plan_.top_p) continue;
    return {kept.weights.first(i + 1), kept.ranks.first(i + 1)};
  }
  return kept;
}

// As KeepTopP, of all tokens, which are sorted as far as is needed.
Sampler::Kept Sampler::KeepTopPOfAll(absl::Span<const float> probabilities) {
  const absl::Span<float> logits = buffers_.logits();
  const absl::Span<uint64_t> ranks = buffers_.ranks();
  const size_t n = logits.size();
  // Tokens of less than (1 - top_p) / n have less than 1 - top_p together, so
  // the others have top_p, if only roundings are on their side. The largest
  // logit is 0, so a probability is exp(logit) of the largest one.
  const float most = probabilities[ArgMax(probabilities.data(), n)];
  const float threshold =
      std::log((1.0f - plan_.top_p) / (static_cast<float>(n) * most));
  size_t num_kept = 0;
  for (const float lowest : {threshold, -kInfinity}) {
    const size_t num_found = CollectAbove(logits, lowest, ranks);
    num_kept = SortUntil(plan_.top_p, probabilities, ranks.first(num_found));
    if (num_kept > 0) break;
    num_kept = num_found;
  }
  for (size_t i = 0; i < num_kept; ++i) {
    logits[i] = probabilities[IdOf(ranks[i])];
  }
  return {logits.first(num_kept), ranks.first(num_kept)};
}

Sampler::Kept Sampler::KeepMinP(Kept kept) {
  if (plan_.min_p <= 0.0f) return kept;
  const absl::Span<float> weights = kept.weights;
  const float most = weights[ArgMax(weights.data(), weights.size())];
  // What is above the next number below it is at least the threshold.
  const float below = std::nextafter(plan_.min_p * most, -1.0f);
  const absl::Span<uint64_t> ranks = buffers_.ranks();
  size_t num_kept = 0;
  for (size_t i = FindAbove(weights.data(), 0, weights.size(), below);
       i < weights.size();
       i = FindAbove(weights.data(), i + 1, weights.size(), below)) {
    weights[num_kept] = weights[i];
    ranks[num_kept] = kept.id(i);
    ++num_kept;
  }
  return {weights.first(num_kept), ranks.first(num_kept)};
}

}  // namespace lowmem
