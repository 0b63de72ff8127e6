// SPDX-License-Identifier: Apache-2.0
// What storage costs: opening a checkpoint, filling heap from it, walking it
// mapped.
//   BM_OpenCheckpoint/N        the header of N tensors, read and proved
//   BM_CopyLoadCold            pread of 256 MiB from the disk into heap
//   BM_CopyLoadCached          the same from the page cache
//   BM_MmapTouchCold           256 MiB touched page by page, from the disk
//   BM_MmapTouchCached         the same, pages in the cache but not mapped yet
//   BM_MmapTouchPopulated      the same, mapped already
//   BM_PreadCached             the reference for all: one read of it, no
//   allocation
// The checkpoint is written to the folder of temporary files ($TMPDIR).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "storage/checkpoint.h"
#include "storage/safetensors_writer.h"
#include "storage/weight_source.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using testing::TemporaryFolder;

constexpr uint64_t kRows = 1024;
constexpr uint64_t kCols = 4096;  // 8 MiB a tensor
constexpr uint64_t kNumTensors = 32;

// One file for all benchmarks, removed at the end.
class SampleCheckpoint {
 public:
  SampleCheckpoint() {
    std::vector<TensorSpec> specs;
    for (uint64_t i = 0; i < kNumTensors; ++i) {
      specs.push_back(
          {absl::StrCat("layer.", i), DType::kBF16, {kRows, kCols}});
    }
    auto writer = SafetensorsWriter::Create(path(), specs, {});
    if (!writer.ok()) return;
    const std::vector<uint8_t> bytes(kRows * kCols * 2, 0x3f);
    for (uint64_t i = 0; i < kNumTensors; ++i) {
      if (!(*writer)->Append(bytes).ok()) return;
    }
    if (!(*writer)->Commit().ok()) return;
    auto opened = Checkpoint::Open(path());
    if (opened.ok()) checkpoint_ = *std::move(opened);
  }

  // nullptr when it could not be written.
  const Checkpoint* get() const { return checkpoint_.get(); }
  const RandomAccessFile& file() const { return *checkpoint_->files()[0]; }
  std::vector<TensorId> all() const {
    std::vector<TensorId> ids(kNumTensors);
    for (TensorId id = 0; id < kNumTensors; ++id) ids[id] = id;
    return ids;
  }
  void DropCache() const { file().DropCache(0, file().size_bytes()); }
  void FillCache() const {
    std::vector<uint8_t> piece(1 << 20);
    for (uint64_t ofs = 0; ofs < file().size_bytes(); ofs += piece.size()) {
      const size_t count =
          std::min<uint64_t>(piece.size(), file().size_bytes() - ofs);
      static_cast<void>(file().Read(ofs, {piece.data(), count}));
    }
  }

 private:
  std::string path() const { return folder_ / "model.safetensors"; }

