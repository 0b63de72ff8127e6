// SPDX-License-Identifier: Apache-2.0
// The one implementation of Session.

#ifndef LOWMEM_ENGINE_GENERATE_ENGINE_SESSION_H_
#define LOWMEM_ENGINE_GENERATE_ENGINE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/generate/engine_state.h"
#include "lowmem/session.h"

namespace lowmem {

// Invariant: kv_->size() <= ids_.size(); the cache holds what belongs to the
// first kv_->size() ids. Lifetime: the engine state must outlive it.
class EngineSession final : public Session {
 public:
  explicit EngineSession(EngineState& engine);

  absl::Status AppendIds(absl::Span<const int32_t> ids) override;
  absl::Status AppendText(absl::string_view text, bool parse_special) override;
  absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      absl::FunctionRef<bool(absl::string_view text)> on_text) override;
  absl::Status Score(absl::FunctionRef<
                     absl::Status(uint64_t pos, absl::Span<const float> logits)>
                         on_logits) override;
  void Cancel() override { cancel_.store(true, std::memory_order_relaxed); }
  const std::vector<int32_t>& ids() const override { return ids_; }
  absl::Status Truncate(uint64_t num_tokens) override;

 private:
  // Only for a call that ended because of it: one that came too late for a call
  // must reach the next.
  void ForgetCancel() { cancel_.store(false, std::memory_order_relaxed); }

  // Signal handlers may touch nothing that could take a lock.
  static_assert(std::atomic<bool>::is_always_lock_free);

  EngineState& engine_;
  std::vector<int32_t> ids_;
  std::unique_ptr<KvCache> kv_;
  std::atomic<bool> cancel_{false};
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_ENGINE_SESSION_H_
