// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/mode_choice.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;
using ::testing::HasSubstr;

// Weights of 1,000,000 bytes, streamed with 5,000 to 1,010,000, mapped
// with 4,000 to 1,004,000; 100 bytes of
// activations a token of the chunk; 160 bytes of keys and values for each 16
// tokens.
absl::StatusOr<ModelFootprint> Footprint(uint32_t chunk_tokens,
                                         uint32_t context_tokens) {
  ModelFootprint footprint;
  footprint.weight_bytes = 1000000;
  footprint.copied_weight_bytes = 1000000;
  footprint.least_stream_bytes = 5000;
  footprint.most_stream_bytes = 1010000;
  footprint.least_mapped_bytes = 4000;
  footprint.most_mapped_bytes = 1004000;
  footprint.arena_bytes = 100 * chunk_tokens;
  footprint.kv_bytes_per_token = 10;
  footprint.kv_page_tokens = 16;
  footprint.kv_page_bytes = 160;
  footprint.context_tokens = context_tokens;
  return footprint;
}

absl::StatusOr<ModeChoice> Choose(Mode mode, std::optional<uint64_t> budget,
                                  uint32_t chunk_tokens = 0,
                                  uint32_t context_tokens = 0,
                                  std::optional<SequenceNeed> need = {}) {
  ModeRequest request;
  request.need = need;
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
  EXPECT_EQ(choice.weight_bytes, std::nullopt);
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
  // With a smaller chunk all of it fits.
  EXPECT_EQ(choice.longest_context_tokens, 2000);
  EXPECT_TRUE(choice.budget_limits_context);
}

TEST(ModeChoiceTest, CopyLeavesRoomFor512TokensOrIsNotTaken) {
  // With the smallest chunk that is tried before the mode changes.
  ASSERT_OK_AND_ASSIGN(const ModeChoice copy,
                       Choose(Mode::kAuto, 1000000 + 1600 + 5120));
  EXPECT_EQ(copy.mode, Mode::kCopy);
  EXPECT_EQ(copy.chunk_tokens, 16);
  EXPECT_EQ(copy.context_tokens(), 512);
  ASSERT_OK_AND_ASSIGN(const ModeChoice stream,
                       Choose(Mode::kAuto, 1000000 + 1600 + 5119));
  EXPECT_EQ(stream.mode, Mode::kStream);
  EXPECT_THAT(stream.reason, HasSubstr("beside a context of 512 tokens"));
  // Who asks for copy gets it with less.
  ASSERT_OK_AND_ASSIGN(const ModeChoice asked,
                       Choose(Mode::kCopy, 1000000 + 1600 + 160));
  EXPECT_EQ(asked.context_tokens(), 16);
}

TEST(ModeChoiceTest, AContextThatWasAskedForDecidesTheMode) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice copy,
                       Choose(Mode::kAuto, 1000000 + 1600 + 320, 0, 32));
  EXPECT_EQ(copy.mode, Mode::kCopy);
  EXPECT_EQ(copy.context_tokens(), 32);
  EXPECT_FALSE(copy.budget_limits_context);
  ASSERT_OK_AND_ASSIGN(const ModeChoice stream,
                       Choose(Mode::kAuto, 1000000 + 1600 + 320, 0, 33));
  EXPECT_EQ(stream.mode, Mode::kStream);
  EXPECT_EQ(stream.context_tokens(), 33);
}

TEST(ModeChoiceTest, TheChunkShrinksWithTheContext) {
  struct Case {
    uint64_t spare_bytes;
    uint32_t chunk_tokens;
    uint32_t context_tokens;
  };
  // 128 tokens together need a context of 1024, 64 one of 512 and so on.
  const Case cases[] = {{12800 + 10240, 128, 1024}, {12800 + 10239, 64, 1648},
                        {6400 + 5120, 64, 512},     {6400 + 5119, 32, 816},
                        {3200 + 2560, 32, 256},     {3200 + 2559, 16, 400},
                        {1600 + 160, 16, 16}};
  for (const Case& test : cases) {
    ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                         Choose(Mode::kCopy, 1000000 + test.spare_bytes));
    EXPECT_EQ(choice.chunk_tokens, test.chunk_tokens) << test.spare_bytes;
    EXPECT_EQ(choice.context_tokens(), test.context_tokens) << test.spare_bytes;
  }
}

