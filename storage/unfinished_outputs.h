// SPDX-License-Identifier: Apache-2.0
// What stands on the disk under a temporary name. A process that must end
// without its destructors removes it all in one call.

#ifndef LOWMEM_STORAGE_UNFINISHED_OUTPUTS_H_
#define LOWMEM_STORAGE_UNFINISHED_OUTPUTS_H_

#include <chrono>
#include <string>

namespace lowmem {

// While one lives, no other thread makes, renames or removes an output: what
// the list says is what stands on the disk.
class OutputStep {
 public:
  OutputStep();
  ~OutputStep();
  OutputStep(const OutputStep&) = delete;
  OutputStep& operator=(const OutputStep&) = delete;

  // From now on there is an unfinished file or folder at `path`.
  void Began(const std::string& path);
  // It has its name, or is gone.
  void Ended(const std::string& path);
};

// Removes every unfinished output, after which no thread makes or finishes one:
// whoever tries waits for ever. For a process that ends right after it. When a
// step of another thread takes longer than `patience`, nothing is removed.
// Thread safety: any thread, once.
void RemoveUnfinishedOutputs(std::chrono::milliseconds patience);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_UNFINISHED_OUTPUTS_H_
