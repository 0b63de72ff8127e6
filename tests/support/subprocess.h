// SPDX-License-Identifier: Apache-2.0
// Runs a program as a user would: arguments in, streams and exit code out.

#ifndef LOWMEM_TESTS_SUPPORT_SUBPROCESS_H_
#define LOWMEM_TESTS_SUPPORT_SUBPROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lowmem::testing {

struct SubprocessOptions {
  std::string program;
  std::vector<std::string> args;  // without the program's name
  std::string stdin_text;
  bool keep_stdin_open = false;  // else stdin ends behind stdin_text
  // stdout goes there instead of into the result.
  std::string stdout_path;
  // stdout is a pipe without room: the first write waits for as long as the
  // process lives.
  bool block_stdout = false;
  // RLIMIT_AS; 0: no limit.
  uint64_t address_space_bytes = 0;
};

struct SubprocessResult {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

// A running child. Destroying it kills what still runs.
// Every wait has a bound of two minutes, after which the child is killed.
class Subprocess {
 public:
  explicit Subprocess(const SubprocessOptions& options);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  // Waits until stdout has so many bytes, or has ended. False when it ended
  // first.
  bool WaitForStdout(size_t num_bytes);
  // Waits until the child sleeps, as it does in a write that has no room.
  bool WaitUntilBlocked();
  // Waits until the child has computed for so long. False when it ended first.
  bool WaitForCpuSeconds(double seconds);
  // A "Name: 123 kB" line of /proc/<pid>/status, in bytes.
  std::optional<uint64_t> StatusBytes(const std::string& name) const;
  void CloseStdout();
  void Signal(int signal_number);
  SubprocessResult Wait();

 private:
  // Moves bytes of the streams for at most 100 ms. False when both have ended.
  bool Pump();
  void CloseFd(int& fd);

  pid_t pid_ = -1;
  int stdin_ = -1, stdout_ = -1, stderr_ = -1;
  int blocked_read_end_ = -1;
  std::string to_write_;
  bool keep_stdin_open_ = false;
  SubprocessResult result_;
};

// Start and Wait.
SubprocessResult RunSubprocess(const SubprocessOptions& options);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_SUBPROCESS_H_
