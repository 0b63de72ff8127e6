// SPDX-License-Identifier: Apache-2.0
#include "engine/text/json_subset_reader.h"

#include "storage/base/status_macros.h"

namespace lowmem {

absl::Status JsonSubsetReader::AfterTreeEvent(const absl::Status& status) {
  LOWMEM_RETURN_IF_ERROR(status);
  if (!tree_.done()) return absl::OkStatus();
  in_tree_ = false;
  return Value(tree_.Take());
}

absl::Status JsonSubsetReader::OnBegin(bool is_object) {
  if (skip_depth_ > 0) {
    ++skip_depth_;
    return absl::OkStatus();
  }
  if (!in_tree_) {
    LOWMEM_ASSIGN_OR_RETURN(const Take take, Begin(is_object));
    if (take == Take::kSkip) skip_depth_ = 1;
    if (take != Take::kTree) return absl::OkStatus();
    in_tree_ = true;
  }
  return AfterTreeEvent(is_object ? tree_.OnObjectBegin()
                                  : tree_.OnArrayBegin());
}

absl::Status JsonSubsetReader::OnEnd(bool is_object) {
  if (skip_depth_ > 0) {
    --skip_depth_;
    return absl::OkStatus();
  }
  if (!in_tree_) return Leave();
  return AfterTreeEvent(is_object ? tree_.OnObjectEnd() : tree_.OnArrayEnd());
}

absl::Status JsonSubsetReader::OnKey(absl::string_view key) {
  if (skip_depth_ > 0) return absl::OkStatus();
  return in_tree_ ? tree_.OnKey(key) : Key(key);
}

absl::Status JsonSubsetReader::OnString(absl::string_view value) {
  if (skip_depth_ > 0) return absl::OkStatus();
  return in_tree_ ? AfterTreeEvent(tree_.OnString(value)) : Text(value);
}

absl::Status JsonSubsetReader::OnNumber(absl::string_view text) {
  if (skip_depth_ > 0) return absl::OkStatus();
  return in_tree_ ? AfterTreeEvent(tree_.OnNumber(text)) : Number(text);
}

absl::Status JsonSubsetReader::OnBool(bool value) {
  if (skip_depth_ > 0) return absl::OkStatus();
  return in_tree_ ? AfterTreeEvent(tree_.OnBool(value))
                  : Value(JsonValue::Bool(value));
}

absl::Status JsonSubsetReader::OnNull() {
  if (skip_depth_ > 0) return absl::OkStatus();
  return in_tree_ ? AfterTreeEvent(tree_.OnNull()) : Value(JsonValue());
}

}  // namespace lowmem
