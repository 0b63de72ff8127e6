// SPDX-License-Identifier: Apache-2.0
// Everything that can be chosen, with its default, its effect and its cost.

#ifndef LOWMEM_OPTIONS_H_
#define LOWMEM_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lowmem {

// Where weights live while the model runs.
enum class Mode {
  kAuto,  // mmap without a budget; with one, copy when the model fits in it
  kMmap,  // the mapped file; the kernel decides what stays in memory
  kCopy,  // heap, in the file's dtype: model size + arena
};

struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct EngineOptions {
  // A Hugging Face folder, a .safetensors file beside its config and tokenizer, an
  // index file, or a .gguf file.
  std::string model_path;
  Mode mode = Mode::kAuto;
  // Threads that compute, the caller's included. 0: one a processor the process may
  // run on. The results do not depend on it.
  uint32_t num_threads = 0;
  // Bytes that everything of ours may hold: weights in heap, activations, caches.
  // Absent: no limit. Open refuses with kResourceExhausted when it cannot be kept.
  std::optional<uint64_t> ram_budget_bytes;
  // Longest sequence a session may hold; 0: what the model was trained for. Scores
  // of attention cost num_heads * 4 bytes a token; keys and values are taken as
  // they come.
  uint32_t max_context_tokens = 0;
  // Tokens of a prompt that go through a layer together; 0: chosen. More are
  // faster and cost activations; one pass over the weights each.
  uint32_t prefill_chunk_tokens = 0;
  // Called while weights are copied; returning an error ends Open with it.
  std::function<absl::Status(const LoadProgress&)> on_load_progress;
};

// How the next token is chosen. Unset fields come from the model's
// generation_config.json where it has one, else from the neutral value given here.
// Order: penalties on the logits, temperature, top-k, top-p, min-p, draw.
struct SamplingOptions {
  std::optional<float> temperature;         // 0: argmax of the raw logits
  std::optional<uint32_t> top_k;            // 0: off
  std::optional<float> top_p;               // 1: off
  std::optional<float> min_p;               // 0: off
  std::optional<float> repetition_penalty;  // 1: off; over prompt and answer
  std::optional<float> presence_penalty;    // 0: off; over the answer
  std::optional<float> frequency_penalty;   // 0: off; over the answer
  // The same seed gives the same text in every mode, on every machine.
  uint64_t seed = 0;
};

struct GenerateOptions {
  // Tokens at most; -1: to an end token or the end of the context.
  int64_t max_new_tokens = 256;
  SamplingOptions sampling;
  // Generation ends before the first of these texts would be printed.
  std::vector<std::string> stop_texts;
  // End tokens do not end the generation.
  bool ignore_eos = false;
  // Special tokens are left out of the text that is handed out.
  bool skip_special = true;
};

}  // namespace lowmem

#endif  // LOWMEM_OPTIONS_H_
