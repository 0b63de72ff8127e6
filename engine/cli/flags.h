// SPDX-License-Identifier: Apache-2.0
// The command line as a struct: parsed once, every value checked, before
// anything is opened. The only part of the program that knows the argument
// parser.

#ifndef LOWMEM_ENGINE_CLI_FLAGS_H_
#define LOWMEM_ENGINE_CLI_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lowmem/options.h"

namespace lowmem::cli {

// Options that stand before or after any command.
struct GlobalFlags {
  std::string model_path;  // empty: not given
  Mode mode = Mode::kAuto;
  KvDtype kv_dtype = KvDtype::kF32;
  // `auto` has become a number here.
  std::optional<uint64_t> ram_budget_bytes;
  uint32_t num_threads = 0;  // 0: one a processor
  Io io = Io::kAuto;
  bool json = false;
  bool stats = false;
  bool quiet = false;
  uint64_t argument_bytes = 0;  // of the whole command line
};

// Where the tokens come from. Exactly one is set.
struct PromptFlags {
  std::optional<std::string> text;
  std::optional<std::string> file;  // "-": stdin
  std::optional<std::vector<int32_t>> ids;
};

struct GenerateFlags {
  PromptFlags prompt;
  GenerateOptions options;
  bool is_length_asked = false;       // -n was given
  uint32_t max_context_tokens = 0;    // 0: the model's
  uint32_t prefill_chunk_tokens = 0;  // 0: chosen
};

struct InfoFlags {
  bool tensors = false;
  bool plan = false;
  uint32_t max_context_tokens = 0;  // 0: chosen
};

struct TokenizeFlags {
  bool decode = false;
};

struct TraceFlags {
  PromptFlags prompt;
  uint32_t prefill_chunk_tokens = 0;  // 0: chosen
  std::string out_path;
};

struct PerplexityFlags {
  std::string file;                 // "-": stdin
  uint32_t max_context_tokens = 0;  // 0: the model's
  uint32_t stride_tokens = 0;       // 0: half the context
};

struct ConvertFlags {
  std::string in_path;
  std::string out_path;
  bool force = false;
};

struct BenchFlags {
  std::vector<Mode> modes = {Mode::kMmap, Mode::kCopy};
  // Each mode runs under each of them; empty: no budget.
  std::vector<uint64_t> budgets_bytes;
  uint32_t num_prompt_tokens = 128;
  uint32_t num_new_tokens = 64;
  uint32_t num_repeats = 1;
  bool cold = false;
  std::string out_folder;  // empty: nothing is written
  // Hidden: this process is one of the runs. Its meter goes to stdout.
  bool single_run = false;
};

struct Flags {
  std::string command;  // one of CommandNames()
  GlobalFlags global;
  GenerateFlags generate;
  InfoFlags info;
  TokenizeFlags tokenize;
  TraceFlags trace;
  PerplexityFlags perplexity;
  ConvertFlags convert;
  BenchFlags bench;
};

// Either a command to run, or a text for stdout (help, version, manual).
struct ParsedCommandLine {
  std::optional<Flags> flags;
  std::string text;
};

// Errors: kInvalidArgument for wrong usage, with where to read on;
// kUnimplemented for what is part of the command line but not of this version;
// kResourceExhausted when `--ram-budget auto` finds no memory.
absl::StatusOr<ParsedCommandLine> ParseCommandLine(int argc,
                                                   const char* const* argv);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_FLAGS_H_
