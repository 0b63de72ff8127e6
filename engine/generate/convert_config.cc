// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/convert_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/generate/llama3_rope_recovery.h"
#include "engine/model/family.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

constexpr absl::string_view kDtype = "bfloat16";

absl::Status Unimplemented(absl::string_view path, absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(PrintablePath(path), ": ", what));
}

// GGUF holds float32 where a person wrote 1e-05: the shortest text that is the
// same float32 is what was written.
double ShortestDouble(float value) {
  char digits[32];
  const std::to_chars_result end =
      std::to_chars(digits, digits + sizeof(digits), value);
  double result = value;
  static_cast<void>(absl::SimpleAtod(
      absl::string_view(digits, static_cast<size_t>(end.ptr - digits)),
      &result));
  return result;
}

double ShortestDouble(double value) {
  return ShortestDouble(static_cast<float>(value));
}

// transformers warns of "8" where it wants a float, so whole numbers get a
// ".0".
JsonValue FloatJson(double value) {
  constexpr double kMaxPlain = 1e15;
  if (value == std::trunc(value) && std::abs(value) < kMaxPlain) {
    return JsonValue::Number(absl::StrFormat("%.1f", value));
  }
  JsonWriter writer;
  return JsonValue::Number(writer.Double(value).TakeText());
}

// The configuration's classes have one switch for all biases of attention, or
// none.
absl::Status CheckBiases(const ModelConfig& config, absl::string_view path) {
  const FamilySpec& family = *config.family;
  const auto fits = [](BiasRule rule, bool has_bias) {
    return rule == BiasRule::kByKey || has_bias == (rule == BiasRule::kAlways);
  };
  const bool fits_rules =
      fits(family.qkv_bias, config.qkv_bias) &&
      fits(family.attention_out_bias, config.attention_out_bias) &&
      fits(family.mlp_bias, config.mlp_bias);
  // attention_bias means all four projections.
  const bool fits_key = family.attention_out_bias != BiasRule::kByKey ||
                        config.qkv_bias == config.attention_out_bias;
  if (fits_rules && fits_key) return absl::OkStatus();
  return Unimplemented(
      path, absl::StrCat("biases where ", family.architecture,
                         " has none; q, k, v: ", config.qkv_bias,
                         ", attention output: ", config.attention_out_bias,
                         ", MLP: ", config.mlp_bias));
}

// The value of rope_scaling; null where there is none.
absl::StatusOr<JsonValue> RopeScalingJson(const ModelConfig& config,
                                          absl::string_view path) {
  const RopeConfig& rope = config.rope;
  const bool is_divided = std::any_of(
      rope.frequency_divisors.begin(), rope.frequency_divisors.end(),
      [](float divisor) { return divisor != 1.0f; });
  if (is_divided) {
    const std::optional<Llama3Scaling> scaling =
        RecoverLlama3Scaling(rope.frequency_divisors, rope.theta);
    if (rope.scaling != RopeScaling::kNone || !scaling.has_value()) {
      return Unimplemented(
          path,
          "rope_freqs.weight: the divisors are those of no llama3 rope "
          "scaling, so config.json cannot express them");
    }
    return JsonValue::Object(
        {{"factor", FloatJson(scaling->factor)},
         {"high_freq_factor", FloatJson(scaling->high_freq_factor)},
         {"low_freq_factor", FloatJson(scaling->low_freq_factor)},
         {"original_max_position_embeddings",
          JsonValue::Number(
              absl::StrCat(scaling->original_max_position_embeddings))},
         {"rope_type", JsonValue::String("llama3")}});
  }
  if (rope.scaling == RopeScaling::kLinear) {
    return JsonValue::Object(
        {{"factor", FloatJson(ShortestDouble(rope.factor))},
         {"rope_type", JsonValue::String("linear")}});
  }
  return JsonValue();
}

}  // namespace

