// SPDX-License-Identifier: Apache-2.0
#include "storage/gguf_reader.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/gguf_cursor.h"
#include "storage/gguf_tensor_table.h"
#include "storage/gguf_value.h"

namespace lowmem {
namespace {

// Parts of the format, never change.
constexpr absl::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32;
// The smallest entry of each table: a key of one byte with a one-byte value; a
// tensor with a name of one byte and no dimension.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

absl::Status ReadMagic(GgufCursor& cursor) {
  std::string magic(kMagic.size(), '\0');
  LOWMEM_RETURN_IF_ERROR(cursor.ReadBytes(
      absl::MakeSpan(reinterpret_cast<uint8_t*>(magic.data()), magic.size())));
  if (magic == kMagic) return absl::OkStatus();
  return cursor.Damaged(absl::StrCat("not a GGUF file; expected \"", kMagic,
                                     "\", got \"", Printable(magic), "\""));
}

absl::Status ReadVersion(GgufCursor& cursor, uint32_t* version) {
  LOWMEM_RETURN_IF_ERROR(cursor.Read(version));
  if (*version == 2 || *version == 3) return absl::OkStatus();
  // A small number in the other byte order.
  if ((*version & 0xFFFF) == 0 && *version != 0) {
    return cursor.Unsupported("a big-endian file is not read");
  }
  return cursor.Unsupported(absl::StrCat(
      "GGUF version is not read; expected 2 or 3, got ", *version));
}

// A count of table entries, bounded by what the file has bytes for.
absl::Status ReadCount(GgufCursor& cursor, absl::string_view what,
                       uint64_t min_entry_bytes, uint64_t max_count,
                       uint64_t* count) {
  LOWMEM_RETURN_IF_ERROR(cursor.Read(count));
  if (*count > cursor.left() / min_entry_bytes) {
    return cursor.Damaged(
        absl::StrCat("number of ", what, " exceeds the file; expected at most ",
                     cursor.left() / min_entry_bytes, ", got ", *count));
  }
  if (*count > max_count) {
    return cursor.Damaged(absl::StrCat("too many ", what, "; expected at most ",
                                       max_count, ", got ", *count));
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(GgufCursor& cursor, uint64_t num_keys,
                          GgufMetadata* metadata) {
  uint64_t held_bytes = 0;
  for (uint64_t i = 0; i < num_keys; ++i) {
    cursor.set_part(absl::StrCat("key ", i));
    std::string key;
    LOWMEM_RETURN_IF_ERROR(
        cursor.ReadName("the key", limits::kTensorNameBytes, &key));
    cursor.set_part(absl::StrCat("key \"", Printable(key), "\""));
    LOWMEM_ASSIGN_OR_RETURN(GgufValue value, ReadGgufValue(cursor));
    held_bytes += key.size() + value.text.size();
    if (held_bytes > limits::kGgufHeldBytes) {
      return cursor.Damaged(
          absl::StrCat("metadata holds too much text; expected at most ",
                       limits::kGgufHeldBytes, " bytes, got ", held_bytes));
    }
    LOWMEM_RETURN_IF_ERROR(metadata->Add(std::move(key), std::move(value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Alignment(GgufCursor& cursor,
                                   const GgufMetadata& metadata) {
  constexpr absl::string_view kKey = "general.alignment";
  if (metadata.Find(kKey) == nullptr) return kDefaultAlignment;
  cursor.set_part(absl::StrCat("key \"", kKey, "\""));
  const std::optional<uint64_t> alignment = metadata.GetUint(kKey);
  if (!alignment.has_value()) return cursor.Damaged("not an unsigned integer");
  const bool is_power_of_two =
      *alignment != 0 && (*alignment & (*alignment - 1)) == 0;
  if (!is_power_of_two || *alignment < limits::kGgufMinAlignment ||
      *alignment > limits::kGgufMaxAlignment) {
    return cursor.Damaged(
        absl::StrCat("bad alignment; expected a power of two from ",
                     limits::kGgufMinAlignment, " to ",
                     limits::kGgufMaxAlignment, ", got ", *alignment));
  }
  return *alignment;
}

// Files of a split model carry their number; one alone is no model.
absl::Status RefuseSplit(GgufCursor& cursor, const GgufMetadata& metadata) {
  const uint64_t count = metadata.GetUint("split.count").value_or(0);
  if (count <= 1) return absl::OkStatus();
  cursor.set_part("key \"split.count\"");
  return cursor.Unsupported(absl::StrCat(
      "one file of a split model is not read, merge them first; expected 1, "
      "got ",
      count));
}

}  // namespace

absl::StatusOr<GgufHead> ReadGgufHead(const RandomAccessFile& file) {
  GgufCursor cursor(file, 0, file.size_bytes());
  cursor.set_part("header");
  GgufHead head;
  head.metadata = GgufMetadata(&file);
  uint64_t num_tensors = 0;
  uint64_t num_keys = 0;
  LOWMEM_RETURN_IF_ERROR(ReadMagic(cursor));
  LOWMEM_RETURN_IF_ERROR(ReadVersion(cursor, &head.version));
  LOWMEM_RETURN_IF_ERROR(ReadCount(cursor, "tensors", kMinTensorBytes,
                                   limits::kNumTensors, &num_tensors));
  LOWMEM_RETURN_IF_ERROR(ReadCount(cursor, "metadata keys", kMinKeyBytes,
                                   limits::kGgufNumKeys, &num_keys));

  LOWMEM_RETURN_IF_ERROR(ReadMetadata(cursor, num_keys, &head.metadata));
  LOWMEM_ASSIGN_OR_RETURN(const uint64_t alignment,
                          Alignment(cursor, head.metadata));
  LOWMEM_RETURN_IF_ERROR(RefuseSplit(cursor, head.metadata));

  // Once more, now that the keys are behind: the table is reserved at once.
  cursor.set_part("tensor table");
  if (num_tensors > cursor.left() / kMinTensorBytes) {
    return cursor.Damaged(absl::StrCat(
        "number of tensors exceeds what is left of the file; expected at most ",
        cursor.left() / kMinTensorBytes, ", got ", num_tensors));
  }
  LOWMEM_ASSIGN_OR_RETURN(head.tensors,
                          ReadGgufTensorTable(cursor, num_tensors));
  cursor.set_part("data section");
  const std::optional<uint64_t> data_ofs =
      CheckedRoundUp(cursor.position(), alignment);
  if (!data_ofs.has_value()) return cursor.Damaged("offset overflows 64 bits");
  LOWMEM_RETURN_IF_ERROR(
      PlaceGgufTensors(file, *data_ofs, alignment, &head.tensors));
  return head;
}

}  // namespace lowmem
