// SPDX-License-Identifier: Apache-2.0
#include "engine/text/normalizer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;

absl::StatusOr<Normalizer> Parse(absl::string_view json) {
  const auto spec = JsonValue::Parse(json);
  EXPECT_THAT(spec, testing::IsOk());
  return Normalizer::FromJson(*spec);
}

std::string Normalized(absl::string_view json, absl::string_view text) {
  auto normalizer = Parse(json);
  EXPECT_THAT(normalizer, testing::IsOk());
  RegexScratch scratch;
  auto result = normalizer->Normalize(text, scratch);
  EXPECT_THAT(result, testing::IsOk());
  return result.ok() ? result->text : "";
}

TEST(NormalizerTest, Steps) {
  const struct {
    const char* spec;
    const char* text;
    const char* expected;
  } rows[] = {
      {"null", "e\u0301 A", "e\u0301 A"},
      {R"({"type":"Sequence","normalizers":[]})", "e\u0301", "e\u0301"},
      {R"({"type":"NFC"})", "e\u0301", "\u00e9"},
      {R"({"type":"NFD"})", "\u00e9", "e\u0301"},
      {R"({"type":"NFKC"})", "\ufb01", "fi"},
      {R"({"type":"NFKD"})", "\u00bd", "1\u20442"},
      {R"({"type":"Lowercase"})", "\u00c9A", "\u00e9a"},
      {R"({"type":"Prepend","prepend":"_"})", "a", "_a"},
      {R"({"type":"Prepend","prepend":"_"})", "", ""},
      {R"({"type":"Strip","strip_left":true,"strip_right":false})",
       " \u3000a b ", "a b "},
      {R"({"type":"Strip","strip_left":false,"strip_right":true})",
       " a b\u00a0\n", " a b"},
      {R"({"type":"Strip","strip_left":true,"strip_right":true})", " \t ", ""},
      {R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})",
       " a  b", "\u2581a\u2581\u2581b"},
      {R"({"type":"Replace","pattern":{"String":"aa"},"content":""})", "aaaba",
       "aba"},
      {R"({"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "})",
       "a \n\u00a0b", "a b"},
      {R"({"type":"Sequence","normalizers":[{"type":"Lowercase"},
           {"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"B"}]}]})",
       "A", "Ba"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Normalized(row.spec, row.text), row.expected) << row.spec;
  }
}

TEST(NormalizerTest, UnsupportedKindsAreNamed) {
  for (const char* type :
       {"BertNormalizer", "Precompiled", "Nmt", "StripAccents"}) {
    EXPECT_THAT(Parse(absl::StrCat(R"({"type":")", type, R"("})")),
                Fails(absl::StatusCode::kUnimplemented,
                      absl::StrCat("normalizer: \"", type, "\"")));
  }
}

TEST(NormalizerTest, DamageIsRefused) {
  for (const char* spec :
       {R"({})", R"({"type":7})", R"([])", R"("NFC")", R"({"type":"Sequence"})",
        R"({"type":"Strip"})", R"({"type":"Replace","content":"x"})",
        R"({"type":"Replace","pattern":{"Glob":"x"},"content":"x"})",
        R"({"type":"Replace","pattern":{"String":"x"}})",
        R"({"type":"Replace","pattern":{"Regex":"("},"content":""})"}) {
    EXPECT_THAT(Parse(spec), Fails(absl::StatusCode::kDataLoss, "normalizer: "))
        << spec;
  }
}

TEST(NormalizerTest, GrowthIsBounded) {
  // Each step makes four of one: ten of them would make a million.
  std::string steps;
  for (int i = 0; i < 10; ++i) {
    absl::StrAppend(
        &steps, i == 0 ? "" : ",",
        R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaa"})");
  }
  auto normalizer =
      Parse(absl::StrCat(R"({"type":"Sequence","normalizers":[)", steps, "]}"));
  ASSERT_THAT(normalizer, testing::IsOk());
  RegexScratch scratch;
  EXPECT_THAT(normalizer->Normalize(std::string(1000, 'a'), scratch),
              Fails(absl::StatusCode::kUnimplemented, "too long"));
}

}  // namespace
}  // namespace lowmem
