// SPDX-License-Identifier: Apache-2.0
// Decoding with weights that stream, against its bound: the smaller of what the
// disk can deliver and what copy mode computes. The three are measured in turn,
// round by round, so that a disk or a processor that others use as well changes
// all of them: `of_bound` is the median over the rounds of
//   streamed tokens/s / min(sequential bytes/s / bytes a token, copy tokens/s)
// and `of_disk` that of streamed bytes/s / sequential bytes/s. The sequential
// read is of the same file, by the same method, with as many bytes in flight.
//   StreamDecode/<model>/<percent resident>/<buffers>/<KiB a buffer>
// Models: those of bench_models.h and the one that $LOWMEM_BENCH_MODEL names.
// Copy mode is left out (copy_tok_s 0) for models above 4 GiB.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/engine/bench_models.h"
#include "benchmark/benchmark.h"
#include "storage/base/aligned_buffer.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"
#include "tests/engine/nn/model_run.h"

namespace lowmem::bench {
namespace {

using testing::ModelRun;
using testing::OpenModel;

constexpr uint64_t kMaxCopyBytes = uint64_t{4} << 30;
// One round where a token streams so much that it takes seconds.
constexpr int kNumRounds = 5;
constexpr double kBytesOfOneRound = 4e9;
constexpr double kSecondsPerTurn = 0.2;
constexpr uint32_t kContextTokens = 512;

struct StreamCase {
  std::string model_path;
  int percent = 0;
  StreamRingShape ring;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin_)
        .count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
};

absl::Status Ignore(uint64_t, uint64_t) { return absl::OkStatus(); }

absl::StatusOr<ResidencyPlan> PlanFor(const OpenModel& model,
                                      const StreamCase& c) {
  ResidencyRequest request = DescribeSteps(
      *model.checkpoint, model.weights.Steps(), {model.weights.embedding});
  request.ring_bytes = StreamBufferBytes(c.ring, MaxRowBytes(request));
  uint64_t fixed_bytes = 0;
  uint64_t streamable_bytes = 0;
  for (const auto& step : request.steps) {
    for (const TensorUse& use : step) {
      const uint64_t num_bytes = use.num_rows * use.row_bytes;
      fixed_bytes += 64 + (use.may_stream ? 0 : num_bytes);
      streamable_bytes += use.may_stream ? num_bytes : 0;
    }
  }
  request.available_bytes = request.ring_bytes + fixed_bytes + 64 +
                            streamable_bytes / 100 * c.percent;
  return PlanResidency(request);
}

// Tokens/s of `run` over about kSecondsPerTurn; 0 when it fails.
double DecodeRate(ModelRun& run) {
  const int32_t id = 17;
  testing::Recording recording;
  const auto step = [&] {
    if (run.kv->size() == kContextTokens) run.kv->Truncate(1);
    return run.Forward({&id, 1}, LogitsFor::kLastToken, recording).ok();
  };
  if (!step()) return 0;  // what others left in the caches, and in the ring
  const Stopwatch watch;
  int num_tokens = 0;
  do {
    if (!step()) return 0;
    ++num_tokens;
  } while (watch.seconds() < kSecondsPerTurn);
  return num_tokens / watch.seconds();
}

// Reads a file from front to back, cyclically, as a ring of this shape does.
class SequentialRead {
 public:
  SequentialRead(const Checkpoint& checkpoint, const StreamRingShape& ring,
                 IoMethod method)
      : ring_(ring) {
    auto memory = AlignedBuffer::AllocateContiguous(
        ring.num_buffers * ring.buffer_bytes, 0, account_);
    if (!memory.ok()) return;
    memory_ = *std::move(memory);
    auto queue = OpenReadQueue(
        checkpoint, {.method = method, .num_slots = ring.num_buffers},
        {memory_.data(), memory_.size_bytes()});
    if (queue.ok()) queue_ = *std::move(queue);
    num_pieces_ = checkpoint.files()[0]->size_bytes() / ring.buffer_bytes;
  }

  // Bytes/s over about kSecondsPerTurn; 0 when it fails. As much as a token
  // streams is read before, up to 4 GB, which is when DecodeRate begins to
  // count.
  double Rate(double pass_bytes) {
    if (queue_ == nullptr || num_pieces_ == 0) return 0;
    const auto num_before =
        static_cast<uint64_t>(std::min(pass_bytes, kBytesOfOneRound)) /
        ring_.buffer_bytes;
    for (uint64_t i = 0; i < num_before; ++i) {
      if (!ReadPiece()) return 0;
    }
    const Stopwatch watch;
    uint64_t num_read = 0;
    do {
      if (!ReadPiece()) return 0;
      ++num_read;
    } while (watch.seconds() < kSecondsPerTurn);
    return num_read * ring_.buffer_bytes / watch.seconds();
  }

 private:
  bool ReadPiece() {
    while (num_started_ - num_waited_ < ring_.num_buffers) {
      const auto slot = static_cast<uint32_t>(num_started_ % ring_.num_buffers);
      queue_->Start(slot, {0, num_started_ % num_pieces_ * ring_.buffer_bytes,
                           ring_.buffer_bytes,
                           memory_.data() + slot * ring_.buffer_bytes});
      ++num_started_;
    }
    queue_->Submit();
    return queue_
        ->Wait(static_cast<uint32_t>(num_waited_++ % ring_.num_buffers))
        .ok();
  }

