// SPDX-License-Identifier: Apache-2.0
#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace lowmem::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience(120);
constexpr std::chrono::milliseconds kPollInterval(5);

struct Pipe {
  int read_end = -1, write_end = -1;
};

Pipe NewPipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
  return {fds[0], fds[1]};
}

void Fill(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) {
  }
  fcntl(fd, F_SETFL, flags);
}

// In the child, between fork and exec.
[[noreturn]] void Exec(const SubprocessOptions& options, int in, int out,
                       int err) {
  if (!options.stdout_path.empty()) {
    out = open(options.stdout_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  if (options.address_space_bytes != 0) {
    const rlimit limit = {options.address_space_bytes,
                          options.address_space_bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(options.program.c_str()));
  for (const std::string& arg : options.args) {
    argv.push_back(const_cast<char*>(arg.c_str()));
  }
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

// Fields of /proc/<pid>/stat, counted from 0. The program's name has no blanks.
constexpr int kState = 2;
constexpr int kUserTicks = 13;

// Empty when there is no such process.
std::string StatField(pid_t pid, int index) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string field;
  for (int i = 0; i <= index; ++i) stat >> field;
  return stat ? field : "";
}

// Appends what is there. False at the end.
bool ReadInto(int fd, std::string* text) {
  char block[65536];
  const ssize_t num_read = read(fd, block, sizeof(block));
  if (num_read <= 0) return num_read < 0 && errno == EINTR;
  text->append(block, static_cast<size_t>(num_read));
  return true;
}

}  // namespace

Subprocess::Subprocess(const SubprocessOptions& options)
    : to_write_(options.stdin_text), keep_stdin_open_(options.keep_stdin_open) {
  std::signal(SIGPIPE, SIG_IGN);  // a child that does not read its stdin
  const Pipe in = NewPipe(), out = NewPipe(), err = NewPipe();
  if (options.block_stdout) Fill(out.write_end);
  pid_ = fork();
  if (pid_ == 0) Exec(options, in.read_end, out.write_end, err.write_end);
  close(in.read_end);
  close(out.write_end);
  close(err.write_end);
  stdin_ = in.write_end;
  fcntl(stdin_, F_SETFL, O_NONBLOCK);
  stderr_ = err.read_end;
  (options.block_stdout ? blocked_read_end_ : stdout_) = out.read_end;
  if (to_write_.empty() && !keep_stdin_open_) CloseFd(stdin_);
}

Subprocess::~Subprocess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (int* fd : {&stdin_, &stdout_, &stderr_, &blocked_read_end_})
    CloseFd(*fd);
}

void Subprocess::CloseFd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

bool Subprocess::Pump() {
  pollfd fds[3] = {{stdout_, POLLIN, 0},
                   {stderr_, POLLIN, 0},
                   {to_write_.empty() ? -1 : stdin_, POLLOUT, 0}};
  if (poll(fds, 3, 100) < 0) return true;
  if (fds[0].revents != 0 && !ReadInto(stdout_, &result_.out)) CloseFd(stdout_);
  if (fds[1].revents != 0 && !ReadInto(stderr_, &result_.err)) CloseFd(stderr_);
  if (fds[2].revents != 0) {
    const ssize_t written = write(stdin_, to_write_.data(), to_write_.size());
    to_write_.erase(0, written < 0 ? to_write_.size() : written);
    if (to_write_.empty() && !keep_stdin_open_) CloseFd(stdin_);
  }
  return stdout_ >= 0 || stderr_ >= 0;
}

bool Subprocess::WaitForStdout(size_t num_bytes) {
  const Clock::time_point end = Clock::now() + kPatience;
  while (result_.out.size() < num_bytes) {
    if (stdout_ < 0 || Clock::now() > end) return false;
    Pump();
  }
  return true;
}

bool Subprocess::WaitUntilBlocked() {
  const Clock::time_point end = Clock::now() + kPatience;
  // Asleep once may be the wait for a page; asleep for long is the write.
  for (int num_asleep = 0; num_asleep < 10;) {
    const std::string state = StatField(pid_, kState);
    if (state.empty() || state == "Z" || Clock::now() > end) return false;
    num_asleep = state == "S" ? num_asleep + 1 : 0;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

bool Subprocess::WaitForCpuSeconds(double seconds) {
  const Clock::time_point end = Clock::now() + kPatience;
  for (;;) {
    const std::string state = StatField(pid_, kState);
    if (state.empty() || state == "Z" || Clock::now() > end) return false;
    if (std::stod(StatField(pid_, kUserTicks)) >=
        seconds * sysconf(_SC_CLK_TCK)) {
      return true;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

std::optional<uint64_t> Subprocess::StatusBytes(const std::string& name) const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name + ":", 0) != 0) continue;
    std::istringstream words(line.substr(name.size() + 1));
    uint64_t kib = 0;
    words >> kib;
    return kib * 1024;
  }
  return std::nullopt;
}

void Subprocess::CloseStdout() { CloseFd(stdout_); }

void Subprocess::Signal(int signal_number) { kill(pid_, signal_number); }

SubprocessResult Subprocess::Wait() {
  const Clock::time_point end = Clock::now() + kPatience;
  while (Pump()) {
    if (Clock::now() > end) kill(pid_, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
  return result_;
}

SubprocessResult RunSubprocess(const SubprocessOptions& options) {
  return Subprocess(options).Wait();
}

}  // namespace lowmem::testing
