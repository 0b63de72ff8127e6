// SPDX-License-Identifier: Apache-2.0
// Text from files and stdin: whole, or line by line. Unlike a model's files
// these may be pipes and terminals. Every length is bounded.

#ifndef LOWMEM_ENGINE_CLI_TEXT_INPUT_H_
#define LOWMEM_ENGINE_CLI_TEXT_INPUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lowmem::cli {

// Reads all of `path`; "-" is stdin. Under a budget the text leaves room for
// the program and is gone from the page cache. Errors: kNotFound;
// kInvalidArgument for a folder or for more than limits::kPromptBytes;
// kResourceExhausted for more than the budget leaves, of a file before it is
// read; kUnavailable when reading fails; kCancelled after a signal. Memory: the
// text and 64 KiB; without a budget a pipe's text twice.
absl::StatusOr<std::string> ReadText(const std::string& path,
                                     std::optional<uint64_t> budget_bytes);

// Lines of stdin.
// Thread safety: one thread at a time. Memory: one line and 1 MiB.
class LineReader {
 public:
  explicit LineReader(uint64_t max_line_bytes)
      : max_line_bytes_(max_line_bytes) {}

  enum class Result { kLine, kTooLong, kEnd };

  // The next line without its end; the last one may lack it. A line that is too
  // long is skipped to its end and told as such.
  // Errors: kUnavailable when reading fails; kCancelled after a signal.
  absl::StatusOr<Result> Next(std::string* line);

 private:
  const uint64_t max_line_bytes_;
  std::string buffer_;
  size_t pos_ = 0;
};

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_TEXT_INPUT_H_
