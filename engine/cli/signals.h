// SPDX-License-Identifier: Apache-2.0
// Ctrl-C. SIGINT, SIGTERM and SIGHUP (a closed terminal) ask the work to stop,
// and the process ends in order. Where it cannot, since it waits for a slow
// disk or for a reader who reads nothing, it is ended all the same: a thread of
// its own, which waits for nothing but signals, sees to that.

#ifndef LOWMEM_ENGINE_CLI_SIGNALS_H_
#define LOWMEM_ENGINE_CLI_SIGNALS_H_

#include <atomic>

#include "absl/status/status.h"
#include "lowmem/session.h"

namespace lowmem::cli {

// From now on the first signal does four things:
// - Interrupted() is true and the session of a CancelOnSignal is cancelled;
// - a blocking call of the calling thread ends with EINTR, again and again, so
//   that no wait begun just then is missed;
// - 0.3 s later (see LongerPatience) unfinished outputs are removed and the
//   process ends with kExitInterrupted, wherever it stands;
// - further signals change nothing: timeout(1) and terminals send two in a row.
// Where no thread can be had, a handler does the first two once, and a second
// signal kills. A SIGHUP that is ignored (nohup) stays so. Also ignores SIGPIPE
// and SIGXFSZ, so that a closed stdout and a file beyond the size limit are
// error codes.
// REQUIRES: the main thread, before any other.
void InstallSignalHandlers();

// Between fork and exec: signals are as they were before InstallSignalHandlers.
// Async-signal-safe.
void RestoreSignalsForChild();

// True from the first signal on.
const std::atomic<bool>& InterruptedFlag();
inline bool Interrupted() { return InterruptedFlag().load(); }

// OK, or kCancelled from the first signal on. For the loops and progress
// callbacks of commands.
absl::Status CheckInterrupted();

// Before the last line to stderr. Returns, but where the process is being ended
// and that has been told already.
// REQUIRES: the main thread, once.
void TakeLastWord();

// While this lives, the first signal calls Cancel of `session`.
// REQUIRES: at most one lives at a time. `session` outlives it.
class CancelOnSignal {
 public:
  explicit CancelOnSignal(Session& session);
  ~CancelOnSignal();
  CancelOnSignal(const CancelOnSignal&) = delete;
  CancelOnSignal& operator=(const CancelOnSignal&) = delete;
};

// While this lives, the process has two seconds to end in order: it holds what
// the kernel would keep for good. Only around work that ends soon by itself.
class LongerPatience {
 public:
  LongerPatience();
  ~LongerPatience();
  LongerPatience(const LongerPatience&) = delete;
  LongerPatience& operator=(const LongerPatience&) = delete;
};

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_SIGNALS_H_
