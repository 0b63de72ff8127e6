// SPDX-License-Identifier: Apache-2.0
#include "storage/gguf_metadata.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/gguf_cursor.h"
#include "storage/gguf_value.h"

namespace lowmem {
namespace {

bool IsUnsigned(GgufType type) {
  return type == GgufType::kUint8 || type == GgufType::kUint16 ||
         type == GgufType::kUint32 || type == GgufType::kUint64;
}

bool IsSigned(GgufType type) {
  return type == GgufType::kInt8 || type == GgufType::kInt16 ||
         type == GgufType::kInt32 || type == GgufType::kInt64;
}

bool IsIntegerOrBool(GgufType type) {
  return IsUnsigned(type) || IsSigned(type) || type == GgufType::kBool;
}

bool IsFloat(GgufType type) {
  return type == GgufType::kFloat32 || type == GgufType::kFloat64;
}

bool IsString(GgufType type) { return type == GgufType::kString; }

std::string KeyPart(absl::string_view key) {
  return absl::StrCat("key \"", Printable(key), "\"");
}

// The array of that key, its element type accepted by `is_kind`.
absl::StatusOr<const GgufValue*> FindArray(const GgufMetadata& metadata,
                                           const RandomAccessFile* file,
                                           absl::string_view key,
                                           bool (*is_kind)(GgufType),
                                           absl::string_view kind) {
  const GgufValue* value = metadata.Find(key);
  const std::string where =
      absl::StrCat(file == nullptr ? "GGUF metadata" : file->path(), ": ",
                   KeyPart(key), ": ");
  if (value == nullptr) {
    return absl::NotFoundError(absl::StrCat(where, "absent"));
  }
  if (value->type != GgufType::kArray || file == nullptr) {
    return absl::DataLossError(
        absl::StrCat(where, "wrong type; expected an array of ", kind, ", got ",
                     GgufTypeName(value->type)));
  }
  if (!is_kind(value->element_type)) {
    return absl::DataLossError(
        absl::StrCat(where, "wrong type; expected an array of ", kind,
                     ", got an array of ", GgufTypeName(value->element_type)));
  }
  return value;
}

GgufCursor CursorOver(const RandomAccessFile& file, absl::string_view key,
                      const GgufValue& array) {
  GgufCursor cursor(file, array.file_ofs, array.file_ofs + array.size_bytes);
  cursor.set_part(KeyPart(key));
  return cursor;
}

}  // namespace

absl::Status GgufMetadata::Add(std::string key, GgufValue value) {
  const auto [where, is_new] =
      values_.try_emplace(std::move(key), std::move(value));
  if (is_new) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file_ == nullptr ? "GGUF metadata" : file_->path(), ": ",
                   KeyPart(where->first), ": occurs twice"));
}

const GgufValue* GgufMetadata::Find(absl::string_view key) const {
  // std::less<> compares std::string with absl::string_view without a copy.
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<uint64_t> GgufMetadata::GetUint(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      IsUnsigned(value->type) ||
      (IsSigned(value->type) && static_cast<int64_t>(value->integer) >= 0);
  return fits ? std::optional<uint64_t>(value->integer) : std::nullopt;
}

std::optional<double> GgufMetadata::GetFloat(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || !IsFloat(value->type)) return std::nullopt;
  return value->real;
}

std::optional<bool> GgufMetadata::GetBool(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || value->type != GgufType::kBool) return std::nullopt;
  return value->integer != 0;
}

const std::string* GgufMetadata::GetString(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || value->type != GgufType::kString) return nullptr;
  return &value->text;
}

absl::Status GgufMetadata::ForEachString(
    absl::string_view key,
    absl::FunctionRef<absl::Status(uint64_t idx, absl::string_view text)> visit)
    const {
  LOWMEM_ASSIGN_OR_RETURN(const GgufValue* array,
                          FindArray(*this, file_, key, IsString, "strings"));
  GgufCursor cursor = CursorOver(*file_, key, *array);
  std::string text;
  for (uint64_t i = 0; i < array->num_elements; ++i) {
    LOWMEM_RETURN_IF_ERROR(cursor.ReadString("a string of the array",
                                             limits::kGgufStringBytes, &text));
    LOWMEM_RETURN_IF_ERROR(visit(i, text));
  }
  return absl::OkStatus();
}

absl::Status GgufMetadata::ForEachInt(
    absl::string_view key,
    absl::FunctionRef<absl::Status(uint64_t idx, int64_t value)> visit) const {
  LOWMEM_ASSIGN_OR_RETURN(
      const GgufValue* array,
      FindArray(*this, file_, key, IsIntegerOrBool, "integers"));
  GgufCursor cursor = CursorOver(*file_, key, *array);
  GgufValue element;
  for (uint64_t i = 0; i < array->num_elements; ++i) {
    LOWMEM_RETURN_IF_ERROR(
        ReadGgufScalar(cursor, array->element_type, &element));
    if (array->element_type == GgufType::kUint64 &&
        element.integer > std::numeric_limits<int64_t>::max()) {
      return cursor.Damaged(absl::StrCat(
          "element ", i, " is too large; expected at most ",
          std::numeric_limits<int64_t>::max(), ", got ", element.integer));
    }
    LOWMEM_RETURN_IF_ERROR(visit(i, static_cast<int64_t>(element.integer)));
  }
  return absl::OkStatus();
}

absl::Status GgufMetadata::ForEachFloat(
    absl::string_view key,
    absl::FunctionRef<absl::Status(uint64_t idx, double value)> visit) const {
  LOWMEM_ASSIGN_OR_RETURN(const GgufValue* array,
                          FindArray(*this, file_, key, IsFloat, "floats"));
  GgufCursor cursor = CursorOver(*file_, key, *array);
  GgufValue element;
  for (uint64_t i = 0; i < array->num_elements; ++i) {
    LOWMEM_RETURN_IF_ERROR(
        ReadGgufScalar(cursor, array->element_type, &element));
    LOWMEM_RETURN_IF_ERROR(visit(i, element.real));
  }
  return absl::OkStatus();
}

}  // namespace lowmem