TEST(ModeChoiceTest, AContextNobodyAskedForLeavesMostMemoryToWeights) {
  // 1,600 and 160 must be had; a quarter of 40,000 is the context's.
  ASSERT_OK_AND_ASSIGN(const ModeChoice mmap,
                       Choose(Mode::kMmap, 4000 + 1760 + 40000));
  EXPECT_EQ(mmap.chunk_tokens, 64);
  EXPECT_EQ(mmap.context_tokens(), (1760 + 10000 - 6400) / 160 * 16);
  EXPECT_TRUE(mmap.budget_limits_context);
  ASSERT_OK_AND_ASSIGN(const ModeChoice stream,
                       Choose(Mode::kStream, 5000 + 1760 + 40000));
  EXPECT_EQ(stream.context_tokens(), mmap.context_tokens());
  // Whoever asks may have all of it, with the smallest chunk.
  for (const ModeChoice& choice : {mmap, stream}) {
    EXPECT_EQ(choice.longest_context_tokens, 2000);
  }
  for (const Mode mode : {Mode::kStream, Mode::kAuto}) {
    ASSERT_OK_AND_ASSIGN(const ModeChoice tight,
                         Choose(mode, 5000 + 1760 + 8000));
    EXPECT_LT(tight.context_tokens(), 400);
    EXPECT_EQ(tight.longest_context_tokens, (160 + 8000) / 160 * 16);
    EXPECT_THAT(
        Choose(mode, 5000 + 1760 + 8000, 0, tight.longest_context_tokens),
        IsOk());
    EXPECT_THAT(
        Choose(mode, 5000 + 1760 + 8000, 0, tight.longest_context_tokens + 1),
        Fails(absl::StatusCode::kResourceExhausted,
              "; a context of 816 tokens fits"));
  }
  // Once all weights fit beside it, the context gets the rest.
  ASSERT_OK_AND_ASSIGN(const ModeChoice ample,
                       Choose(Mode::kStream, 1010000 + 12800 + 20000));
  EXPECT_EQ(ample.context_tokens(), 2000);
  EXPECT_EQ(ample.chunk_tokens, 128);
}

TEST(ModeChoiceTest, WhatIsLeftIsForStreaming) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       Choose(Mode::kStream, 500000, 0, 160));
  EXPECT_EQ(choice.weight_bytes, 500000 - 12800 - 1600);
  EXPECT_EQ(choice.forecast.heap_weight_bytes, 5000);
  ASSERT_OK_AND_ASSIGN(const ModeChoice unlimited,
                       Choose(Mode::kStream, std::nullopt));
  EXPECT_EQ(unlimited.mode, Mode::kStream);
  EXPECT_EQ(unlimited.weight_bytes, std::nullopt);
  ASSERT_OK_AND_ASSIGN(const ModeChoice copy, Choose(Mode::kCopy, 2000000));
  EXPECT_EQ(copy.weight_bytes, std::nullopt);
}

TEST(ModeChoiceTest, APromptGoesThroughInAsFewEqualPartsAsFit) {
  struct Case {
    Mode mode;
    uint64_t spare_bytes;  // beside a context of 1,000 tokens
    uint32_t chunk_tokens;
  };
  // 900 tokens: two parts at most 512 tokens long where weights are read
  // in every pass, else eight of
  // at most 128.
  const Case cases[] = {
      {Mode::kStream, 100000, 450}, {Mode::kStream, 45000, 450},
      {Mode::kStream, 44999, 300},  {Mode::kStream, 1600, 16},
      {Mode::kMmap, 100000, 450},   {Mode::kCopy, 100000, 113},
      {Mode::kCopy, 11299, 100},
  };
  for (const Case& test : cases) {
    const uint64_t weight_bytes = test.mode == Mode::kStream ? 5000
                                  : test.mode == Mode::kMmap ? 4000
                                                             : 1000000;
    ASSERT_OK_AND_ASSIGN(
        const ModeChoice choice,
        Choose(test.mode, weight_bytes + 10080 + test.spare_bytes, 0, 0,
               SequenceNeed{900, 1000, 1000}));
    EXPECT_EQ(choice.chunk_tokens, test.chunk_tokens) << test.spare_bytes;
    EXPECT_EQ(choice.context_tokens(), 1000);
    EXPECT_FALSE(choice.budget_limits_context);
  }
}

TEST(ModeChoiceTest, AWantedContextYieldsToTheBudgetDownToTheLeast) {
  const SequenceNeed need = {20, 21, 276};
  // 1,600 for a chunk of 16, then 160 for each 16 tokens.
  for (const auto& [kv_bytes, context_tokens] :
       {std::pair(2880, 276), {2879, 272}, {320, 32}}) {
    ASSERT_OK_AND_ASSIGN(
        const ModeChoice choice,
        Choose(Mode::kStream, 5000 + 1600 + kv_bytes, 0, 0, need));
    EXPECT_EQ(choice.context_tokens(), context_tokens);
    EXPECT_EQ(choice.budget_limits_context, context_tokens < 276);
  }
  EXPECT_THAT(Choose(Mode::kStream, 5000 + 1600 + 319, 0, 0, need),
              Fails(absl::StatusCode::kResourceExhausted,
                    "; a context of 16 tokens fits"));
}

TEST(ModeChoiceTest, AnUnknownLengthIsDividedLikeAnUnknownNeed) {
  ASSERT_OK_AND_ASSIGN(
      const ModeChoice choice,
      Choose(Mode::kStream, 5000 + 1760 + 40000, 0, 0, SequenceNeed{10, 11}));
  EXPECT_EQ(choice.chunk_tokens, 10);
  // 1,000 and 160 must be had; a quarter of 40,600 is the context's.
  EXPECT_EQ(choice.context_tokens(), 10310 / 160 * 16);
}

