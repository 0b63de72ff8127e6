// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/option_values.h"

#include "tests/support/status_matchers.h"

namespace lowmem::cli {
namespace {

using lowmem::testing::Fails;
using ::testing::ElementsAre;
constexpr absl::StatusCode kUsage = absl::StatusCode::kInvalidArgument;

TEST(OptionValuesTest, IntegerTakesItsWholeRangeAndNothingElse) {
  EXPECT_EQ(*ParseInteger("-1", -1, 5), -1);
  EXPECT_EQ(*ParseInteger("5", -1, 5), 5);
  EXPECT_EQ(*ParseInteger("9223372036854775807", 0, INT64_MAX), INT64_MAX);
  for (const char* text : {"", " 1", "1 ", "+1", "01x", "0x1", "1.0", "1e0",
                           "-2", "6", "9223372036854775808", "--1"}) {
    EXPECT_THAT(ParseInteger(text, -1, 5), Fails(kUsage, "from -1 to 5"))
        << text;
  }
  EXPECT_EQ(*ParseInteger("010", 0, 99), 10) << "no octal";
}

TEST(OptionValuesTest, SeedTakesAll64Bits) {
  EXPECT_EQ(*ParseSeed("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "-1", "18446744073709551616", "1.5"}) {
    EXPECT_THAT(ParseSeed(text), Fails(kUsage, "expected an integer")) << text;
  }
}

TEST(OptionValuesTest, NumberIsFiniteAndInRange) {
  EXPECT_EQ(*ParseNumber("0.5", 0, 1), 0.5f);
  EXPECT_EQ(*ParseNumber("1e-2", 0, 1), 0.01f);
  EXPECT_EQ(*ParseNumber("1", 0, 1), 1.0f);
  for (const char* text :
       {"", "nan", "inf", "-0.1", "1.1", "0,5", "0.5f", "1e999"}) {
    EXPECT_THAT(ParseNumber(text, 0, 1), Fails(kUsage, "a number from 0 to 1"))
        << text;
  }
}

TEST(OptionValuesTest, ListsTakeBlanksButNoHoles) {
  EXPECT_THAT(*ParseIds("1, 2,3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ParseIds("2147483647"), ElementsAre(INT32_MAX));
  for (const char* text :
       {"", ",", "1,", "1,,2", "-1", "2147483648", "1 2", "a"}) {
    EXPECT_THAT(ParseIds(text), Fails(kUsage, "token ids")) << text;
  }
  EXPECT_THAT(*ParseBudgets("1K,2M"), ElementsAre(1024u, 2u << 20));
  EXPECT_THAT(ParseBudgets("1K,"), Fails(kUsage, ""));
  EXPECT_THAT(*ParseModes("mmap,copy,mmap"),
              ElementsAre(Mode::kMmap, Mode::kCopy, Mode::kMmap));
  EXPECT_THAT(*ParseModes("auto"), ElementsAre(Mode::kAuto));
}

TEST(OptionValuesTest, ChoicesAreSpeltAsTheyAreNamed) {
  for (const Mode mode :
       {Mode::kAuto, Mode::kMmap, Mode::kCopy, Mode::kStream}) {
    EXPECT_EQ(*ParseMode(ModeName(mode)), mode);
  }
  EXPECT_THAT(ParseMode("Mmap"), Fails(kUsage, "got 'Mmap'"));
  for (const Io io : {Io::kAuto, Io::kUring, Io::kPread, Io::kBuffered}) {
    EXPECT_EQ(*ParseIo(IoName(io)), io);
  }
  EXPECT_THAT(ParseIo("direct"), Fails(kUsage, "got 'direct'"));
}

TEST(OptionValuesTest, KvDtypesByTheirNames) {
  for (const KvDtype kv_dtype : {KvDtype::kF32, KvDtype::kBF16, KvDtype::kQ8}) {
    EXPECT_EQ(*ParseKvDtype(KvDtypeName(kv_dtype)), kv_dtype);
  }
  EXPECT_EQ(*ParseKvDtype("bf16"), KvDtype::kBF16);
  for (const char* text : {"f16", "Q8", "", "q8 ", "f32,bf16"}) {
    EXPECT_THAT(ParseKvDtype(text), Fails(kUsage, "expected f32, bf16 or q8"))
        << text;
  }
}

TEST(OptionValuesTest, StopTextsAreBoundedInLengthAndNumber) {
  std::vector<std::string> stops;
  EXPECT_THAT(AddStopText("", stops), Fails(kUsage, "1 to 4096"));
  EXPECT_THAT(AddStopText(std::string(4097, 'x'), stops),
              Fails(kUsage, "4096"));
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(AddStopText(std::string(4096, 'x'), stops).ok());
  }
  EXPECT_THAT(AddStopText("one more", stops), Fails(kUsage, "at most 64"));
  EXPECT_EQ(stops.size(), 64u);
}

TEST(OptionValuesTest, MessagesShowControlBytesAsText) {
  EXPECT_THAT(ParseInteger("\x1b[2J", 0, 1), Fails(kUsage, "\\x1b[2J"));
}

}  // namespace
}  // namespace lowmem::cli
