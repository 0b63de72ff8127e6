// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/command_line.h"

#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cli/option_values.h"
#include "engine/cli/ram_budget.h"
#include "engine/cli/wrapped_help.h"
#include "quant/simd_target.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxContextTokens =
    static_cast<uint32_t>(limits::kContextTokens);
// More tokens at once cost activations and gain nothing.
constexpr uint32_t kMaxChunkTokens = 1u << 16;
constexpr uint32_t kMaxBenchTokens = 1u << 24;
constexpr uint32_t kMaxRepeats = 1000;
constexpr float kSmallestShare = 1e-6f;

std::string VersionText() {
  const SimdTarget target = ChosenSimdTarget();
  return absl::StrCat(
      "lowmem-run ", LOWMEM_VERSION, "\ninstruction set: ", target.name,
      target.has_fused_multiply_add
          ? " (results as on all with fused multiply-add)"
          : " (no fused multiply-add: results may differ from other sets)");
}

}  // namespace

CommandLine::CommandLine()
    : app_("Runs language models larger than the memory they may use.",
           "lowmem-run") {
  app_.formatter(std::make_shared<WrappedHelp>());
  app_.require_subcommand(0, 1);  // a missing one gets a message of our own
  app_.set_version_flag("--version", VersionText,
                        "Print the version and the instruction set in use, and "
                        "exit");
  app_.set_help_flag("-h,--help", "Print this help and exit");
  app_.add_flag("--help-man", wants_manual_)->group("");
  app_.footer(
      "Options above may also stand behind the command. SIZE is a number of\n"
      "bytes, or one with K, M, G or T (powers of 1024): 512M, 1.5G.\n\n"
      "The same input gives the same result on every instruction set with\n"
      "fused multiply-add (AVX2, AVX-512, NEON); on one without (SSE4 and\n"
      "scalar) it may differ from theirs, but not from run to run.\n\n"
      "Example:\n"
      "  lowmem-run -m models/smollm2-bf16 generate -p \"Once upon a time\" -n "
      "64\n\n"
      "See lowmem-run COMMAND --help for each command.");
  DefineGlobal();
  DefineGenerate();
  DefineInfo();
  DefineTokenize();
  DefineTrace();
  DefinePerplexity();
  DefineConvert();
  DefineBench();
}

CLI::App& CommandLine::AddCommand(const std::string& name,
                                  const std::string& summary,
                                  const std::string& example) {
  CLI::App& command = *app_.add_subcommand(name, summary);
  command.group("Commands");
  command.fallthrough();  // global options may follow the command
  command.footer(absl::StrCat(
      "Options of every command: see lowmem-run --help.\n\nExample:\n  ",
      example));
  return command;
}

void CommandLine::AddPrompt(CLI::App& command, PromptFlags& prompt) {
  options_.AddValue(command, "-p,--prompt", "TEXT",
                    "The prompt; special tokens in it are recognised",
                    [&prompt](const std::string& text) {
                      prompt.text = text;
                      return absl::OkStatus();
                    });
  options_.AddValue(
      command, "--prompt-file", "FILE",
      "The prompt from a file, taken to the last byte; - is stdin",
      [&prompt](const std::string& text) {
        prompt.file = text;
        return absl::OkStatus();
      });
  options_.AddValue(command, "--prompt-ids", "1,2,3", "The prompt as token ids",
                    [&prompt](const std::string& text) {
                      LOWMEM_ASSIGN_OR_RETURN(prompt.ids, ParseIds(text));
                      return absl::OkStatus();
                    });
}

void CommandLine::DefineGlobal() {
  GlobalFlags& global = flags_.global;
  options_.AddText(
      app_, "-m,--model", "MODEL",
      "A Hugging Face folder, a .safetensors file beside its config and "
      "tokenizer, an index file, or a .gguf file",
      global.model_path);
  options_.AddValue(
      app_, "--mode", "MODE",
      "Where weights live while the model runs: mmap (the mapped file), copy "
      "(heap, in the file's dtype), stream (as many rows in heap as the budget "
      "allows, the others read ahead in every pass) or auto: mmap; under a "
      "budget copy when the model fits it, else stream",
      [&global](const std::string& text) {
        return AssignTo(ParseMode(text), global.mode);
      });
  options_.AddValue(
      app_, "--ram-budget", "SIZE|auto",
      "What the process may hold and leave in the page cache; auto: the "
      "smaller of what the machine and what the control group have available, "
      "less 1/16 (of the machine's at least 32 MiB, of the group's 4 MiB)",
      [&global](const std::string& text) {
        LOWMEM_ASSIGN_OR_RETURN(global.ram_budget_bytes, ParseRamBudget(text));
        return absl::OkStatus();
      });
  options_.AddValue(
      app_, "-t,--threads", "N",
      "Threads that compute. Default: one a physical core that the process "
      "may run on, fewer where its control group has a smaller quota of "
      "processors. The results do not depend on it",
      [&global](const std::string& text) {
        return AssignTo(ParseInteger(text, 1, kMaxThreads), global.num_threads);
      });
  options_.AddValue(
      app_, "--io", "HOW",
      "How mode stream reads: uring (io_uring) or pread (threads), both past "
      "the page cache, buffered (threads, through it), or auto: what is "
      "fastest here. Not with --mode mmap or copy. The results do not depend "
      "on it",
      [&global](const std::string& text) {
        return AssignTo(ParseIo(text), global.io);
      });
  options_.AddValue(
      app_, "--kv", "DTYPE",
      "How keys and values are kept: f32; bf16 and q8 take a half and about a "
      "quarter of the memory and change the results a little",
      [&global](const std::string& text) {
        return AssignTo(ParseKvDtype(text), global.kv_dtype);
      });
  app_.add_flag("--json", global.json, "Results as JSON on stdout");
  app_.add_flag("--stats", global.stats,
                "Memory, time and speed on stderr when done");
  app_.add_flag("-q,--quiet", global.quiet, "Nothing on stderr but errors");
}

