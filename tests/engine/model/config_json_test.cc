// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config_json.h"

#include <map>
#include <optional>
#include <string>

#include "engine/model/family.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

// Keys and values as JSON; nullopt takes a key away.
using Changes = std::map<std::string, std::optional<std::string>>;

std::string ConfigText(const Changes& changes) {
  std::map<std::string, std::string> members = {
      {"architectures", R"(["LlamaForCausalLM"])"},
      {"model_type", R"("llama")"},
      {"hidden_size", "96"},
      {"intermediate_size", "160"},
      {"num_hidden_layers", "2"},
      {"num_attention_heads", "6"},
      {"num_key_value_heads", "2"},
      {"vocab_size", "320"},
      {"max_position_embeddings", "512"},
      {"rms_norm_eps", "1e-05"},
      {"rope_theta", "10000.0"},
      {"hidden_act", R"("silu")"},
      {"bos_token_id", "317"},
      {"eos_token_id", "319"},
      {"torch_dtype", R"("bfloat16")"},
  };
  for (const auto& [key, value] : changes) {
    if (value.has_value()) {
      members[key] = *value;
    } else {
      members.erase(key);
    }
  }
  std::string text = "{";
  for (const auto& [key, value] : members) {
    if (text.size() > 1) text += ", ";
    text += "\"" + key + "\": " + value;
  }
  return text + "}";
}

absl::StatusOr<ModelConfig> Parse(const Changes& changes) {
  absl::StatusOr<ModelConfig> config =
      ParseConfigJson(ConfigText(changes), "config.json");
  if (!config.ok()) return config;
  const absl::Status status = ValidateConfig(*config, "config.json");
  return status.ok() ? config : status;
}

const Changes kQwen2 = {{"architectures", R"(["Qwen2ForCausalLM"])"},
                        {"model_type", R"("qwen2")"}};
const Changes kMistral = {{"architectures", R"(["MistralForCausalLM"])"},
                          {"model_type", R"("mistral")"}};

Changes With(Changes base, const Changes& more) {
  for (const auto& [key, value] : more) base[key] = value;
  return base;
}

TEST(ConfigJsonTest, ReadsEveryNumber) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse({}));
  EXPECT_EQ(config.family, FamilyByModelType("llama"));
  EXPECT_EQ(config.num_layers, 2u);
  EXPECT_EQ(config.dim, 96u);
  EXPECT_EQ(config.ff_dim, 160u);
  EXPECT_EQ(config.num_heads, 6u);
  EXPECT_EQ(config.num_kv_heads, 2u);
  EXPECT_EQ(config.head_dim, 16u);
  EXPECT_EQ(config.q_dim(), 96u);
  EXPECT_EQ(config.kv_dim(), 32u);
  EXPECT_EQ(config.vocab_size, 320u);
  EXPECT_EQ(config.max_context_tokens, 512u);
  EXPECT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_FALSE(config.rope.neighbour_pairs);
  EXPECT_FALSE(config.tied_head);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.attention_out_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.bos_id, 317);
  EXPECT_EQ(config.eos_ids, std::vector<int32_t>{319});
}

TEST(ConfigJsonTest, DefaultsOfTransformers) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse({{"num_key_value_heads", {}},
                              {"rms_norm_eps", {}},
                              {"rope_theta", {}},
                              {"hidden_act", {}},
                              {"architectures", {}},
                              {"bos_token_id", {}},
                              {"eos_token_id", "null"},
                              {"rope_scaling", "null"},
                              {"head_dim", "null"}}));
  EXPECT_EQ(config.num_kv_heads, 6u);
  EXPECT_EQ(config.norm_epsilon, 1e-6f);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.head_dim, 16u);
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_TRUE(config.eos_ids.empty());
}

TEST(ConfigJsonTest, HeadDimNeedNotDivideTheWidth) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse({{"hidden_size", "100"}, {"head_dim", "18"}}));
  EXPECT_EQ(config.q_dim(), 108u);
}

TEST(ConfigJsonTest, EndTokensAsListOrNone) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig list,
                       Parse({{"eos_token_id", "[319, 0]"}}));
  EXPECT_EQ(list.eos_ids, (std::vector<int32_t>{319, 0}));
  ASSERT_OK_AND_ASSIGN(const ModelConfig none,
                       Parse({{"eos_token_id", "-1"}, {"bos_token_id", "-1"}}));
  EXPECT_TRUE(none.eos_ids.empty());
  EXPECT_EQ(none.bos_id, -1);
}

