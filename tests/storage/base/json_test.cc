// SPDX-License-Identifier: Apache-2.0
#include "storage/base/json.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
using Kind = JsonValue::Kind;

TEST(JsonValueTest, ParsesEveryKind) {
  ASSERT_OK_AND_ASSIGN(
      const JsonValue root,
      JsonValue::Parse(R"({"n":null,"b":true,"i":42,"s":"x","a":[1,[2]],
                           "o":{"k":"v"}})"));
  ASSERT_TRUE(root.is_object());
  EXPECT_TRUE(root.Find("n")->is_null());
  EXPECT_EQ(root.Find("b")->AsBool(), true);
  EXPECT_EQ(root.Find("i")->AsUint64(), 42u);
  EXPECT_EQ(root.Find("s")->string(), "x");
  ASSERT_EQ(root.Find("a")->items().size(), 2u);
  EXPECT_EQ(root.Find("a")->items()[1].items()[0].AsInt64(), 2);
  EXPECT_EQ(root.Find("o")->Find("k")->string(), "v");
}

TEST(JsonValueTest, MembersKeepTheirOrder) {
  ASSERT_OK_AND_ASSIGN(const JsonValue root,
                       JsonValue::Parse(R"({"z":1,"a":2,"m":3})"));
  ASSERT_EQ(root.members().size(), 3u);
  EXPECT_EQ(root.members()[0].first, "z");
  EXPECT_EQ(root.members()[1].first, "a");
  EXPECT_EQ(root.members()[2].first, "m");
}

TEST(JsonValueTest, EmptyKeyIsAKey) {
  ASSERT_OK_AND_ASSIGN(const JsonValue root, JsonValue::Parse(R"({"":7})"));
  ASSERT_NE(root.Find(""), nullptr);
  EXPECT_EQ(root.Find("")->AsUint64(), 7u);
}

TEST(JsonValueTest, AbsentMemberIsNull) {
  ASSERT_OK_AND_ASSIGN(const JsonValue root, JsonValue::Parse(R"({"a":1})"));
  EXPECT_EQ(root.Find("b"), nullptr);
  EXPECT_EQ(root.Find("a")->Find("b"), nullptr);
}

TEST(JsonValueTest, DuplicateKeyIsRefusedByName) {
  EXPECT_THAT(JsonValue::Parse(R"({"a":1,"b":2,"a":3})"),
              Fails(absl::StatusCode::kDataLoss, "duplicate key \"a\""));
  EXPECT_THAT(JsonValue::Parse(R"([{"x":{"k":1,"k":1}}])"),
              Fails(absl::StatusCode::kDataLoss, "duplicate key \"k\""));
}

TEST(JsonValueTest, DuplicateKeyIsCleanedForTheMessage) {
  EXPECT_THAT(JsonValue::Parse(R"({"\u001b[2J":1,"\u001b[2J":2})"),
              Fails(absl::StatusCode::kDataLoss, "\"\\x1b[2J\""));
}

TEST(JsonValueTest, SameKeyInDifferentObjectsIsFine) {
  EXPECT_THAT(JsonValue::Parse(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})"),
              testing::IsOk());
}

TEST(JsonValueTest, ObjectOfManyKeysIsParsedQuickly) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) absl::StrAppend(&text, "\"k", i, "\":1,");
  ASSERT_OK_AND_ASSIGN(const JsonValue root,
                       JsonValue::Parse(text + "\"\":0}"));
  EXPECT_EQ(root.members().size(), 200'001u);
}

TEST(JsonValueTest, MalformedTextIsRefused) {
  EXPECT_THAT(JsonValue::Parse("{\"a\":}"),
              Fails(absl::StatusCode::kDataLoss, "at byte 5"));
}

TEST(JsonValueTest, WrongKindGivesNothing) {
  const JsonValue text = JsonValue::String("1");
  EXPECT_EQ(text.AsUint64(), std::nullopt);
  EXPECT_EQ(text.AsInt64(), std::nullopt);
  EXPECT_EQ(text.AsDouble(), std::nullopt);
  EXPECT_EQ(text.AsBool(), std::nullopt);
  EXPECT_EQ(JsonValue::Bool(true).AsUint64(), std::nullopt);
  EXPECT_EQ(JsonValue::Number("1").AsBool(), std::nullopt);
  EXPECT_TRUE(text.items().empty());
  EXPECT_TRUE(text.members().empty());
}

TEST(JsonValueTest, NumberFitsOnlyWhereItIsExact) {
  EXPECT_EQ(JsonValue::Number("1.0").AsUint64(), std::nullopt);
  EXPECT_EQ(JsonValue::Number("1.0").AsDouble(), 1.0);
  EXPECT_EQ(JsonValue::Number("-1").AsUint64(), std::nullopt);
  EXPECT_EQ(JsonValue::Number("-1").AsInt64(), -1);
  EXPECT_EQ(JsonValue::Number("18446744073709551616").AsUint64(), std::nullopt);
  EXPECT_EQ(JsonValue::Number("1e6").number_text(), "1e6");
}

TEST(JsonValueTest, BuiltValuesHaveTheirKind) {
  EXPECT_EQ(JsonValue().kind(), Kind::kNull);
  EXPECT_EQ(JsonValue::Bool(false).kind(), Kind::kBool);
  EXPECT_EQ(JsonValue::Number("1").kind(), Kind::kNumber);
  EXPECT_EQ(JsonValue::String("").kind(), Kind::kString);
  EXPECT_EQ(JsonValue::Array({}).kind(), Kind::kArray);
  EXPECT_EQ(JsonValue::Object({}).kind(), Kind::kObject);
}

}  // namespace
}  // namespace lowmem
