// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config_gguf.h"

#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/family.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem::testing {
namespace {

// A key's type and value bytes.
struct Value {
  uint32_t type;
  std::string bytes;
};

Value Uint(uint32_t number) { return {GgufBuilder::kU32, Raw(number)}; }
Value Float(float number) { return {GgufBuilder::kF32, Raw(number)}; }
Value Text(const std::string& text) {
  return {GgufBuilder::kString, RawString(text)};
}
Value Bool(bool value) { return {GgufBuilder::kBool, Raw<uint8_t>(value)}; }
Value Uints(std::initializer_list<uint32_t> numbers) {
  std::string bytes =
      Raw<uint32_t>(GgufBuilder::kU32) + Raw<uint64_t>(numbers.size());
  for (const uint32_t number : numbers) bytes += Raw(number);
  return {GgufBuilder::kArray, bytes};
}

// A model of one layer; keys without their architecture. The vectors are F32.
struct Model {
  std::string architecture = "llama";
  std::map<std::string, Value> keys = {
      {"block_count", Uint(1)},
      {"context_length", Uint(64)},
      {"embedding_length", Uint(8)},
      {"feed_forward_length", Uint(12)},
      {"attention.head_count", Uint(2)},
      {"attention.head_count_kv", Uint(1)},
      {"attention.layer_norm_rms_epsilon", Float(1e-5f)},
      {"rope.freq_base", Float(12000)},
  };
  std::map<std::string, Value> other_keys = {
      {"tokenizer.ggml.bos_token_id", Uint(3)},
      {"tokenizer.ggml.eos_token_id", Uint(4)},
  };
  std::map<std::string, std::vector<uint64_t>> tensors = {
      {"token_embd.weight", {8, 10}}};
};

absl::StatusOr<ModelConfig> Read(const std::function<void(Model&)>& change) {
  Model model;
  change(model);
  GgufBuilder builder;
  if (!model.architecture.empty()) {
    builder.Text("general.architecture", model.architecture);
  }
  for (const auto& [name, value] : model.keys) {
    builder.Key(model.architecture + "." + name, value.type, value.bytes);
  }
  for (const auto& [name, value] : model.other_keys) {
    builder.Key(name, value.type, value.bytes);
  }
  for (const auto& [name, dims] : model.tensors) {
    uint64_t num_bytes = 4;
    for (const uint64_t dim : dims) num_bytes *= dim;
    builder.Tensor(name, dims, GgufBuilder::kTensorF32, num_bytes);
  }
  const TemporaryFolder folder;
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
      Checkpoint::Open(folder.Write("m.gguf", builder.Build()));
  if (!checkpoint.ok()) return checkpoint.status();
  return ReadModelConfig(**checkpoint);
}

TEST(ConfigGgufTest, ReadsEveryNumber) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Read([](Model&) {}));
  EXPECT_EQ(config.family, FamilyByGgufArchitecture("llama"));
  EXPECT_EQ(config.num_layers, 1u);
  EXPECT_EQ(config.dim, 8u);
  EXPECT_EQ(config.ff_dim, 12u);
  EXPECT_EQ(config.num_heads, 2u);
  EXPECT_EQ(config.num_kv_heads, 1u);
  EXPECT_EQ(config.head_dim, 4u);
  EXPECT_EQ(config.vocab_size, 10u);
  EXPECT_EQ(config.max_context_tokens, 64u);
  EXPECT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.rope.theta, 12000.0);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(config.rope.neighbour_pairs);
  EXPECT_TRUE(config.rope.frequency_divisors.empty());
  EXPECT_EQ(config.bos_id, 3);
  EXPECT_EQ(config.eos_ids, std::vector<int32_t>{4});
}

