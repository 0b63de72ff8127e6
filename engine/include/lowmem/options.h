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
#include "absl/strings/string_view.h"
#include "lowmem/export.h"

namespace lowmem {

// Where weights live while the model runs. The results do not depend on it.
enum class Mode {
  kAuto,    // mmap; under a budget, copy when the model fits it
  kMmap,    // the mapped file; the kernel decides what stays in memory
  kCopy,    // heap, in the file's dtype: model size + arena
  kStream,  // a fixed resident set and a ring; not offered yet: kUnimplemented
};

// "auto", "mmap", "copy", "stream".
LOWMEM_EXPORT absl::string_view ModeName(Mode mode);

struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct EngineOptions {
  // A Hugging Face folder, a .safetensors file beside its config and tokenizer,
  // an index file, or a .gguf file.
  std::string model_path;
  Mode mode = Mode::kAuto;
  // Threads that compute, the caller's included. 0: one a processor the process
  // may run on. The results do not depend on it.
  uint32_t num_threads = 0;
  // Bytes that everything of ours may hold: program, tokenizer, weights in
  // heap, activations, caches. Absent: no limit. Open refuses with
  // kResourceExhausted, before it reads a weight, when the smallest sequence
  // would not fit; a sequence that grows out of it later fails with the same
  // code. Pages of a mapped file are the kernel's to take back and do not
  // count; when they do not fit the budget beside the rest, they are given back
  // after use.
  std::optional<uint64_t> ram_budget_bytes;
  // Longest sequence a session may hold; 0, or more than the model was trained
  // for: what it was trained for. Scores of attention cost some bytes a token
  // and thread; keys and values are taken as they come.
  uint32_t max_context_tokens = 0;
  // Tokens of a prompt that go through a layer together; 0: 128, less when the
  // budget is small. More are faster and cost activations; one pass over the
  // weights each.
  uint32_t prefill_chunk_tokens = 0;
  // Called while weights are copied; returning an error ends Open with it.
  std::function<absl::Status(const LoadProgress&)> on_load_progress;
};

// How the next token is chosen. Unset fields come from the model's
// generation_config.json where it has one (a temperature only where it says
// do_sample), else they are the neutral value given here; temperature 0.
// Order: penalties on the logits, temperature, top-k, top-p, min-p, draw.
// At temperature 0 the argmax is taken: of the raw logits, unless a penalty is
// set here; those of generation_config.json do not apply then.
struct SamplingOptions {
  std::optional<float> temperature;  // 0 to 100; 0: argmax
  std::optional<uint32_t> top_k;     // 0: off
  std::optional<float> top_p;        // above 0, to 1; 1: off
  std::optional<float> min_p;        // 0 to 1; 0: off
  // Over prompt and answer, 0.01 to 100; 1: off. A positive logit is divided by
  // it, a negative one multiplied.
  std::optional<float> repetition_penalty;
  // Over the answer, -100 to 100; 0: off. Subtracted from the logit of a token
  // that occurred, once; and once for each time it occurred.
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  // The same seed gives the same text in every mode, on every machine. Each
  // draw depends on the seed and the position in the sequence alone, so an
  // answer taken in two calls is the answer taken in one.
  uint64_t seed = 0;
};

struct GenerateOptions {
  // Tokens at most; -1: to an end token or the end of the context. 0 computes
  // nothing.
  int64_t max_new_tokens = 256;
  SamplingOptions sampling;
  // Generation ends before the first of these texts would be printed, wherever
  // the borders of tokens lie. At most 64, each of 1 to 4096 bytes.
  std::vector<std::string> stop_texts;
  // End tokens do not end the generation.
  bool ignore_eos = false;
  // Special tokens are left out of the text that is handed out.
  bool skip_special = true;
};

}  // namespace lowmem

#endif  // LOWMEM_OPTIONS_H_
