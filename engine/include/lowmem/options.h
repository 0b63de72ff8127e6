// SPDX-License-Identifier: Apache-2.0
// Everything that can be chosen, with its default, its effect and its cost.

#ifndef LOWMEM_OPTIONS_H_
#define LOWMEM_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowmem/export.h"

namespace lowmem {

// Where weights live while the model runs. The results do not depend on it.
enum class Mode {
  kAuto,    // mmap; under a budget copy when the model fits it and leaves room
            // for the context that is needed, or else 512 tokens; else stream
  kMmap,    // the mapped file; the kernel decides what stays in memory
  kCopy,    // heap, in the file's dtype: model size + arena
  kStream,  // a fixed set of rows in heap, as large as the budget allows; the
            // others are read ahead of use in every pass
};

// "auto", "mmap", "copy", "stream".
LOWMEM_EXPORT absl::string_view ModeName(Mode mode);

// How kStream reads the file. The results do not depend on it.
enum class Io {
  kAuto,      // under a budget the fastest of kUring and kPread that works
              // here, else kBuffered
  kUring,     // io_uring, past the page cache
  kPread,     // threads, past the page cache
  kBuffered,  // threads, through the page cache; dropped behind under a budget
};

// "auto", "uring", "pread", "buffered".
LOWMEM_EXPORT absl::string_view IoName(Io io);

// What a sequence will need; a budget is divided by it.
struct SequenceNeed {
  // Of the prompt. As many tokens go through a layer together as fit, since
  // each chunk is a pass over the weights. 0: not known.
  uint32_t prompt_tokens = 0;
  // Prompt and answer: as long as is wanted where it fits, not shorter than the
  // least. Both are cut to the model's context. Wanted 0: not known.
  uint32_t least_context_tokens = 1;
  uint32_t wanted_context_tokens = 0;
  // What the caller will hold as long as the engine and wants counted: ids of
  // its own, stop texts (three times their bytes: Generate takes two).
  uint64_t caller_bytes = 0;
};

// Token ids of a text that begins a sequence. Errors: those of
// Session::AppendText.
using TokenizeFunction = absl::FunctionRef<absl::StatusOr<std::vector<int32_t>>(
    absl::string_view text, bool parse_special)>;

// How keys and values are kept. Within one choice the results depend on nothing
// else.
enum class KvDtype {
  kF32,   // exactly
  kBF16,  // rounded: half the bytes
  kQ8,    // rounded to a signed byte, a scale for 32: about a quarter
};

// "f32", "bf16", "q8".
LOWMEM_EXPORT absl::string_view KvDtypeName(KvDtype kv_dtype);

struct LoadProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct EngineOptions {
  // A Hugging Face folder, a .safetensors file beside its config and tokenizer,
  // an index file, or a .gguf file.
  std::string model_path;
  Mode mode = Mode::kAuto;
  // Threads that compute, the caller's included. 0: one a physical core that
  // the process may run on, or fewer where the control group's quota of
  // processor time grants less. The results do not depend on it.
  uint32_t num_threads = 0;
  // Bytes that everything of ours may hold: program, tokenizer, weights in heap
  // or mapped, activations, caches, text on its way to ids, and the page cache
  // that reading leaves.
  // Absent: no limit. Open refuses with
  // kResourceExhausted, before it reads a weight, when the context does not
  // fit. One session then has what its context needs; several share it, and
  // fail with the same code when they have used it up. What is left holds
  // weights: in kStream rows in heap, in kMmap a fixed part of the mapping,
  // beside which a window moves over the rest.
  std::optional<uint64_t> ram_budget_bytes;
  // Longest sequence a session may hold; more than the model was trained for:
  // what it was trained for. 0: the same, or under a budget what sequence_need
  // says; refused when that is less than one page of keys and values, 16
  // tokens. Scores of attention cost 4 bytes a token and thread; keys and
  // values are taken as they come, but a budget must hold those of a full
  // context.
  uint32_t max_context_tokens = 0;
  // Others than kF32 change the text; the README says by how much.
  KvDtype kv_dtype = KvDtype::kF32;
  // Tokens of a prompt that go through a layer together; 0: 128, under a budget
  // less when it holds no context of eight times that, or what sequence_need
  // allows. More are faster and cost activations; one pass over the weights
  // each.
  uint32_t prefill_chunk_tokens = 0;
  // Asked under a budget, and in kStream, once the tokenizer is loaded; an
  // option that is not 0 goes before its answer. Absent: the longest context
  // that fits, in kStream and kMmap one for which a quarter of what is to spare
  // is enough while not all weights fit.
  std::function<absl::StatusOr<SequenceNeed>(TokenizeFunction)> sequence_need;
  // Bytes that the caller holds of the budget until sequence_need has answered:
  // the text that it will have tokenized.
  uint64_t caller_text_bytes = 0;
  // That text may be longer than any sequence. Otherwise tokenizing it ends
  // with kOutOfRange as soon as it has more tokens than the model's context, or
  // than max_context_tokens.
  bool text_exceeds_context = false;
  // Session::Score will be used: logits of several tokens are held together,
  // up to 4 MiB of them, so that a pass over the head serves as many. Otherwise
  // those of one token, when there is a budget or the mode is kStream.
  bool scores_every_token = false;
  Io io = Io::kAuto;
  // Open ends with kCancelled soon after it became true: while a long text is
  // tokenized for sequence_need, and between blocks of weights. Must outlive
  // Open.
  const std::atomic<bool>* cancel = nullptr;
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
  // the borders of tokens lie. At most 64, each of 1 to 4096 bytes. Generate
  // takes two bytes for each of theirs, which a budget covers where
  // SequenceNeed::caller_bytes counts them.
  std::vector<std::string> stop_texts;
  // End tokens do not end the generation.
  bool ignore_eos = false;
  // Special tokens are left out of the text that is handed out.
  bool skip_special = true;
};

}  // namespace lowmem

#endif  // LOWMEM_OPTIONS_H_