TEST(ConfigGgufTest, ReadsTheFilesOfTheConverter) {
  const std::string folder = absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny-gguf/");
  ASSERT_OK_AND_ASSIGN(auto llama3,
                       Checkpoint::Open(folder + "llama3-bf16.gguf"));
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ReadModelConfig(*llama3));
  EXPECT_EQ(config.rope.frequency_divisors.size(), config.head_dim / 2);
  EXPECT_EQ(config.rope.frequency_divisors.front(), 1.0f);
  EXPECT_EQ(config.rope.frequency_divisors.back(), 8.0f);
  EXPECT_TRUE(config.tied_head);
  ASSERT_OK_AND_ASSIGN(auto qwen2, Checkpoint::Open(folder + "qwen2-f32.gguf"));
  ASSERT_OK_AND_ASSIGN(const ModelConfig qwen2_config, ReadModelConfig(*qwen2));
  EXPECT_TRUE(qwen2_config.qkv_bias);
  EXPECT_FALSE(qwen2_config.rope.neighbour_pairs);
}

TEST(ConfigGgufTest, TensorsTellBiasesAndHead) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig bare, Read([](Model&) {}));
  EXPECT_TRUE(bare.tied_head);
  EXPECT_FALSE(bare.qkv_bias);
  EXPECT_FALSE(bare.attention_out_bias);
  EXPECT_FALSE(bare.mlp_bias);
  ASSERT_OK_AND_ASSIGN(const ModelConfig full, Read([](Model& model) {
                         model.tensors["output.weight"] = {8, 10};
                         model.tensors["blk.0.attn_q.bias"] = {8};
                         model.tensors["blk.0.attn_output.bias"] = {8};
                         model.tensors["blk.0.ffn_gate.bias"] = {12};
                       }));
  EXPECT_FALSE(full.tied_head);
  EXPECT_TRUE(full.qkv_bias);
  EXPECT_TRUE(full.attention_out_bias);
  EXPECT_TRUE(full.mlp_bias);
}

TEST(ConfigGgufTest, OptionalKeys) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Read([](Model& model) {
                         model.keys.erase("attention.head_count_kv");
                         model.keys.erase("rope.freq_base");
                         model.keys["attention.key_length"] = Uint(6);
                         model.keys["attention.value_length"] = Uint(6);
                         model.keys["rope.dimension_count"] = Uint(6);
                         model.keys["expert_count"] = Uint(0);
                         model.keys["attention.causal"] = Bool(true);
                         model.keys["rope.scaling.type"] = Text("linear");
                         model.keys["rope.scaling.factor"] = Float(4);
                         model.other_keys.clear();
                       }));
  EXPECT_EQ(config.num_kv_heads, 2u);
  EXPECT_EQ(config.head_dim, 6u);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 4.0);
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_TRUE(config.eos_ids.empty());
}

TEST(ConfigGgufTest, LinearFactorOfOldFiles) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Read([](Model& model) {
                         model.keys["rope.scale_linear"] = Float(2);
                       }));
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 2.0);
}

TEST(ConfigGgufTest, NoTokenIsAllOnes) {
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig config, Read([](Model& model) {
        model.other_keys["tokenizer.ggml.bos_token_id"] = Uint(UINT32_MAX);
        model.other_keys["tokenizer.ggml.eos_token_id"] = Uint(UINT32_MAX);
      }));
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_TRUE(config.eos_ids.empty());
}

struct BadCase {
  const char* message;
  absl::StatusCode code;
  std::function<void(Model&)> change;
};

