// SPDX-License-Identifier: Apache-2.0
// Starts a program under conditions that must hold from its first instruction
// on: launcher [--join FILE]... [--forbid-io-uring] [--report FILE] -- PROGRAM
// ARG... Joins the control groups whose cgroup.procs are named, forbids the
// system calls of io_uring, and becomes the program; or, with a report, waits
// for it, writes what it cost and ends as it did. It is small, and knows
// nothing of the project, since a child's peak counts what its parent held when
// it forked.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMaxGroups = 4;

struct Request {
  const char* joins[kMaxGroups] = {};
  int num_joins = 0;
  bool forbid_io_uring = false;
  const char* report = nullptr;
  char** program = nullptr;
};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "launcher: %s: %s\n", what, std::strerror(errno));
  std::exit(126);
}

Request Parse(char** arg) {
  Request request;
  for (++arg; *arg != nullptr; ++arg) {
    if (std::strcmp(*arg, "--") == 0) {
      request.program = arg + 1;
      break;
    }
    if (std::strcmp(*arg, "--forbid-io-uring") == 0) {
      request.forbid_io_uring = true;
    } else if (std::strcmp(*arg, "--join") == 0 && arg[1] != nullptr &&
               request.num_joins < kMaxGroups) {
      request.joins[request.num_joins++] = *++arg;
    } else if (std::strcmp(*arg, "--report") == 0 && arg[1] != nullptr) {
      request.report = *++arg;
    } else {
      errno = EINVAL;
      Fail(*arg);
    }
  }
  if (request.program == nullptr || *request.program == nullptr) {
    errno = EINVAL;
    Fail("no program");
  }
  return request;
}

void Join(const char* processes) {
  const int fd = open(processes, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "0", 1) != 1) Fail(processes);
  close(fd);
}

// As a container's profile does it: the calls fail with EPERM.
void ForbidIoUring() {
  static_assert(__NR_io_uring_enter == __NR_io_uring_setup + 1 &&
                __NR_io_uring_register == __NR_io_uring_setup + 2);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, __NR_io_uring_setup, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, __NR_io_uring_register, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    Fail("seccomp");
  }
}

[[noreturn]] void Become(const Request& request) {
  for (int i = 0; i < request.num_joins; ++i) Join(request.joins[i]);
  if (request.forbid_io_uring) ForbidIoUring();
  execv(request.program[0], request.program);
  Fail(request.program[0]);
}

// "name: 123" of /proc/<pid>/io, which outlives the process until it is waited
// for. 0 where there is none.
unsigned long long StorageBytes(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/io", static_cast<int>(pid));
  std::FILE* const file = std::fopen(path, "r");
  unsigned long long num_bytes = 0;
  char line[128];
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "read_bytes: %llu", &num_bytes) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return num_bytes;
}

int WaitAndReport(pid_t pid, const char* report) {
  siginfo_t info;
  while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) Fail("waitid");
  }
  const unsigned long long storage_bytes = StorageBytes(pid);
  int status = 0;
  rusage usage = {};
  if (wait4(pid, &status, 0, &usage) != pid) Fail("wait4");
  std::FILE* const file = std::fopen(report, "w");
  if (file == nullptr) Fail(report);
  std::fprintf(file, "%llu %llu\n", 1024ull * usage.ru_maxrss, storage_bytes);
  std::fclose(file);
  return status;
}

}  // namespace

int main(int, char** argv) {
  const Request request = Parse(argv);
  if (request.report == nullptr) Become(request);
  const pid_t pid = fork();
  if (pid < 0) Fail("fork");
  if (pid == 0) Become(request);
  const int status = WaitAndReport(pid, request.report);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return 125;
}
