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
// 160 bytes of keys and values for each 16 tokens.
absl::StatusOr<ModelFootprint> Footprint(uint32_t chunk_tokens,
                                         uint32_t context_tokens) {
  ModelFootprint footprint;
  footprint.weight_bytes = 1000000;
  footprint.copied_weight_bytes = 1000000;
  footprint.arena_bytes = 100 * chunk_tokens;
  footprint.kv_bytes_per_token = 10;
  footprint.kv_page_tokens = 16;
  footprint.kv_page_bytes = 160;
  footprint.context_tokens = context_tokens;
  return footprint;
}

absl::StatusOr<ModeChoice> Choose(Mode mode, std::optional<uint64_t> budget,
                                  uint32_t chunk_tokens = 0,
                                  uint32_t context_tokens = 0) {
  ModeRequest request;
  request.mode = mode;
  request.budget_bytes = budget;
  request.chunk_tokens = chunk_tokens;
  request.context_tokens = context_tokens;
  request.model_context_tokens = 2000;
  return ChooseMode(request, Footprint);
}

TEST(ModeChoiceTest, WithoutABudgetTheFileIsMapped) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       Choose(Mode::kAuto, std::nullopt));
  EXPECT_EQ(choice.mode, Mode::kMmap);
  EXPECT_EQ(choice.chunk_tokens, 128);
  EXPECT_EQ(choice.context_tokens(), 2000);
  EXPECT_FALSE(choice.drop_behind);
  EXPECT_FALSE(choice.budget_limits_context);
  EXPECT_THAT(choice.reason, HasSubstr("no memory budget"));
}

TEST(ModeChoiceTest, AModelThatFitsTheBudgetIsCopied) {
  // 1,000,000 + 100 * 128 + 10 * 2000.
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, Choose(Mode::kAuto, 1032800));
  EXPECT_EQ(choice.mode, Mode::kCopy);
  EXPECT_EQ(choice.chunk_tokens, 128);
  EXPECT_EQ(choice.context_tokens(), 2000);
  EXPECT_FALSE(choice.budget_limits_context);
  EXPECT_THAT(choice.reason, HasSubstr("fits the memory budget"));
}

TEST(ModeChoiceTest, TheContextIsTheLongestThatFits) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, Choose(Mode::kAuto, 1032799));
  EXPECT_EQ(choice.mode, Mode::kCopy);
  EXPECT_EQ(choice.chunk_tokens, 128);
  EXPECT_EQ(choice.context_tokens(), 1984);
  EXPECT_TRUE(choice.budget_limits_context);
}

TEST(ModeChoiceTest, CopyLeavesRoomFor512TokensOrIsNotTaken) {
  // With the smallest chunk that is tried before the mode changes.
  ASSERT_OK_AND_ASSIGN(const ModeChoice copy,
                       Choose(Mode::kAuto, 1000000 + 100 + 5120));
  EXPECT_EQ(copy.mode, Mode::kCopy);
  EXPECT_EQ(copy.chunk_tokens, 1);
  EXPECT_EQ(copy.context_tokens(), 512);
  ASSERT_OK_AND_ASSIGN(const ModeChoice mmap,
                       Choose(Mode::kAuto, 1000000 + 100 + 5119));
  EXPECT_EQ(mmap.mode, Mode::kMmap);
  EXPECT_THAT(mmap.reason, HasSubstr("beside a context of 512 tokens"));
  // Who asks for copy gets it with less.
  ASSERT_OK_AND_ASSIGN(const ModeChoice asked,
                       Choose(Mode::kCopy, 1000000 + 100 + 160));
  EXPECT_EQ(asked.context_tokens(), 16);
}

TEST(ModeChoiceTest, AContextThatWasAskedForDecidesTheMode) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice copy,
                       Choose(Mode::kAuto, 1000000 + 100 + 320, 0, 32));
  EXPECT_EQ(copy.mode, Mode::kCopy);
  EXPECT_EQ(copy.context_tokens(), 32);
  EXPECT_FALSE(copy.budget_limits_context);
  ASSERT_OK_AND_ASSIGN(const ModeChoice mmap,
                       Choose(Mode::kAuto, 1000000 + 100 + 320, 0, 33));
  EXPECT_EQ(mmap.mode, Mode::kMmap);
  EXPECT_EQ(mmap.context_tokens(), 33);
}

TEST(ModeChoiceTest, TheChunkShrinksWithTheContext) {
  struct Case {
    uint64_t budget_bytes;
    uint32_t chunk_tokens;
    uint32_t context_tokens;
  };
  // 128 tokens together need a context of 1024, 64 one of 512 and so on.
  const Case cases[] = {{12800 + 10240, 128, 1024}, {12800 + 10239, 64, 1648},
                        {6400 + 5120, 64, 512},     {6400 + 5119, 32, 816},
                        {200 + 160, 2, 16},         {200 + 159, 1, 16}};
  for (const Case& test : cases) {
    ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                         Choose(Mode::kMmap, test.budget_bytes));
    EXPECT_EQ(choice.chunk_tokens, test.chunk_tokens) << test.budget_bytes;
    EXPECT_EQ(choice.context_tokens(), test.context_tokens)
        << test.budget_bytes;
  }
}