TEST(ConfigGgufTest, EachFaultHasItsMessage) {
  constexpr auto kDamaged = absl::StatusCode::kDataLoss;
  constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
  const auto set = [](const char* key, const Value& value) {
    return [=](Model& model) { model.keys[key] = value; };
  };
  const auto drop = [](const char* key) {
    return [=](Model& model) { model.keys.erase(key); };
  };
  const BadCase cases[] = {
      {"general.architecture: is absent", kDamaged,
       [](Model& model) { model.architecture.clear(); }},
      {"general.architecture: no support for \"mamba\"", kUnsupported,
       [](Model& model) { model.architecture = "mamba"; }},
      {"llama.block_count: is absent", kDamaged, drop("block_count")},
      {"block_count: expected an integer from 1 to 4096, got 0", kDamaged,
       set("block_count", Uint(0))},
      {"got 4097", kDamaged, set("block_count", Uint(4097))},
      {"block_count: expected an integer", kDamaged,
       set("block_count", Text("1"))},
      {"block_count: expected an integer", kDamaged,
       set("block_count", Float(1))},
      {"feed_forward_length: no support for one value a layer", kUnsupported,
       set("feed_forward_length", Uints({12}))},
      {"embedding_length: is absent", kDamaged, drop("embedding_length")},
      {"embedding_length: expected", kDamaged,
       set("embedding_length", Uint(0))},
      {"feed_forward_length: is absent", kDamaged, drop("feed_forward_length")},
      {"context_length: is absent", kDamaged, drop("context_length")},
      {"head_count: expected", kDamaged, set("attention.head_count", Uint(0))},
      {"embedding_length 8 is no multiple of 3", kDamaged,
       set("attention.head_count", Uint(3))},
      {"head_count_kv: expected", kDamaged,
       set("attention.head_count_kv", Uint(0))},
      {"key-value heads: expected a divisor of the 2 heads, got 4", kDamaged,
       set("attention.head_count_kv", Uint(4))},
      {"head_dim: expected an even number, got 5", kDamaged,
       set("attention.key_length", Uint(5))},
      {"value_length: no support for values of another length", kUnsupported,
       set("attention.value_length", Uint(6))},
      {"layer_norm_rms_epsilon: is absent", kDamaged,
       drop("attention.layer_norm_rms_epsilon")},
      {"epsilon: expected a number above zero, got 0", kDamaged,
       set("attention.layer_norm_rms_epsilon", Float(0))},
      {"epsilon: expected a number", kDamaged,
       set("attention.layer_norm_rms_epsilon", Uint(1))},
      {"rope.freq_base: expected a number above zero", kDamaged,
       set("rope.freq_base", Float(-1))},
      {"rope.dimension_count: no support for partly rotated heads; expected 4, "
       "got 2",
       kUnsupported, set("rope.dimension_count", Uint(2))},
      {"rope.scaling.type: no support for \"yarn\"", kUnsupported,
       set("rope.scaling.type", Text("yarn"))},
      {"rope.scaling.type: expected a string", kDamaged,
       set("rope.scaling.type", Uint(1))},
      {"rope.scaling.factor: expected", kDamaged,
       set("rope.scaling.factor", Float(0))},
      {"expert_count: no support", kUnsupported, set("expert_count", Uint(8))},
      {"sliding_window: no support", kUnsupported,
       set("attention.sliding_window", Uint(4096))},
      {"attention.scale: no support", kUnsupported,
       set("attention.scale", Float(0.1f))},
      {"attention.causal: no support", kUnsupported,
       set("attention.causal", Bool(false))},
      {"token_embd.weight: is absent", kDamaged,
       [](Model& model) {
         model.tensors = {{"output.weight", {8, 10}}};
       }},
      {"rope_freqs.weight: expected 2 values, got 3", kDamaged,
       [](Model& model) { model.tensors["rope_freqs.weight"] = {3}; }},
      {"rope_freqs.weight: expected a vector", kDamaged,
       [](Model& model) {
         model.tensors["rope_freqs.weight"] = {2, 2};
       }},
      {"eos_token_id: expected less than the vocabulary's 10, got 10", kDamaged,
       [](Model& model) {
         model.other_keys["tokenizer.ggml.eos_token_id"] = Uint(10);
       }},
      {"eos_token_id: expected a token id", kDamaged,
       [](Model& model) {
         model.other_keys["tokenizer.ggml.eos_token_id"] = Uint(1u << 31);
       }},
      {"bos_token_id: expected less than", kDamaged,
       [](Model& model) {
         model.other_keys["tokenizer.ggml.bos_token_id"] = Uint(99);
       }},
      {"tokens: more than the embedding has rows; expected at most 10, got 11",
       kDamaged,
       [](Model& model) {
         std::string texts;
         for (int i = 0; i < 11; ++i) texts += RawString("t");
         model.other_keys["tokenizer.ggml.tokens"] = {
             GgufBuilder::kArray,
             Raw<uint32_t>(GgufBuilder::kString) + Raw<uint64_t>(11) + texts};
       }},
  };
  for (const BadCase& c : cases) {
    EXPECT_THAT(Read(c.change), Fails(c.code, c.message));
    EXPECT_THAT(Read(c.change), Fails(c.code, "m.gguf: "));
  }
}

}  // namespace
}  // namespace lowmem::testing
