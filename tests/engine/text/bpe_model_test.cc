// SPDX-License-Identifier: Apache-2.0
#include "engine/text/bpe_model.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
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

// Merges as they are defined: of all neighbours that join, those of the lowest
// rank, the leftmost of equals, until there are none.
std::vector<int32_t> MergedOneByOne(const MergeTable& merges,
                                    std::vector<int32_t> ids) {
  for (;;) {
    std::optional<uint32_t> best;
    size_t best_pos = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rank = merges.Find(ids[i], ids[i + 1]);
      if (rank.has_value() && (!best || *rank < *best)) {
        best = rank;
        best_pos = i;
      }
    }
    if (!best) return ids;
    ids[best_pos] = merges[*best].result;
    ids.erase(ids.begin() + best_pos + 1);
  }
}

// Lengths that fill the room for candidates to the last, so that stale ones are
// dropped.
TEST(BpeModelTest, WordsThatFillTheRoomAreMergedAsDefined) {
  const std::vector<std::string> pieces = {"a",  "b",   "ab",   "ba",   "aa",
                                           "bb", "aab", "abab", "aaaa", "baab"};
  const std::vector<MergeTable::Merge> table = {
      {0, 1, 2}, {4, 1, 6}, {0, 0, 4}, {2, 2, 7}, {1, 0, 3},
      {4, 4, 8}, {3, 2, 9}, {1, 1, 5}, {0, 2, 6}};
  Vocabulary vocabulary;
  for (size_t id = 0; id < pieces.size(); ++id) {
    ASSERT_THAT(vocabulary.Add(pieces[id], id), testing::IsOk());
  }
  ASSERT_THAT(vocabulary.Finish(), testing::IsOk());
  MergeTable merges;
  for (const auto& merge : table) {
    ASSERT_THAT(merges.Add(merge), testing::IsOk());
  }
  merges.Finish();
  const BpeModel model(std::move(vocabulary), std::move(merges), {});
  uint32_t state = 1;
  for (const size_t length : {1, 2, 4, 8, 64, 256, 256, 5000}) {
    for (const uint32_t odds : {0, 1, 2, 8}) {
      std::string piece;
      std::vector<int32_t> bytes;
      for (size_t i = 0; i < length; ++i) {
        state = state * 1664525 + 1013904223;
        const bool is_b = odds != 0 && (state >> 16) % (odds + 1) == 0;
        piece += is_b ? 'b' : 'a';
        bytes.push_back(is_b);
      }
      BpeEncoder encoder(model);
      IdOutput ids(length, nullptr);
      ASSERT_THAT(encoder.Append(piece, ids), testing::IsOk());
      EXPECT_EQ(std::move(ids).Take(), MergedOneByOne(model.merges(), bytes))
          << piece;
    }
  }
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
  constexpr size_t kLength = 1u << 20;
  BpeEncoder encoder(model);
  IdOutput ids(kLength, nullptr);
  ASSERT_THAT(encoder.Append(std::string(kLength, 'a'), ids), testing::IsOk());
  EXPECT_EQ(std::move(ids).Take(), std::vector<int32_t>(kLength / 128, 7));
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
    IdOutput ids(word.size(), nullptr);
    EXPECT_THAT(encoder.Append(word, ids), testing::IsOk());
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
