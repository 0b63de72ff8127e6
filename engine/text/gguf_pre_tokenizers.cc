// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf_pre_tokenizers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"

namespace lowmem {
namespace {

// One step of a pre-tokenizer: a regex split, or one of those below.
constexpr absl::string_view kDigits = "Digits";  // one by one
constexpr absl::string_view kGpt2 = "ByteLevel with GPT-2's regex";

// Patterns as in tokenizer.json of: Qwen/Qwen2, Qwen/Qwen3.5,
// meta-llama/Meta-Llama-3, openai/gpt-oss, mistralai/Mistral-Nemo,
// deepseek-ai/DeepSeek-V3, deepseek-ai/deepseek-coder. Constants of the format.
constexpr absl::string_view kQwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr absl::string_view kQwen35 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr absl::string_view kLlama3 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr absl::string_view kGpt4o =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr absl::string_view kTekken =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr absl::string_view kDeepSeekDigits = R"re(\p{N}{1,3})re";
constexpr absl::string_view kDeepSeekCjk =
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr absl::string_view kDeepSeekRest =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr absl::string_view kCoderCjk =
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";

// What llama.cpp calls "default" (llama-vocab.cpp): made for files of unknown
// origin, the tokenizer of no published model.
constexpr absl::string_view kDefaultMarks = R"re([\p{P}\$\+<=>\^~\|]+)re";
constexpr absl::string_view kDefaultWords =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))re";

struct Row {
  std::vector<absl::string_view> names;
  absl::string_view normalizer;  // its type; empty for none
  // A ByteLevel without regex follows unless kGpt2 is the last.
  std::vector<absl::string_view> steps;
  bool ignore_merges = false;
  bool adds_bos = false;
};

const std::vector<Row>& Rows() {
  // Never destroyed, so that it can be used at any time.
  static const auto& rows = *new std::vector<Row>{
      {{"gpt-2", "phi-2"}, "", {kGpt2}},
      // EleutherAI's NeoX vocabulary.
      {{"mpt", "olmo"}, "NFC", {kGpt2}},
      {{"smollm", "starcoder", "refact"}, "", {kDigits, kGpt2}},
      {{"command-r"}, "NFC", {kDigits, kGpt2}},
      {{"qwen2", "deepseek-r1-qwen"}, "NFC", {kQwen2}},
      {{"qwen35"}, "NFC", {kQwen35}},
      {{"llama-bpe", "llama3", "llama-v3"}, "", {kLlama3}, true, true},
      {{"gpt-4o", "llama4"}, "", {kGpt4o}},
      {{"tekken"}, "", {kTekken}, true, true},
      {{"deepseek-v3"}, "", {kDeepSeekDigits, kDeepSeekCjk, kDeepSeekRest}},
      {{"deepseek-coder"},
       "",
       {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kCoderCjk, kDigits}},
      {{"default"},
       "",
       {kDefaultMarks, kDefaultWords, "\\p{N}+", "[0-9][0-9][0-9]"}},
  };
  return rows;
}

JsonValue Typed(absl::string_view type,
                std::vector<JsonValue::Member> members) {
  members.insert(members.begin(),
                 {"type", JsonValue::String(std::string(type))});
  return JsonValue::Object(std::move(members));
}

JsonValue ByteLevel(bool use_regex) {
  return Typed("ByteLevel", {{"add_prefix_space", JsonValue::Bool(false)},
                             {"trim_offsets", JsonValue::Bool(use_regex)},
                             {"use_regex", JsonValue::Bool(use_regex)}});
}

JsonValue StepAsJson(absl::string_view step) {
  if (step == kGpt2) return ByteLevel(/*use_regex=*/true);
  if (step == kDigits) {
    return Typed("Digits", {{"individual_digits", JsonValue::Bool(true)}});
  }
  std::vector<JsonValue::Member> pattern;
  pattern.emplace_back("Regex", JsonValue::String(std::string(step)));
  return Typed("Split", {{"pattern", JsonValue::Object(std::move(pattern))},
                         {"behavior", JsonValue::String("Isolated")},
                         {"invert", JsonValue::Bool(false)}});
}

GgufPreTokenizer AsJson(const Row& row) {
  GgufPreTokenizer result;
  if (!row.normalizer.empty()) result.normalizer = Typed(row.normalizer, {});
  std::vector<JsonValue> steps;
  for (const absl::string_view step : row.steps)
    steps.push_back(StepAsJson(step));
  if (row.steps.back() != kGpt2)
    steps.push_back(ByteLevel(/*use_regex=*/false));
  result.pre_tokenizer = Typed(
      "Sequence", {{"pretokenizers", JsonValue::Array(std::move(steps))}});
  result.ignore_merges = row.ignore_merges;
  result.adds_bos = row.adds_bos;
  return result;
}

}  // namespace

absl::StatusOr<GgufPreTokenizer> FindGgufPreTokenizer(absl::string_view name) {
  for (const Row& row : Rows()) {
    for (const absl::string_view known : row.names) {
      if (known == name) return AsJson(row);
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.ggml.pre: pre-tokenizer \"", Printable(name),
                   "\" is not known"));
}

}  // namespace lowmem
