// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/signals.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "engine/cli/exit_code.h"
#include "storage/unfinished_outputs.h"

namespace lowmem::cli {
namespace {

using Clock = std::chrono::steady_clock;

// What is promised is half a second; the kernel needs time to take the memory
// back.
constexpr std::chrono::milliseconds kPatience(300);
constexpr std::chrono::milliseconds kLongPatience(2000);
constexpr std::chrono::milliseconds kRemovalPatience(1000);
constexpr timespec kWakeInterval = {0, 20'000'000};
constexpr int kNumLastWakes = 6;  // one more than a write waits for
// Ignored unless somebody handles it, so that it can do no harm to anybody.
constexpr int kWakeSignal = SIGURG;
// Address space; a few pages of it are touched.
constexpr size_t kStackBytes = 128 << 10;

std::atomic<bool> interrupted{false};
std::atomic<Session*> session_to_cancel{nullptr};
std::atomic<int> num_cancelling{0};
std::atomic<int> num_longer_patience{0};
std::atomic<bool> last_word_is_taken{false};
static_assert(std::atomic<Session*>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free,
              "a signal handler must not wait for a lock");

// Written before the watching thread begins.
sigset_t listened_signals;
sigset_t mask_at_start;
pthread_t main_thread;

void Interrupt() {
  interrupted.store(true);
  num_cancelling.fetch_add(1);
  Session* session = session_to_cancel.load();
  if (session != nullptr) session->Cancel();
  num_cancelling.fetch_sub(1);
}

void Wake() {
  pthread_kill(main_thread, kWakeSignal);
  nanosleep(&kWakeInterval, nullptr);
}

[[noreturn]] void EndNow() {
  RemoveUnfinishedOutputs(kRemovalPatience);
  if (last_word_is_taken.exchange(true)) {
    // It ends in order after all, and is about to say why.
    for (int i = 0; i < kNumLastWakes; ++i) Wake();
    _exit(kExitInterrupted);
  }
  constexpr char kMessage[] = "lowmem-run: interrupted\n";
  pollfd ready = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
    [[maybe_unused]] const ssize_t ignored =
        write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  }
  _exit(kExitInterrupted);
}

void* Watch(void*) {
  int signal_number = 0;
  sigwait(&listened_signals, &signal_number);
  const Clock::time_point begin = Clock::now();
  Interrupt();
  while (Clock::now() - begin <
         (num_longer_patience.load() > 0 ? kLongPatience : kPatience)) {
    Wake();
  }
  EndNow();
}

void OnWake(int) {}

bool StartWatching() {
  struct sigaction wake = {};
  wake.sa_handler = OnWake;  // no SA_RESTART: a read of stdin must end
  sigaction(kWakeSignal, &wake, nullptr);
  main_thread = pthread_self();
  pthread_sigmask(SIG_BLOCK, &listened_signals, &mask_at_start);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(
      &attributes,
      std::max(kStackBytes, static_cast<size_t>(PTHREAD_STACK_MIN)));
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t watcher;
  const int error = pthread_create(&watcher, &attributes, Watch, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) pthread_sigmask(SIG_SETMASK, &mask_at_start, nullptr);
  return error == 0;
}

void OnSignal(int signal_number) {
  const int saved_errno = errno;
  if (interrupted.load()) {
    // Delivered once this handler returns and the signal is no longer blocked.
    std::signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  Interrupt();
  errno = saved_errno;
}

template <typename Function>
void ForEachListened(Function function) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&listened_signals, signal_number) == 1) {
      function(signal_number);
    }
  }
}

}  // namespace

void InstallSignalHandlers() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  sigemptyset(&listened_signals);
  sigaddset(&listened_signals, SIGINT);
  sigaddset(&listened_signals, SIGTERM);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&listened_signals, SIGHUP);
  // A blocked signal that is ignored need not be kept for who waits for it.
  ForEachListened([](int number) { std::signal(number, SIG_DFL); });
  if (StartWatching()) return;
  struct sigaction action = {};
  action.sa_handler = OnSignal;  // no SA_RESTART here either
  ForEachListened([&](int number) { sigaction(number, &action, nullptr); });
}

void RestoreSignalsForChild() {
  ForEachListened([](int number) { std::signal(number, SIG_DFL); });
  sigprocmask(SIG_SETMASK, &mask_at_start, nullptr);
}

const std::atomic<bool>& InterruptedFlag() { return interrupted; }

absl::Status CheckInterrupted() {
  return Interrupted() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

void TakeLastWord() {
  while (last_word_is_taken.exchange(true)) pause();
}

CancelOnSignal::CancelOnSignal(Session& session) {
  session_to_cancel.store(&session);
}

CancelOnSignal::~CancelOnSignal() {
  session_to_cancel.store(nullptr);
  while (num_cancelling.load() > 0) sched_yield();
}

LongerPatience::LongerPatience() { num_longer_patience.fetch_add(1); }

LongerPatience::~LongerPatience() { num_longer_patience.fetch_sub(1); }

}  // namespace lowmem::cli
