// SPDX-License-Identifier: Apache-2.0
#include "storage/gguf_metadata.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/gguf_reader.h"
#include "tests/support/faulty_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FaultyFile;
using testing::GgufBuilder;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::Raw;
using testing::RawString;

class GgufMetadataTest : public ::testing::Test {
 protected:
  // Reads the file of `gguf_`, whose first `failing_read` fails.
  const GgufMetadata& Read(int failing_read = FaultyFile::kNever) {
    file_.emplace(gguf_.Build(), failing_read);
    absl::StatusOr<GgufHead> head = ReadGgufHead(*file_);
    EXPECT_THAT(head, IsOk());
    if (head.ok()) metadata_ = std::move(head->metadata);
    return metadata_;
  }

  std::vector<std::string> Strings(absl::string_view key) {
    std::vector<std::string> texts;
    EXPECT_THAT(
        metadata_.ForEachString(key,
                                [&](uint64_t idx, absl::string_view text) {
                                  EXPECT_EQ(idx, texts.size());
                                  texts.emplace_back(text);
                                  return absl::OkStatus();
                                }),
        IsOk());
    return texts;
  }

  std::vector<int64_t> Ints(absl::string_view key) {
    std::vector<int64_t> values;
    EXPECT_THAT(metadata_.ForEachInt(key,
                                     [&](uint64_t, int64_t value) {
                                       values.push_back(value);
                                       return absl::OkStatus();
                                     }),
                IsOk());
    return values;
  }

  std::vector<double> Floats(absl::string_view key) {
    std::vector<double> values;
    EXPECT_THAT(metadata_.ForEachFloat(key,
                                       [&](uint64_t, double value) {
                                         values.push_back(value);
                                         return absl::OkStatus();
                                       }),
                IsOk());
    return values;
  }

  GgufBuilder gguf_;
  std::optional<FaultyFile> file_;
  GgufMetadata metadata_;
};

TEST_F(GgufMetadataTest, IntegersOfEveryWidth) {
  gguf_.Key("u8", GgufBuilder::kU8, Raw<uint8_t>(200))
      .Key("u16", GgufBuilder::kU16, Raw<uint16_t>(60000))
      .Key("u32", GgufBuilder::kU32, Raw<uint32_t>(4000000000u))
      .Key("u64", GgufBuilder::kU64, Raw<uint64_t>(~uint64_t{0}))
      .Key("i8", GgufBuilder::kI8, Raw<int8_t>(100))
      .Key("i16", GgufBuilder::kI16, Raw<int16_t>(30000))
      .Key("i32", GgufBuilder::kI32, Raw<int32_t>(2000000000))
      .Key("i64", GgufBuilder::kI64, Raw<int64_t>(int64_t{1} << 62));
  const GgufMetadata& metadata = Read();
  EXPECT_EQ(metadata.GetUint("u8"), 200u);
  EXPECT_EQ(metadata.GetUint("u16"), 60000u);
  EXPECT_EQ(metadata.GetUint("u32"), 4000000000u);
  EXPECT_EQ(metadata.GetUint("u64"), ~uint64_t{0});
  EXPECT_EQ(metadata.GetUint("i8"), 100u);
  EXPECT_EQ(metadata.GetUint("i16"), 30000u);
  EXPECT_EQ(metadata.GetUint("i32"), 2000000000u);
  EXPECT_EQ(metadata.GetUint("i64"), uint64_t{1} << 62);
}

TEST_F(GgufMetadataTest, NegativeIntegersAreNoUint) {
  gguf_.Key("i8", GgufBuilder::kI8, Raw<int8_t>(-1))
      .Key("i16", GgufBuilder::kI16, Raw<int16_t>(-1))
      .Key("i32", GgufBuilder::kI32, Raw<int32_t>(-1))
      .Key("i64", GgufBuilder::kI64, Raw<int64_t>(-1));
  const GgufMetadata& metadata = Read();
  for (const char* key : {"i8", "i16", "i32", "i64"}) {
    EXPECT_EQ(metadata.GetUint(key), std::nullopt) << key;
    EXPECT_EQ(metadata.Find(key)->integer, ~uint64_t{0}) << key;
  }
}

TEST_F(GgufMetadataTest, FloatsBoolsAndStrings) {
  gguf_.Key("f32", GgufBuilder::kF32, Raw(1.5f))
      .Key("f64", GgufBuilder::kF64, Raw(0.1))
      .Key("yes", GgufBuilder::kBool, Raw<uint8_t>(1))
      .Key("no", GgufBuilder::kBool, Raw<uint8_t>(0))
      .Text("text", "any \xff bytes")
      .Text("empty", "");
  const GgufMetadata& metadata = Read();
  EXPECT_EQ(metadata.GetFloat("f32"), 1.5);
  EXPECT_EQ(metadata.GetFloat("f64"), 0.1);
  EXPECT_EQ(metadata.GetBool("yes"), true);
  EXPECT_EQ(metadata.GetBool("no"), false);
  EXPECT_EQ(*metadata.GetString("text"), "any \xff bytes");
  EXPECT_EQ(*metadata.GetString("empty"), "");
}

TEST_F(GgufMetadataTest, AbsentKeysAndOtherKindsGiveNothing) {
  gguf_.Text("text", "1")
      .Uint32("number", 1)
      .Key("real", GgufBuilder::kF32, Raw(1.0f))
      .Key("bool", GgufBuilder::kBool, Raw<uint8_t>(1));
  const GgufMetadata& metadata = Read();
  EXPECT_EQ(metadata.Find("absent"), nullptr);
  for (const char* key : {"absent", "text", "real", "bool"}) {
    EXPECT_EQ(metadata.GetUint(key), std::nullopt) << key;
  }
  for (const char* key : {"absent", "text", "number", "bool"}) {
    EXPECT_EQ(metadata.GetFloat(key), std::nullopt) << key;
  }
  for (const char* key : {"absent", "text", "number", "real"}) {
    EXPECT_EQ(metadata.GetBool(key), std::nullopt) << key;
  }
  for (const char* key : {"absent", "number", "real", "bool"}) {
    EXPECT_EQ(metadata.GetString(key), nullptr) << key;
  }
}

