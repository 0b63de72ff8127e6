// SPDX-License-Identifier: Apache-2.0
#include "storage/gguf_cursor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are read as they lie in the file");

// Large enough that a vocabulary of 150,000 entries takes about a hundred
// reads, small beside any budget.
constexpr uint64_t kBufferBytes = 32u << 10;

}  // namespace

GgufCursor::GgufCursor(const RandomAccessFile& file, uint64_t begin,
                       uint64_t end)
    : file_(file),
      position_(begin),
      end_(end),
      buffer_(static_cast<size_t>(std::min(kBufferBytes, end - begin))),
      buffer_begin_(begin) {}

absl::Status GgufCursor::Damaged(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": ", part_, ": ", what));
}

absl::Status GgufCursor::Unsupported(absl::string_view what) const {
  return absl::UnimplementedError(
      absl::StrCat(file_.path(), ": ", part_, ": ", what));
}

absl::Status GgufCursor::Need(uint64_t num_bytes) const {
  if (num_bytes <= left()) return absl::OkStatus();
  return Damaged(absl::StrCat("the file ends within it; expected ", num_bytes,
                              " more bytes, got ", left()));
}

absl::Status GgufCursor::ReadBytes(absl::Span<uint8_t> out) {
  LOWMEM_RETURN_IF_ERROR(Need(out.size()));
  while (!out.empty()) {
    const uint64_t buffer_ofs = position_ - buffer_begin_;
    if (buffer_ofs >= buffer_bytes_) {
      buffer_begin_ = position_;
      buffer_bytes_ = 0;  // nothing is valid should the read fail
      const size_t wanted =
          static_cast<size_t>(std::min<uint64_t>(buffer_.size(), left()));
      LOWMEM_RETURN_IF_ERROR(
          file_.Read(position_, absl::MakeSpan(buffer_.data(), wanted)));
      buffer_bytes_ = wanted;
      continue;
    }
    const size_t taken = static_cast<size_t>(
        std::min<uint64_t>(out.size(), buffer_bytes_ - buffer_ofs));
    std::memcpy(out.data(), buffer_.data() + buffer_ofs, taken);
    position_ += taken;
    out.remove_prefix(taken);
  }
  return absl::OkStatus();
}

absl::Status GgufCursor::ReadLength(absl::string_view what, uint64_t max_bytes,
                                    uint64_t* length) {
  LOWMEM_RETURN_IF_ERROR(Read(length));
  if (*length > left()) {
    return Damaged(absl::StrCat("length of ", what,
                                " exceeds the file; expected at most ", left(),
                                " bytes, got ", *length));
  }
  if (*length > max_bytes) {
    return Damaged(absl::StrCat(what, " is too long; expected at most ",
                                max_bytes, " bytes, got ", *length));
  }
  return absl::OkStatus();
}

absl::Status GgufCursor::ReadString(absl::string_view what, uint64_t max_bytes,
                                    std::string* out) {
  uint64_t length = 0;
  LOWMEM_RETURN_IF_ERROR(ReadLength(what, max_bytes, &length));
  out->resize(static_cast<size_t>(length));
  return ReadBytes(
      absl::MakeSpan(reinterpret_cast<uint8_t*>(out->data()), out->size()));
}

absl::Status GgufCursor::ReadName(absl::string_view what, uint64_t max_bytes,
                                  std::string* out) {
  LOWMEM_RETURN_IF_ERROR(ReadString(what, max_bytes, out));
  if (out->empty()) return Damaged(absl::StrCat(what, " is empty"));
  absl::string_view rest = *out;
  while (!rest.empty()) {
    const Utf8Step step = DecodeUtf8(rest);
    if (!step.ok || step.code_point == 0) {
      return Damaged(absl::StrCat(what, " is no UTF-8 text without NUL: \"",
                                  Printable(*out), "\""));
    }
    rest.remove_prefix(step.num_bytes);
  }
  return absl::OkStatus();
}

absl::Status GgufCursor::Skip(uint64_t num_bytes) {
  LOWMEM_RETURN_IF_ERROR(Need(num_bytes));
  position_ += num_bytes;
  return absl::OkStatus();
}

}  // namespace lowmem
