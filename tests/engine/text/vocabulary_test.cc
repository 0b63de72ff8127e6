// SPDX-License-Identifier: Apache-2.0
#include "engine/text/vocabulary.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/limits.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(VocabularyTest, FindsByTextAndById) {
  Vocabulary vocabulary;
  // Lengths around the short form's limit, and longer than a block.
  const size_t lengths[] = {0, 1, 254, 255, 256, 70'000};
  uint64_t id = 10;
  for (const size_t length : lengths) {
    ASSERT_THAT(vocabulary.Add(std::string(length, 'x'), id), IsOk());
    id -= 2;
  }
  ASSERT_THAT(vocabulary.Add("last", 1), IsOk());
  ASSERT_THAT(vocabulary.Finish(), IsOk());
  EXPECT_EQ(vocabulary.num_pieces(), 7u);
  EXPECT_EQ(vocabulary.id_limit(), 11u);
  int32_t expected = 10;
  for (const size_t length : lengths) {
    EXPECT_EQ(vocabulary.Find(std::string(length, 'x')), expected);
    EXPECT_EQ(vocabulary.Text(expected), std::string(length, 'x'));
    expected -= 2;
  }
  EXPECT_EQ(vocabulary.Text(1), "last");
  EXPECT_EQ(vocabulary.Find("xx"), std::nullopt);
  for (const int32_t gap : {-1, 3, 9, 11})
    EXPECT_FALSE(vocabulary.Has(gap)) << gap;
}

TEST(VocabularyTest, FindsEachOfMany) {
  constexpr int kNumPieces = 100'000;
  Vocabulary vocabulary;
  for (int id = 0; id < kNumPieces; ++id) {
    ASSERT_THAT(vocabulary.Add(absl::StrCat("piece", id), id), IsOk());
  }
  ASSERT_THAT(vocabulary.Finish(), IsOk());
  for (int id = 0; id < kNumPieces; ++id) {
    const std::string text = absl::StrCat("piece", id);
    ASSERT_EQ(vocabulary.Find(text), id);
    ASSERT_EQ(vocabulary.Text(id), text);
  }
}

TEST(VocabularyTest, EmptyVocabularyFindsNothing) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.Finish(), IsOk());
  EXPECT_EQ(vocabulary.Find("a"), std::nullopt);
  EXPECT_FALSE(vocabulary.Has(0));
}

TEST(VocabularyTest, DuplicateTextIsRefused) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.Add("a", 0), IsOk());
  ASSERT_THAT(vocabulary.Add("a", 1), IsOk());
  EXPECT_THAT(vocabulary.Finish(),
              Fails(absl::StatusCode::kDataLoss, "duplicate piece \"a\""));
}

TEST(VocabularyTest, DuplicateIdIsRefused) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.Add("a", 7), IsOk());
  ASSERT_THAT(vocabulary.Add("b", 7), IsOk());
  EXPECT_THAT(vocabulary.Finish(),
              Fails(absl::StatusCode::kDataLoss, "id 7 stands for two pieces"));
}

TEST(VocabularyTest, IdBeyondTheLimitIsRefused) {
  Vocabulary vocabulary;
  EXPECT_THAT(vocabulary.Add("a", limits::kVocabSize - 1),
              Fails(absl::StatusCode::kDataLoss, "id out of range"));
  EXPECT_THAT(vocabulary.Add("a", UINT64_MAX),
              Fails(absl::StatusCode::kDataLoss, "id out of range"));
}

// Otherwise a file of 60 bytes would ask for 64 MB.
TEST(VocabularyTest, LoneLargeIdIsRefused) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.Add("a", limits::kVocabSize - 2), IsOk());
  EXPECT_THAT(vocabulary.Finish(),
              Fails(absl::StatusCode::kDataLoss, "without large gaps"));
}

}  // namespace
}  // namespace lowmem
