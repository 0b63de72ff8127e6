// SPDX-License-Identifier: Apache-2.0
#include "engine/model/model_weights.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem::testing {
namespace {

struct Entry {
  std::string dtype = "F32";
  std::vector<uint64_t> shape;
};

// A folder with config.json and a model of two layers, hidden size 8, 2 heads
// of 4, 1 key-value head, feed-forward 12, vocabulary 10.
struct Folder {
  std::map<std::string, std::string> keys = {
      {"architectures", R"(["LlamaForCausalLM"])"},
      {"hidden_size", "8"},
      {"intermediate_size", "12"},
      {"num_hidden_layers", "2"},
      {"num_attention_heads", "2"},
      {"num_key_value_heads", "1"},
      {"vocab_size", "10"},
      {"max_position_embeddings", "64"},
  };
  std::map<std::string, Entry> tensors;

  Folder() {
    tensors["model.embed_tokens.weight"].shape = {10, 8};
    tensors["model.norm.weight"].shape = {8};
    tensors["lm_head.weight"].shape = {10, 8};
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
      const std::string attention = absl::StrCat(layer, "self_attn.");
      const std::string mlp = absl::StrCat(layer, "mlp.");
      tensors[absl::StrCat(layer, "input_layernorm.weight")].shape = {8};
      tensors[absl::StrCat(layer, "post_attention_layernorm.weight")].shape = {
          8};
      tensors[attention + "q_proj.weight"].shape = {8, 8};
      tensors[attention + "k_proj.weight"].shape = {4, 8};
      tensors[attention + "v_proj.weight"].shape = {4, 8};
      tensors[attention + "o_proj.weight"].shape = {8, 8};
      tensors[mlp + "gate_proj.weight"].shape = {12, 8};
      tensors[mlp + "up_proj.weight"].shape = {12, 8};
      tensors[mlp + "down_proj.weight"].shape = {8, 12};
    }
  }

  Entry& Layer0(const std::string& name) {
    return tensors["model.layers.0." + name];
  }

  void WriteTo(const TemporaryFolder& folder) const {
    std::string config = "{";
    for (const auto& [key, value] : keys) {
      absl::StrAppend(&config, config.size() > 1 ? ", " : "", "\"", key,
                      "\": ", value);
    }
    folder.Write("config.json", config + "}");
    std::string header = "{";
    uint64_t ofs = 0;
    for (const auto& [name, entry] : tensors) {
      uint64_t size = entry.dtype == "F32" ? 4 : entry.dtype == "BOOL" ? 1 : 8;
      for (const uint64_t dim : entry.shape) size *= dim;
      absl::StrAppend(&header, header.size() > 1 ? "," : "", "\"", name,
                      "\":{\"dtype\":\"", entry.dtype, "\",\"shape\":[",
                      absl::StrJoin(entry.shape, ","), "],\"data_offsets\":[",
                      ofs, ",", ofs + size, "]}");
      ofs += size;
    }
    folder.Write("model.safetensors",
                 SafetensorsBytes(header + "}", std::string(ofs, '\0')));
  }
};

class ModelWeightsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ModelWeights> Resolve(
      const std::function<void(Folder&)>& change) {
    Folder folder;
    change(folder);
    folder.WriteTo(folder_);
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
        Checkpoint::Open(folder_.path());
    if (!checkpoint.ok()) return checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
    absl::StatusOr<ModelConfig> config = ReadModelConfig(*checkpoint_);
    if (!config.ok()) return config.status();
    return ResolveWeights(*config, *checkpoint_);
  }

  std::string NameOf(TensorId id) { return checkpoint_->tensors()[id].name; }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(ModelWeightsTest, FindsEveryTensor) {
  ASSERT_OK_AND_ASSIGN(const ModelWeights weights, Resolve([](Folder&) {}));
  ASSERT_EQ(weights.layers.size(), 2u);
  EXPECT_EQ(NameOf(weights.embedding), "model.embed_tokens.weight");
  EXPECT_EQ(NameOf(weights.final_norm), "model.norm.weight");
  EXPECT_EQ(NameOf(weights.head), "lm_head.weight");
  const LayerTensors& layer = weights.layers[1];
  EXPECT_EQ(NameOf(layer.attention_norm),
            "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(NameOf(layer.q_proj), "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(NameOf(layer.k_proj), "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(NameOf(layer.v_proj), "model.layers.1.self_attn.v_proj.weight");
  EXPECT_EQ(NameOf(layer.o_proj), "model.layers.1.self_attn.o_proj.weight");
  EXPECT_EQ(NameOf(layer.feed_forward_norm),
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(NameOf(layer.gate_proj), "model.layers.1.mlp.gate_proj.weight");
  EXPECT_EQ(NameOf(layer.up_proj), "model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(NameOf(layer.down_proj), "model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(layer.q_bias, std::nullopt);
  EXPECT_EQ(layer.o_bias, std::nullopt);
  EXPECT_EQ(layer.down_bias, std::nullopt);
}

TEST_F(ModelWeightsTest, StepsAreInOrderOfUse) {
  ASSERT_OK_AND_ASSIGN(
      const ModelWeights weights, Resolve([](Folder& folder) {
        folder.keys["attention_bias"] = "true";
        for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
          const std::string attention = absl::StrCat(layer, "self_attn.");
          folder.tensors[attention + "q_proj.bias"].shape = {8};
          folder.tensors[attention + "k_proj.bias"].shape = {4};
          folder.tensors[attention + "v_proj.bias"].shape = {4};
          folder.tensors[attention + "o_proj.bias"].shape = {8};
        }
      }));
  const std::vector<WeightStep> steps = weights.Steps();
  ASSERT_EQ(steps.size(), 3u);
  std::vector<std::string> names;
  for (const TensorId id : steps[0].tensors) {
    names.push_back(NameOf(id).substr(sizeof("model.layers.0.") - 1));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "input_layernorm.weight", "self_attn.q_proj.weight",
                "self_attn.q_proj.bias", "self_attn.k_proj.weight",
                "self_attn.k_proj.bias", "self_attn.v_proj.weight",
                "self_attn.v_proj.bias", "self_attn.o_proj.weight",
                "self_attn.o_proj.bias", "post_attention_layernorm.weight",
                "mlp.gate_proj.weight", "mlp.up_proj.weight",
                "mlp.down_proj.weight"}));
  EXPECT_EQ(steps[2].tensors,
            (std::vector<TensorId>{weights.final_norm, weights.head}));
}

TEST_F(ModelWeightsTest, UsedTensorsOnceAndInFileOrder) {
  ASSERT_OK_AND_ASSIGN(
      const ModelWeights weights, Resolve([](Folder& folder) {
        folder.keys["tie_word_embeddings"] = "true";
        // Both are in many published files; neither is used.
        folder.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"].shape = {
            2};
      }));
  EXPECT_EQ(weights.head, weights.embedding);
  const std::vector<TensorId> used = weights.UsedTensors(*checkpoint_);
  EXPECT_EQ(used.size(), 2 + 2 * 9u);
  for (size_t i = 1; i < used.size(); ++i) {
    EXPECT_LT(checkpoint_->tensors()[used[i - 1]].file_ofs,
              checkpoint_->tensors()[used[i]].file_ofs);
  }
  for (const TensorId id : used) {
    EXPECT_NE(NameOf(id), "lm_head.weight");
    EXPECT_EQ(NameOf(id).find("inv_freq"), std::string::npos);
  }
}

TEST_F(ModelWeightsTest, ConstantsOfAnyKindAreNotLookedAt) {
  EXPECT_THAT(Resolve([](Folder& folder) {
                folder.Layer0("self_attn.rotary_emb.inv_freq").shape = {2};
                folder.Layer0("self_attn.bias") = {"BOOL", {1, 1, 4, 4}};
                folder.Layer0("self_attn.masked_bias").shape = {};
                folder.tensors["model.position_ids"] = {"I64", {1, 64}};
              }),
              IsOk());
}

struct BadCase {
  const char* message;
  absl::StatusCode code;
  std::function<void(Folder&)> change;
};