TEST(ConfigJsonTest, BiasesByKeyAndByFamily) {
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig llama,
      Parse({{"attention_bias", "true"}, {"mlp_bias", "true"}}));
  EXPECT_TRUE(llama.qkv_bias);
  EXPECT_TRUE(llama.attention_out_bias);
  EXPECT_TRUE(llama.mlp_bias);
  ASSERT_OK_AND_ASSIGN(const ModelConfig qwen2, Parse(kQwen2));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_out_bias);
  EXPECT_FALSE(qwen2.mlp_bias);
}

TEST(ConfigJsonTest, TiedByKey) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse({{"tie_word_embeddings", "true"}}));
  EXPECT_TRUE(config.tied_head);
}

TEST(ConfigJsonTest, WindowsThatAreNotUsed) {
  EXPECT_THAT(Parse(With(kQwen2, {{"sliding_window", "14"},
                                  {"use_sliding_window", "false"}})),
              IsOk());
  EXPECT_THAT(Parse(With(kQwen2, {{"sliding_window", "14"}})), IsOk());
  EXPECT_THAT(Parse(With(kMistral, {{"sliding_window", "null"}})), IsOk());
  EXPECT_THAT(
      Parse({{"layer_types", R"(["full_attention", "full_attention"])"}}),
      IsOk());
}

struct RopeCase {
  const char* name;
  Changes changes;
  double theta;
  RopeScaling scaling;
  double factor;
};

TEST(ConfigJsonTest, RopeInEveryVersion) {
  const std::string llama3 =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 72)";
  const RopeCase cases[] = {
      {"linear under type",
       {{"rope_scaling", R"({"type": "linear", "factor": 4})"}},
       10000.0,
       RopeScaling::kLinear,
       4.0},
      {"linear under rope_type",
       {{"rope_scaling", R"({"rope_type": "linear", "factor": 4.0})"}},
       10000.0,
       RopeScaling::kLinear,
       4.0},
      {"both keys, alike",
       {{"rope_scaling",
         R"({"rope_type": "linear", "type": "linear", "factor": 2.5})"}},
       10000.0,
       RopeScaling::kLinear,
       2.5},
      {"llama3",
       {{"rope_scaling", R"({"rope_type": "llama3", )" + llama3 + "}"}},
       10000.0,
       RopeScaling::kLlama3,
       8.0},
      {"rope_parameters with theta inside",
       {{"rope_theta", {}},
        {"rope_parameters",
         R"({"rope_type": "llama3", "rope_theta": 12000.0, )" + llama3 + "}"}},
       12000.0,
       RopeScaling::kLlama3,
       8.0},
      {"rope_parameters, default",
       {{"rope_theta", {}},
        {"rope_parameters", R"({"rope_type": "default", "rope_theta": 5e5})"}},
       500000.0,
       RopeScaling::kNone,
       1.0},
      {"rope_parameters without a type",
       {{"rope_parameters", "{}"}},
       10000.0,
       RopeScaling::kNone,
       1.0},
      {"old and new keys, alike",
       {{"rope_scaling", R"({"type": "linear", "factor": 4})"},
        {"rope_parameters",
         R"({"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4})"}},
       10000.0,
       RopeScaling::kLinear,
       4.0},
  };
  for (const RopeCase& c : cases) {
    SCOPED_TRACE(c.name);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(c.changes));
    EXPECT_EQ(config.rope.theta, c.theta);
    EXPECT_EQ(config.rope.scaling, c.scaling);
    EXPECT_EQ(config.rope.factor, c.factor);
    if (c.scaling == RopeScaling::kLlama3) {
      EXPECT_EQ(config.rope.original_max_position_embeddings, 72u);
      EXPECT_EQ(config.rope.low_freq_factor, 1.0);
      EXPECT_EQ(config.rope.high_freq_factor, 4.0);
    }
  }
}

struct BadCase {
  Changes changes;
  absl::StatusCode code;
  const char* message;
};

