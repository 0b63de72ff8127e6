// SPDX-License-Identifier: Apache-2.0
// A file in memory whose n-th read fails. A test raises n until the code under
// test succeeds: nothing may crash, leak or give another answer on the way.

#ifndef LOWMEM_TESTS_SUPPORT_FAULTY_FILE_H_
#define LOWMEM_TESTS_SUPPORT_FAULTY_FILE_H_

#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "storage/base/checked_math.h"
#include "storage/file.h"

namespace lowmem::testing {

class FaultyFile final : public RandomAccessFile {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  explicit FaultyFile(std::string bytes, int failing_read = kNever)
      : bytes_(std::move(bytes)), failing_read_(failing_read) {}

  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return bytes_.size(); }
  int num_reads() const { return num_reads_; }

  absl::Status Read(uint64_t offset, absl::Span<uint8_t> out) const override {
    if (num_reads_++ == failing_read_) {
      return absl::UnavailableError("memory: cannot read: injected fault");
    }
    if (!RangeFits(offset, out.size(), bytes_.size())) {
      return absl::UnavailableError("memory: the file became shorter");
    }
    if (!out.empty())
      std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<FileMapping>> Map() const override {
    return absl::UnavailableError("memory: cannot map");
  }
  void DropCache(uint64_t, uint64_t) const override {}
  std::optional<uint64_t> CachedBytes() const override { return std::nullopt; }
  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }

 private:
  const std::string path_ = "memory";
  const std::string bytes_;
  const int failing_read_;  // counted from 0
  mutable int num_reads_ = 0;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_FAULTY_FILE_H_
