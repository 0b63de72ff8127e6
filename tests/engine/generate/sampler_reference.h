// SPDX-License-Identifier: Apache-2.0
// What sampler.h promises in plain code that sorts everything: for comparison.

#ifndef LOWMEM_TESTS_ENGINE_GENERATE_SAMPLER_REFERENCE_H_
#define LOWMEM_TESTS_ENGINE_GENERATE_SAMPLER_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/generate/random.h"
#include "engine/generate/sampling_plan.h"
#include "quant/vector_ops.h"

namespace lowmem::testing {

// The token at `pos` by the definition, without penalties. REQUIRES: the
// temperature is not 0.
inline int32_t DrawByDefinition(const SamplingPlan& plan,
                                std::vector<float> logits, uint64_t pos) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  float largest = -kInfinity;
  for (float& logit : logits) {
    logit = std::isnan(logit) ? -kInfinity : std::min(logit, kLargest);
    largest = std::max(largest, logit);
  }
  if (largest == -kInfinity) return 0;
  for (float& logit : logits) logit = (logit - largest) / plan.temperature;

  // Without a cut by likelihood tokens stay in the order of their ids.
  const bool has_top_k = plan.top_k != 0 && plan.top_k < logits.size();
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  if (has_top_k || plan.top_p < 1.0f) {
    std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) {
      return logits[a] > logits[b];
    });
  }
  std::vector<float> by_id = logits;
  if (has_top_k) {
    ids.resize(plan.top_k);
    std::vector<float> kept;
    for (const uint32_t id : ids) kept.push_back(logits[id]);
    Softmax(kept.size(), kept.data());
    for (size_t i = 0; i < ids.size(); ++i) by_id[ids[i]] = kept[i];
  } else {
    Softmax(by_id.size(), by_id.data());
  }

  if (plan.top_p < 1.0f) {
    double sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      sum += by_id[ids[i]];
      if (sum >= plan.top_p) ids.resize(i + 1);
    }
  }
  if (plan.min_p > 0.0f) {
    float most = 0;
    for (const uint32_t id : ids) most = std::max(most, by_id[id]);
    std::erase_if(ids,
                  [&](uint32_t id) { return by_id[id] < plan.min_p * most; });
  }

  double total = 0;
  for (const uint32_t id : ids) total += by_id[id];
  const double target = RandomUnit(plan.seed, pos) * total;
  double sum = 0;
  uint32_t last_possible = ids.front();
  for (const uint32_t id : ids) {
    if (by_id[id] == 0) continue;
    sum += by_id[id];
    last_possible = id;
    if (sum > target) break;
  }
  return static_cast<int32_t>(last_possible);
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_GENERATE_SAMPLER_REFERENCE_H_
