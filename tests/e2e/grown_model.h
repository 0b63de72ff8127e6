// SPDX-License-Identifier: Apache-2.0
// A model of 37 MB, written in a tenth of a second: the vocabulary of a tiny
// one with wider layers, more of them and made-up weights. Large enough that a
// budget can lie far below it, small enough to be read a hundred times.

#ifndef LOWMEM_TESTS_E2E_GROWN_MODEL_H_
#define LOWMEM_TESTS_E2E_GROWN_MODEL_H_

#include <cstdint>
#include <string>

#include "tests/support/temporary_folder.h"

namespace lowmem::testing {

// Lies beside the build, since the system's temporary files may live in memory
// and a file there has no page cache to drop.
class GrownModel {
 public:
  GrownModel();

  const std::string& path() const { return path_; }  // the folder
  std::string weights_path() const { return path_ + "/model.safetensors"; }
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  const TemporaryFolder folder_;
  const std::string path_;
  uint64_t weight_bytes_ = 0;
};

// The page cache forgets the file. Dirty pages cannot be forgotten: it is
// written to disk first.
void ForgetPages(const std::string& file);
// The page cache holds the whole file.
void CachePages(const std::string& file);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_E2E_GROWN_MODEL_H_
