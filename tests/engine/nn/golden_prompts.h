// SPDX-License-Identifier: Apache-2.0
// Prompts and greedy continuations of golden.json and of the tiny GGUF files,
// and comparison within the tolerances that their notes state.

#ifndef LOWMEM_TESTS_ENGINE_NN_GOLDEN_PROMPTS_H_
#define LOWMEM_TESTS_ENGINE_NN_GOLDEN_PROMPTS_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/file.h"

namespace lowmem::testing {

inline constexpr float kLogitTolerance = 2e-4f;
inline constexpr float kHiddenTolerance = 5e-5f;  // of the root mean square

struct GoldenPrompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  size_t clear_steps = 0;  // leading greedy steps that lead by more than 0.02
};

inline std::vector<int32_t> IdsOf(const JsonValue* list) {
  std::vector<int32_t> ids;
  if (list == nullptr) return ids;
  for (const JsonValue& item : list->items()) {
    ids.push_back(static_cast<int32_t>(item.AsInt64().value_or(-1)));
  }
  return ids;
}

// Empty when the file cannot be read, which no test may take for success.
inline std::vector<GoldenPrompt> ReadGoldenPrompts(const std::string& path) {
  std::vector<GoldenPrompt> prompts;
  const absl::StatusOr<std::string> text = ReadWholeFile(path, 1u << 20);
  if (!text.ok()) return prompts;
  const absl::StatusOr<JsonValue> json = JsonValue::Parse(*text);
  if (!json.ok() || json->Find("prompts") == nullptr) return prompts;
  for (const JsonValue& item : json->Find("prompts")->items()) {
    GoldenPrompt prompt = {IdsOf(item.Find("ids")), IdsOf(item.Find("greedy"))};
    const JsonValue* clear_steps = item.Find("clear_steps");
    prompt.clear_steps = clear_steps == nullptr
                             ? prompt.greedy.size()
                             : clear_steps->AsUint64().value_or(0);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

inline void ExpectNear(const std::vector<float>& actual,
                       const std::vector<float>& expected, float tolerance,
                       const std::string& what) {
  ASSERT_FALSE(expected.empty()) << what;
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float worst = 0;
  size_t worst_idx = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const float difference = std::abs(actual[i] - expected[i]);
    // A NaN must not pass.
    if (difference <= worst) continue;
    worst = difference;
    worst_idx = i;
    if (std::isnan(difference)) break;
  }
  EXPECT_LE(worst, tolerance)
      << what << ": element " << worst_idx << " is " << actual[worst_idx]
      << " instead of " << expected[worst_idx];
}

inline float RootMeanSquare(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return static_cast<float>(
      std::sqrt(sum / std::max<size_t>(1, values.size())));
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_NN_GOLDEN_PROMPTS_H_
