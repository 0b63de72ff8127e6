// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/text_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/cli/signals.h"
#include "engine/generate/model_footprint.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

constexpr size_t kBlockBytes = 64 * kKiB;
constexpr size_t kShortLineBytes = 256 * kKiB;

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

// How long a text may be, and why not longer.
class TextLimit {
 public:
  explicit TextLimit(std::optional<uint64_t> budget_bytes)
      : budget_bytes_(budget_bytes) {
    if (!budget_bytes) return;
    const uint64_t room =
        *budget_bytes - std::min(*budget_bytes, kProgramBytes);
    is_budgets_ = room < max_bytes_;
    max_bytes_ = std::min(max_bytes_, room);
  }
  uint64_t max_bytes() const { return max_bytes_; }
  absl::Status Check(absl::string_view name, uint64_t num_bytes) const {
    if (num_bytes <= max_bytes_) return absl::OkStatus();
    if (!is_budgets_) {
      return absl::InvalidArgumentError(
          absl::StrCat(Printable(name), ": too long; expected at most ",
                       FormatBytes(max_bytes_)));
    }
    const uint64_t needed_bytes = kProgramBytes + num_bytes;
    return absl::ResourceExhaustedError(absl::StrCat(
        Printable(name), ": does not fit the memory budget; needed at least ",
        FormatBytes(needed_bytes), " (", needed_bytes, "), allowed ",
        FormatBytes(*budget_bytes_), " (", *budget_bytes_,
        "), largest item: ", num_bytes > kProgramBytes ? "text " : "program ",
        FormatBytes(std::max(num_bytes, kProgramBytes))));
  }

 private:
  const std::optional<uint64_t> budget_bytes_;
  uint64_t max_bytes_ = limits::kPromptBytes;
  bool is_budgets_ = false;
};

absl::StatusOr<std::string> ReadAll(int fd, absl::string_view name,
                                    std::optional<uint64_t> budget_bytes) {
  const TextLimit limit(budget_bytes);
  std::string text;
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    const uint64_t num_bytes = static_cast<uint64_t>(info.st_size);
    LOWMEM_RETURN_IF_ERROR(limit.Check(name, num_bytes));
    text.reserve(num_bytes + 2 * kBlockBytes);
  } else if (budget_bytes) {
    // Touched as the text comes, and never moved.
    text.reserve(limit.max_bytes() + 2 * kBlockBytes);
  }
  for (;;) {
    LOWMEM_ASSIGN_OR_RETURN(const bool more, ReadBlock(fd, name, &text));
    if (!more) break;
    LOWMEM_RETURN_IF_ERROR(limit.Check(name, text.size()));
  }
  if (budget_bytes) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& path,
                                     std::optional<uint64_t> budget_bytes) {
  if (path == "-") return ReadAll(STDIN_FILENO, "stdin", budget_bytes);
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
  absl::StatusOr<std::string> text = ReadAll(fd, path, budget_bytes);
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
      const size_t needed = line->size() + length;
      if (needed > line->capacity()) {
        // A long line is not moved again: what is not touched costs nothing.
        line->reserve(needed > kShortLineBytes ? max_line_bytes_ : 2 * needed);
      }
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
