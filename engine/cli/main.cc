// SPDX-License-Identifier: Apache-2.0
// lowmem-run: arguments in, exit code out. Everything between is a command.

#include <malloc.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "engine/cli/command.h"
#include "engine/cli/console.h"
#include "engine/cli/exit_code.h"
#include "engine/cli/flags.h"
#include "engine/cli/signals.h"
#include "lowmem/sigbus_guard.h"

namespace lowmem::cli {
namespace {

constexpr char kOutOfMemory[] =
    "lowmem-run: out of memory; a smaller --ctx, --mode mmap or more memory "
    "helps\n";

// Where memory ends in a place that cannot unwind, such as a worker thread.
[[noreturn]] void OnTerminate() {
  int exit_code = kExitBug;
  try {
    const std::exception_ptr exception = std::current_exception();
    if (exception) std::rethrow_exception(exception);
    WriteError("lowmem-run: internal error: terminated\n");
  } catch (const std::bad_alloc&) {
    WriteError(kOutOfMemory);
    exit_code = kExitBudget;
  } catch (const std::exception& error) {
    WriteError("lowmem-run: internal error: ");
    WriteError(error.what());
    WriteError("\n");
  } catch (...) {
    WriteError("lowmem-run: internal error: unknown exception\n");
  }
  _exit(exit_code);
}

absl::Status Run(int argc, char** argv, Console& console) {
  absl::StatusOr<ParsedCommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return line.status();
  if (!line->flags.has_value()) return console.Write(line->text);
  console.set_quiet(line->flags->global.quiet);
  const absl::Status guard = InstallSigbusGuard();
  if (!guard.ok()) return guard;
  return RunCommand(*line->flags, console);
}

// What is freed goes back to the system at once. By default glibc keeps more
// the more was freed before: a budget would have to hold it twice.
void KeepNoFreedMemory() {
#ifdef __GLIBC__
  constexpr int kSeparateBytes = 128 << 10;
  mallopt(M_MMAP_THRESHOLD, kSeparateBytes);
#endif
}

int Main(int argc, char** argv) {
  KeepNoFreedMemory();
  std::set_terminate(OnTerminate);
  InstallSignalHandlers();
  Console console;
  try {
    const absl::Status status = Run(argc, argv, console);
    if (status.ok() || console.reader_gone()) return kExitOk;
    TakeLastWord();
    WriteError(ErrorLine(status));
    return ExitCodeOf(status);
  } catch (const std::bad_alloc&) {
    // Caught, so that what was half written is removed on the way here.
    WriteError(kOutOfMemory);
    return kExitBudget;
  }
}

}  // namespace
}  // namespace lowmem::cli

int main(int argc, char** argv) { return lowmem::cli::Main(argc, argv); }
