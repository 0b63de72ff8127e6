// SPDX-License-Identifier: Apache-2.0
// A program that holds an engine and nothing else, so that what the kernel
// counts for the process is the engine's: memory_probe MODEL NUM_PROMPT_TOKENS
// NUM_NEW_TOKENS prints a JSON list of two meters, after opening (mapped, with
// the files out of the page cache as far as the kernel lets go of them) and at
// the end.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/generate/meter_format.h"
#include "lowmem/engine.h"
#include "storage/checkpoint.h"

namespace lowmem {
namespace {

absl::Status ForgetFiles(const std::string& model_path) {
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
      Checkpoint::Open(model_path);
  if (!checkpoint.ok()) return checkpoint.status();
  for (const auto& file : (*checkpoint)->files()) {
    file->DropCache(0, file->size_bytes());
  }
  return absl::OkStatus();
}

absl::Status Probe(const std::string& model_path, int num_prompt_tokens,
                   int num_new_tokens) {
  if (absl::Status status = ForgetFiles(model_path); !status.ok())
    return status;
  EngineOptions options;
  options.model_path = model_path;
  options.mode = Mode::kMmap;
  options.num_threads = 2;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(options);
  if (!engine.ok()) return engine.status();
  const std::string opened = MeterToJson((*engine)->MemoryReport());

  absl::StatusOr<std::unique_ptr<Session>> session = (*engine)->NewSession();
  if (!session.ok()) return session.status();
  std::vector<int32_t> ids(num_prompt_tokens);
  for (int i = 0; i < num_prompt_tokens; ++i) ids[i] = 100 + (i * 7919) % 20000;
  if (absl::Status status = (*session)->AppendIds(ids); !status.ok())
    return status;
  GenerateOptions generate;
  generate.max_new_tokens = num_new_tokens;
  generate.ignore_eos = true;
  // Sampling touches buffers that the argmax does not.
  generate.sampling.temperature = 1.0f;
  generate.sampling.top_p = 0.9f;
  generate.sampling.repetition_penalty = 1.1f;
  absl::StatusOr<GenerateResult> result =
      (*session)->Generate(generate, [](absl::string_view) { return true; });
  if (!result.ok()) return result.status();
  std::printf("[%s,\n%s]\n", opened.c_str(),
              MeterToJson(result->meter).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace lowmem

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status =
      lowmem::Probe(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
