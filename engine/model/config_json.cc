// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config_json.h"

#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/family.h"
#include "engine/model/json_fields.h"
#include "engine/model/rope_json.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

absl::StatusOr<const FamilySpec*> FindFamily(const JsonFields& config) {
  const FamilySpec* by_architecture = nullptr;
  const JsonValue* architectures = config.Find("architectures");
  if (architectures != nullptr) {
    if (!architectures->is_array() || architectures->items().empty() ||
        !architectures->items()[0].is_string()) {
      return config.Unexpected("architectures", "a list of names",
                               architectures);
    }
    const std::string& name = architectures->items()[0].string();
    by_architecture = FamilyByArchitecture(name);
    if (by_architecture == nullptr) {
      return config.Unimplemented(
          "architectures",
          absl::StrCat("no support for \"", Printable(name), "\""));
    }
  }
  LOWMEM_ASSIGN_OR_RETURN(const std::string model_type,
                          config.OptionalString("model_type"));
  if (model_type.empty()) {
    if (by_architecture != nullptr) return by_architecture;
    return config.DataLoss("model_type",
                           "neither it nor architectures is there");
  }
  const FamilySpec* by_type = FamilyByModelType(model_type);
  if (by_architecture != nullptr && by_type != by_architecture) {
    return config.DataLoss(
        "model_type", absl::StrCat("contradicts architectures; expected \"",
                                   by_architecture->model_type, "\", got \"",
                                   Printable(model_type), "\""));
  }
  if (by_type == nullptr) {
    return config.Unimplemented(
        "model_type",
        absl::StrCat("no support for \"", Printable(model_type), "\""));
  }
  return by_type;
}

absl::Status RefuseWindow(const FamilySpec& family, const JsonFields& config) {
  bool windowed = false;
  switch (family.window) {
    case WindowRule::kNone:
      break;
    case WindowRule::kUnlessNull:
      // Absent, transformers takes 4096.
      windowed = !config.IsNull("sliding_window");
      break;
    case WindowRule::kIfUsed: {
      LOWMEM_ASSIGN_OR_RETURN(windowed,
                              config.BoolOr("use_sliding_window", false));
      break;
    }
  }
  if (windowed) {
    return config.Unimplemented("sliding_window",
                                "no support for windowed attention");
  }
  if (const JsonValue* types = config.Find("layer_types"); types != nullptr) {
    if (!types->is_array()) {
      return config.Unexpected("layer_types", "a list of names", types);
    }
    for (const JsonValue& type : types->items()) {
      if (type.string() != "full_attention") {
        return config.Unimplemented(
            "layer_types", absl::StrCat("no support for ", DescribeJson(type)));
      }
    }
  }
  return absl::OkStatus();
}

// Features that change what the model computes and that nothing here computes.
absl::Status RefuseUnsupported(const FamilySpec& family,
                               const JsonFields& config) {
  if (config.Find("quantization_config") != nullptr) {
    return config.Unimplemented(
        "quantization_config",
        "no support for quantised safetensors; take the bf16 or GGUF files");
  }
  LOWMEM_ASSIGN_OR_RETURN(const std::string activation,
                          config.OptionalString("hidden_act"));
  if (!activation.empty() && activation != "silu") {
    return config.Unimplemented(
        "hidden_act",
        absl::StrCat("expected \"silu\", got \"", Printable(activation), "\""));
  }
  LOWMEM_ASSIGN_OR_RETURN(const std::optional<double> rotary_share,
                          config.OptionalPositive("partial_rotary_factor"));
  if (rotary_share.value_or(1.0) != 1.0) {
    return config.Unimplemented("partial_rotary_factor",
                                "no support for partly rotated heads");
  }
  return RefuseWindow(family, config);
}

absl::StatusOr<bool> HasBias(BiasRule rule, const JsonFields& config,
                             absl::string_view key) {
  if (rule == BiasRule::kByKey) return config.BoolOr(key, false);
  return rule == BiasRule::kAlways;
}

// One id, a list of ids, or -1 for none.
absl::Status ReadIds(const JsonFields& config, absl::string_view key,
                     std::vector<int32_t>* ids) {
  const JsonValue* value = config.Find(key);
  if (value == nullptr) return absl::OkStatus();
  const auto add = [&](const JsonValue& item) {
    const std::optional<int64_t> id = item.AsInt64();
    if (!id.has_value() || *id < -1 ||
        *id > std::numeric_limits<int32_t>::max()) {
      return config.Unexpected(key, "a token id", &item);
    }
    if (*id >= 0) ids->push_back(static_cast<int32_t>(*id));
    return absl::OkStatus();
  };
  if (!value->is_array()) return add(*value);
  for (const JsonValue& item : value->items())
    LOWMEM_RETURN_IF_ERROR(add(item));
  return absl::OkStatus();
}

