// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/penalties.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;

TEST(TokenPenaltiesTest, RepetitionDividesPositiveAndMultipliesNegativeLogits) {
  TokenPenalties penalties({.repetition = 2.0f}, {0, 1, 1, 2});
  std::vector<float> logits = {4, -3, 0, 5};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(2, -6, 0, 5));
}

TEST(TokenPenaltiesTest, RepetitionCountsTheAnswerToo) {
  TokenPenalties penalties({.repetition = 2.0f}, {0});
  penalties.Add(3);
  penalties.Add(3);
  std::vector<float> logits = {4, 4, 4, 4};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(2, 4, 4, 2));
}

TEST(TokenPenaltiesTest, PresenceIsSubtractedOnceAndNotForThePrompt) {
  TokenPenalties penalties({.presence = 0.5f}, {0});
  penalties.Add(1);
  penalties.Add(1);
  std::vector<float> logits = {1, 1, 1};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(1, 0.5f, 1));
}

TEST(TokenPenaltiesTest, FrequencyIsSubtractedForEachOccurrence) {
  TokenPenalties penalties({.frequency = 0.25f}, {0});
  penalties.Add(1);
  penalties.Add(1);
  penalties.Add(2);
  std::vector<float> logits = {1, 1, 1};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(1, 0.5f, 0.75f));
}

TEST(TokenPenaltiesTest, RepetitionComesBeforePresenceAndFrequency) {
  TokenPenalties penalties(
      {.repetition = 2.0f, .presence = 1.0f, .frequency = 0.5f}, {});
  penalties.Add(0);
  std::vector<float> logits = {8};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(8 / 2 - 1 - 0.5f));
}

TEST(TokenPenaltiesTest, ResultsStayFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  TokenPenalties penalties({.repetition = 0.01f}, {0});
  std::vector<float> logits = {kLargest};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_EQ(logits[0], kLargest);
  TokenPenalties other({.repetition = 100.0f}, {0});
  logits = {-kLargest};
  other.Apply(absl::MakeSpan(logits));
  EXPECT_EQ(logits[0], -kLargest);
}

TEST(TokenPenaltiesTest, IdsOutsideTheLogitsArePassedOver) {
  TokenPenalties penalties({.repetition = 2.0f}, {-1, 7, 0});
  std::vector<float> logits = {4, 4};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(2, 4));
}

TEST(TokenPenaltiesTest, NeutralPenaltiesChangeNothing) {
  TokenPenalties penalties({}, {0, 1});
  penalties.Add(1);
  EXPECT_FALSE(penalties.active());
  std::vector<float> logits = {1, -1};
  penalties.Apply(absl::MakeSpan(logits));
  EXPECT_THAT(logits, ElementsAre(1, -1));
}

}  // namespace
}  // namespace lowmem
