// SPDX-License-Identifier: Apache-2.0
// Ctrl-C. The first SIGINT or SIGTERM asks the work to stop and the process
// ends in order; the second one ends it at once, as if nobody had listened.

#ifndef LOWMEM_ENGINE_CLI_SIGNALS_H_
#define LOWMEM_ENGINE_CLI_SIGNALS_H_

#include <atomic>

#include "absl/status/status.h"
#include "lowmem/session.h"

namespace lowmem::cli {

// Also ignores SIGPIPE and SIGXFSZ, so that a closed stdout and a file beyond
// the size limit are error codes. Blocking calls end with EINTR when a signal
// comes.
void InstallSignalHandlers();

// True from the first signal on.
const std::atomic<bool>& InterruptedFlag();
inline bool Interrupted() { return InterruptedFlag().load(); }

// OK, or kCancelled from the first signal on. For the loops and progress
// callbacks of commands.
absl::Status CheckInterrupted();

// While this lives, the first signal calls Cancel of `session`.
// REQUIRES: at most one lives at a time. `session` outlives it.
class CancelOnSignal {
 public:
  explicit CancelOnSignal(Session& session);
  ~CancelOnSignal();
  CancelOnSignal(const CancelOnSignal&) = delete;
  CancelOnSignal& operator=(const CancelOnSignal&) = delete;
};

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_SIGNALS_H_
