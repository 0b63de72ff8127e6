// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/generation_config.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GenerationConfigTest, EndTokensAreOneIdAListOrAbsent) {
  struct Case {
    const char* text;
    std::vector<int32_t> eos_ids;
  };
  const Case cases[] = {
      {R"({"eos_token_id": 2})", {2}},
      {R"({"eos_token_id": [151645, 151643]})", {151645, 151643}},
      {R"({"eos_token_id": []})", {}},
      {R"({"eos_token_id": null})", {}},
      {"{}", {}},
  };
  for (const Case& test : cases) {
    ASSERT_OK_AND_ASSIGN(const GenerationConfig config,
                         ParseGenerationConfig(test.text, "g.json"));
    EXPECT_EQ(config.eos_ids, test.eos_ids) << test.text;
  }
}

// As Qwen2.5-Coder publishes it.
TEST(GenerationConfigTest, SamplingDefaultsAreRead) {
  ASSERT_OK_AND_ASSIGN(const GenerationConfig config,
                       ParseGenerationConfig(
                           R"({"do_sample": true, "temperature": 0.7,
                               "repetition_penalty": 1.1, "top_p": 0.8,
                               "top_k": 20, "min_p": 0.05})",
                           "g.json"));
  EXPECT_EQ(config.sampling.temperature, 0.7f);
  EXPECT_EQ(config.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(config.sampling.top_p, 0.8f);
  EXPECT_EQ(config.sampling.top_k, 20u);
  EXPECT_EQ(config.sampling.min_p, 0.05f);
  EXPECT_EQ(config.sampling.presence_penalty, std::nullopt);
}

TEST(GenerationConfigTest, TemperatureCountsOnlyWithDoSample) {
  struct Case {
    const char* text;
    std::optional<float> temperature;
  };
  const Case cases[] = {
      {R"({"temperature": 0.7})", std::nullopt},
      {R"({"temperature": 0.7, "do_sample": false})", std::nullopt},
      {R"({"temperature": 0.7, "do_sample": null})", std::nullopt},
      {R"({"do_sample": true})", 1.0f},
      {R"({"do_sample": true, "temperature": null})", 1.0f},
      {R"({"do_sample": true, "temperature": 0})", 0.0f},
  };
  for (const Case& test : cases) {
    ASSERT_OK_AND_ASSIGN(const GenerationConfig config,
                         ParseGenerationConfig(test.text, "g.json"));
    EXPECT_EQ(config.sampling.temperature, test.temperature) << test.text;
  }
}

TEST(GenerationConfigTest, DamageIsNamed) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"", "g.json"},
      {"[]", "is no JSON object"},
      {"{} x", "g.json"},
      {R"({"eos_token_id": "2"})", "eos_token_id: is of the wrong kind"},
      {R"({"eos_token_id": -1})", "eos_token_id"},
      {R"({"eos_token_id": 1.5})", "eos_token_id"},
      {R"({"eos_token_id": [2, "x"]})", "eos_token_id"},
      {R"({"eos_token_id": 2147483648})", "eos_token_id"},
      {R"({"temperature": "hot"})", "temperature: is of the wrong kind"},
      {R"({"temperature": 1e300})", "temperature: out of range"},
      {R"({"top_p": 0})", "top_p: out of range"},
      {R"({"top_p": 2})", "top_p: out of range"},
      {R"({"top_k": -1})", "top_k: is of the wrong kind"},
      {R"({"min_p": 2})", "min_p: out of range"},
      {R"({"repetition_penalty": 0})", "repetition_penalty: out of range"},
      {R"({"do_sample": 1})", "do_sample: is of the wrong kind"},
  };
  for (const Case& test : cases) {
    EXPECT_THAT(ParseGenerationConfig(test.text, "g.json"),
                Fails(absl::StatusCode::kDataLoss, test.message))
        << test.text;
  }
}

TEST(UnionOfIdsTest, KeepsTheOrderAndEachIdOnce) {
  const std::vector<int32_t> a = {5, 3};
  const std::vector<int32_t> b = {3, 7, 7};
  EXPECT_THAT(UnionOfIds({a, {}, b}), ElementsAre(5, 3, 7));
  EXPECT_THAT(UnionOfIds({}), IsEmpty());
}

}  // namespace
}  // namespace lowmem
