// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/cli/exit_code.h"
#include "engine/cli/signals.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

constexpr char kSelf[] = "/proc/self/exe";
// The child is this program: it says little. A bound all the same.
constexpr size_t kMaxOutputBytes = 1 << 20;

// A pipe whose ends do not reach the child by themselves.
class Pipe {
 public:
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseWriteEnd();
    CloseReadEnd();
  }
  bool Open() { return pipe2(fds_, O_CLOEXEC) == 0; }
  int read_end() const { return fds_[0]; }
  int write_end() const { return fds_[1]; }
  void CloseReadEnd() { Close(fds_[0]); }
  void CloseWriteEnd() { Close(fds_[1]); }

  // Appends what has come. Closes the read end when nothing more will.
  void ReadInto(std::string* text) {
    char block[4096];
    const ssize_t num_read = read(read_end(), block, sizeof(block));
    if (num_read > 0 && text->size() < kMaxOutputBytes) {
      text->append(block, static_cast<size_t>(num_read));
    } else if (num_read == 0 || (num_read < 0 && errno != EINTR)) {
      CloseReadEnd();
    }
  }

 private:
  static void Close(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  int fds_[2] = {-1, -1};
};

absl::Status SystemError(absl::string_view what, int error) {
  return absl::UnavailableError(
      absl::StrCat(kSelf, ": ", what, ": ", std::strerror(error)));
}

// How long a signal may go unseen that came just before the wait for output.
constexpr int kLookIntervalMs = 100;

// What fails between fork and exec ends the child with this code: no exit code
// of ours.
constexpr int kNotStarted = 127;

// In the child: nothing but system calls.
[[noreturn]] void Exec(char* const* argv, const Pipe& out, const Pipe& err,
                       const MemoryGroup* group) {
  // Should this process be killed outright, no run goes on for hours unseen.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  RestoreSignalsForChild();
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
      dup2(out.write_end(), STDOUT_FILENO) >= 0 &&
      dup2(err.write_end(), STDERR_FILENO) >= 0 &&
      (group == nullptr || group->Join())) {
    execv(kSelf, argv);
  }
  _exit(kNotStarted);
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& args,
                            const Pipe& out, const Pipe& err,
                            const MemoryGroup* group) {
  std::vector<char*> argv = {const_cast<char*>("lowmem-run")};
  for (const std::string& arg : args)
    argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) Exec(argv.data(), out, err, group);
  if (pid < 0) return SystemError("cannot be started", errno);
  return pid;
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    if (Interrupted()) kill(pid, SIGKILL);
  }
  return status;
}

absl::Status DiedOf(int signal_number, const MemoryGroup* group) {
  const uint64_t num_oom_kills =
      group == nullptr ? 0 : group->Usage().num_oom_kills.value_or(0);
  if (num_oom_kills > 0) {
    return absl::ResourceExhaustedError(
        "killed by the kernel: the memory group's limit holds no more");
  }
  return absl::InternalError(absl::StrCat(
      "the process of this run ended with signal ", signal_number));
}

}  // namespace

absl::StatusOr<std::string> RunSelf(const std::vector<std::string>& args,
                                    const MemoryGroup* group) {
  Pipe out, err;
  if (!out.Open() || !err.Open()) return SystemError("no pipe", errno);
  std::string text, message;
  LOWMEM_ASSIGN_OR_RETURN(const pid_t pid, Spawn(args, out, err, group));
  out.CloseWriteEnd();
  err.CloseWriteEnd();
  while (out.read_end() >= 0 || err.read_end() >= 0) {
    // At once: a measurement that was cut short is worth nothing.
    if (Interrupted()) kill(pid, SIGKILL);
    pollfd fds[2] = {{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}};
    if (poll(fds, 2, kLookIntervalMs) <= 0) continue;
    if (fds[0].revents != 0) out.ReadInto(&text);
    if (fds[1].revents != 0) err.ReadInto(&message);
  }
  const int status = WaitFor(pid);
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  if (!WIFEXITED(status)) return DiedOf(WTERMSIG(status), group);
  if (WEXITSTATUS(status) == kNotStarted) {
    return absl::UnavailableError(
        absl::StrCat(kSelf, ": cannot be started",
                     group == nullptr ? "" : " in its memory group"));
  }
  if (WEXITSTATUS(status) != kExitOk) {
    return absl::Status(
        StatusCodeOfExit(WEXITSTATUS(status)),
        absl::StripPrefix(absl::StripAsciiWhitespace(message), "lowmem-run: "));
  }
  return text;
}

}  // namespace lowmem::cli
