// SPDX-License-Identifier: Apache-2.0
#include "engine/text/post_processor.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;

absl::StatusOr<PostProcessor> Parse(absl::string_view json) {
  const auto spec = JsonValue::Parse(json);
  EXPECT_THAT(spec, testing::IsOk());
  return PostProcessor::FromJson(*spec);
}

constexpr char kTemplate[] = R"({"type":"TemplateProcessing",
  "single":[{"SpecialToken":{"id":"B","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
            {"SpecialToken":{"id":"E","type_id":0}}],
  "pair":[],
  "special_tokens":{"B":{"id":"B","ids":[7,8],"tokens":["b","c"]},
                    "E":{"id":"E","ids":[9],"tokens":["e"]}}})";

TEST(PostProcessorTest, NothingIsAdded) {
  for (const char* spec : {"null", R"({"type":"ByteLevel"})",
                           R"({"type":"Sequence","processors":[]})"}) {
    ASSERT_OK_AND_ASSIGN(const PostProcessor processor, Parse(spec));
    EXPECT_THAT(processor.prefix, IsEmpty());
    EXPECT_THAT(processor.suffix, IsEmpty());
  }
}

TEST(PostProcessorTest, TemplateGivesPrefixAndSuffix) {
  ASSERT_OK_AND_ASSIGN(const PostProcessor processor, Parse(kTemplate));
  EXPECT_THAT(processor.prefix, ElementsAre(7, 8));
  EXPECT_THAT(processor.suffix, ElementsAre(9));
}

TEST(PostProcessorTest, SequenceAppliesItsSteps) {
  ASSERT_OK_AND_ASSIGN(
      const PostProcessor processor,
      Parse(std::string(
                R"({"type":"Sequence","processors":[{"type":"ByteLevel"},)") +
            kTemplate +
            R"(,{"type":"RobertaProcessing","cls":["s",1],"sep":["e",2]}]})"));
  EXPECT_THAT(processor.prefix, ElementsAre(1, 7, 8));
  EXPECT_THAT(processor.suffix, ElementsAre(9, 2));
}

TEST(PostProcessorTest, UnsupportedIsNamed) {
  EXPECT_THAT(
      Parse(R"({"type":"Other"})"),
      Fails(absl::StatusCode::kUnimplemented, "post_processor: \"Other\""));
  EXPECT_THAT(
      Parse(R"({"type":"TemplateProcessing","single":[]})"),
      Fails(absl::StatusCode::kUnimplemented, "without the sequence A"));
  EXPECT_THAT(Parse(R"({"type":"TemplateProcessing",
                        "single":[{"Sequence":{"id":"B","type_id":0}}]})"),
              Fails(absl::StatusCode::kUnimplemented, "sequence A once"));
}

TEST(PostProcessorTest, DamageIsRefused) {
  for (
      const char* spec :
      {"{}", "[]", R"({"type":"Sequence"})", R"({"type":"TemplateProcessing"})",
       R"({"type":"TemplateProcessing","single":[{}]})",
       R"({"type":"TemplateProcessing",
            "single":[{"SpecialToken":{"id":"B"}},{"Sequence":{"id":"A"}}]})",
       R"({"type":"TemplateProcessing","special_tokens":{"B":{"ids":[-1]}},
            "single":[{"SpecialToken":{"id":"B"}},{"Sequence":{"id":"A"}}]})",
       R"({"type":"TemplateProcessing","special_tokens":{"B":{"ids":[4294967296]}},
            "single":[{"SpecialToken":{"id":"B"}},{"Sequence":{"id":"A"}}]})",
       R"({"type":"BertProcessing","cls":["a",1]})",
       R"({"type":"BertProcessing","cls":["a"],"sep":["b",2]})"}) {
    EXPECT_THAT(Parse(spec),
                Fails(absl::StatusCode::kDataLoss, "post_processor: "))
        << spec;
  }
}

}  // namespace
}  // namespace lowmem
