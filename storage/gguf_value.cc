// SPDX-License-Identifier: Apache-2.0
#include "storage/gguf_value.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

struct TypeRow {
  absl::string_view name;
  uint64_t min_bytes;  // of one element: a string has at least its length
};

// By GgufType.
constexpr std::array<TypeRow, 13> kTypes = {{
    {"uint8", 1},
    {"int8", 1},
    {"uint16", 2},
    {"int16", 2},
    {"uint32", 4},
    {"int32", 4},
    {"float32", 4},
    {"bool", 1},
    {"string", 8},
    {"array", 0},
    {"uint64", 8},
    {"int64", 8},
    {"float64", 8},
}};

absl::StatusOr<GgufType> ReadType(GgufCursor& cursor, absl::string_view what) {
  uint32_t id = 0;
  LOWMEM_RETURN_IF_ERROR(cursor.Read(&id));
  if (id >= kTypes.size()) {
    return cursor.Damaged(absl::StrCat("unknown ", what, "; expected at most ",
                                       kTypes.size() - 1, ", got ", id));
  }
  return static_cast<GgufType>(id);
}

template <typename T>
absl::Status ReadInteger(GgufCursor& cursor, GgufValue* value) {
  T number = 0;
  LOWMEM_RETURN_IF_ERROR(cursor.Read(&number));
  // Through int64_t, so that negative numbers keep their sign.
  value->integer = static_cast<uint64_t>(static_cast<int64_t>(number));
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadReal(GgufCursor& cursor, GgufValue* value) {
  T number = 0;
  LOWMEM_RETURN_IF_ERROR(cursor.Read(&number));
  value->real = number;
  return absl::OkStatus();
}

// The elements are passed over; what cannot be wrong in itself is not read.
absl::Status WalkElements(GgufCursor& cursor, const GgufValue& array) {
  switch (array.element_type) {
    case GgufType::kString:
      for (uint64_t i = 0; i < array.num_elements; ++i) {
        uint64_t length = 0;
        LOWMEM_RETURN_IF_ERROR(cursor.ReadLength(
            "a string of the array", limits::kGgufStringBytes, &length));
        LOWMEM_RETURN_IF_ERROR(cursor.Skip(length));
      }
      return absl::OkStatus();
    case GgufType::kBool:
      for (uint64_t i = 0; i < array.num_elements; ++i) {
        GgufValue element;
        LOWMEM_RETURN_IF_ERROR(
            ReadGgufScalar(cursor, GgufType::kBool, &element));
      }
      return absl::OkStatus();
    default:
      return cursor.Skip(
          array.num_elements *
          kTypes[static_cast<size_t>(array.element_type)].min_bytes);
  }
}

absl::Status ReadArray(GgufCursor& cursor, GgufValue* value) {
  LOWMEM_ASSIGN_OR_RETURN(value->element_type,
                          ReadType(cursor, "array element type"));
  LOWMEM_RETURN_IF_ERROR(cursor.Read(&value->num_elements));
  if (value->element_type == GgufType::kArray) {
    return cursor.Unsupported("an array of arrays is not read");
  }
  const uint64_t min_bytes =
      kTypes[static_cast<size_t>(value->element_type)].min_bytes;
  if (value->num_elements > cursor.left() / min_bytes) {
    return cursor.Damaged(absl::StrCat(
        "array count exceeds the file; expected at most ",
        cursor.left() / min_bytes, " elements, got ", value->num_elements));
  }
  if (value->num_elements > limits::kGgufArrayElements) {
    return cursor.Damaged(absl::StrCat(
        "array has too many elements; expected at most ",
        limits::kGgufArrayElements, ", got ", value->num_elements));
  }
  value->file_ofs = cursor.position();
  LOWMEM_RETURN_IF_ERROR(WalkElements(cursor, *value));
  value->size_bytes = cursor.position() - value->file_ofs;
  return absl::OkStatus();
}

}  // namespace

absl::string_view GgufTypeName(GgufType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

absl::Status ReadGgufScalar(GgufCursor& cursor, GgufType type,
                            GgufValue* value) {
  switch (type) {
    case GgufType::kUint8:
      return ReadInteger<uint8_t>(cursor, value);
    case GgufType::kInt8:
      return ReadInteger<int8_t>(cursor, value);
    case GgufType::kUint16:
      return ReadInteger<uint16_t>(cursor, value);
    case GgufType::kInt16:
      return ReadInteger<int16_t>(cursor, value);
    case GgufType::kUint32:
      return ReadInteger<uint32_t>(cursor, value);
    case GgufType::kInt32:
      return ReadInteger<int32_t>(cursor, value);
    case GgufType::kUint64:
      return ReadInteger<uint64_t>(cursor, value);
    case GgufType::kInt64:
      return ReadInteger<int64_t>(cursor, value);
    case GgufType::kFloat32:
      return ReadReal<float>(cursor, value);
    case GgufType::kFloat64:
      return ReadReal<double>(cursor, value);
    case GgufType::kBool:
      LOWMEM_RETURN_IF_ERROR(ReadInteger<uint8_t>(cursor, value));
      if (value->integer > 1) {
        return cursor.Damaged(
            absl::StrCat("not a bool; expected 0 or 1, got ", value->integer));
      }
      return absl::OkStatus();
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return cursor.Damaged("not a number");
}

absl::StatusOr<GgufValue> ReadGgufValue(GgufCursor& cursor) {
  GgufValue value;
  LOWMEM_ASSIGN_OR_RETURN(value.type, ReadType(cursor, "value type"));
  switch (value.type) {
    case GgufType::kArray:
      LOWMEM_RETURN_IF_ERROR(ReadArray(cursor, &value));
      break;
    case GgufType::kString:
      LOWMEM_RETURN_IF_ERROR(cursor.ReadString(
          "the string", limits::kGgufStringBytes, &value.text));
      break;
    default:
      LOWMEM_RETURN_IF_ERROR(ReadGgufScalar(cursor, value.type, &value));
  }
  return value;
}

}  // namespace lowmem
