// SPDX-License-Identifier: Apache-2.0
// Passes over a model of which a part is resident, mapped within a bound beside
// streamed, in the model's order of use: each cache line of the rows is looked
// at, nothing is computed.
//   BM_BoundedMmap/MODEL/P/W   P percent of the weights resident, a window of W
//   KiB BM_Stream/MODEL/P/W        a ring of that size
// Bytes per second count all weights of a pass; read_share is what storage was
// asked for in a pass, of what streams. Models are those that were fetched, and
// the folder that $LOWMEM_BENCH_MODEL names. To see a bound at work run it in a
// memory control group.
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "storage/base/memory_meter.h"
#include "storage/bounded_mmap_source.h"
#include "storage/mapped_plan.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"

namespace lowmem::bench {
namespace {

struct OpenModel {
  std::unique_ptr<Checkpoint> checkpoint;
  ModelWeights weights;
};

std::unique_ptr<OpenModel> Open(const std::string& path) {
  auto model = std::make_unique<OpenModel>();
  auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return nullptr;
  model->checkpoint = *std::move(checkpoint);
  auto config = ReadModelConfig(*model->checkpoint);
  if (!config.ok()) return nullptr;
  auto weights = ResolveWeights(*config, *model->checkpoint);
  if (!weights.ok()) return nullptr;
  model->weights = *std::move(weights);
  return model;
}

ResidencyPlan PlanFor(const OpenModel& model, int64_t percent) {
  ResidencyRequest request =
      DescribeSteps(*model.checkpoint, model.weights.Steps(), {});
  uint64_t num_uses = 0;
  for (const auto& step : request.steps) num_uses += step.size();
  // Vectors are a thousandth of it.
  request.available_bytes =
      num_uses * ResidencyPlan::kAlignmentBytes + (1 << 20) +
      model.checkpoint->total_tensor_bytes() / 100 * percent;
  auto plan = PlanResidency(request);
  return plan.ok() ? *std::move(plan) : ResidencyPlan();
}

// False when the source failed.
bool RunPass(const OpenModel& model, WeightSource& source) {
  for (const WeightStep& step : model.weights.Steps()) {
    source.Prefetch(step);
    for (const TensorId tensor : step.tensors) {
      const TensorInfo& info = model.checkpoint->tensors()[tensor];
      for (uint64_t row = 0; row < info.num_rows();) {
        auto lease = source.Acquire(tensor, row, info.num_rows() - row);
        if (!lease.ok()) return false;
        uint64_t sum = 0;
        for (uint64_t i = 0; i < lease->num_rows() * info.row_bytes();
             i += 64) {
          sum += lease->data()[i];
        }
        benchmark::DoNotOptimize(sum);
        row += lease->num_rows();
      }
    }
  }
  return true;
}

using NewSource = std::function<absl::StatusOr<std::unique_ptr<WeightSource>>(
    const OpenModel&, const ResidencyPlan&, uint64_t window_bytes,
    MemoryAccount&)>;

absl::Status NoProgress(uint64_t, uint64_t) { return absl::OkStatus(); }

absl::StatusOr<std::unique_ptr<WeightSource>> NewMapped(
    const OpenModel& model, const ResidencyPlan& plan, uint64_t window_bytes,
    MemoryAccount& account) {
  return NewBoundedMmapSource(*model.checkpoint, plan, window_bytes, account,
                              NoProgress);
}

absl::StatusOr<std::unique_ptr<WeightSource>> NewStreamed(
    const OpenModel& model, const ResidencyPlan& plan, uint64_t window_bytes,
    MemoryAccount& account) {
  StreamSourceOptions options;
  options.ring.buffer_bytes = window_bytes / options.ring.num_buffers;
  return NewStreamSource(*model.checkpoint, plan, options, account, NoProgress);
}

void Passes(benchmark::State& state, const std::string& path,
            const NewSource& new_source) {
  const std::unique_ptr<OpenModel> model = Open(path);
  if (model == nullptr) {
    state.SkipWithError("the model cannot be opened");
    return;
  }
  const ResidencyPlan plan = PlanFor(*model, state.range(0));
  MemoryAccount account("bench", MemoryAccount::kUnlimited, nullptr);
  auto source = new_source(
      *model, plan, static_cast<uint64_t>(state.range(1)) << 10, account);
  if (!source.ok() || !RunPass(*model, **source)) {
    state.SkipWithError("the source cannot be opened");
    return;
  }
  const uint64_t before = ReadProcessMemory().storage_read_bytes.value_or(0);
  for (auto _ : state) {
    if (!RunPass(*model, **source)) {
      state.SkipWithError("a read failed");
      return;
    }
  }
  const double read_bytes = static_cast<double>(
      ReadProcessMemory().storage_read_bytes.value_or(0) - before);
  const double passes = static_cast<double>(state.iterations());
  state.counters["read_share"] =
      read_bytes / passes /
      static_cast<double>(std::max<uint64_t>(1, plan.streamed_bytes_per_pass));
  uint64_t cached_bytes = 0;
  for (const auto& file : model->checkpoint->files()) {
    cached_bytes += file->CachedBytes().value_or(0);
  }
  state.counters["cached_MiB"] = static_cast<double>(cached_bytes >> 20);
  state.counters["charged_MiB"] =
      static_cast<double>(account.used_bytes() >> 20);
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * (plan.streamed_bytes_per_pass +
                                                 plan.resident_bytes)));
}

bool Register() {
  std::vector<std::pair<std::string, std::string>> models = {
      {"smollm2-bf16", LOWMEM_SOURCE_DIR "/models/smollm2-bf16"},
      {"qwen-bf16", LOWMEM_SOURCE_DIR "/models/qwen2.5-coder-0.5b-bf16"}};
  if (const char* path = getenv("LOWMEM_BENCH_MODEL")) {
    models.push_back({std::filesystem::path(path).filename().string(), path});
  }
  for (const auto& [name, path] : models) {
    if (!std::filesystem::exists(path)) continue;
    for (const auto& [kind, new_source] :
         {std::pair<const char*, NewSource>{"BM_BoundedMmap/", NewMapped},
          {"BM_Stream/", NewStreamed}}) {
      benchmark::RegisterBenchmark(
          absl::StrCat(kind, name).c_str(),
          [path = path, new_source = new_source](benchmark::State& state) {
            Passes(state, path, new_source);
          })
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime()
          ->ArgsProduct({{0, 25, 50, 75}, {1024, 2048, 4096, 8192, 16384}})
          ->ArgNames({"resident_percent", "window_kib"});
    }
  }
  return true;
}

const bool kIsRegistered = Register();

}  // namespace
}  // namespace lowmem::bench
