// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors_header.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"

namespace lowmem {
namespace {

constexpr absl::string_view kMetadataName = "__metadata__";
constexpr absl::string_view kShapeRule = "a list of unsigned integers";
constexpr absl::string_view kOffsetsRule = "two unsigned integers";

}  // namespace

std::string SafetensorsHeaderHandler::Where() const {
  return absl::StrCat("tensor ", Printable(entries_.back().name), ": ");
}

absl::Status SafetensorsHeaderHandler::Malformed(absl::string_view field,
                                                 absl::string_view expected,
                                                 Event event,
                                                 absl::string_view text) const {
  static constexpr absl::string_view kNames[] = {"an object",
                                                 "a key",
                                                 "the end of the object",
                                                 "a list",
                                                 "the end of the list",
                                                 "the string ",
                                                 "the number ",
                                                 "a truth value",
                                                 "null"};
  const bool has_text = event == Event::kString || event == Event::kNumber;
  return absl::DataLossError(absl::StrCat(
      field, " is malformed; expected ", expected, ", got ",
      kNames[static_cast<size_t>(event)], has_text ? Printable(text) : ""));
}

absl::Status SafetensorsHeaderHandler::On(Event event, absl::string_view text) {
  switch (state_) {
    case State::kDocument:
      if (event != Event::kObjectBegin) {
        return Malformed("the document", "an object of tensors", event, text);
      }
      state_ = State::kTopKey;
      return absl::OkStatus();
    case State::kTopKey:
      return OnTopKey(event, text);
    case State::kMetadata:
    case State::kMetadataKey:
    case State::kMetadataValue:
      return OnMetadata(event, text);
    case State::kEntry:
      if (event != Event::kObjectBegin) {
        return Malformed(absl::StrCat(Where(), "the entry"), "an object", event,
                         text);
      }
      state_ = State::kField;
      return absl::OkStatus();
    case State::kField:
      return OnField(event, text);
    case State::kDtype:
      return OnDtype(event, text);
    case State::kShape:
    case State::kShapeItem:
      return OnShape(event, text);
    case State::kOffsets:
    case State::kOffsetItem:
      return OnOffsets(event, text);
    case State::kIgnored:
      return OnIgnored(event);
    case State::kEnd:
      break;
  }
  return absl::InternalError("the JSON parser went on after the document");
}

absl::Status SafetensorsHeaderHandler::OnTopKey(Event event,
                                                absl::string_view text) {
  if (event == Event::kObjectEnd) {
    state_ = State::kEnd;
    return absl::OkStatus();
  }
  if (text == kMetadataName) {
    if (has_metadata_)
      return absl::DataLossError("__metadata__ stands there twice");
    has_metadata_ = true;
    state_ = State::kMetadata;
    return absl::OkStatus();
  }
  if (entries_.size() == limits::kNumTensors) {
    return absl::DataLossError(absl::StrCat(
        "too many tensors; expected at most ", limits::kNumTensors));
  }
  entries_.emplace_back();
  entries_.back().name = std::string(text);
  has_dtype_ = has_shape_ = has_offsets_ = false;
  unknown_fields_.clear();
  state_ = State::kEntry;
  return absl::OkStatus();
}

absl::Status SafetensorsHeaderHandler::OnMetadata(Event event,
                                                  absl::string_view text) {
  switch (state_) {
    case State::kMetadata:
      if (event == Event::kNull) {
        state_ = State::kTopKey;
      } else if (event == Event::kObjectBegin) {
        state_ = State::kMetadataKey;
      } else {
        return Malformed("__metadata__", "an object of strings", event, text);
      }
      return absl::OkStatus();
    case State::kMetadataKey:
      if (event == Event::kObjectEnd) {
        metadata_keys_.clear();
        state_ = State::kTopKey;
        return absl::OkStatus();
      }
      if (!metadata_keys_.insert(std::string(text)).second) {
        return absl::DataLossError(absl::StrCat(
            "__metadata__: the key ", Printable(text), " stands there twice"));
      }
      state_ = State::kMetadataValue;
      return absl::OkStatus();
    default:
      if (event != Event::kString) {
        return Malformed("__metadata__: a value", "a string", event, text);
      }
      state_ = State::kMetadataKey;
      return absl::OkStatus();
  }
}

absl::Status SafetensorsHeaderHandler::OnField(Event event,
                                               absl::string_view text) {
  if (event == Event::kObjectEnd) return FinishEntry();
  bool* seen = nullptr;
  if (text == "dtype") {
    seen = &has_dtype_;
    state_ = State::kDtype;
  } else if (text == "shape") {
    seen = &has_shape_;
    state_ = State::kShape;
  } else if (text == "data_offsets") {
    seen = &has_offsets_;
    state_ = State::kOffsets;
  } else {
    state_ = State::kIgnored;
  }
  const bool twice = seen != nullptr
                         ? *seen
                         : !unknown_fields_.insert(std::string(text)).second;
  if (twice) {
    return absl::DataLossError(absl::StrCat(
        Where(), "the field ", Printable(text), " stands there twice"));
  }
  if (seen != nullptr) *seen = true;
  return absl::OkStatus();
}

absl::Status SafetensorsHeaderHandler::FinishEntry() {
  const absl::string_view absent = !has_dtype_     ? "dtype"
                                   : !has_shape_   ? "shape"
                                   : !has_offsets_ ? "data_offsets"
                                                   : "";
  if (!absent.empty()) {
    return absl::DataLossError(absl::StrCat(Where(), absent, " is absent"));
  }
  state_ = State::kTopKey;
  return absl::OkStatus();
}

absl::Status SafetensorsHeaderHandler::OnDtype(Event event,
                                               absl::string_view text) {
  if (event != Event::kString) {
    return Malformed(absl::StrCat(Where(), "dtype"), "a string", event, text);
  }
  const std::optional<DType> dtype = DTypeFromSafetensors(text);
  if (!dtype.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat(Where(), "the dtype ", Printable(text), " is not known"));
  }
  entries_.back().dtype = *dtype;
  state_ = State::kField;
  return absl::OkStatus();
}

