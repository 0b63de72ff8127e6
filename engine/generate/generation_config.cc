// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/generation_config.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/generate/sampling_plan.h"
#include "storage/base/json.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/file.h"

namespace lowmem {
namespace {

absl::Status WrongKind(const std::string& path, absl::string_view key,
                       absl::string_view expected) {
  return absl::DataLossError(absl::StrCat(Printable(path), ": ", key,
                                          ": is of the wrong kind; expected ",
                                          expected));
}

// Absent and null mean the same.
const JsonValue* FindSet(const JsonValue& root, absl::string_view key) {
  const JsonValue* value = root.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

absl::Status ReadFloat(const JsonValue& root, const std::string& path,
                       absl::string_view key, std::optional<float>& out) {
  const JsonValue* value = FindSet(root, key);
  if (value == nullptr) return absl::OkStatus();
  const std::optional<double> number = value->AsDouble();
  if (!number) return WrongKind(path, key, "a number");
  // Clamped because converting a double beyond float's range is undefined; the
  // range check refuses it then.
  constexpr double kLargest = std::numeric_limits<float>::max();
  out = static_cast<float>(std::clamp(*number, -kLargest, kLargest));
  return absl::OkStatus();
}

absl::Status AddEosId(const JsonValue& value, const std::string& path,
                      std::vector<int32_t>& ids) {
  const std::optional<uint64_t> id = value.AsUint64();
  if (!id || *id > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
    return WrongKind(path, "eos_token_id", "a token id or a list of them");
  }
  ids.push_back(static_cast<int32_t>(*id));
  return absl::OkStatus();
}

absl::Status ReadEosIds(const JsonValue& root, const std::string& path,
                        std::vector<int32_t>& ids) {
  const JsonValue* value = FindSet(root, "eos_token_id");
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_array()) return AddEosId(*value, path, ids);
  for (const JsonValue& item : value->items()) {
    LOWMEM_RETURN_IF_ERROR(AddEosId(item, path, ids));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationConfig> ParseGenerationConfig(
    absl::string_view text, const std::string& path) {
  absl::StatusOr<JsonValue> parsed = JsonValue::Parse(text);
  if (!parsed.ok()) {
    return absl::Status(
        parsed.status().code(),
        absl::StrCat(Printable(path), ": ", parsed.status().message()));
  }
  const JsonValue& root = *parsed;
  if (!root.is_object()) {
    return absl::DataLossError(
        absl::StrCat(Printable(path), ": is no JSON object"));
  }

  GenerationConfig config;
  LOWMEM_RETURN_IF_ERROR(ReadEosIds(root, path, config.eos_ids));
  SamplingOptions& sampling = config.sampling;
  LOWMEM_RETURN_IF_ERROR(
      ReadFloat(root, path, "temperature", sampling.temperature));
  LOWMEM_RETURN_IF_ERROR(ReadFloat(root, path, "top_p", sampling.top_p));
  LOWMEM_RETURN_IF_ERROR(ReadFloat(root, path, "min_p", sampling.min_p));
  LOWMEM_RETURN_IF_ERROR(
      ReadFloat(root, path, "repetition_penalty", sampling.repetition_penalty));
  if (const JsonValue* top_k = FindSet(root, "top_k")) {
    const std::optional<uint64_t> number = top_k->AsUint64();
    if (!number) return WrongKind(path, "top_k", "an integer of at least 0");
    sampling.top_k = static_cast<uint32_t>(
        std::min<uint64_t>(*number, std::numeric_limits<uint32_t>::max()));
  }
  bool do_sample = false;
  if (const JsonValue* value = FindSet(root, "do_sample")) {
    if (!value->is_bool()) return WrongKind(path, "do_sample", "true or false");
    do_sample = *value->AsBool();
  }
  if (absl::Status status = ValidateSampling(sampling); !status.ok()) {
    return absl::DataLossError(
        absl::StrCat(Printable(path), ": ", status.message()));
  }
  if (!do_sample) {
    sampling.temperature = std::nullopt;
  } else if (!sampling.temperature) {
    sampling.temperature = 1.0f;
  }
  return config;
}

absl::StatusOr<GenerationConfig> ReadGenerationConfig(
    const Checkpoint& checkpoint) {
  const std::string path = checkpoint.SidecarPath("generation_config.json");
  if (path.empty()) return GenerationConfig();
  absl::StatusOr<std::string> text =
      ReadWholeFile(path, limits::kConfigJsonBytes);
  if (absl::IsNotFound(text.status())) return GenerationConfig();
  LOWMEM_RETURN_IF_ERROR(text.status());
  return ParseGenerationConfig(*text, path);
}

std::vector<int32_t> UnionOfIds(
    absl::Span<const absl::Span<const int32_t>> lists) {
  std::vector<int32_t> ids;
  for (absl::Span<const int32_t> list : lists) {
    for (int32_t id : list) {
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace lowmem