absl::Status ReadSizes(const JsonFields& config, ModelConfig* out) {
  LOWMEM_ASSIGN_OR_RETURN(out->num_layers, config.Uint32("num_hidden_layers", 1,
                                                         limits::kNumLayers));
  LOWMEM_ASSIGN_OR_RETURN(out->dim,
                          config.Uint32("hidden_size", 1, limits::kDim));
  LOWMEM_ASSIGN_OR_RETURN(out->ff_dim,
                          config.Uint32("intermediate_size", 1, limits::kDim));
  LOWMEM_ASSIGN_OR_RETURN(out->num_heads, config.Uint32("num_attention_heads",
                                                        1, limits::kNumHeads));
  LOWMEM_ASSIGN_OR_RETURN(out->vocab_size,
                          config.Uint32("vocab_size", 1, limits::kVocabSize));
  LOWMEM_ASSIGN_OR_RETURN(
      out->max_context_tokens,
      config.Uint32("max_position_embeddings", 1, limits::kContextTokens));

  LOWMEM_ASSIGN_OR_RETURN(
      const std::optional<uint64_t> num_kv_heads,
      config.OptionalUint("num_key_value_heads", 1, limits::kNumHeads));
  out->num_kv_heads =
      static_cast<uint32_t>(num_kv_heads.value_or(out->num_heads));

  LOWMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> head_dim,
                          config.OptionalUint("head_dim", 1, limits::kDim));
  if (!head_dim.has_value() && out->dim % out->num_heads != 0) {
    return config.DataLoss(
        "num_attention_heads",
        absl::StrCat("head_dim is absent, and hidden_size ", out->dim,
                     " is no multiple of ", out->num_heads));
  }
  out->head_dim =
      static_cast<uint32_t>(head_dim.value_or(out->dim / out->num_heads));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseConfigJson(absl::string_view text,
                                            const std::string& path) {
  const absl::StatusOr<JsonValue> json = JsonValue::Parse(text);
  if (!json.ok()) {
    return absl::Status(json.status().code(),
                        absl::StrCat(path, ": ", json.status().message()));
  }
  if (!json->is_object()) {
    return absl::DataLossError(
        absl::StrCat(path, ": expected an object, got ", DescribeJson(*json)));
  }
  const JsonFields config(*json, path);

  ModelConfig out;
  LOWMEM_ASSIGN_OR_RETURN(out.family, FindFamily(config));
  const FamilySpec& family = *out.family;
  LOWMEM_RETURN_IF_ERROR(RefuseUnsupported(family, config));
  LOWMEM_RETURN_IF_ERROR(ReadSizes(config, &out));

  // Absent, transformers takes 1e-6 for each of these families.
  LOWMEM_ASSIGN_OR_RETURN(const std::optional<double> epsilon,
                          config.OptionalPositive("rms_norm_eps"));
  out.norm_epsilon = static_cast<float>(epsilon.value_or(1e-6));
  LOWMEM_ASSIGN_OR_RETURN(out.tied_head, config.BoolOr("tie_word_embeddings",
                                                       family.tied_by_default));
  LOWMEM_ASSIGN_OR_RETURN(out.qkv_bias,
                          HasBias(family.qkv_bias, config, "attention_bias"));
  LOWMEM_ASSIGN_OR_RETURN(
      out.attention_out_bias,
      HasBias(family.attention_out_bias, config, "attention_bias"));
  LOWMEM_ASSIGN_OR_RETURN(out.mlp_bias,
                          HasBias(family.mlp_bias, config, "mlp_bias"));
  LOWMEM_ASSIGN_OR_RETURN(out.rope, ParseRopeJson(config));

  std::vector<int32_t> bos_ids;
  LOWMEM_RETURN_IF_ERROR(ReadIds(config, "bos_token_id", &bos_ids));
  if (!bos_ids.empty()) out.bos_id = bos_ids.front();
  LOWMEM_RETURN_IF_ERROR(ReadIds(config, "eos_token_id", &out.eos_ids));
  return out;
}

}  // namespace lowmem