absl::Status SafetensorsHeaderHandler::OnShape(Event event,
                                               absl::string_view text) {
  SafetensorsEntry& entry = entries_.back();
  if (state_ == State::kShape) {
    if (event != Event::kArrayBegin) {
      return Malformed(absl::StrCat(Where(), "shape"), kShapeRule, event, text);
    }
    state_ = State::kShapeItem;
    return absl::OkStatus();
  }
  if (event == Event::kArrayEnd) {
    state_ = State::kField;
    return absl::OkStatus();
  }
  std::optional<uint64_t> dimension;
  if (event == Event::kNumber) dimension = ParseJsonUint64(text);
  if (!dimension.has_value()) {
    return Malformed(absl::StrCat(Where(), "shape"), kShapeRule, event, text);
  }
  const std::optional<uint64_t> product =
      CheckedMul(entry.num_elements, *dimension);
  if (!product.has_value()) {
    return absl::DataLossError(
        absl::StrCat(Where(), "the product of the shape overflows 64 bits"));
  }
  entry.num_elements = *product;
  if (entry.shape.size() < limits::kTensorRank) {
    entry.shape.push_back(*dimension);
  } else {
    // Overflow means that an earlier dimension is 0, and so is the tensor.
    entry.shape.back() = CheckedMul(entry.shape.back(), *dimension).value_or(0);
    entry.shape_is_folded = true;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsHeaderHandler::OnOffsets(Event event,
                                                 absl::string_view text) {
  SafetensorsEntry& entry = entries_.back();
  if (state_ == State::kOffsets) {
    if (event != Event::kArrayBegin) {
      return Malformed(absl::StrCat(Where(), "data_offsets"), kOffsetsRule,
                       event, text);
    }
    num_offsets_ = 0;
    state_ = State::kOffsetItem;
    return absl::OkStatus();
  }
  if (event == Event::kArrayEnd && num_offsets_ == 2) {
    state_ = State::kField;
    return absl::OkStatus();
  }
  std::optional<uint64_t> offset;
  if (event == Event::kNumber && num_offsets_ < 2)
    offset = ParseJsonUint64(text);
  if (!offset.has_value()) {
    return Malformed(absl::StrCat(Where(), "data_offsets"), kOffsetsRule, event,
                     text);
  }
  (num_offsets_++ == 0 ? entry.begin_ofs : entry.end_ofs) = *offset;
  return absl::OkStatus();
}

absl::Status SafetensorsHeaderHandler::OnIgnored(Event event) {
  if (event == Event::kObjectBegin || event == Event::kArrayBegin) {
    ++ignored_depth_;
  } else if (event == Event::kObjectEnd || event == Event::kArrayEnd) {
    --ignored_depth_;
  }
  if (ignored_depth_ == 0) state_ = State::kField;
  return absl::OkStatus();
}

}  // namespace lowmem
