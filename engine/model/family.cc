// SPDX-License-Identifier: Apache-2.0
#include "engine/model/family.h"

namespace lowmem {
namespace {

// Sources of the names: published checkpoints of each family; llama.cpp's
// converter.
constexpr TensorPattern kLlamaTensors[] = {
    {TensorRole::kEmbedding, "model.embed_tokens.weight"},
    {TensorRole::kFinalNorm, "model.norm.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kAttentionNorm, "model.layers.#.input_layernorm.weight"},
    {TensorRole::kQProj, "model.layers.#.self_attn.q_proj.weight"},
    {TensorRole::kQBias, "model.layers.#.self_attn.q_proj.bias"},
    {TensorRole::kKProj, "model.layers.#.self_attn.k_proj.weight"},
    {TensorRole::kKBias, "model.layers.#.self_attn.k_proj.bias"},
    {TensorRole::kVProj, "model.layers.#.self_attn.v_proj.weight"},
    {TensorRole::kVBias, "model.layers.#.self_attn.v_proj.bias"},
    {TensorRole::kOProj, "model.layers.#.self_attn.o_proj.weight"},
    {TensorRole::kOBias, "model.layers.#.self_attn.o_proj.bias"},
    {TensorRole::kFeedForwardNorm,
     "model.layers.#.post_attention_layernorm.weight"},
    {TensorRole::kGateProj, "model.layers.#.mlp.gate_proj.weight"},
    {TensorRole::kGateBias, "model.layers.#.mlp.gate_proj.bias"},
    {TensorRole::kUpProj, "model.layers.#.mlp.up_proj.weight"},
    {TensorRole::kUpBias, "model.layers.#.mlp.up_proj.bias"},
    {TensorRole::kDownProj, "model.layers.#.mlp.down_proj.weight"},
    {TensorRole::kDownBias, "model.layers.#.mlp.down_proj.bias"},
};

constexpr TensorPattern kGgufTensors[] = {
    {TensorRole::kEmbedding, "token_embd.weight"},
    {TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorRole::kHead, "output.weight"},
    {TensorRole::kRopeDivisors, "rope_freqs.weight"},
    {TensorRole::kAttentionNorm, "blk.#.attn_norm.weight"},
    {TensorRole::kQProj, "blk.#.attn_q.weight"},
    {TensorRole::kQBias, "blk.#.attn_q.bias"},
    {TensorRole::kKProj, "blk.#.attn_k.weight"},
    {TensorRole::kKBias, "blk.#.attn_k.bias"},
    {TensorRole::kVProj, "blk.#.attn_v.weight"},
    {TensorRole::kVBias, "blk.#.attn_v.bias"},
    {TensorRole::kOProj, "blk.#.attn_output.weight"},
    {TensorRole::kOBias, "blk.#.attn_output.bias"},
    {TensorRole::kFeedForwardNorm, "blk.#.ffn_norm.weight"},
    {TensorRole::kGateProj, "blk.#.ffn_gate.weight"},
    {TensorRole::kGateBias, "blk.#.ffn_gate.bias"},
    {TensorRole::kUpProj, "blk.#.ffn_up.weight"},
    {TensorRole::kUpBias, "blk.#.ffn_up.bias"},
    {TensorRole::kDownProj, "blk.#.ffn_down.weight"},
    {TensorRole::kDownBias, "blk.#.ffn_down.bias"},
};

constexpr FamilySpec kFamilies[] = {
    // Llama 1 to 3.x, TinyLlama, SmolLM2.
    {
        .name = "llama",
        .architecture = "LlamaForCausalLM",
        .model_type = "llama",
        .gguf_architecture = "llama",
        .hugging_face_tensors = kLlamaTensors,
        .gguf_tensors = kGgufTensors,
        .qkv_bias = BiasRule::kByKey,
        .attention_out_bias = BiasRule::kByKey,
        .mlp_bias = BiasRule::kByKey,
        .gguf_neighbour_pairs = true,
    },
    // Mistral where it attends to everything (7B from v0.2 on); llama in GGUF.
    {
        .name = "mistral",
        .architecture = "MistralForCausalLM",
        .model_type = "mistral",
        .hugging_face_tensors = kLlamaTensors,
        .gguf_tensors = kGgufTensors,
        .window = WindowRule::kUnlessNull,
    },
    // Qwen2, Qwen2.5 and their Coder and Math variants.
    {
        .name = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .model_type = "qwen2",
        .gguf_architecture = "qwen2",
        .hugging_face_tensors = kLlamaTensors,
        .gguf_tensors = kGgufTensors,
        .qkv_bias = BiasRule::kAlways,
        .window = WindowRule::kIfUsed,
    },
};

const FamilySpec* FindBy(absl::string_view FamilySpec::*field,
                         absl::string_view value) {
  if (value.empty()) return nullptr;
  for (const FamilySpec& family : kFamilies) {
    if (family.*field == value) return &family;
  }
  return nullptr;
}

}  // namespace

absl::Span<const FamilySpec> Families() { return kFamilies; }

const FamilySpec* FamilyByArchitecture(absl::string_view architecture) {
  return FindBy(&FamilySpec::architecture, architecture);
}

const FamilySpec* FamilyByModelType(absl::string_view model_type) {
  return FindBy(&FamilySpec::model_type, model_type);
}

const FamilySpec* FamilyByGgufArchitecture(absl::string_view architecture) {
  return FindBy(&FamilySpec::gguf_architecture, architecture);
}

}  // namespace lowmem
