// SPDX-License-Identifier: Apache-2.0
// Which of several ways of reading is the fastest on this disk, decided from
// stretches of reads that were needed anyway: pure logic, without clock or
// file.

#ifndef LOWMEM_STORAGE_METHOD_TRIAL_H_
#define LOWMEM_STORAGE_METHOD_TRIAL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lowmem {

class MethodTrial {
 public:
  // Twice each, the better one counts: others may use the disk meanwhile.
  static constexpr size_t kNumRounds = 2;
  // A later method must be clearly faster: the earlier ones take less of the
  // processor and of the page cache.
  static constexpr double kClearly = 1.15;
  // Less of a stretch spent waiting says nothing about the disk.
  static constexpr double kMinWaitingShare = 0.5;
  // A slow disk is not made slower by trying on: what is known by then decides.
  static constexpr double kMaxTrialSeconds = 1.0;
  // So many stretches in which the disk was never waited for: it does not
  // matter.
  static constexpr size_t kMaxIdleStretches = 6;

  // Methods by preference. REQUIRES: num_methods > 0.
  explicit MethodTrial(size_t num_methods) : best_(num_methods, 0.0) {}

  // The method that is to read now.
  size_t method() const { return method_; }
  // Whether method() stays what it is.
  bool is_settled() const { return is_settled_; }
  // Of method(), once a stretch of it has counted: of all that did since it was
  // chosen, and before there are any of the best one.
  std::optional<double> bytes_per_s() const;

  // A stretch by method() is over.
  void Record(uint64_t num_bytes, double elapsed_s, double waited_s);

 private:
  void Settle();

  std::vector<double> best_;  // bytes/s; 0 when no stretch has counted
  size_t method_ = 0;
  size_t num_counted_ = 0;
  size_t num_idle_ = 0;
  double trial_s_ = 0;
  double settled_bytes_ = 0;  // of stretches that counted since
  double settled_s_ = 0;
  bool is_settled_ = false;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_METHOD_TRIAL_H_
