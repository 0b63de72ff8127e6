// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/mode_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::testing::HasSubstr;

// Weights of 1,000,000 bytes; 100 bytes of activations a token of the chunk;
// 160 bytes of keys and values for the shortest sequence, 1,600 for the
// longest.
absl::StatusOr<ModelFootprint> Footprint(uint32_t chunk_tokens) {
  ModelFootprint footprint;
  footprint.weight_bytes = 1000000;
  footprint.arena_bytes = 100 * chunk_tokens;
  footprint.kv_bytes_per_token = 10;
  footprint.kv_page_tokens = 16;
  footprint.kv_page_bytes = 160;
  footprint.context_tokens = 160;
  return footprint;
}

TEST(ModeChoiceTest, WithoutABudgetTheFileIsMapped) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       ChooseMode(Mode::kAuto, std::nullopt, 0, Footprint));
  EXPECT_EQ(choice.mode, Mode::kMmap);
  EXPECT_EQ(choice.chunk_tokens, 128);
  EXPECT_FALSE(choice.drop_behind);
  EXPECT_THAT(choice.reason, HasSubstr("no memory budget"));
}

TEST(ModeChoiceTest, AModelThatFitsTheBudgetIsCopied) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       ChooseMode(Mode::kAuto, 2000000, 0, Footprint));
  EXPECT_EQ(choice.mode, Mode::kCopy);
  EXPECT_EQ(choice.chunk_tokens, 128);
  EXPECT_THAT(choice.reason, HasSubstr("fits the memory budget"));
}

TEST(ModeChoiceTest, TheChunkShrinksBeforeTheModeChanges) {
  // 1,000,000 + 160 + 100 * 32 fits, 64 does not.
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       ChooseMode(Mode::kAuto, 1005000, 0, Footprint));
  EXPECT_EQ(choice.mode, Mode::kCopy);
  EXPECT_EQ(choice.chunk_tokens, 32);
}

TEST(ModeChoiceTest, AModelThatDoesNotFitIsMappedAndDroppedBehind) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       ChooseMode(Mode::kAuto, 500000, 0, Footprint));
  EXPECT_EQ(choice.mode, Mode::kMmap);
  EXPECT_TRUE(choice.drop_behind);
  EXPECT_THAT(choice.reason,
              HasSubstr("does not fit the memory budget of 488 KiB"));
}

TEST(ModeChoiceTest, AMappingThatFitsTheBudgetIsNotDropped) {
  ASSERT_OK_AND_ASSIGN(
      const ModeChoice fits,
      ChooseMode(Mode::kMmap, 1000000 + 12800 + 1600, 0, Footprint));
  EXPECT_FALSE(fits.drop_behind);
  ASSERT_OK_AND_ASSIGN(
      const ModeChoice does_not,
      ChooseMode(Mode::kMmap, 1000000 + 12800 + 1599, 0, Footprint));
  EXPECT_TRUE(does_not.drop_behind);
}

TEST(ModeChoiceTest, CopyThatDoesNotFitIsRefused) {
  EXPECT_THAT(
      ChooseMode(Mode::kCopy, 900000, 0, Footprint),
      Fails(absl::StatusCode::kResourceExhausted, "largest item: weights"));
}

TEST(ModeChoiceTest, ABudgetThatHoldsNothingIsRefusedWithTheSmallestNeed) {
  EXPECT_THAT(ChooseMode(Mode::kAuto, 1, 0, Footprint),
              Fails(absl::StatusCode::kResourceExhausted,
                    "mode mmap does not fit the memory budget; needed 260 B"));
}

TEST(ModeChoiceTest, AChunkThatWasAskedForIsKeptOrRefused) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       ChooseMode(Mode::kMmap, std::nullopt, 7, Footprint));
  EXPECT_EQ(choice.chunk_tokens, 7);
  EXPECT_THAT(ChooseMode(Mode::kMmap, 800, 7, Footprint),
              Fails(absl::StatusCode::kResourceExhausted, "needed 860 B"));
}

TEST(ModeChoiceTest, StreamIsNamedAsUnsupported) {
  EXPECT_THAT(ChooseMode(Mode::kStream, std::nullopt, 0, Footprint),
              Fails(absl::StatusCode::kUnimplemented, "mode stream"));
}

TEST(ModeChoiceTest, AFootprintThatCannotBeComputedEndsIt) {
  const auto fails = [](uint32_t) -> absl::StatusOr<ModelFootprint> {
    return absl::InternalError("no size");
  };
  EXPECT_THAT(ChooseMode(Mode::kAuto, 1000, 0, fails),
              Fails(absl::StatusCode::kInternal, "no size"));
}

}  // namespace
}  // namespace lowmem
