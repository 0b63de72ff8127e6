// SPDX-License-Identifier: Apache-2.0
// The process's own streams. stdout carries only results and notices when it
// can take no more; everything else goes to stderr.

#ifndef LOWMEM_ENGINE_CLI_CONSOLE_H_
#define LOWMEM_ENGINE_CLI_CONSOLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lowmem::cli {

// Nothing is buffered: a reader sees each piece as it is written.
// REQUIRES: SIGPIPE is ignored (InstallSignalHandlers does it), so that a
// reader that went away is an error code and not the end of the process. Thread
// safety: one thread at a time.
class Console {
 public:
  Console() = default;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes a part of the result to stdout.
  // Errors: kUnavailable; when the reader has closed its end, reader_gone() is
  // set too and the run should end quietly. kCancelled after a signal, when the
  // reader takes nothing.
  absl::Status Write(absl::string_view text);
  bool reader_gone() const { return reader_gone_; }

  // A statistic or a warning to stderr. Nothing when quiet. Failures do not
  // matter.
  void Note(absl::string_view text) const;

  bool quiet() const { return quiet_; }
  void set_quiet(bool quiet) { quiet_ = quiet; }

 private:
  bool quiet_ = false;
  bool reader_gone_ = false;
};

// Writes to stderr whatever else is wrong.
void WriteError(absl::string_view text);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_CONSOLE_H_