  const TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

const SampleCheckpoint* Sample(benchmark::State& state) {
  static const SampleCheckpoint sample;
  if (sample.get() == nullptr) {
    state.SkipWithError("the checkpoint cannot be written");
    return nullptr;
  }
  return &sample;
}

void CountBytes(benchmark::State& state, const SampleCheckpoint& sample) {
  state.SetBytesProcessed(static_cast<int64_t>(
      state.iterations() * sample.get()->total_tensor_bytes()));
}

void BM_OpenCheckpoint(benchmark::State& state) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  std::vector<TensorSpec> specs;
  for (int64_t i = 0; i < state.range(0); ++i) {
    specs.push_back({absl::StrCat("model.layers.", i, ".mlp.down_proj.weight"),
                     DType::kBF16,
                     {0, 4096}});
  }
  auto writer = SafetensorsWriter::Create(path, specs, {});
  if (!writer.ok() || !(*writer)->Commit().ok()) {
    state.SkipWithError("the checkpoint cannot be written");
    return;
  }
  for (auto _ : state) {
    auto checkpoint = Checkpoint::Open(path);
    if (!checkpoint.ok()) {
      state.SkipWithError("the checkpoint cannot be opened");
      return;
    }
    benchmark::DoNotOptimize((*checkpoint)->tensors().data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_OpenCheckpoint)
    ->Arg(300)
    ->Arg(10000)
    ->Unit(benchmark::kMillisecond);

void LoadCopy(benchmark::State& state, bool is_cached) {
  const SampleCheckpoint* sample = Sample(state);
  if (sample == nullptr) return;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  for (auto _ : state) {
    state.PauseTiming();
    is_cached ? sample->FillCache() : sample->DropCache();
    state.ResumeTiming();
    auto source = NewCopySource(
        *sample->get(), sample->all(), CopySourceOptions(), account,
        [](uint64_t, uint64_t) { return absl::OkStatus(); });
    if (!source.ok()) {
      state.SkipWithError("the checkpoint cannot be loaded");
      return;
    }
    state.PauseTiming();
    source->reset();
    state.ResumeTiming();
  }
  CountBytes(state, *sample);
}
void BM_CopyLoadCold(benchmark::State& state) { LoadCopy(state, false); }
void BM_CopyLoadCached(benchmark::State& state) { LoadCopy(state, true); }
BENCHMARK(BM_CopyLoadCold)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_CopyLoadCached)->Unit(benchmark::kMillisecond)->UseRealTime();

// Reads one byte of each cache line, as a product would at the least.
uint64_t Touch(const WeightLease& lease, uint64_t row_bytes) {
  uint64_t sum = 0;
  const uint8_t* data = lease.data();
  for (uint64_t i = 0; i < lease.num_rows() * row_bytes; i += 64)
    sum += data[i];
  return sum;
}

enum class Pages { kOnDisk, kCached, kPopulated };

void TouchMapped(benchmark::State& state, Pages pages) {
  const SampleCheckpoint* sample = Sample(state);
  if (sample == nullptr) return;
  std::unique_ptr<WeightSource> source;
  for (auto _ : state) {
    state.PauseTiming();
    if (pages != Pages::kPopulated || source == nullptr) {
      source.reset();
      pages == Pages::kOnDisk ? sample->DropCache() : sample->FillCache();
      auto mapped = NewMmapSource(*sample->get());
      if (!mapped.ok()) {
        state.SkipWithError("the checkpoint cannot be mapped");
        return;
      }
      source = *std::move(mapped);
    }
    state.ResumeTiming();
    uint64_t sum = 0;
    for (const TensorId id : sample->all()) {
      // One tensor ahead, as the transformer does with layers.
      source->Prefetch({{std::min<TensorId>(id + 1, kNumTensors - 1)}});
      auto lease = source->Acquire(id, 0, kRows);
      if (!lease.ok()) {
        state.SkipWithError("the checkpoint changed");
        return;
      }
      sum += Touch(*lease, kCols * 2);
    }
    benchmark::DoNotOptimize(sum);
  }
  CountBytes(state, *sample);
}
void BM_MmapTouchCold(benchmark::State& state) {
  TouchMapped(state, Pages::kOnDisk);
}
void BM_MmapTouchCached(benchmark::State& state) {
  TouchMapped(state, Pages::kCached);
}
void BM_MmapTouchPopulated(benchmark::State& state) {
  TouchMapped(state, Pages::kPopulated);
}
BENCHMARK(BM_MmapTouchCold)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_MmapTouchCached)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_MmapTouchPopulated)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_PreadCached(benchmark::State& state) {
  const SampleCheckpoint* sample = Sample(state);
  if (sample == nullptr) return;
  sample->FillCache();
  std::vector<uint8_t> piece(1 << 20);
  for (auto _ : state) {
    for (uint64_t ofs = 0; ofs < sample->file().size_bytes();
         ofs += piece.size()) {
      const size_t count =
          std::min<uint64_t>(piece.size(), sample->file().size_bytes() - ofs);
      if (!sample->file().Read(ofs, {piece.data(), count}).ok()) {
        state.SkipWithError("the checkpoint cannot be read");
        return;
      }
    }
  }
  CountBytes(state, *sample);
}
BENCHMARK(BM_PreadCached)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace lowmem
