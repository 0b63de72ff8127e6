// SPDX-License-Identifier: Apache-2.0
// A transformer whose results are refused when a mapped file was lost under it.

#ifndef LOWMEM_ENGINE_GENERATE_GUARDED_TRANSFORMER_H_
#define LOWMEM_ENGINE_GENERATE_GUARDED_TRANSFORMER_H_

#include <memory>
#include <string>

#include "engine/generate/posix_sigbus_guard.h"
#include "engine/nn/transformer.h"

namespace lowmem {

// After a pass that met zero pages in the place of weights, Forward returns
// kUnavailable and forgets the keys and values of that pass. Logits may have
// reached the observer before. Lost once is lost for good. Thread safety: one
// thread at a time. Lifetime: `ranges` must outlive it.
class GuardedTransformer final : public Transformer {
 public:
  GuardedTransformer(std::unique_ptr<Transformer> transformer,
                     const GuardedRanges& ranges, std::string path)
      : transformer_(std::move(transformer)),
        ranges_(ranges),
        path_(std::move(path)) {}

  absl::Status Forward(absl::Span<const int32_t> ids, LogitsFor logits_for,
                       const std::atomic<bool>* cancel, KvCache& kv,
                       ForwardObserver& observer) override;
  uint64_t num_weight_passes() const override {
    return transformer_->num_weight_passes();
  }
  uint64_t weight_bytes_read() const override {
    return transformer_->weight_bytes_read();
  }
  uint64_t arena_bytes() const override { return transformer_->arena_bytes(); }

 private:
  const std::unique_ptr<Transformer> transformer_;
  const GuardedRanges& ranges_;
  const std::string path_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_GUARDED_TRANSFORMER_H_
