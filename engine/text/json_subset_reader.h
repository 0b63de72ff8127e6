// SPDX-License-Identifier: Apache-2.0
// A streamed JSON document of which only some parts matter: the derived class
// says for each value whether to enter it, keep it as a tree, or pass over it.
// What is passed over costs no memory.

#ifndef LOWMEM_ENGINE_TEXT_JSON_SUBSET_READER_H_
#define LOWMEM_ENGINE_TEXT_JSON_SUBSET_READER_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/text/json_tree_builder.h"
#include "storage/base/json.h"
#include "storage/base/json_sax.h"

namespace lowmem {

class JsonSubsetReader : public JsonHandler {
 public:
  absl::Status OnObjectBegin() final { return OnBegin(/*is_object=*/true); }
  absl::Status OnArrayBegin() final { return OnBegin(/*is_object=*/false); }
  absl::Status OnKey(absl::string_view key) final;
  absl::Status OnObjectEnd() final { return OnEnd(/*is_object=*/true); }
  absl::Status OnArrayEnd() final { return OnEnd(/*is_object=*/false); }
  absl::Status OnString(absl::string_view value) final;
  absl::Status OnNumber(absl::string_view text) final;
  absl::Status OnBool(bool value) final;
  absl::Status OnNull() final;

 protected:
  enum class Take { kEnter, kTree, kSkip };

  // An object or array begins inside what was entered (at first: the document).
  virtual absl::StatusOr<Take> Begin(bool is_object) = 0;
  // A key of an entered object.
  virtual absl::Status Key(absl::string_view key) = 0;
  // An entered object or array ends.
  virtual absl::Status Leave() = 0;
  // A tree that was asked for, or a bool or null in what was entered.
  virtual absl::Status Value(JsonValue value) = 0;
  // Strings and numbers in what was entered; overridden where there are many.
  virtual absl::Status Text(absl::string_view value) {
    return Value(JsonValue::String(std::string(value)));
  }
  virtual absl::Status Number(absl::string_view text) {
    return Value(JsonValue::Number(std::string(text)));
  }

 private:
  absl::Status OnBegin(bool is_object);
  absl::Status OnEnd(bool is_object);
  // Goes on after an event of the tree.
  absl::Status AfterTreeEvent(const absl::Status& status);

  JsonTreeBuilder tree_;
  bool in_tree_ = false;
  size_t skip_depth_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_JSON_SUBSET_READER_H_
