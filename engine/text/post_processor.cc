// SPDX-License-Identifier: Apache-2.0
#include "engine/text/post_processor.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/text/json_settings.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

absl::StatusOr<int32_t> ParseId(const JsonValue& value) {
  const std::optional<uint64_t> id = value.AsUint64();
  if (!id.has_value() || *id > INT32_MAX) {
    return absl::DataLossError(
        "id is malformed; expected an integer below 2^31");
  }
  return static_cast<int32_t>(*id);
}

// Appends the ids that `special_tokens` gives for a name used in the template.
absl::Status AppendSpecial(const JsonValue& template_spec,
                           const JsonValue& special,
                           std::vector<int32_t>& ids) {
  LOWMEM_ASSIGN_OR_RETURN(const std::string name, GetString(special, "id"));
  const JsonValue* table = template_spec.Find("special_tokens");
  const JsonValue* entry = table == nullptr ? nullptr : table->Find(name);
  const JsonValue* list = entry == nullptr ? nullptr : entry->Find("ids");
  if (list == nullptr || !list->is_array()) {
    return absl::DataLossError(absl::StrCat(
        "\"", Printable(name), "\" is not among \"special_tokens\""));
  }
  for (const JsonValue& value : list->items()) {
    LOWMEM_ASSIGN_OR_RETURN(const int32_t id, ParseId(value));
    ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::Status AddTemplate(const JsonValue& spec, PostProcessor& processor) {
  const JsonValue* single = spec.Find("single");
  if (single == nullptr || !single->is_array()) {
    return absl::DataLossError("\"single\" is missing; expected a list");
  }
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool has_text = false;
  for (const JsonValue& piece : single->items()) {
    if (const JsonValue* special = piece.Find("SpecialToken")) {
      LOWMEM_RETURN_IF_ERROR(
          AppendSpecial(spec, *special, has_text ? after : before));
    } else if (const JsonValue* sequence = piece.Find("Sequence")) {
      LOWMEM_ASSIGN_OR_RETURN(const std::string name,
                              GetString(*sequence, "id"));
      if (name != "A" || has_text) {
        return absl::UnimplementedError(
            "\"single\" is not supported unless it holds the sequence A once");
      }
      has_text = true;
    } else {
      return absl::DataLossError(
          "\"single\" is malformed; expected SpecialToken or Sequence");
    }
  }
  if (!has_text) {
    return absl::UnimplementedError("\"single\" without the sequence A");
  }
  // A later step of a sequence goes around what the earlier ones made.
  processor.prefix.insert(processor.prefix.begin(), before.begin(),
                          before.end());
  processor.suffix.insert(processor.suffix.end(), after.begin(), after.end());
  return absl::OkStatus();
}

// {"cls": [text, id], "sep": [text, id]}
absl::Status AddClsSep(const JsonValue& spec, PostProcessor& processor) {
  for (const char* key : {"cls", "sep"}) {
    const JsonValue* pair = spec.Find(key);
    if (pair == nullptr || pair->items().size() != 2) {
      return absl::DataLossError(
          absl::StrCat("\"", key, "\" is malformed; expected [text, id]"));
    }
    LOWMEM_ASSIGN_OR_RETURN(const int32_t id, ParseId(pair->items()[1]));
    if (key[0] == 'c') {
      processor.prefix.insert(processor.prefix.begin(), id);
    } else {
      processor.suffix.push_back(id);
    }
  }
  return absl::OkStatus();
}

absl::Status AddSteps(const JsonValue& spec, PostProcessor& processor) {
  if (spec.is_null()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(const absl::string_view type, TypeOf(spec));
  if (type == "ByteLevel") return absl::OkStatus();  // trims offsets, not ids
  if (type == "TemplateProcessing") return AddTemplate(spec, processor);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return AddClsSep(spec, processor);
  }
  if (type == "Sequence") {
    const JsonValue* list = spec.Find("processors");
    if (list == nullptr || !list->is_array()) {
      return absl::DataLossError("\"processors\" is missing; expected a list");
    }
    for (const JsonValue& step : list->items()) {
      LOWMEM_RETURN_IF_ERROR(AddSteps(step, processor));
    }
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("\"", Printable(type), "\" is not supported"));
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::FromJson(const JsonValue& spec) {
  PostProcessor processor;
  const absl::Status status = AddSteps(spec, processor);
  if (!status.ok()) return InContext(status, "post_processor");
  return processor;
}

}  // namespace lowmem
