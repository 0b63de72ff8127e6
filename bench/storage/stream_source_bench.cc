// SPDX-License-Identifier: Apache-2.0
// Streaming against a plain sequential read with the same method and as many
// bytes in flight. Arguments: buffers, KiB a buffer.
//   BM_Sequential<method>   one file from front to back, cyclically
//   BM_Stream<method>       passes over a model that is not resident at all, in
//   its
//                           order of use, nothing computed
//   BM_StreamTouched        the same, each cache line of the rows looked at
//   BM_StreamHalf           the same, half of the rows resident
// Bytes per second count what streams. The checkpoint (eight layers and a head
// in the shapes of a decoder of 0.5 billion parameters, 298 MB) is written to
// the folder of temporary files ($TMPDIR).
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "storage/base/aligned_buffer.h"
#include "storage/safetensors_writer.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

constexpr uint64_t kDim = 896;
constexpr uint64_t kFfDim = 4864;
constexpr uint64_t kKvDim = 128;
constexpr uint64_t kVocabSize = 32768;
constexpr int kNumLayers = 8;

// Order of use is not that of the file, as in a published model.
class SampleModel {
 public:
  SampleModel() {
    std::vector<TensorSpec> specs;
    specs.push_back({"head", DType::kBF16, {kVocabSize, kDim}});
    for (int i = 0; i < kNumLayers; ++i) {
      const std::string layer = absl::StrCat("layer", i, ".");
      const auto add = [&](const char* name, uint64_t rows, uint64_t cols) {
        specs.push_back({layer + name, DType::kBF16, {rows, cols}});
      };
      add("down", kDim, kFfDim);
      add("gate", kFfDim, kDim);
      add("up", kFfDim, kDim);
      add("k", kKvDim, kDim);
      add("o", kDim, kDim);
      add("q", kDim, kDim);
      add("v", kKvDim, kDim);
    }
    auto writer = SafetensorsWriter::Create(path(), specs, {});
    if (!writer.ok()) return;
    for (const TensorSpec& spec : specs) {
      const std::vector<uint8_t> bytes(spec.shape[0] * spec.shape[1] * 2, 0x3f);
      if (!(*writer)->Append(bytes).ok()) return;
    }
    if (!(*writer)->Commit().ok()) return;
    auto opened = Checkpoint::Open(path());
    if (!opened.ok()) return;
    checkpoint_ = *std::move(opened);
    for (int i = 0; i < kNumLayers; ++i) {
      WeightStep& step = steps_.emplace_back();
      for (const char* name : {"q", "k", "v", "o", "gate", "up", "down"}) {
        step.tensors.push_back(
            *checkpoint_->Find(absl::StrCat("layer", i, ".", name)));
      }
    }
    steps_.push_back({{*checkpoint_->Find("head")}});
  }

  // nullptr when it could not be written.
  const Checkpoint* checkpoint() const { return checkpoint_.get(); }
  const std::vector<WeightStep>& steps() const { return steps_; }

 private:
  std::string path() const { return folder_ / "model.safetensors"; }

  const testing::TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<WeightStep> steps_;
};

const SampleModel* Sample(benchmark::State& state) {
  static const SampleModel sample;
  if (sample.checkpoint() == nullptr) {
    state.SkipWithError("the checkpoint cannot be written");
    return nullptr;
  }
  return &sample;
}

StreamRingShape RingOf(const benchmark::State& state) {
  return {.num_buffers = static_cast<uint32_t>(state.range(0)),
          .buffer_bytes = static_cast<uint64_t>(state.range(1)) << 10};
}

void Sequential(benchmark::State& state, IoMethod method) {
  const SampleModel* sample = Sample(state);
  if (sample == nullptr) return;
  const StreamRingShape ring = RingOf(state);
  MemoryAccount account("bench", MemoryAccount::kUnlimited, nullptr);
  auto memory = AlignedBuffer::AllocateContiguous(
      ring.num_buffers * ring.buffer_bytes, 0, account);
  auto queue = OpenReadQueue(*sample->checkpoint(),
                             {.method = method, .num_slots = ring.num_buffers},
                             {memory->data(), memory->size_bytes()});
  if (!queue.ok()) {
    state.SkipWithError("this way of reading does not work here");
    return;
  }
  const uint64_t file_bytes = sample->checkpoint()->files()[0]->size_bytes();
  const uint64_t num_pieces = file_bytes / ring.buffer_bytes;
  uint64_t num_started = 0;
  const auto start = [&] {
    const uint32_t slot = num_started % ring.num_buffers;
    (*queue)->Start(
        slot, {0, num_started % num_pieces * ring.buffer_bytes,
               ring.buffer_bytes, memory->data() + slot * ring.buffer_bytes});
    ++num_started;
  };
  while (num_started < ring.num_buffers) start();
  for (auto _ : state) {
    for (uint64_t i = 0; i < num_pieces; ++i) {
      if (!(*queue)->Wait(num_started % ring.num_buffers).ok()) {
        state.SkipWithError("a read failed");
        return;
      }
      start();
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * num_pieces *
                                               ring.buffer_bytes));
}

