// SPDX-License-Identifier: Apache-2.0
#include "engine/text/bpe_model.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/text/tokenizer_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/text/synthetic_tokenizer.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::Ids;
using testing::SyntheticTokenizer;

std::unique_ptr<Tokenizer> Make(const SyntheticTokenizer& spec) {
  auto tokenizer = spec.Build();
  EXPECT_THAT(tokenizer, testing::IsOk());
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(BpeModelTest, LowestRankGoesFirst) {
  // "bc" has the lower rank, so "ab" never comes up in "abc".
  const auto tokenizer =
      Make({.pieces = {"bc", "ab"}, .merges = {"b c", "a b"}});
  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre('a', 256));
  EXPECT_THAT(Ids(*tokenizer, "abd"), ElementsAre(257, 'd'));
}

TEST(BpeModelTest, LeftmostOfEqualsGoesFirst) {
  const auto tokenizer = Make({.pieces = {"aa"}, .merges = {"a a"}});
  EXPECT_THAT(Ids(*tokenizer, "aaa"), ElementsAre(256, 'a'));
  EXPECT_THAT(Ids(*tokenizer, "aaaa"), ElementsAre(256, 256));
}

TEST(BpeModelTest, LongestMatchIsNoShortcut) {
  // "abcd" is a piece, but merging ends at "ab" "cd".
  const auto tokenizer = Make({.pieces = {"ab", "cd", "bcd", "abcd"},
                               .merges = {"a b", "c d", "b cd", "a bcd"}});
  EXPECT_THAT(Ids(*tokenizer, "abcd"), ElementsAre(256, 257));
}

TEST(BpeModelTest, IgnoreMergesTakesWholePieces) {
  SyntheticTokenizer spec{.pieces = {"ab", "cd", "abcd", "zz"},
                          .merges = {"a b", "c d"}};
  EXPECT_THAT(Ids(*Make(spec), "abcd"), ElementsAre(256, 257));
  EXPECT_THAT(Ids(*Make(spec), "zz"), ElementsAre('z', 'z'));
  spec.model_settings = R"(,"ignore_merges":true)";
  EXPECT_THAT(Ids(*Make(spec), "abcd"), ElementsAre(258));
  EXPECT_THAT(Ids(*Make(spec), "zz"), ElementsAre(259));
  EXPECT_THAT(Ids(*Make(spec), "abcde"), ElementsAre(256, 257, 'e'));
}

TEST(BpeModelTest, LaterRankOfADuplicateMergeCounts) {
  const auto tokenizer =
      Make({.pieces = {"ab", "bc"}, .merges = {"a b", "b c", "a b"}});
  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre('a', 257));
}

TEST(BpeModelTest, MissingBytesAreDroppedBeforeMerging) {
  const auto tokenizer =
      Make({.pieces = {"ab"}, .merges = {"a b"}, .missing_bytes = "\x04\x06"});
  EXPECT_THAT(Ids(*tokenizer,
                  "a\x04\x06\x04"
                  "b"),
              ElementsAre(256));
  EXPECT_THAT(Ids(*tokenizer, "\x04"), ElementsAre());
}

TEST(BpeModelTest, MissingBytesBecomeTheUnknownToken) {
  SyntheticTokenizer spec{.pieces = {"<unk>"},
                          .model_settings = R"(,"unk_token":"<unk>")",
                          .missing_bytes = "\x04"};
  EXPECT_THAT(Ids(*Make(spec),
                  "a\x04\x04"
                  "b\x04"),
              ElementsAre('a', 256, 256, 'b', 256));
  spec.model_settings += R"(,"fuse_unk":true)";
  EXPECT_THAT(Ids(*Make(spec),
                  "a\x04\x04"
                  "b\x04"),
              ElementsAre('a', 256, 'b', 256));
}

TEST(BpeModelTest, MergesAcrossJoinedNeighbours) {
  // Each join makes new pairs on both sides.
  const auto tokenizer = Make(
      {.pieces = {"bc", "abc", "abcd"}, .merges = {"b c", "a bc", "abc d"}});
  EXPECT_THAT(Ids(*tokenizer, "xabcdx"), ElementsAre('x', 258, 'x'));
}

// Joins "a" up to 2^`num_joins` of them.
BpeModel DoublingModel(int32_t num_joins) {
  Vocabulary vocabulary;
  EXPECT_THAT(vocabulary.Add("a", 0), testing::IsOk());
  std::string piece = "a";
  for (int32_t id = 1; id <= num_joins; ++id) {
    piece += piece;
    EXPECT_THAT(vocabulary.Add(piece, id), testing::IsOk());
  }
  EXPECT_THAT(vocabulary.Finish(), testing::IsOk());
  MergeTable merges;
  for (int32_t id = 0; id < num_joins; ++id) {
    EXPECT_THAT(merges.Add({id, id, id + 1}), testing::IsOk());
  }
  merges.Finish();
  return BpeModel(std::move(vocabulary), std::move(merges), {});
}

// Steps, not time: a quadratic merger would take 10^12 of them.
TEST(BpeModelTest, OneLongWordTakesStepsInProportionToItsLength) {
  const BpeModel model = DoublingModel(7);
  BpeEncoder encoder(model);
  std::vector<int32_t> ids;
  constexpr size_t kLength = 1u << 20;
  encoder.Append(std::string(kLength, 'a'), ids);
  EXPECT_EQ(ids, std::vector<int32_t>(kLength / 128, 7));
  // A first look at each pair, and for each of the at most n joins two new
  // pairs and one candidate taken; as many again that were stale.
  EXPECT_LE(encoder.num_steps(), 8 * kLength);
  EXPECT_GE(encoder.num_steps(), kLength);
}

// The flag rises at many points of the work. Its steps come in fours here, and
// a look at every 1024th of them would miss them all.
TEST(BpeModelTest, CancelledMergingOfALongWordEnds) {
  const BpeModel model = DoublingModel(1);
  const std::string word(1u << 20, 'a');
  const auto encode = [&](const std::atomic<bool>* cancel) {
    BpeEncoder encoder(model, cancel);
    std::vector<int32_t> ids;
    encoder.Append(word, ids);
    return encoder.num_steps();
  };
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t num_steps = encode(nullptr);
  const auto whole = std::chrono::steady_clock::now() - begin;
  int num_shorter = 0;
  for (int tenths = 4; tenths < 8; ++tenths) {
    std::atomic<bool> cancel = false;
    std::thread canceller([&] {
      std::this_thread::sleep_for(whole * tenths / 10);
      cancel = true;
    });
    if (encode(&cancel) < num_steps) ++num_shorter;
    canceller.join();
  }
  EXPECT_GT(num_shorter, 0);
}

}  // namespace
}  // namespace lowmem
