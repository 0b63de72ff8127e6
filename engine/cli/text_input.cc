// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/text_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/cli/signals.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

constexpr size_t kBlockBytes = 64 * kKiB;

// Appends at most one block to `text`. False at the end of the file.
absl::StatusOr<bool> ReadBlock(int fd, absl::string_view name,
                               std::string* text) {
  const size_t old_size = text->size();
  text->resize(old_size + kBlockBytes);
  ssize_t num_read;
  do {
    LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
    num_read = read(fd, text->data() + old_size, kBlockBytes);
  } while (num_read < 0 && errno == EINTR);
  if (num_read < 0) {
    const int error = errno;
    const std::string message =
        absl::StrCat(Printable(name), ": read failed: ", std::strerror(error));
    return error == EISDIR ? absl::InvalidArgumentError(message)
                           : absl::UnavailableError(message);
  }
  text->resize(old_size + static_cast<size_t>(num_read));
  return num_read > 0;
}

absl::StatusOr<std::string> ReadAll(int fd, absl::string_view name,
                                    uint64_t max_bytes) {
  std::string text;
  for (;;) {
    LOWMEM_ASSIGN_OR_RETURN(const bool more, ReadBlock(fd, name, &text));
    if (!more) return text;
    if (text.size() > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(Printable(name), ": too long; expected at most ",
                       FormatBytes(max_bytes)));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path,
                                     uint64_t max_bytes) {
  if (path == "-") return ReadAll(STDIN_FILENO, "stdin", max_bytes);
  int fd;
  do {
    LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // a FIFO waits for a writer
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return absl::NotFoundError(
          absl::StrCat(Printable(path), ": no such file"));
    }
    return absl::UnavailableError(
        absl::StrCat(Printable(path), ": cannot open: ", std::strerror(error)));
  }
  absl::StatusOr<std::string> text = ReadAll(fd, path, max_bytes);
  close(fd);
  return text;
}

absl::StatusOr<LineReader::Result> LineReader::Next(std::string* line) {
  line->clear();
  bool too_long = false;
  for (;;) {
    const size_t end = buffer_.find('\n', pos_);
    const bool ended = end != std::string::npos;
    const size_t length = (ended ? end : buffer_.size()) - pos_;
    too_long = too_long || length > max_line_bytes_ - line->size();
    if (too_long) {
      line->clear();
    } else {
      line->append(buffer_, pos_, length);
    }
    pos_ += length;
    if (ended) {
      ++pos_;
      return too_long ? Result::kTooLong : Result::kLine;
    }
    buffer_.clear();
    pos_ = 0;
    LOWMEM_ASSIGN_OR_RETURN(const bool more,
                            ReadBlock(STDIN_FILENO, "stdin", &buffer_));
    if (more) continue;
    if (too_long) return Result::kTooLong;
    return line->empty() ? Result::kEnd : Result::kLine;
  }
}

}  // namespace lowmem::cli
