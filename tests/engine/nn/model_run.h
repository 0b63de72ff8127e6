// SPDX-License-Identifier: Apache-2.0
// A model opened and run as the engine does, for tests: one place that knows
// the order of construction.

#ifndef LOWMEM_TESTS_ENGINE_NN_MODEL_RUN_H_
#define LOWMEM_TESTS_ENGINE_NN_MODEL_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/nn/transformer.h"
#include "storage/base/memory_account.h"
#include "storage/base/thread_pool.h"
#include "storage/checkpoint.h"
#include "storage/weight_source.h"
#include "tests/support/sha256.h"

namespace lowmem::testing {

struct OpenModel {
  static absl::StatusOr<std::unique_ptr<OpenModel>> Open(
      const std::string& path);

  std::unique_ptr<Checkpoint> checkpoint;
  ModelConfig config;
  ModelWeights weights;
};

struct RunOptions {
  bool copy = false;
  uint32_t num_threads = 1;
  uint32_t chunk_tokens = 128;
  uint32_t context_tokens = 128;
  uint64_t logit_bytes = TransformerOptions().max_logit_bytes;
  KvFormat kv_format = KvFormat::kF32;
  // Put between the source and the model.
  std::function<std::unique_ptr<WeightSource>(WeightSource&, const Checkpoint&)>
      wrap_source;
};

// What a pass computed, keyed by position. Hidden states by layer, num_layers +
// 1 being the final norm's output.
struct Recording : ForwardObserver {
  bool WantsHidden() const override { return wants_hidden; }
  absl::Status OnHidden(uint32_t layer_idx, uint64_t first_pos,
                        absl::Span<const float> rows) override;
  absl::Status OnFinalNorm(uint64_t first_pos,
                           absl::Span<const float> rows) override;
  absl::Status OnLogits(uint64_t pos, absl::Span<const float> row) override;

  // Every position's row, one after the other.
  std::vector<float> AllLogits() const;

  bool wants_hidden = false;
  std::vector<uint64_t> positions;  // in the order in which logits came
  std::map<uint64_t, std::vector<float>> logits;
  std::map<uint32_t, std::vector<float>> hidden;
  std::vector<float> final_norm;
};

// One hash of the bits of all logits from position 0 on, for each position.
// Positions must come in order.
struct LogitHashes : ForwardObserver {
  absl::Status OnLogits(uint64_t pos, absl::Span<const float> row) override;

  std::vector<std::string> by_position;

 private:
  Sha256 hash_;
};

// The path of a model as the name of a test's case.
std::string PathAsName(std::string path);

// One sequence over one model.
class ModelRun {
 public:
  static absl::StatusOr<std::unique_ptr<ModelRun>> Create(
      const OpenModel& model, const RunOptions& options);

  absl::Status Forward(absl::Span<const int32_t> ids, LogitsFor logits_for,
                       ForwardObserver& observer,
                       const std::atomic<bool>* cancel = nullptr) {
    return transformer->Forward(ids, logits_for, cancel, *kv, observer);
  }
  // Appends `ids`, then up to `num_tokens` greedy tokens, which are returned.
  absl::StatusOr<std::vector<int32_t>> Greedy(absl::Span<const int32_t> ids,
                                              size_t num_tokens);

  MemoryAccount account{"test", MemoryAccount::kUnlimited, nullptr};
  std::unique_ptr<WeightSource> inner_source;
  std::unique_ptr<WeightSource> outer_source;  // nullptr when nothing wraps
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<KvCache> kv;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_NN_MODEL_RUN_H_
