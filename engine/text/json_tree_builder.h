// SPDX-License-Identifier: Apache-2.0
// Keeps a small part of a large JSON document as a tree while the rest is
// streamed by. The owner passes on the events from the one that begins the part
// until done().

#ifndef LOWMEM_ENGINE_TEXT_JSON_TREE_BUILDER_H_
#define LOWMEM_ENGINE_TEXT_JSON_TREE_BUILDER_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/base/json.h"
#include "storage/base/json_sax.h"

namespace lowmem {

// Errors of all methods: kDataLoss for a duplicate key or a part that is too
// large. Memory: at most 10,000 values and 4 MiB of text.
class JsonTreeBuilder : public JsonHandler {
 public:
  absl::Status OnObjectBegin() override;
  absl::Status OnKey(absl::string_view key) override;
  absl::Status OnObjectEnd() override { return Close(); }
  absl::Status OnArrayBegin() override;
  absl::Status OnArrayEnd() override { return Close(); }
  absl::Status OnString(absl::string_view value) override;
  absl::Status OnNumber(absl::string_view text) override;
  absl::Status OnBool(bool value) override;
  absl::Status OnNull() override;

  // Whether a whole value has arrived.
  bool done() const { return done_; }
  // Takes it and starts anew. REQUIRES: done().
  JsonValue Take();

 private:
  // An object or array that is not closed yet.
  struct Open {
    bool is_object = false;
    std::string key;
    std::vector<JsonValue> items;
    std::vector<JsonValue::Member> members;
  };

  absl::Status Charge(size_t text_bytes);
  absl::Status Place(JsonValue value);
  absl::Status Close();

  std::vector<Open> open_;
  JsonValue result_;
  bool done_ = false;
  size_t num_values_ = 0;
  size_t text_bytes_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_JSON_TREE_BUILDER_H_