  const StreamRingShape ring_;
  MemoryAccount account_{"bench", MemoryAccount::kUnlimited, nullptr};
  AlignedBuffer memory_;
  std::unique_ptr<ReadQueue> queue_;
  uint64_t num_pieces_ = 0;
  uint64_t num_started_ = 0;
  uint64_t num_waited_ = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Rates {
  std::vector<double> read;
  std::vector<double> copy;
  std::vector<double> stream;
  std::vector<double> of_bound;
  std::vector<double> of_disk;
};

void StreamDecode(benchmark::State& state, const StreamCase& c,
                  IoMethod method) {
  auto model = OpenModel::Open(c.model_path);
  if (!model.ok()) return state.SkipWithError("the model cannot be opened");
  const auto plan = PlanFor(**model, c);
  if (!plan.ok()) return state.SkipWithError("no plan");
  const Checkpoint& checkpoint = *(*model)->checkpoint;
  MemoryAccount account("bench", MemoryAccount::kUnlimited, nullptr);
  StreamSource* source = nullptr;
  testing::RunOptions options;
  options.num_threads = 2;
  options.context_tokens = kContextTokens;
  options.wrap_source =
      [&](WeightSource&, const Checkpoint&) -> std::unique_ptr<WeightSource> {
    auto opened =
        NewStreamSource(checkpoint, *plan,
                        {.ring = c.ring, .io_method = method}, account, Ignore);
    if (!opened.ok()) return nullptr;
    source = opened->get();
    return *std::move(opened);
  };
  auto streamed = ModelRun::Create(**model, options);
  if (!streamed.ok()) return state.SkipWithError("the model cannot stream");
  options.wrap_source = nullptr;
  options.copy = true;
  std::unique_ptr<ModelRun> copied;
  if (checkpoint.total_tensor_bytes() <= kMaxCopyBytes) {
    auto run = ModelRun::Create(**model, options);
    if (!run.ok()) return state.SkipWithError("the model cannot be loaded");
    copied = *std::move(run);
  }
  SequentialRead sequential(checkpoint, c.ring, method);
  const auto pass_bytes = static_cast<double>(plan->streamed_bytes_per_pass);

  Rates rates;
  for (auto _ : state) {
    const int num_rounds = pass_bytes > kBytesOfOneRound ? 1 : kNumRounds;
    for (int i = 0; i < num_rounds; ++i) {
      // Before either turn at the disk it rests as long: a virtual disk may
      // save up while it is idle.
      const auto rest = [&] {
        if (copied != nullptr) rates.copy.push_back(DecodeRate(*copied));
      };
      const auto read = [&] {
        rates.read.push_back(sequential.Rate(pass_bytes));
      };
      const auto stream = [&] {
        rates.stream.push_back(DecodeRate(**streamed));
      };
      rest();
      i % 2 == 0 ? read() : stream();
      rest();
      i % 2 == 0 ? stream() : read();
      double bound = rates.read.back() / pass_bytes;
      if (copied != nullptr) bound = std::min(bound, rates.copy.back());
      rates.of_bound.push_back(rates.stream.back() / bound);
      rates.of_disk.push_back(rates.stream.back() * pass_bytes /
                              rates.read.back());
    }
  }
  state.SetLabel(source->io_description());
  state.counters["read_MB_s"] = Median(rates.read) / 1e6;
  state.counters["copy_tok_s"] = copied == nullptr ? 0 : Median(rates.copy);
  state.counters["tok_s"] = Median(rates.stream);
  state.counters["MB_per_tok"] = pass_bytes / 1e6;
  state.counters["measured_MB_s"] =
      source->measured_bytes_per_s().value_or(0) / 1e6;
  state.counters["of_disk"] = Median(rates.of_disk);
  state.counters["of_bound"] = Median(rates.of_bound);
}

void RegisterAll() {
  std::vector<BenchModel> models = BenchModels();
  // The tiny one fits any ring; of block types one tells enough.
  models.erase(std::remove_if(models.begin(), models.end(),
                              [](const BenchModel& model) {
                                return !absl::EndsWith(model.name, "-bf16") &&
                                       model.name != "smollm2-q4_1";
                              }),
               models.end());
  if (const char* path = std::getenv("LOWMEM_BENCH_MODEL")) {
    models.push_back({"given", path, 0});
  }
  for (const BenchModel& model : models) {
    for (const int percent : {0, 25, 50, 75, 90, 97}) {
      for (const StreamRingShape& ring :
           {StreamRingShape{4, 64 << 10}, StreamRingShape{8, 128 << 10},
            StreamRingShape{16, 256 << 10}, StreamRingShape{16, 512 << 10}}) {
        const StreamCase c = {model.path, percent, ring};
        for (const auto& [method_name, method] :
             {std::pair{"auto", IoMethod::kAuto},
              {"uring", IoMethod::kUring},
              {"pread", IoMethod::kDirectPread},
              {"buffered", IoMethod::kBuffered}}) {
          benchmark::RegisterBenchmark(
              absl::StrCat("StreamDecode/", model.name, "/", method_name, "/",
                           percent, "/", ring.num_buffers, "/",
                           ring.buffer_bytes >> 10)
                  .c_str(),
              [c, method = method](benchmark::State& state) {
                StreamDecode(state, c, method);
              })
              ->Iterations(1)
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
}

const bool is_registered = (RegisterAll(), true);

}  // namespace
}  // namespace lowmem::bench