void CommandLine::DefineSampling(CLI::App& command) {
  SamplingOptions& sampling = flags_.generate.options.sampling;
  const std::string group =
      "Sampling (default: the model's settings, else greedy)";
  options_
      .AddNumber(command, "--temperature", "0: always the most likely token",
                 sampling.temperature, 0, 100)
      ->group(group);
  options_
      .AddValue(
          command, "--top-k", "N", "Only the N most likely tokens; 0: all",
          [&sampling](const std::string& text) {
            LOWMEM_ASSIGN_OR_RETURN(
                const int64_t top_k,
                ParseInteger(text, 0, std::numeric_limits<uint32_t>::max()));
            sampling.top_k = static_cast<uint32_t>(top_k);
            return absl::OkStatus();
          })
      ->group(group);
  options_
      .AddNumber(command, "--top-p",
                 "Only the most likely tokens that hold this share; 1: all",
                 sampling.top_p, kSmallestShare, 1)
      ->group(group);
  options_
      .AddNumber(
          command, "--min-p",
          "Only tokens with this share of the best one's probability; 0: all",
          sampling.min_p, 0, 1)
      ->group(group);
  options_
      .AddNumber(command, "--repetition-penalty",
                 "Divides the scores of tokens seen before; 1: off",
                 sampling.repetition_penalty, 0.01f, 100)
      ->group(group);
  options_
      .AddNumber(command, "--presence-penalty",
                 "Taken off the score of each generated token; 0: off",
                 sampling.presence_penalty, -100, 100)
      ->group(group);
  options_
      .AddNumber(command, "--frequency-penalty",
                 "The same, for each time it was generated; 0: off",
                 sampling.frequency_penalty, -100, 100)
      ->group(group);
  options_
      .AddValue(command, "--seed", "N",
                "The same seed gives the same text in every mode. Default: 0",
                [&sampling](const std::string& text) {
                  return AssignTo(ParseSeed(text), sampling.seed);
                })
      ->group(group);
}

void CommandLine::DefineGenerate() {
  GenerateFlags& generate = flags_.generate;
  CLI::App& command = AddCommand(
      "generate", "Continue a text",
      "lowmem-run -m model.gguf --mode mmap generate -p \"The sea is\" -n 40");
  AddPrompt(command, generate.prompt);
  options_.AddValue(
      command, "-n,--max-new-tokens", "N",
      "Tokens at most; -1: to the end of the text or of the context. "
      "Default: 256",
      [&generate](const std::string& text) {
        generate.is_length_asked = true;
        return AssignTo(
            ParseInteger(text, -1, std::numeric_limits<int64_t>::max()),
            generate.options.max_new_tokens);
      });
  options_
      .AddValue(
          command, "--stop", "TEXT",
          "End before this text would be printed; may be given several times",
          [&generate](const std::string& text) {
            return AddStopText(text, generate.options.stop_texts);
          })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--ignore-eos", generate.options.ignore_eos,
                   "Go on behind end tokens");
  options_.AddCount(
      command, "--ctx",
      "Longest sequence in tokens. Default: what the model was trained for; "
      "under a budget prompt and answer",
      generate.max_context_tokens, 1, kMaxContextTokens);
  options_.AddCount(
      command, "--prefill-chunk",
      "Prompt tokens that go through a layer together. Default: chosen",
      generate.prefill_chunk_tokens, 1, kMaxChunkTokens);
  DefineSampling(command);
}

void CommandLine::DefineInfo() {
  CLI::App& command =
      AddCommand("info", "Family, size, memory forecast and tensors of a model",
                 "lowmem-run -m models/smollm2-bf16 info --tensors");
  command.add_flag("--tensors", flags_.info.tensors, "List every tensor");
  command.add_flag(
      "--plan", flags_.info.plan,
      "Which rows stay in memory under --ram-budget, and what each "
      "kind of memory takes");
  options_.AddCount(command, "--ctx",
                    "Longest sequence to plan for, in tokens. Default: the "
                    "longest that leaves most of the budget to weights",
                    flags_.info.max_context_tokens, 1, kMaxContextTokens);
}

