// SPDX-License-Identifier: Apache-2.0
#include "storage/unfinished_outputs.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

namespace lowmem {
namespace {

struct Outputs {
  std::timed_mutex mutex;
  std::vector<std::string> paths;  // guarded by mutex
};

// Never destroyed: a process may have to end in the middle of its exit.
Outputs& TheOutputs() {
  static Outputs* const outputs = new Outputs;
  return *outputs;
}

}  // namespace

OutputStep::OutputStep() { TheOutputs().mutex.lock(); }

OutputStep::~OutputStep() { TheOutputs().mutex.unlock(); }

void OutputStep::Began(const std::string& path) {
  TheOutputs().paths.push_back(path);
}

void OutputStep::Ended(const std::string& path) {
  std::vector<std::string>& paths = TheOutputs().paths;
  const auto found = std::find(paths.begin(), paths.end(), path);
  if (found != paths.end()) paths.erase(found);
}

void RemoveUnfinishedOutputs(std::chrono::milliseconds patience) {
  Outputs& outputs = TheOutputs();
  if (!outputs.mutex.try_lock_for(patience)) return;
  for (const std::string& path : outputs.paths) {
    std::error_code ignored;  // nobody is left to tell
    std::filesystem::remove_all(path, ignored);
  }
}

}  // namespace lowmem
