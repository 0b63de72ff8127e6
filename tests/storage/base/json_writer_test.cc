// SPDX-License-Identifier: Apache-2.0
#include "storage/base/json_writer.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

std::string Quoted(absl::string_view text) {
  JsonWriter json;
  return json.String(text).text();
}

std::string OfDouble(double value) {
  JsonWriter json;
  return json.Double(value).text();
}

TEST(JsonWriterTest, CommasAndColonsAreItsOwn) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Uint(1).Int(-2).Bool(true).Null();
  json.EndArray().Key("b").BeginObject().EndObject();
  json.Key("c").BeginArray().BeginArray().EndArray().BeginArray().EndArray();
  json.EndArray().Key("d").String("x").EndObject();
  EXPECT_EQ(json.text(),
            R"({"a":[1,-2,true,null],"b":{},"c":[[],[]],"d":"x"})");
}

TEST(JsonWriterTest, IndentedStyle) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject().Key("a").BeginArray().Uint(1).Uint(2).EndArray();
  json.Key("e").BeginArray().EndArray().EndObject();
  EXPECT_EQ(json.text(), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": []\n}");
}

TEST(JsonWriterTest, WholeRangeOfIntegers) {
  JsonWriter json;
  json.BeginArray().Uint(std::numeric_limits<uint64_t>::max());
  json.Int(std::numeric_limits<int64_t>::min()).EndArray();
  EXPECT_EQ(json.text(), "[18446744073709551615,-9223372036854775808]");
}

TEST(JsonWriterTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Quoted(absl::string_view("\"\\\n\r\t\0\x1f", 7)),
            R"("\"\\\n\r\t\u0000\u001f")");
  EXPECT_EQ(Quoted("\x7f/"), "\"\x7f/\"");
}

TEST(JsonWriterTest, Utf8PassesAndInvalidBytesAreReplaced) {
  EXPECT_EQ(Quoted("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
  EXPECT_EQ(Quoted("a\xFF"
                   "b\xE2\x82"),
            "\"a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonWriterTest, DoubleIsTheShortestThatReadsBack) {
  EXPECT_EQ(OfDouble(0.1), "0.1");
  EXPECT_EQ(OfDouble(-2), "-2");
  EXPECT_EQ(OfDouble(1e300), "1e+300");
  EXPECT_EQ(OfDouble(-std::numeric_limits<double>::denorm_min()), "-5e-324");
}

TEST(JsonWriterTest, NumbersOutsideJsonAreNull) {
  EXPECT_EQ(OfDouble(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(OfDouble(-std::numeric_limits<double>::infinity()), "null");
  JsonWriter json;
  json.BeginArray().Uint(1).Double(std::numeric_limits<double>::infinity());
  EXPECT_EQ(json.EndArray().text(), "[1,null]");
}

TEST(JsonWriterTest, ValueIsWrittenAsItWasRead) {
  const std::string text =
      R"({"a":[1.50,-0,1e5,null,true,"\u0001"],"b":{"c":{}}})";
  ASSERT_OK_AND_ASSIGN(const JsonValue value, JsonValue::Parse(text));
  JsonWriter json;
  EXPECT_EQ(json.Value(value).text(), text);
}

TEST(JsonWriterTest, TakenTextContinuesWhereItWas) {
  JsonWriter json;
  json.BeginArray().Uint(1);
  EXPECT_EQ(json.TakeText(), "[1");
  json.Uint(2).EndArray();
  EXPECT_EQ(json.TakeText(), ",2]");
}

}  // namespace
}  // namespace lowmem
