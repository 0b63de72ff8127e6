// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file as plain values: what is written there,
// entry by entry, with the right kinds and no key twice. Whether the entries
// describe the file is proved by safetensors_reader.

#ifndef LOWMEM_STORAGE_SAFETENSORS_HEADER_H_
#define LOWMEM_STORAGE_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/base/json_sax.h"
#include "storage/dtype.h"

namespace lowmem {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // folded as TensorInfo::shape_is_folded says
  bool shape_is_folded = false;
  // Product of all dimensions, multiplied in their order.
  uint64_t num_elements = 1;
  // Relative to the end of the header.
  uint64_t begin_ofs = 0;
  uint64_t end_ofs = 0;
};

// Gathers the entries while ParseJson runs. Messages say which tensor and
// field, not which file.
class SafetensorsHeaderHandler final : public JsonHandler {
 public:
  absl::Status OnObjectBegin() override { return On(Event::kObjectBegin, ""); }
  absl::Status OnKey(absl::string_view key) override {
    return On(Event::kKey, key);
  }
  absl::Status OnObjectEnd() override { return On(Event::kObjectEnd, ""); }
  absl::Status OnArrayBegin() override { return On(Event::kArrayBegin, ""); }
  absl::Status OnArrayEnd() override { return On(Event::kArrayEnd, ""); }
  absl::Status OnString(absl::string_view value) override {
    return On(Event::kString, value);
  }
  absl::Status OnNumber(absl::string_view text) override {
    return On(Event::kNumber, text);
  }
  absl::Status OnBool(bool) override { return On(Event::kBool, ""); }
  absl::Status OnNull() override { return On(Event::kNull, ""); }

  // In the order of the header. Complete once ParseJson has returned OK.
  std::vector<SafetensorsEntry>& entries() { return entries_; }

 private:
  enum class Event : uint8_t {
    kObjectBegin,
    kKey,
    kObjectEnd,
    kArrayBegin,
    kArrayEnd,
    kString,
    kNumber,
    kBool,
    kNull,
  };
  // What is expected next.
  enum class State : uint8_t {
    kDocument,  // the object of all entries
    kTopKey,    // a tensor's name, __metadata__ or the end
    kMetadata,  // an object or null
    kMetadataKey,
    kMetadataValue,
    kEntry,  // a tensor's object
    kField,  // a field's name or the end of the entry
    kDtype,
    kShape,
    kShapeItem,
    kOffsets,
    kOffsetItem,
    kIgnored,  // inside the value of an unknown field
    kEnd,
  };

  absl::Status On(Event event, absl::string_view text);
  absl::Status OnTopKey(Event event, absl::string_view text);
  absl::Status OnMetadata(Event event, absl::string_view text);
  absl::Status OnField(Event event, absl::string_view text);
  absl::Status OnDtype(Event event, absl::string_view text);
  absl::Status OnShape(Event event, absl::string_view text);
  absl::Status OnOffsets(Event event, absl::string_view text);
  absl::Status OnIgnored(Event event);
  absl::Status FinishEntry();

  // "tensor NAME: FIELD: what; expected ..., got ...".
  absl::Status Malformed(absl::string_view field, absl::string_view expected,
                         Event event, absl::string_view text) const;
  std::string Where() const;

  State state_ = State::kDocument;
  std::vector<SafetensorsEntry> entries_;
  bool has_metadata_ = false;
  absl::flat_hash_set<std::string> metadata_keys_;
  // Of the entry that is being read, entries_.back().
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  size_t num_offsets_ = 0;
  absl::flat_hash_set<std::string> unknown_fields_;
  size_t ignored_depth_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_SAFETENSORS_HEADER_H_
