// SPDX-License-Identifier: Apache-2.0
// Reads a range of a file front to back through one small buffer, so that the
// head of a GGUF file (megabytes of vocabulary) is never held as a whole. It
// knows what it is reading (`part`), so that every error names the place.
// Invariant: nothing is read or promised beyond the end of the range.

#ifndef LOWMEM_STORAGE_GGUF_CURSOR_H_
#define LOWMEM_STORAGE_GGUF_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "storage/file.h"

namespace lowmem {

// Lifetime: the file must outlive it.
// Thread safety: one thread at a time.
// Memory: a buffer of at most 32 KiB.
class GgufCursor {
 public:
  // The range [begin, end) of `file`. REQUIRES: begin <= end <=
  // file.size_bytes().
  GgufCursor(const RandomAccessFile& file, uint64_t begin, uint64_t end);

  uint64_t position() const { return position_; }
  uint64_t left() const { return end_ - position_; }

  // What the next bytes are, for messages: `key "general.name"`.
  void set_part(std::string part) { part_ = std::move(part); }
  // kDataLoss (or another code) as `file: part: what`.
  absl::Status Damaged(absl::string_view what) const;
  absl::Status Unsupported(absl::string_view what) const;

  // Errors of all reads: kDataLoss when the range is too short; kUnavailable.
  absl::Status ReadBytes(absl::Span<uint8_t> out);

  // A little-endian number.
  template <typename T>
  absl::Status Read(T* out) {
    static_assert(std::is_arithmetic_v<T>);
    return ReadBytes(
        absl::MakeSpan(reinterpret_cast<uint8_t*>(out), sizeof(T)));
  }

  // A 64-bit length, proved to be within the range and at most `max_bytes`.
  // `what` names the thing in the error.
  absl::Status ReadLength(absl::string_view what, uint64_t max_bytes,
                          uint64_t* length);
  // A length and as many bytes of text.
  absl::Status ReadString(absl::string_view what, uint64_t max_bytes,
                          std::string* out);

  // A string that names something: not empty, UTF-8, without NUL.
  absl::Status ReadName(absl::string_view what, uint64_t max_bytes,
                        std::string* out);

  // Passes over bytes without reading them.
  absl::Status Skip(uint64_t num_bytes);

 private:
  absl::Status Need(uint64_t num_bytes) const;

  const RandomAccessFile& file_;
  uint64_t position_;
  const uint64_t end_;
  std::string part_;
  std::vector<uint8_t> buffer_;
  uint64_t buffer_begin_;    // file offset of buffer_[0]
  size_t buffer_bytes_ = 0;  // valid bytes of it
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_GGUF_CURSOR_H_