TEST_F(GgufMetadataTest, ArraysAreWalkedInOrder) {
  gguf_
      .Array("texts", GgufBuilder::kString, 3,
             RawString("a") + RawString("") + RawString("ccc"))
      .Array("none", GgufBuilder::kString, 0, "")
      .Array("ints", GgufBuilder::kI32, 2, Raw<int32_t>(-5) + Raw<int32_t>(7))
      .Array("bytes", GgufBuilder::kU8, 2, "\xff\x01")
      .Array("bools", GgufBuilder::kBool, 2, std::string("\x00\x01", 2))
      .Array("floats", GgufBuilder::kF32, 2, Raw(-1.5f) + Raw(2.0f))
      .Array("doubles", GgufBuilder::kF64, 1, Raw(0.1))
      .Uint32("behind", 9);
  const GgufMetadata& metadata = Read();
  EXPECT_THAT(Strings("texts"), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(Strings("none"), IsEmpty());
  EXPECT_THAT(Ints("ints"), ElementsAre(-5, 7));
  EXPECT_THAT(Ints("bytes"), ElementsAre(255, 1));
  EXPECT_THAT(Ints("bools"), ElementsAre(0, 1));
  EXPECT_THAT(Floats("floats"), ElementsAre(-1.5, 2.0));
  EXPECT_THAT(Floats("doubles"), ElementsAre(0.1));
  EXPECT_EQ(metadata.GetUint("behind"), 9u);
}

TEST_F(GgufMetadataTest, AnArrayLongerThanTheBufferIsWhole) {
  std::string elements;
  std::vector<std::string> expected;
  for (int i = 0; i < 5000; ++i) {
    expected.push_back(std::string(i % 40, 'x') + std::to_string(i));
    elements += RawString(expected.back());
  }
  gguf_.Array("texts", GgufBuilder::kString, 5000, elements);
  Read();
  EXPECT_EQ(Strings("texts"), expected);
}

TEST_F(GgufMetadataTest, AnElementLongerThanTheBufferIsWhole) {
  const std::string text(100000, 'y');
  gguf_.Array("texts", GgufBuilder::kString, 2,
              RawString(text) + RawString("z"));
  Read();
  EXPECT_THAT(Strings("texts"), ElementsAre(text, "z"));
}

// The scores of a vocabulary read as another type was a fault elsewhere: count
// checked, element type not.
TEST_F(GgufMetadataTest, AnArrayOfAnotherElementTypeIsRefused) {
  gguf_.Array("scores", GgufBuilder::kI8, 4, "abcd").Uint32("number", 1);
  const GgufMetadata& metadata = Read();
  const auto none = [](uint64_t, auto) { return absl::OkStatus(); };
  EXPECT_THAT(metadata.ForEachFloat("scores", none),
              Fails(absl::StatusCode::kDataLoss,
                    "expected an array of floats, got an array of int8"));
  EXPECT_THAT(metadata.ForEachString("scores", none),
              Fails(absl::StatusCode::kDataLoss,
                    "expected an array of strings, got an array of int8"));
  EXPECT_THAT(metadata.ForEachInt("number", none),
              Fails(absl::StatusCode::kDataLoss,
                    "expected an array of integers, got uint32"));
  EXPECT_THAT(metadata.ForEachInt("absent", none),
              Fails(absl::StatusCode::kNotFound, "key \"absent\": absent"));
}

TEST_F(GgufMetadataTest, AnElementBeyondInt64IsRefused) {
  gguf_.Array("ids", GgufBuilder::kU64, 1, Raw(~uint64_t{0}));
  const GgufMetadata& metadata = Read();
  EXPECT_THAT(metadata.ForEachInt(
                  "ids", [](uint64_t, int64_t) { return absl::OkStatus(); }),
              Fails(absl::StatusCode::kDataLoss, "element 0 is too large"));
}

TEST_F(GgufMetadataTest, TheVisitorEndsTheWalk) {
  gguf_.Array("ints", GgufBuilder::kU8, 3, "abc");
  const GgufMetadata& metadata = Read();
  int visits = 0;
  EXPECT_THAT(metadata.ForEachInt("ints",
                                  [&](uint64_t, int64_t) {
                                    ++visits;
                                    return absl::CancelledError("enough");
                                  }),
              Fails(absl::StatusCode::kCancelled, "enough"));
  EXPECT_EQ(visits, 1);
}

TEST_F(GgufMetadataTest, AReadThatFailsLaterIsReported) {
  gguf_.Array("ints", GgufBuilder::kU8, 3, "abc");
  const GgufMetadata& metadata = Read(/*failing_read=*/1);
  EXPECT_THAT(metadata.ForEachInt(
                  "ints", [](uint64_t, int64_t) { return absl::OkStatus(); }),
              Fails(absl::StatusCode::kUnavailable, "injected fault"));
}

TEST_F(GgufMetadataTest, AKeyAddedTwiceIsRefused) {
  GgufMetadata metadata;
  EXPECT_THAT(metadata.Add("key", {}), IsOk());
  EXPECT_THAT(metadata.Add("key", {}),
              Fails(absl::StatusCode::kDataLoss, "key \"key\": occurs twice"));
}

}  // namespace
}  // namespace lowmem
