// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/bench_run.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cli/child_process.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "storage/base/json_writer.h"
#include "storage/base/memory_meter.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMeterKey[] = "meter";
constexpr char kWeightsKey[] = "weight_bytes_per_token";
constexpr char kStorageKey[] = "storage_bytes_per_token";

// Ordinary tokens, the same in every run: what they say does not matter to time
// or memory.
std::vector<int32_t> PromptIds(uint32_t num_tokens, uint32_t vocab_size) {
  constexpr uint32_t kFirst = 100;  // special tokens often come first
  constexpr uint32_t kStep = 7919;
  std::vector<int32_t> ids;
  for (uint32_t i = 0; i < num_tokens; ++i) {
    const uint64_t id = kFirst + uint64_t{i} * kStep % 20'000;
    ids.push_back(static_cast<int32_t>(id % vocab_size));
  }
  return ids;
}

absl::StatusOr<Meter> Generate(Session& session, uint32_t num_tokens) {
  GenerateOptions options;
  options.max_new_tokens = num_tokens;
  options.ignore_eos = true;
  options.sampling.temperature = 0;
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  LOWMEM_ASSIGN_OR_RETURN(const GenerateResult result,
                          session.Generate(options, [](absl::string_view) {
                            return !Interrupted();
                          }));
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  return result.meter;
}

// The meter of a generation in two calls: `first` gave the first token,
// `rest` the `num_decoded` others in `decode_s`.
Meter Joined(const Meter& first, const Meter& rest, uint32_t num_decoded,
             double decode_s) {
  Meter meter = rest;
  meter.prompt_tokens = first.prompt_tokens;
  meter.generated_tokens += first.generated_tokens;
  meter.weight_bytes_read += first.weight_bytes_read;
  meter.prefill_weight_passes = first.prefill_weight_passes;
  meter.time_to_first_token_s = first.time_to_first_token_s;
  meter.prefill_tokens_per_s = first.prefill_tokens_per_s;
  meter.decode_weight_passes =
      (rest.prefill_weight_passes.value_or(0) +
       rest.decode_weight_passes.value_or(0) * (num_decoded - 1)) /
      num_decoded;
  meter.decode_tokens_per_s =
      decode_s > 0 ? std::optional<double>(num_decoded / decode_s)
                   : std::nullopt;
  return meter;
}

std::optional<uint64_t> PerToken(const std::optional<uint64_t>& before,
                                 const std::optional<uint64_t>& after,
                                 uint32_t num_tokens) {
  if (!before.has_value() || !after.has_value()) return std::nullopt;
  return (*after - *before) / num_tokens;
}

void AppendOptional(absl::string_view key, const std::optional<uint64_t>& value,
                    JsonWriter& json) {
  json.Key(key);
  value.has_value() ? json.Uint(*value) : json.Null();
}

std::vector<std::string> RunArgs(const Flags& flags, const BenchRun& run) {
  std::vector<std::string> args = {"-q", "-m", flags.global.model_path};
  if (run.mode != Mode::kAuto) {
    args.insert(args.end(), {"--mode", std::string(ModeName(run.mode))});
  }
  if (run.ram_budget_bytes.has_value()) {
    args.insert(args.end(),
                {"--ram-budget", absl::StrCat(*run.ram_budget_bytes)});
  }
  args.insert(args.end(),
              {"--kv", std::string(KvDtypeName(flags.global.kv_dtype))});
  if (run.mode == Mode::kStream || run.mode == Mode::kAuto) {
    args.insert(args.end(), {"--io", std::string(IoName(flags.global.io))});
  }
  if (flags.global.num_threads != 0) {
    args.insert(args.end(), {"-t", absl::StrCat(flags.global.num_threads)});
  }
  args.insert(args.end(), {"bench", "--single-run", "-p",
                           absl::StrCat(flags.bench.num_prompt_tokens), "-n",
                           absl::StrCat(flags.bench.num_new_tokens)});
  return args;
}

absl::Status TakeResult(const std::string& text, BenchRun& run) {
  LOWMEM_ASSIGN_OR_RETURN(const JsonValue json, JsonValue::Parse(text));
  const JsonValue* const meter = json.Find(kMeterKey);
  const JsonValue* const weights = json.Find(kWeightsKey);
  const JsonValue* const storage = json.Find(kStorageKey);
  if (meter == nullptr || weights == nullptr || storage == nullptr) {
    return absl::InternalError("the process of this run printed no meter");
  }
  run.meter = *meter;
  run.weight_bytes_per_token = weights->AsUint64();
  run.storage_bytes_per_token = storage->AsUint64();
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureRun(const Flags& flags, BenchRun& run) {
  const LongerPatience until_the_group_is_gone;
  std::unique_ptr<MemoryGroup> group;
  if (run.ram_budget_bytes.has_value()) {
    absl::StatusOr<std::unique_ptr<MemoryGroup>> made =
        MemoryGroup::Create(*run.ram_budget_bytes);
    if (made.ok()) {
      group = *std::move(made);
      run.limit_bytes = run.ram_budget_bytes;
    } else {
      run.no_limit_reason = std::string(made.status().message());
    }
  }
  const absl::StatusOr<std::string> out =
      RunSelf(RunArgs(flags, run), group.get());
  if (group != nullptr) run.group = group->Usage();
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  run.status = out.status();
  return run.status.ok() ? TakeResult(*out, run) : absl::OkStatus();
}

absl::Status RunMeasured(const Flags& flags, Console& console) {
  const BenchFlags& bench = flags.bench;
  const EngineLimits limits = {
      .max_context_tokens = bench.num_prompt_tokens + bench.num_new_tokens,
      .sequence_need = [&bench](TokenizeFunction) {
        return SequenceNeed{.prompt_tokens = bench.num_prompt_tokens};
      }};
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                          OpenEngine(flags.global, limits, console));
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          engine->NewSession());
  LOWMEM_RETURN_IF_ERROR(session->AppendIds(
      PromptIds(bench.num_prompt_tokens, engine->vocab_size())));
  const CancelOnSignal cancel_on_signal(*session);
  // The first token apart: what it read, all of the weights once, is no figure
  // of decoding.
  LOWMEM_ASSIGN_OR_RETURN(Meter meter, Generate(*session, 1));
  std::optional<uint64_t> weight_bytes, storage_bytes;
  if (const uint32_t num_decoded = bench.num_new_tokens - 1; num_decoded > 0) {
    const std::optional<uint64_t> before =
        ReadProcessMemory().storage_read_bytes;
    const Clock::time_point begin = Clock::now();
    LOWMEM_ASSIGN_OR_RETURN(const Meter rest, Generate(*session, num_decoded));
    const double decode_s =
        std::chrono::duration<double>(Clock::now() - begin).count();
    meter = Joined(meter, rest, num_decoded, decode_s);
    weight_bytes = rest.weight_bytes_read / num_decoded;
    storage_bytes =
        PerToken(before, ReadProcessMemory().storage_read_bytes, num_decoded);
  }
  JsonWriter json;
  json.BeginObject().Key(kMeterKey);
  AppendMeter(meter, json);
  AppendOptional(kWeightsKey, weight_bytes, json);
  AppendOptional(kStorageKey, storage_bytes, json);
  json.EndObject();
  return console.Write(absl::StrCat(json.text(), "\n"));
}

}  // namespace lowmem::cli
