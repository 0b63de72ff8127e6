// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/signals.h"

#include <cerrno>
#include <csignal>

namespace lowmem::cli {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<Session*> session_to_cancel{nullptr};
static_assert(std::atomic<Session*>::is_always_lock_free,
              "a signal handler must not wait for a lock");

void OnSignal(int signal_number) {
  const int saved_errno = errno;
  if (interrupted.exchange(true)) {
    // Delivered once this handler returns and the signal is no longer blocked.
    std::signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  Session* session = session_to_cancel.load();
  if (session != nullptr) session->Cancel();
  errno = saved_errno;
}

}  // namespace

void InstallSignalHandlers() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;  // no SA_RESTART: a read of stdin must end
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

const std::atomic<bool>& InterruptedFlag() { return interrupted; }

absl::Status CheckInterrupted() {
  return Interrupted() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

CancelOnSignal::CancelOnSignal(Session& session) {
  session_to_cancel.store(&session);
}

CancelOnSignal::~CancelOnSignal() { session_to_cancel.store(nullptr); }

}  // namespace lowmem::cli
