// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/memory_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "storage/base/control_group.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

// A killed process may take a while to leave: it gives its memory back first.
constexpr int kMaxRemovals = 500;
constexpr std::chrono::milliseconds kRemovalInterval(10);

// The names that version 1 and 2 have for the same things.
struct GroupFiles {
  const char* limit;
  const char* swap_limit;
  const char* peak;
  const char* limit_hits;
  const char* swap_limit_hits;   // counted apart, and first, in version 1
  const char* limit_hits_label;  // "": the file holds the number alone
  const char* oom;
};
constexpr GroupFiles kV1 = {
    "/memory.limit_in_bytes",     "/memory.memsw.limit_in_bytes",
    "/memory.max_usage_in_bytes", "/memory.failcnt",
    "/memory.memsw.failcnt",      "",
    "/memory.oom_control"};
constexpr GroupFiles kV2 = {"/memory.max",   "/memory.swap.max",
                            "/memory.peak",  "/memory.events",
                            nullptr,         "max ",
                            "/memory.events"};
constexpr char kOomLabel[] = "oom_kill ";

const GroupFiles& Files(bool is_v2) { return is_v2 ? kV2 : kV1; }

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Only into a file that is there. False: errno says why.
bool WriteText(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t num_written = write(fd, text.data(), text.size());
  const int error = errno;
  close(fd);
  errno = error;
  return num_written == static_cast<ssize_t>(text.size());
}

// The number behind `label` at the start of a line.
std::optional<uint64_t> NumberIn(const std::string& path,
                                 absl::string_view label) {
  for (absl::string_view line : absl::StrSplit(ReadText(path), '\n')) {
    uint64_t number = 0;
    if (absl::StartsWith(line, label) &&
        absl::SimpleAtoi(line.substr(label.size()), &number)) {
      return number;
    }
  }
  return std::nullopt;
}

// Groups below which a new one may be made: this process's own, then what is
// above it up to the mounted one.
std::vector<ControlGroup> Parents(const std::string& root) {
  const std::string cgroup = ReadText(root + "/proc/self/cgroup");
  const std::string mountinfo = ReadText(root + "/proc/self/mountinfo");
  std::vector<ControlGroup> parents;
  for (const bool is_v2 : {false, true}) {
    std::optional<ControlGroup> group =
        FindMemoryGroup(mountinfo, cgroup, is_v2);
    while (group.has_value()) {
      parents.push_back(*group);
      if (group->path.empty()) break;
      group->path.resize(group->path.rfind('/'));
    }
  }
  return parents;
}

std::string NewGroupName() {
  static std::atomic<int> num_made{0};
  return absl::StrCat("/lowmem-", getpid(), "-", ++num_made);
}

}  // namespace

ControlGroupSystem ControlGroupSystem::Kernel() {
  return {
      "",
      [](const std::string& path) { return mkdir(path.c_str(), 0755) == 0; },
      [](const std::string& path) { return rmdir(path.c_str()) == 0; }};
}

absl::StatusOr<std::unique_ptr<MemoryGroup>> MemoryGroup::Create(
    uint64_t limit_bytes, const ControlGroupSystem& system) {
  // What the nearest group refuses says most.
  absl::Status refusal;
  for (const ControlGroup& parent : Parents(system.root)) {
    const std::string above =
        absl::StrCat(system.root, parent.mount_point, parent.path);
    const std::string folder = absl::StrCat(above, NewGroupName());
    if (!system.make_folder(folder)) {
      refusal.Update(absl::UnimplementedError(absl::StrCat(
          "no memory control group: ", above, ": ", std::strerror(errno))));
      continue;
    }
    std::unique_ptr<MemoryGroup> group(
        new MemoryGroup(folder, parent.is_v2, system));
    // A v2 group governs memory only where the one above hands that on. It may
    // not while processes are in it: then the next one up is tried.
    if (parent.is_v2 && access((folder + kV2.limit).c_str(), F_OK) != 0) {
      WriteText(above + "/cgroup.subtree_control", "+memory");
    }
    const absl::Status status = group->SetLimit(limit_bytes);
    if (status.ok()) return group;
    refusal.Update(status);
  }
  refusal.Update(absl::UnimplementedError(
      "no memory control group: the kernel shows none to this process"));
  return refusal;
}

absl::Status MemoryGroup::SetLimit(uint64_t limit_bytes) {
  const GroupFiles& files = Files(is_v2_);
  const std::string limit = folder_ + files.limit;
  if (!WriteText(limit, absl::StrCat(limit_bytes))) {
    return absl::UnimplementedError(absl::StrCat(
        "no memory control group: ", limit, ": ", std::strerror(errno)));
  }
  // Version 1 limits memory and swap together, version 2 swap alone.
  WriteText(folder_ + files.swap_limit,
            absl::StrCat(is_v2_ ? uint64_t{0} : limit_bytes));
  processes_fd_ = open(processes_path().c_str(), O_WRONLY | O_CLOEXEC);
  if (processes_fd_ < 0) {
    return absl::UnimplementedError(
        absl::StrCat("no memory control group: ", processes_path(), ": ",
                     std::strerror(errno)));
  }
  return absl::OkStatus();
}

MemoryGroup::~MemoryGroup() {
  if (processes_fd_ >= 0) close(processes_fd_);
  for (int i = 0; i < kMaxRemovals; ++i) {
    if (!KillProcesses() && system_.remove_folder(folder_)) return;
    std::this_thread::sleep_for(kRemovalInterval);
  }
}

bool MemoryGroup::KillProcesses() const {
  bool found = false;
  for (absl::string_view line :
       absl::StrSplit(ReadText(processes_path()), '\n')) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(line, &pid) || pid <= 0) continue;
    kill(pid, SIGKILL);
    found = true;
  }
  return found;
}

bool MemoryGroup::Join() const { return write(processes_fd_, "0", 1) == 1; }

std::string MemoryGroup::processes_path() const {
  return folder_ + "/cgroup.procs";
}

MemoryGroupUsage MemoryGroup::Usage() const {
  const GroupFiles& files = Files(is_v2_);
  std::optional<uint64_t> num_hits =
      NumberIn(folder_ + files.limit_hits, files.limit_hits_label);
  if (num_hits.has_value() && files.swap_limit_hits != nullptr) {
    *num_hits += NumberIn(folder_ + files.swap_limit_hits, "").value_or(0);
  }
  return {NumberIn(folder_ + files.peak, ""), num_hits,
          NumberIn(folder_ + files.oom, kOomLabel)};
}

}  // namespace lowmem::cli