TEST(ModeChoiceTest, CopyIsTakenOnlyWithTheContextThatIsWanted) {
  const SequenceNeed need = {16, 17, 640};
  ASSERT_OK_AND_ASSIGN(const ModeChoice copy,
                       Choose(Mode::kAuto, 1000000 + 1600 + 6400, 0, 0, need));
  EXPECT_EQ(copy.mode, Mode::kCopy);
  ASSERT_OK_AND_ASSIGN(const ModeChoice stream,
                       Choose(Mode::kAuto, 1000000 + 1600 + 6399, 0, 0, need));
  EXPECT_EQ(stream.mode, Mode::kStream);
  EXPECT_EQ(stream.context_tokens(), 640);
}

TEST(ModeChoiceTest, AModelSmallerThanTheRingIsCopied) {
  const auto tiny = [](uint32_t chunk_tokens, uint32_t context_tokens) {
    absl::StatusOr<ModelFootprint> footprint =
        Footprint(chunk_tokens, context_tokens);
    footprint->weight_bytes = footprint->copied_weight_bytes = 1000;
    return footprint;
  };
  ModeRequest request;
  request.budget_bytes = 1000 + 1600 + 160;
  request.model_context_tokens = 2000;
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, ChooseMode(request, tiny));
  EXPECT_EQ(choice.mode, Mode::kCopy);
  EXPECT_EQ(choice.context_tokens(), 16);
  request.budget_bytes = 1000 + 1600 + 159;
  EXPECT_THAT(ChooseMode(request, tiny),
              Fails(absl::StatusCode::kResourceExhausted, "mode copy"));
}

TEST(ModeChoiceTest, AShortContextAskedForGetsTheLargestChunkThatFits) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice,
                       Choose(Mode::kMmap, 4000 + 3200 + 1600, 0, 160));
  EXPECT_EQ(choice.chunk_tokens, 32);
  ASSERT_OK_AND_ASSIGN(const ModeChoice short_one,
                       Choose(Mode::kMmap, 1 << 20, 0, 5));
  EXPECT_EQ(short_one.chunk_tokens, 5) << "no longer than the context";
}

TEST(ModeChoiceTest, AModelThatDoesNotFitIsStreamed) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, Choose(Mode::kAuto, 500000));
  EXPECT_EQ(choice.mode, Mode::kStream);
  EXPECT_THAT(choice.reason,
              HasSubstr("does not fit the memory budget of 488 KiB"));
}

TEST(ModeChoiceTest, AMappingThatFitsTheBudgetHasNoBound) {
  ASSERT_OK_AND_ASSIGN(const ModeChoice fits,
                       Choose(Mode::kMmap, 1004000 + 12800 + 1600, 0, 160));
  EXPECT_EQ(fits.weight_bytes, std::nullopt);
  ASSERT_OK_AND_ASSIGN(const ModeChoice does_not,
                       Choose(Mode::kMmap, 1004000 + 12800 + 1599, 0, 160));
  EXPECT_EQ(does_not.weight_bytes, 1003999);
}

TEST(ModeChoiceTest, CopyThatDoesNotFitIsRefused) {
  EXPECT_THAT(
      Choose(Mode::kCopy, 900000),
      Fails(absl::StatusCode::kResourceExhausted, "largest item: weights"));
}

TEST(ModeChoiceTest, ABudgetThatHoldsNoPageIsRefusedWithTheSmallestNeed) {
  EXPECT_THAT(Choose(Mode::kAuto, 6759),
              Fails(absl::StatusCode::kResourceExhausted,
                    "mode stream does not fit the memory budget with a context "
                    "of 16 tokens; needed 6.60 KiB (6760)"));
  ASSERT_OK_AND_ASSIGN(const ModeChoice choice, Choose(Mode::kAuto, 6760));
  EXPECT_EQ(choice.context_tokens(), 16);
}

TEST(ModeChoiceTest, AContextThatDoesNotFitIsRefusedWithOneThatDoes) {
  const absl::StatusOr<ModeChoice> refused =
      Choose(Mode::kMmap, 4000 + 1600 + 320 + 159, 0, 49);
  for (const char* part :
       {"with a context of 49 tokens; needed 6.09 KiB (6240)",
        "allowed 5.94 KiB (6079)",
        "largest item: norms and the mapped window 3.91 KiB",
        "; a context of 32 tokens fits"}) {
    EXPECT_THAT(refused, Fails(absl::StatusCode::kResourceExhausted, part));
  }
  const absl::StatusOr<ModeChoice> none = Choose(Mode::kMmap, 4259, 0, 49);
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
  ASSERT_OK_AND_ASSIGN(const ModeChoice fits, Choose(Mode::kMmap, 4860, 7));
  EXPECT_EQ(fits.chunk_tokens, 7);
  EXPECT_EQ(fits.context_tokens(), 16);
  EXPECT_THAT(Choose(Mode::kMmap, 4859, 7),
              Fails(absl::StatusCode::kResourceExhausted, "(4860), allowed"));
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