uint64_t Touch(const WeightLease& lease, uint64_t row_bytes) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < lease.num_rows() * row_bytes; i += 64) {
    sum += lease.data()[i];
  }
  return sum;
}

// False when the source failed.
bool RunPass(const SampleModel& sample, WeightSource& source, bool touches) {
  for (const WeightStep& step : sample.steps()) {
    source.Prefetch(step);
    for (const TensorId tensor : step.tensors) {
      const TensorInfo& info = sample.checkpoint()->tensors()[tensor];
      for (uint64_t row = 0; row < info.num_rows();) {
        auto lease = source.Acquire(tensor, row, info.num_rows() - row);
        if (!lease.ok()) return false;
        if (touches) {
          benchmark::DoNotOptimize(Touch(*lease, info.row_bytes()));
        }
        row += lease->num_rows();
      }
    }
  }
  return true;
}

void Stream(benchmark::State& state, IoMethod method, bool touches,
            uint64_t resident_part, bool leave_no_cache) {
  const SampleModel* sample = Sample(state);
  if (sample == nullptr) return;
  const StreamRingShape ring = RingOf(state);
  ResidencyRequest request =
      DescribeSteps(*sample->checkpoint(), sample->steps(), {});
  request.ring_bytes = StreamBufferBytes(ring, MaxRowBytes(request));
  request.available_bytes =
      request.ring_bytes + (64 << 10) +
      (resident_part == 0
           ? 0
           : sample->checkpoint()->total_tensor_bytes() / resident_part);
  auto plan = PlanResidency(request);
  MemoryAccount account("bench", MemoryAccount::kUnlimited, nullptr);
  auto source = NewStreamSource(
      *sample->checkpoint(), *plan,
      {.ring = ring, .io_method = method, .leave_no_cache = leave_no_cache},
      account, [](uint64_t, uint64_t) { return absl::OkStatus(); });
  if (!source.ok()) {
    state.SkipWithError("this way of reading does not work here");
    return;
  }
  for (auto _ : state) {
    if (!RunPass(*sample, **source, touches)) {
      state.SkipWithError("a read failed");
      return;
    }
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * plan->streamed_bytes_per_pass));
  state.SetLabel((*source)->io_description());
}

void BM_SequentialUring(benchmark::State& state) {
  Sequential(state, IoMethod::kUring);
}
void BM_SequentialDirectPread(benchmark::State& state) {
  Sequential(state, IoMethod::kDirectPread);
}
void BM_SequentialBuffered(benchmark::State& state) {
  Sequential(state, IoMethod::kBuffered);
}
void BM_StreamUring(benchmark::State& state) {
  Stream(state, IoMethod::kUring, false, 0, true);
}
void BM_StreamDirectPread(benchmark::State& state) {
  Stream(state, IoMethod::kDirectPread, false, 0, true);
}
void BM_StreamBuffered(benchmark::State& state) {
  Stream(state, IoMethod::kBuffered, false, 0, true);
}
void BM_StreamCached(benchmark::State& state) {
  Stream(state, IoMethod::kBuffered, false, 0, false);
}
void BM_StreamTouched(benchmark::State& state) {
  Stream(state, IoMethod::kAuto, true, 0, true);
}
void BM_StreamHalf(benchmark::State& state) {
  Stream(state, IoMethod::kAuto, true, 2, true);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const auto& [num_buffers, kib] : {std::pair{4, 64},
                                         {4, 128},
                                         {8, 64},
                                         {8, 128},
                                         {4, 256},
                                         {8, 256},
                                         {16, 128},
                                         {16, 256},
                                         {32, 256},
                                         {8, 512},
                                         {16, 512},
                                         {8, 1024},
                                         {32, 1024}}) {
    bench->Args({num_buffers, kib});
  }
}
BENCHMARK(BM_SequentialUring)->Apply(Shapes);
BENCHMARK(BM_StreamUring)->Apply(Shapes);
BENCHMARK(BM_SequentialDirectPread)->Apply(Shapes);
BENCHMARK(BM_StreamDirectPread)->Apply(Shapes);
BENCHMARK(BM_SequentialBuffered)->Apply(Shapes);
BENCHMARK(BM_StreamBuffered)->Apply(Shapes);
BENCHMARK(BM_StreamCached)->Apply(Shapes);
BENCHMARK(BM_StreamTouched)->Apply(Shapes);
BENCHMARK(BM_StreamHalf)->Apply(Shapes);

}  // namespace
}  // namespace lowmem