absl::StatusOr<std::string> MakeConfigJson(const ModelConfig& config,
                                           int64_t pad_id,
                                           absl::string_view path) {
  const FamilySpec& family = *config.family;
  LOWMEM_RETURN_IF_ERROR(CheckBiases(config, path));
  LOWMEM_ASSIGN_OR_RETURN(const JsonValue rope_scaling,
                          RopeScalingJson(config, path));

  // In alphabetical order, as transformers writes it.
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject();
  json.Key("architectures").BeginArray().String(family.architecture).EndArray();
  if (family.attention_out_bias == BiasRule::kByKey) {
    json.Key("attention_bias").Bool(config.qkv_bias);
  }
  json.Key("attention_dropout").Value(FloatJson(0));
  if (config.bos_id >= 0) json.Key("bos_token_id").Int(config.bos_id);
  if (!config.eos_ids.empty()) json.Key("eos_token_id").Int(config.eos_ids[0]);
  if (config.head_dim * config.num_heads != config.dim) {
    json.Key("head_dim").Uint(config.head_dim);
  }
  json.Key("hidden_act").String("silu");
  json.Key("hidden_size").Uint(config.dim);
  json.Key("intermediate_size").Uint(config.ff_dim);
  json.Key("max_position_embeddings").Uint(config.max_context_tokens);
  if (family.window == WindowRule::kIfUsed) {
    json.Key("max_window_layers").Uint(config.num_layers);
  }
  if (family.mlp_bias == BiasRule::kByKey) {
    json.Key("mlp_bias").Bool(config.mlp_bias);
  }
  json.Key("model_type").String(family.model_type);
  json.Key("num_attention_heads").Uint(config.num_heads);
  json.Key("num_hidden_layers").Uint(config.num_layers);
  json.Key("num_key_value_heads").Uint(config.num_kv_heads);
  if (pad_id >= 0) json.Key("pad_token_id").Int(pad_id);
  json.Key("rms_norm_eps")
      .Value(FloatJson(ShortestDouble(config.norm_epsilon)));
  json.Key("rope_scaling").Value(rope_scaling);
  json.Key("rope_theta").Value(FloatJson(ShortestDouble(config.rope.theta)));
  if (family.window == WindowRule::kIfUsed) {
    json.Key("sliding_window").Uint(config.max_context_tokens);
  }
  json.Key("tie_word_embeddings").Bool(config.tied_head);
  json.Key("torch_dtype").String(kDtype);
  json.Key("use_cache").Bool(true);
  if (family.window == WindowRule::kIfUsed) {
    json.Key("use_sliding_window").Bool(false);
  }
  json.Key("vocab_size").Uint(config.vocab_size);
  json.EndObject();
  return absl::StrCat(json.text(), "\n");
}

absl::StatusOr<std::string> UpdateConfigJson(absl::string_view text,
                                             absl::string_view path) {
  absl::StatusOr<JsonValue> config = JsonValue::Parse(text);
  if (!config.ok() || !config->is_object()) {
    return absl::DataLossError(absl::StrCat(
        PrintablePath(path), ": ",
        config.ok() ? "not a JSON object" : config.status().message()));
  }
  const JsonValue* quantization = config->Find("quantization_config");
  if (quantization != nullptr && !quantization->is_null()) {
    return Unimplemented(path,
                         "quantization_config: the weights are quantised in a "
                         "way that is not read");
  }
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject();
  bool has_dtype = false;
  for (const auto& [key, value] : config->members()) {
    json.Key(key);
    if (key == "torch_dtype" || key == "dtype") {
      json.String(kDtype);
      has_dtype = true;
    } else {
      json.Value(value);
    }
  }
  if (!has_dtype) json.Key("torch_dtype").String(kDtype);
  json.EndObject();
  return absl::StrCat(json.text(), "\n");
}

std::string MakeGenerationConfigJson(absl::Span<const int32_t> eos_ids) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject().Key("eos_token_id");
  if (eos_ids.size() == 1) {
    json.Int(eos_ids[0]);
  } else {
    json.BeginArray();
    for (const int32_t id : eos_ids) json.Int(id);
    json.EndArray();
  }
  json.EndObject();
  return absl::StrCat(json.text(), "\n");
}

}  // namespace lowmem
