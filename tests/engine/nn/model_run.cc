// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/nn/model_run.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem::testing {

absl::StatusOr<std::unique_ptr<OpenModel>> OpenModel::Open(
    const std::string& path) {
  auto model = std::make_unique<OpenModel>();
  LOWMEM_ASSIGN_OR_RETURN(model->checkpoint, Checkpoint::Open(path));
  LOWMEM_ASSIGN_OR_RETURN(model->config, ReadModelConfig(*model->checkpoint));
  LOWMEM_ASSIGN_OR_RETURN(model->weights,
                          ResolveWeights(model->config, *model->checkpoint));
  return model;
}

absl::Status Recording::OnHidden(uint32_t layer_idx, uint64_t,
                                 absl::Span<const float> rows) {
  hidden[layer_idx].insert(hidden[layer_idx].end(), rows.begin(), rows.end());
  return absl::OkStatus();
}

absl::Status Recording::OnFinalNorm(uint64_t, absl::Span<const float> rows) {
  final_norm.insert(final_norm.end(), rows.begin(), rows.end());
  return absl::OkStatus();
}

absl::Status Recording::OnLogits(uint64_t pos, absl::Span<const float> row) {
  positions.push_back(pos);
  logits[pos].assign(row.begin(), row.end());
  return absl::OkStatus();
}

std::vector<float> Recording::AllLogits() const {
  std::vector<float> all;
  for (const auto& [pos, row] : logits)
    all.insert(all.end(), row.begin(), row.end());
  return all;
}

absl::Status LogitHashes::OnLogits(uint64_t pos, absl::Span<const float> row) {
  if (pos != by_position.size()) {
    return absl::InternalError(absl::StrCat("logits of position ", pos,
                                            " come after those of ",
                                            by_position.size(), " positions"));
  }
  hash_.Update(reinterpret_cast<const uint8_t*>(row.data()),
               row.size() * sizeof(float));
  Sha256 until_here = hash_;
  by_position.push_back(until_here.Finish());
  return absl::OkStatus();
}

std::string PathAsName(std::string path) {
  for (char& c : path) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return path;
}

absl::StatusOr<std::unique_ptr<ModelRun>> ModelRun::Create(
    const OpenModel& model, const RunOptions& options) {
  auto run = std::make_unique<ModelRun>();
  if (options.copy) {
    LOWMEM_ASSIGN_OR_RETURN(
        run->inner_source,
        NewCopySource(*model.checkpoint,
                      model.weights.UsedTensors(*model.checkpoint),
                      CopySourceOptions(), run->account,
                      [](uint64_t, uint64_t) { return absl::OkStatus(); }));
  } else {
    LOWMEM_ASSIGN_OR_RETURN(run->inner_source,
                            NewMmapSource(*model.checkpoint));
  }
  WeightSource* source = run->inner_source.get();
  if (options.wrap_source) {
    run->outer_source = options.wrap_source(*source, *model.checkpoint);
    source = run->outer_source.get();
  }
  LOWMEM_ASSIGN_OR_RETURN(run->pool, ThreadPool::Create(options.num_threads));
  TransformerOptions transformer_options;
  transformer_options.max_chunk_tokens = options.chunk_tokens;
  transformer_options.max_context_tokens = options.context_tokens;
  transformer_options.max_logit_bytes = options.logit_bytes;
  LOWMEM_ASSIGN_OR_RETURN(
      run->transformer, Transformer::Create(model.config, *model.checkpoint,
                                            model.weights, *source, *run->pool,
                                            transformer_options, run->account));
  run->kv = std::make_unique<KvCache>(
      KvShape{.num_layers = model.config.num_layers,
              .num_kv_heads = model.config.num_kv_heads,
              .head_dim = model.config.head_dim,
              .format = options.kv_format},
      options.context_tokens, run->account);
  return run;
}

absl::StatusOr<std::vector<int32_t>> ModelRun::Greedy(
    absl::Span<const int32_t> ids, size_t num_tokens) {
  std::vector<int32_t> chosen;
  std::vector<int32_t> next(ids.begin(), ids.end());
  while (chosen.size() < num_tokens) {
    Recording recording;
    LOWMEM_RETURN_IF_ERROR(Forward(next, LogitsFor::kLastToken, recording));
    const std::vector<float>& row = recording.logits.rbegin()->second;
    next = {static_cast<int32_t>(ArgMax(row.data(), row.size()))};
    chosen.push_back(next[0]);
  }
  return chosen;
}

}  // namespace lowmem::testing
