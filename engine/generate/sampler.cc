// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/generate/random.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

constexpr uint64_t kNumBuffers = 4;
static_assert(sizeof(float) == sizeof(uint32_t));

// A strict order even among equal logits, so that sorting has one result.
// REQUIRES: no NaN.
auto MoreLikely(absl::Span<const float> logits) {
  return [logits](uint32_t a, uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
}

// logits become (logit - largest) / temperature: at most 0, never NaN, whatever
// came in. Subtracting first keeps a small temperature from overflowing. False
// when there is no number above minus infinity among them.
bool Scale(float temperature, absl::Span<float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  float largest = -kInfinity;
  for (float& logit : logits) {
    logit = std::isnan(logit) ? -kInfinity : std::min(logit, kLargest);
    largest = std::max(largest, logit);
  }
  if (largest == -kInfinity) return false;
  for (float& logit : logits) logit = (logit - largest) / temperature;
  return true;
}

}  // namespace

uint64_t SamplerBuffers::BytesFor(uint32_t vocab_size) {
  return kNumBuffers * vocab_size * sizeof(float);
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
absl::Span<float> SamplerBuffers::gathered() {
  return {logits().data() + 2 * size_t{vocab_size_}, vocab_size_};
}
absl::Span<uint32_t> SamplerBuffers::order() {
  return {reinterpret_cast<uint32_t*>(block_.data()) + 3 * size_t{vocab_size_},
          vocab_size_};
}

Sampler::Sampler(const SamplingPlan& plan, absl::Span<const int32_t> prompt_ids,
                 SamplerBuffers& buffers)
    : plan_(plan), penalties_(plan.penalties, prompt_ids), buffers_(buffers) {}

int32_t Sampler::Choose(absl::Span<const float> logits, uint64_t pos) {
  int32_t id;
  if (plan_.temperature == 0.0f && !penalties_.active()) {
    id = static_cast<int32_t>(ArgMax(logits.data(), logits.size()));
  } else {
    absl::Span<float> changed = buffers_.logits();
    std::copy(logits.begin(), logits.end(), changed.begin());
    penalties_.Apply(changed);
    id = plan_.temperature == 0.0f
             ? static_cast<int32_t>(ArgMax(changed.data(), changed.size()))
             : Draw(changed, pos);
  }
  penalties_.Add(id);
  return id;
}

// The tokens still in question are the first num_kept entries of order();
// probabilities() holds theirs by id.
int32_t Sampler::Draw(absl::Span<float> logits, uint64_t pos) {
  if (!Scale(plan_.temperature, logits)) return 0;
  absl::Span<uint32_t> order = buffers_.order();
  absl::Span<float> probabilities = buffers_.probabilities();
  std::iota(order.begin(), order.end(), 0u);

  size_t num_kept = KeepTopK(logits);
  num_kept = KeepTopP(num_kept);
  num_kept = KeepMinP(num_kept);

  const absl::Span<const uint32_t> kept = order.first(num_kept);
  double total = 0;
  for (uint32_t id : kept) total += probabilities[id];
  const double target = RandomUnit(plan_.seed, pos) * total;
  double sum = 0;
  uint32_t last_possible = kept.front();
  for (uint32_t id : kept) {
    if (!(probabilities[id] > 0)) continue;
    sum += probabilities[id];
    last_possible = id;
    if (sum > target) break;
  }
  return static_cast<int32_t>(last_possible);
}

size_t Sampler::KeepTopK(absl::Span<const float> logits) {
  absl::Span<uint32_t> order = buffers_.order();
  absl::Span<float> probabilities = buffers_.probabilities();
  if (plan_.top_k == 0 || plan_.top_k >= order.size()) {
    std::copy(logits.begin(), logits.end(), probabilities.begin());
    Softmax(probabilities.size(), probabilities.data());
    return order.size();
  }
  const size_t num_kept = plan_.top_k;
  std::nth_element(order.begin(), order.begin() + num_kept, order.end(),
                   MoreLikely(logits));
  std::sort(order.begin(), order.begin() + num_kept, MoreLikely(logits));
  absl::Span<float> gathered = buffers_.gathered().first(num_kept);
  for (size_t i = 0; i < num_kept; ++i) gathered[i] = logits[order[i]];
  Softmax(num_kept, gathered.data());
  for (size_t i = 0; i < num_kept; ++i) probabilities[order[i]] = gathered[i];
  return num_kept;
}

size_t Sampler::KeepTopP(size_t num_kept) {
  if (plan_.top_p >= 1.0f) return num_kept;
  absl::Span<uint32_t> order = buffers_.order().first(num_kept);
  absl::Span<const float> logits = buffers_.logits();
  absl::Span<const float> probabilities = buffers_.probabilities();
  // A few tokens usually hold top_p of the mass: sort as far as is needed.
  // Full sorts of 150,000 tokens would take longer than a small model's token.
  size_t num_sorted = 0;
  double sum = 0;
  for (size_t i = 0; i < num_kept; ++i) {
    if (i == num_sorted) {
      const auto begin = order.begin() + num_sorted;
      num_sorted = std::min(num_kept, std::max<size_t>(64, 4 * num_sorted));
      const auto end = order.begin() + num_sorted;
      if (end != order.end()) {
        std::nth_element(begin, end, order.end(), MoreLikely(logits));
      }
      std::sort(begin, end, MoreLikely(logits));
    }
    sum += probabilities[order[i]];
    if (sum >= plan_.top_p) return i + 1;
  }
  return num_kept;
}

size_t Sampler::KeepMinP(size_t num_kept) {
  if (plan_.min_p <= 0.0f) return num_kept;
  absl::Span<uint32_t> order = buffers_.order().first(num_kept);
  absl::Span<const float> probabilities = buffers_.probabilities();
  float largest = 0;
  for (uint32_t id : order) largest = std::max(largest, probabilities[id]);
  const float threshold = plan_.min_p * largest;
  const auto end = std::stable_partition(
      order.begin(), order.end(),
      [&](uint32_t id) { return probabilities[id] >= threshold; });
  return static_cast<size_t>(end - order.begin());
}

}  // namespace lowmem