TEST_F(ModelWeightsTest, EachContradictionHasItsMessage) {
  constexpr auto kDamaged = absl::StatusCode::kDataLoss;
  const auto key = [](const char* name, const char* value) {
    return [=](Folder& folder) { folder.keys[name] = value; };
  };
  const BadCase cases[] = {
      {"model.norm.weight: the tensor is absent", kDamaged,
       [](Folder& folder) { folder.tensors.erase("model.norm.weight"); }},
      {"lm_head.weight: the tensor is absent", kDamaged,
       [](Folder& folder) { folder.tensors.erase("lm_head.weight"); }},
      {"model.layers.0.self_attn.q_proj.weight: the tensor is absent, and 2 "
       "more are",
       kDamaged,
       [](Folder& folder) {
         folder.tensors.erase("model.layers.0.self_attn.q_proj.weight");
         folder.tensors.erase("model.layers.1.mlp.up_proj.weight");
         folder.tensors.erase("model.norm.weight");
       }},
      {"model.layers.2.input_layernorm.weight: the tensor is absent, and 36845 "
       "more",
       kDamaged, key("num_hidden_layers", "4096")},
      {"model.layers.0.self_attn.q_proj.bias: the tensor is absent, and 7 more "
       "are",
       kDamaged, key("attention_bias", "true")},
      {"model.layers.1.input_layernorm.weight: is there, but the configuration "
       "says "
       "1 layers",
       kDamaged, key("num_hidden_layers", "1")},
      {"model.layers.0.self_attn.o_proj.bias: is there, but the configuration "
       "says "
       "no such bias",
       kDamaged,
       [](Folder& folder) {
         folder.Layer0("self_attn.o_proj.bias").shape = {8};
       }},
      {"model.embed_tokens.weight: shape contradicts the configuration; "
       "expected "
       "[11, 8], got [10, 8]",
       kDamaged, key("vocab_size", "11")},
      {"expected [10, 16], got [10, 8]", kDamaged, key("hidden_size", "16")},
      {"gate_proj.weight: shape contradicts the configuration; expected [13, "
       "8], got "
       "[12, 8]",
       kDamaged, key("intermediate_size", "13")},
      {"k_proj.weight: shape contradicts the configuration; expected [8, 8], "
       "got "
       "[4, 8]",
       kDamaged, key("num_key_value_heads", "2")},
      {"q_proj.weight: shape contradicts the configuration; expected [12, 8], "
       "got "
       "[8, 8]",
       kDamaged, key("head_dim", "6")},
      // The right number of values in another shape.
      {"o_proj.weight: shape", kDamaged,
       [](Folder& folder) {
         folder.Layer0("self_attn.o_proj.weight").shape = {4, 16};
       }},
      {"o_proj.weight: shape", kDamaged,
       [](Folder& folder) {
         folder.Layer0("self_attn.o_proj.weight").shape = {64};
       }},
      {"o_proj.weight: shape", kDamaged,
       [](Folder& folder) {
         folder.Layer0("self_attn.o_proj.weight").shape = {1, 8, 8};
       }},
      {"model.norm.weight: shape", kDamaged,
       [](Folder& folder) {
         folder.tensors["model.norm.weight"].shape = {1, 8};
       }},
      {"model.norm.weight: shape", kDamaged,
       [](Folder& folder) { folder.tensors["model.norm.weight"].shape = {}; }},
      {"up_proj.weight: no support for dtype I64",
       absl::StatusCode::kUnimplemented,
       [](Folder& folder) {
         folder.Layer0("mlp.up_proj.weight").dtype = "I64";
       }},
  };
  for (const BadCase& c : cases) {
    EXPECT_THAT(Resolve(c.change), Fails(c.code, c.message));
    EXPECT_THAT(Resolve(c.change), Fails(c.code, folder_.path()));
  }
}

TEST_F(ModelWeightsTest, NoConfigIsNotFound) {
  Folder().WriteTo(folder_);
  std::filesystem::remove(folder_ / "config.json");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder_.path()));
  EXPECT_THAT(ReadModelConfig(*checkpoint),
              Fails(absl::StatusCode::kNotFound, "config.json"));
}

TEST_F(ModelWeightsTest, HugeConfigIsRefused) {
  Folder().WriteTo(folder_);
  folder_.Write("config.json", std::string((1u << 20) + 1, ' '));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder_.path()));
  EXPECT_THAT(ReadModelConfig(*checkpoint),
              Fails(absl::StatusCode::kDataLoss, "config.json"));
}

}  // namespace
}  // namespace lowmem::testing