TEST(ConfigJsonTest, EachFaultHasItsMessage) {
  constexpr auto kDamaged = absl::StatusCode::kDataLoss;
  constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
  const BadCase cases[] = {
      // Which model it is.
      {{{"architectures", R"(["MambaForCausalLM"])"}},
       kUnsupported,
       "config.json: architectures: no support for \"MambaForCausalLM\""},
      {{{"architectures", R"(["LlamaForSequenceClassification"])"}},
       kUnsupported,
       "LlamaForSequenceClassification"},
      {{{"architectures", {}}, {"model_type", R"("mamba")"}},
       kUnsupported,
       "model_type: no support for \"mamba\""},
      {{{"architectures", "{}"}},
       kDamaged,
       "architectures: expected a list of names, got an object"},
      {{{"architectures", "[]"}}, kDamaged, "architectures: expected a list"},
      {{{"architectures", "[7]"}}, kDamaged, "architectures: expected a list"},
      {{{"architectures", {}}, {"model_type", {}}},
       kDamaged,
       "model_type: neither"},
      {{{"model_type", R"("qwen2")"}},
       kDamaged,
       "model_type: contradicts architectures; expected \"llama\", got "
       "\"qwen2\""},
      {{{"model_type", "7"}}, kDamaged, "model_type: expected a string, got 7"},
      // Sizes.
      {{{"num_hidden_layers", {}}},
       kDamaged,
       "num_hidden_layers: expected an integer from 1 to 4096, got nothing"},
      {{{"num_hidden_layers", "0"}}, kDamaged, "from 1 to 4096, got 0"},
      {{{"num_hidden_layers", "4097"}}, kDamaged, "got 4097"},
      {{{"num_hidden_layers", "-1"}}, kDamaged, "got -1"},
      {{{"num_hidden_layers", "2.5"}}, kDamaged, "got 2.5"},
      {{{"num_hidden_layers", R"("2")"}}, kDamaged, "got \"2\""},
      {{{"num_hidden_layers", "18446744073709551618"}},
       kDamaged,
       "got 18446744073709551618"},
      {{{"hidden_size", "0"}}, kDamaged, "hidden_size: expected"},
      {{{"hidden_size", "1048577"}}, kDamaged, "from 1 to 1048576"},
      {{{"hidden_size", "null"}}, kDamaged, "hidden_size: expected"},
      {{{"intermediate_size", "0"}}, kDamaged, "intermediate_size: expected"},
      {{{"num_attention_heads", "0"}},
       kDamaged,
       "num_attention_heads: expected"},
      {{{"num_attention_heads", "7"}},
       kDamaged,
       "hidden_size 96 is no multiple of 7"},
      {{{"num_key_value_heads", "0"}},
       kDamaged,
       "num_key_value_heads: expected"},
      {{{"num_key_value_heads", "4"}},
       kDamaged,
       "key-value heads: expected a divisor of the 6 heads, got 4"},
      {{{"num_key_value_heads", "12"}}, kDamaged, "got 12"},
      {{{"head_dim", "0"}}, kDamaged, "head_dim: expected"},
      {{{"head_dim", "15"}},
       kDamaged,
       "head_dim: expected an even number, got 15"},
      {{{"head_dim", "1048576"}},
       kDamaged,
       "heads times head_dim: expected at most 1048576, got 6291456"},
      {{{"vocab_size", "0"}}, kDamaged, "vocab_size: expected"},
      {{{"vocab_size", "16777217"}}, kDamaged, "vocab_size: expected"},
      {{{"max_position_embeddings", "0"}},
       kDamaged,
       "max_position_embeddings:"},
      {{{"max_position_embeddings", {}}}, kDamaged, "max_position_embeddings:"},
      // Numbers.
      {{{"rms_norm_eps", "0"}},
       kDamaged,
       "rms_norm_eps: expected a number above zero, got 0"},
      {{{"rms_norm_eps", "-1e-5"}}, kDamaged, "rms_norm_eps"},
      {{{"rms_norm_eps", R"("1e-5")"}}, kDamaged, "rms_norm_eps"},
      {{{"rope_theta", "0"}}, kDamaged, "rope_theta"},
      {{{"attention_bias", "1"}},
       kDamaged,
       "attention_bias: expected true or false, got 1"},
      {{{"tie_word_embeddings", R"("no")"}}, kDamaged, "tie_word_embeddings"},
      // Ids.
      {{{"eos_token_id", "320"}},
       kDamaged,
       "eos_token_id: expected less than the vocabulary's 320, got 320"},
      {{{"eos_token_id", "[319, 4000]"}}, kDamaged, "got 4000"},
      {{{"eos_token_id", "-2"}}, kDamaged, "eos_token_id: expected a token id"},
      {{{"eos_token_id", "2147483648"}}, kDamaged, "expected a token id"},
      {{{"eos_token_id", R"(["</s>"])"}}, kDamaged, "got \"</s>\""},
      {{{"bos_token_id", "320"}}, kDamaged, "bos_token_id: expected less than"},
      // What is not computed here.
      {{{"hidden_act", R"("gelu")"}},
       kUnsupported,
       "hidden_act: expected \"silu\", got \"gelu\""},
      {{{"quantization_config", R"({"quant_method": "awq"})"}},
       kUnsupported,
       "quantization_config: no support"},
      {{{"partial_rotary_factor", "0.5"}},
       kUnsupported,
       "partial_rotary_factor"},
      {With(kQwen2, {{"sliding_window", "14"}, {"use_sliding_window", "true"}}),
       kUnsupported, "sliding_window: no support"},
      {With(kMistral, {{"sliding_window", "4096"}}), kUnsupported,
       "sliding_window"},
      {kMistral, kUnsupported, "sliding_window"},
      {{{"layer_types", R"(["full_attention", "sliding_attention"])"}},
       kUnsupported,
       "layer_types: no support for \"sliding_attention\""},
      {{{"layer_types", "3"}}, kDamaged, "layer_types: expected a list"},
      // Rope.
      {{{"rope_scaling", R"({"type": "yarn", "factor": 4.0})"}},
       kUnsupported,
       "rope_scaling: rope_type: no support for \"yarn\""},
      {{{"rope_scaling", R"({"rope_type": "dynamic", "factor": 2})"}},
       kUnsupported,
       "\"dynamic\""},
      {{{"rope_scaling", "4"}},
       kDamaged,
       "rope_scaling: expected an object, got 4"},
      {{{"rope_scaling", R"({"type": "linear"})"}},
       kDamaged,
       "rope_scaling: factor: expected a number above zero, got nothing"},
      {{{"rope_scaling", R"({"type": "linear", "factor": 0})"}},
       kDamaged,
       "factor: expected a number above zero, got 0"},
      {{{"rope_scaling", R"({"type": "linear", "rope_type": "llama3"})"}},
       kDamaged,
       "type: contradicts rope_type"},
      {{{"rope_scaling", R"({"rope_type": "llama3", "factor": 8})"}},
       kDamaged,
       "low_freq_factor"},
      {{{"rope_scaling",
         R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
             "high_freq_factor": 4, "original_max_position_embeddings": 72})"}},
       kDamaged,
       "high_freq_factor: expected more than low_freq_factor 4, got 4"},
      {{{"rope_scaling",
         R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
             "high_freq_factor": 4, "original_max_position_embeddings": 0})"}},
       kDamaged,
       "original_max_position_embeddings"},
      {{{"rope_scaling", R"({"type": "linear", "factor": 4})"},
        {"rope_parameters", R"({"rope_type": "linear", "factor": 8})"}},
       kDamaged,
       "rope_parameters: contradicts rope_scaling"},
      {{{"rope_parameters", R"({"rope_theta": 5e5})"}},
       kDamaged,
       "rope_theta: contradicts the outer rope_theta; expected 10000, got "
       "500000"},
      {{{"rope_parameters",
         R"({"full_attention": {"rope_theta": 1e4}, "sliding_attention": {}})"}},
       kUnsupported,
       "full_attention: no support"},
  };
  for (const BadCase& c : cases) {
    EXPECT_THAT(Parse(c.changes), Fails(c.code, c.message))
        << ConfigText(c.changes);
    EXPECT_THAT(Parse(c.changes), Fails(c.code, "config.json: "));
  }
}

TEST(ConfigJsonTest, TextThatIsNoConfig) {
  for (const char* text : {"", "{", "[]", "7", "\"llama\"", "null", "{} {}"}) {
    EXPECT_THAT(ParseConfigJson(text, "config.json"),
                Fails(absl::StatusCode::kDataLoss, "config.json: "))
        << text;
  }
}

TEST(ConfigJsonTest, NamesInMessagesArePrintable) {
  const absl::StatusOr<ModelConfig> config =
      Parse({{"architectures", R"(["\u001b[31mLlama\n"])"}});
  ASSERT_THAT(config, Fails(absl::StatusCode::kUnimplemented, "[31mLlama"));
  EXPECT_EQ(config.status().message().find('\x1b'), absl::string_view::npos);
  EXPECT_EQ(config.status().message().find('\n'), absl::string_view::npos);
}

}  // namespace
}  // namespace lowmem::testing