void CommandLine::DefineTokenize() {
  CLI::App& command = AddCommand(
      "tokenize", "Text to token ids, or back",
      "echo '{\"text\": \"Hello\"}' | lowmem-run -m models/smollm2-bf16 "
      "tokenize\n\n"
      "stdin has one JSON object a line: text, and as an option add_special "
      "and\n"
      "parse_special (both true by default). stdout has one a line: ids, or "
      "error.\n"
      "With --decode: ids, and as an option skip_special (false by default); "
      "then\n"
      "text and pieces (what a stream prints after each id, and at last the "
      "rest).");
  command.add_flag("--decode", flags_.tokenize.decode, "Ids to text");
}

void CommandLine::DefineTrace() {
  TraceFlags& trace = flags_.trace;
  CLI::App& command = AddCommand(
      "trace", "Hidden states and logits of a prompt, to a file",
      "lowmem-run -m models/smollm2-bf16 trace --prompt-ids 1,2,3 --out "
      "t.safetensors\n\n"
      "F32 tensors: hidden.0 (after the embedding), hidden.1 to hidden.N "
      "(after\n"
      "each layer), hidden.norm, all [num_tokens, dim]; logits [num_tokens,\n"
      "vocab_size].");
  AddPrompt(command, trace.prompt);
  options_.AddCount(
      command, "--prefill-chunk",
      "Prompt tokens that go through a layer together. Default: chosen",
      trace.prefill_chunk_tokens, 1, kMaxChunkTokens);
  options_
      .AddText(command, "--out", "FILE", "Where the tensors go", trace.out_path)
      ->required();
}

void CommandLine::DefinePerplexity() {
  PerplexityFlags& perplexity = flags_.perplexity;
  CLI::App& command = AddCommand(
      "perplexity", "How well a model predicts a text",
      "lowmem-run -m models/smollm2-bf16 perplexity --file text.txt");
  options_
      .AddText(command, "--file", "FILE", "The text; - is stdin",
               perplexity.file)
      ->required();
  options_.AddCount(command, "--ctx",
                    "Tokens a window. Default: what the model was trained for",
                    perplexity.max_context_tokens, 2, kMaxContextTokens);
  options_.AddCount(
      command, "--stride",
      "Tokens from one window to the next. Default: half a window",
      perplexity.stride_tokens, 1, kMaxContextTokens);
}

void CommandLine::DefineConvert() {
  ConvertFlags& convert = flags_.convert;
  CLI::App& command = AddCommand(
      "convert", "Write a checkpoint as a Hugging Face folder in bf16",
      "lowmem-run convert model.gguf models/model-bf16");
  options_
      .AddText(command, "IN", "PATH", "A model, as for -m", convert.in_path)
      ->required();
  options_
      .AddText(command, "OUT", "PATH", "The folder to write", convert.out_path)
      ->required();
  command.add_flag("--force", convert.force,
                   "Replace OUT if it is a model's folder or empty");
}

void CommandLine::DefineBench() {
  BenchFlags& bench = flags_.bench;
  CLI::App& command = AddCommand(
      "bench", "Modes side by side, each in a process of its own",
      "lowmem-run -m models/smollm2-bf16 bench --modes mmap,copy -p 128 -n "
      "64\n\n"
      "A run that is refused or fails is reported with its reason and the "
      "others\n"
      "go on; the exit code is then that of the first such run: 6 for a budget "
      "that\nis too small for one of the modes.");
  options_.AddValue(command, "--modes", "MODE,...",
                    "auto: what is taken without --mode. Default: mmap,copy",
                    [&bench](const std::string& text) {
                      return AssignTo(ParseModes(text), bench.modes);
                    });
  options_.AddValue(command, "--budgets", "SIZE|auto,...",
                    "Run each mode under each of these memory budgets, within "
                    "a memory control group of that size where one can be "
                    "made, with the model out of the page cache. Default: none",
                    [&bench](const std::string& text) {
                      return AssignTo(ParseBudgets(text), bench.budgets_bytes);
                    });
  options_.AddCount(command, "-p,--prompt-tokens",
                    "Prompt tokens. Default: 128", bench.num_prompt_tokens, 1,
                    kMaxBenchTokens);
  options_.AddCount(command, "-n,--new-tokens", "Generated tokens. Default: 64",
                    bench.num_new_tokens, 1, kMaxBenchTokens);
  options_.AddCount(command, "--repeat", "Runs of each kind. Default: 1",
                    bench.num_repeats, 1, kMaxRepeats);
  command.add_flag("--cold", bench.cold,
                   "Have the page cache forget the model before each run");
  options_.AddText(command, "--out", "FOLDER",
                   "Also write bench.json and bench.txt there",
                   bench.out_folder);
  command.add_flag("--single-run", bench.single_run)->group("");
}

}  // namespace lowmem::cli