TEST(ModeChoiceTest, AShortContextAskedForGetsTheLargestChunkThatFits) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       Choose(Mode::kMmap, 3200 + 1600, 0, 160));
  EXPECT_EQ(choice.chunk_tokens, 32);
  ASSERT_OK_AND_ASSIGN(const ModeChoice short_one,
                       Choose(Mode::kMmap, 1 << 20, 0, 5));
  EXPECT_EQ(short_one.chunk_tokens, 5) << "no longer than the context";
}

TEST(ModeChoiceTest, AModelThatDoesNotFitIsMappedAndDroppedBehind) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, Choose(Mode::kAuto, 500000));
  EXPECT_EQ(choice.mode, Mode::kMmap);
  EXPECT_TRUE(choice.drop_behind);
  EXPECT_THAT(choice.reason,
              HasSubstr("does not fit the memory budget of 488 KiB"));
}

TEST(ModeChoiceTest, AMappingThatFitsTheBudgetIsNotDropped) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice fits,
                       Choose(Mode::kMmap, 1000000 + 12800 + 20000));
  EXPECT_FALSE(fits.drop_behind);
  ASSERT_OK_AND_ASSIGN(const ModeChoice does_not,
                       Choose(Mode::kMmap, 1000000 + 12800 + 1600 - 1, 0, 160));
  EXPECT_TRUE(does_not.drop_behind);
}

TEST(ModeChoiceTest, CopyThatDoesNotFitIsRefused) {
  EXPECT_THAT(
      Choose(Mode::kCopy, 900000),
      Fails(absl::StatusCode::kResourceExhausted, "largest item: weights"));
}

TEST(ModeChoiceTest, ABudgetThatHoldsNoPageIsRefusedWithTheSmallestNeed) {
  EXPECT_THAT(Choose(Mode::kAuto, 259),
              Fails(absl::StatusCode::kResourceExhausted,
                    "mode mmap does not fit the memory budget with a context "
                    "of 16 tokens; needed 260 B"));
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, Choose(Mode::kAuto, 260));
  EXPECT_EQ(choice.context_tokens(), 16);
}

TEST(ModeChoiceTest, AContextThatDoesNotFitIsRefusedWithOneThatDoes) {
  const absl::StatusOr<ModeChoice> refused =
      Choose(Mode::kMmap, 100 + 320 + 159, 0, 49);
  for (const char* part :
       {"with a context of 49 tokens; needed 740 B", "allowed 579 B",
        "largest item: keys and values 640 B",
        "; a context of 32 tokens fits"}) {
    EXPECT_THAT(refused, Fails(absl::StatusCode::kResourceExhausted, part));
  }
  const absl::StatusOr<ModeChoice> none = Choose(Mode::kMmap, 259, 0, 49);
  EXPECT_THAT(none, Fails(absl::StatusCode::kResourceExhausted, "needed"));
  EXPECT_THAT(std::string(none.status().message()),
              ::testing::Not(HasSubstr("tokens fits")));
}

TEST(ModeChoiceTest, AContextBeyondTheModelsIsTheModels) {
  for (const std::optional<uint64_t> budget :
       {std::optional<uint64_t>(), std::optional<uint64_t>(1 << 30)}) {
    ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                         Choose(Mode::kAuto, budget, 0, 1u << 31));
    EXPECT_EQ(choice.context_tokens(), 2000);
    EXPECT_FALSE(choice.budget_limits_context);
  }
}

TEST(ModeChoiceTest, AChunkThatWasAskedForIsKeptOrRefused) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       Choose(Mode::kMmap, std::nullopt, 7));
  EXPECT_EQ(choice.chunk_tokens, 7);
  ASSERT_OK_AND_ASSIGN(const ModeChoice fits, Choose(Mode::kMmap, 860, 7));
  EXPECT_EQ(fits.chunk_tokens, 7);
  EXPECT_EQ(fits.context_tokens(), 16);
  EXPECT_THAT(Choose(Mode::kMmap, 859, 7),
              Fails(absl::StatusCode::kResourceExhausted, "needed 860 B"));
}

TEST(ModeChoiceTest, StreamIsNamedAsUnsupported) {
  EXPECT_THAT(Choose(Mode::kStream, std::nullopt),
              Fails(absl::StatusCode::kUnimplemented, "mode stream"));
}

TEST(ModeChoiceTest, AFootprintThatCannotBeComputedEndsIt) {
  const auto fails = [](uint32_t, uint32_t) -> absl::StatusOr<ModelFootprint> {
    return absl::InternalError("no size");
  };
  ModeRequest request;
  for (const std::optional<uint64_t> budget :
       {std::optional<uint64_t>(), std::optional<uint64_t>(1000)}) {
    request.budget_bytes = budget;
    EXPECT_THAT(ChooseMode(request, fails),
                Fails(absl::StatusCode::kInternal, "no size"));
  }
}

}  // namespace
}  // namespace lowmem
