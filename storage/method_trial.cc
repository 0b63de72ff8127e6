// SPDX-License-Identifier: Apache-2.0
#include "storage/method_trial.h"

#include <algorithm>

namespace lowmem {

std::optional<double> MethodTrial::bytes_per_s() const {
  if (settled_s_ > 0) return settled_bytes_ / settled_s_;
  if (best_[method_] == 0) return std::nullopt;
  return best_[method_];
}

void MethodTrial::Record(uint64_t num_bytes, double elapsed_s,
                         double waited_s) {
  const bool counts = elapsed_s > 0 && waited_s >= kMinWaitingShare * elapsed_s;
  if (is_settled_) {
    settled_bytes_ += counts ? static_cast<double>(num_bytes) : 0;
    settled_s_ += counts ? elapsed_s : 0;
    return;
  }
  trial_s_ += elapsed_s;
  if (!counts) {
    if (++num_idle_ == kMaxIdleStretches) Settle();
    return;
  }
  best_[method_] =
      std::max(best_[method_], static_cast<double>(num_bytes) / elapsed_s);
  ++num_counted_;
  const bool is_over = best_.size() == 1 ||
                       num_counted_ == kNumRounds * best_.size() ||
                       trial_s_ > kMaxTrialSeconds;
  if (is_over) {
    Settle();
  } else {
    method_ = (method_ + 1) % best_.size();
  }
}

void MethodTrial::Settle() {
  is_settled_ = true;
  method_ = 0;
  for (size_t i = 1; i < best_.size(); ++i) {
    if (best_[i] > kClearly * best_[method_]) method_ = i;
  }
}

}  // namespace lowmem
