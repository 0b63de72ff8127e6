// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tensor_names.h"

#include "engine/model/family.h"
#include "gtest/gtest.h"

namespace lowmem::testing {
namespace {

const FamilySpec& Llama() { return *FamilyByModelType("llama"); }

TEST(TensorNameTest, OutsideTheLayers) {
  EXPECT_EQ(TensorName(Llama().hugging_face_tensors, TensorRole::kHead),
            "lm_head.weight");
  EXPECT_EQ(TensorName(Llama().gguf_tensors, TensorRole::kEmbedding),
            "token_embd.weight");
}

TEST(TensorNameTest, OfALayer) {
  EXPECT_EQ(TensorName(Llama().hugging_face_tensors, TensorRole::kKBias, 12),
            "model.layers.12.self_attn.k_proj.bias");
  EXPECT_EQ(TensorName(Llama().gguf_tensors, TensorRole::kDownProj, 0),
            "blk.0.ffn_down.weight");
  EXPECT_EQ(
      TensorName(Llama().gguf_tensors, TensorRole::kFeedForwardNorm, 4095),
      "blk.4095.ffn_norm.weight");
}

TEST(TensorNameTest, EmptyWhereTheFormatHasNone) {
  EXPECT_EQ(TensorName(Llama().hugging_face_tensors, TensorRole::kRopeDivisors),
            "");
  EXPECT_EQ(TensorName({}, TensorRole::kHead), "");
}

TEST(LayerOfNameTest, ReadsTheIndex) {
  const auto gguf = Llama().gguf_tensors;
  EXPECT_EQ(LayerOfName(gguf, "blk.0.attn_q.weight"), 0u);
  EXPECT_EQ(LayerOfName(gguf, "blk.17.anything at all"), 17u);
  EXPECT_EQ(LayerOfName(Llama().hugging_face_tensors,
                        "model.layers.3.self_attn.rotary_emb.inv_freq"),
            3u);
}

TEST(LayerOfNameTest, NamesOfNoLayer) {
  for (const char* name :
       {"", "blk.", "blk.7", "blk..x", "blk.-1.x", "blk.+1.x", "blk. 1.x",
        "blk.1x.y", "token_embd.weight", "xblk.1.attn_q.weight",
        "blk.4294967296.x", "blk.99999999999999999999.x"}) {
    EXPECT_EQ(LayerOfName(Llama().gguf_tensors, name), std::nullopt) << name;
  }
  EXPECT_EQ(LayerOfName({}, "blk.1.x"), std::nullopt);
}

}  // namespace
}  // namespace lowmem::testing
