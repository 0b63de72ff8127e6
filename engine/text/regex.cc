// SPDX-License-Identifier: Apache-2.0
#include "engine/text/regex.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"

namespace lowmem {
namespace {

// Steps for one match. A repeat that gives back one character at a time may
// take as many as the text is long, so the limit grows with it.
constexpr uint32_t kMinMatchSteps = 10'000'000;
constexpr uint32_t kStepsPerByte = 4;
constexpr uint32_t kMaxDepth = 100'000;
constexpr uint32_t kMaxHeapKib = 64u << 10;
constexpr uint32_t kMaxParenthesesDepth = 250;
constexpr size_t kMinJitStackBytes = 32u << 10;
constexpr size_t kMaxJitStackBytes = 4u << 20;

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* value) const {
    Free(value);
  }
};
using CodePtr = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using CompileContextPtr =
    std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using MatchContextPtr =
    std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using MatchDataPtr =
    std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using JitStackPtr =
    std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

std::string TextOfError(int code) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR AsSubject(absl::string_view text) {
  // PCRE2 wants a pointer even where there is nothing.
  return reinterpret_cast<PCRE2_SPTR>(text.data() == nullptr ? ""
                                                             : text.data());
}

}  // namespace

struct RegexScratch::State {
  MatchContextPtr context;
  MatchDataPtr match;
  JitStackPtr stack;
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {}
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;

struct Regex::Code {
  CodePtr code;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(absl::string_view pattern) {
  if (pattern.size() > limits::kRegexBytes) {
    return absl::DataLossError(
        absl::StrCat("pattern: too long; expected at most ",
                     limits::kRegexBytes, " bytes, got ", pattern.size()));
  }
  const CompileContextPtr context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) {
    return absl::ResourceExhaustedError("pattern: no memory to compile it");
  }
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxParenthesesDepth);
  pcre2_set_max_pattern_length(context.get(), limits::kRegexBytes);
  int error = 0;
  PCRE2_SIZE error_ofs = 0;
  auto compiled = std::make_unique<Code>();
  compiled->code.reset(pcre2_compile(
      AsSubject(pattern), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
      &error_ofs, context.get()));
  if (compiled->code == nullptr) {
    const std::string message =
        absl::StrCat("pattern: ", TextOfError(error), " at byte ", error_ofs,
                     " of \"", Printable(pattern), "\"");
    return error == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP
               ? absl::UnimplementedError(message)
               : absl::DataLossError(message);
  }
  // Where machine code is not to be had (no such backend, or a system that
  // forbids making it) the interpreter does the same, slower.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

absl::StatusOr<std::optional<TextRange>> Regex::Find(
    absl::string_view text, size_t start, RegexScratch& scratch) const {
  RegexScratch::State& state = *scratch.state_;
  if (state.context == nullptr) {
    state.context.reset(pcre2_match_context_create(nullptr));
    state.match.reset(pcre2_match_data_create(1, nullptr));
    state.stack.reset(
        pcre2_jit_stack_create(kMinJitStackBytes, kMaxJitStackBytes, nullptr));
    if (state.context == nullptr || state.match == nullptr) {
      state.context.reset();
      return absl::ResourceExhaustedError("pattern: no memory to match it");
    }
    pcre2_set_depth_limit(state.context.get(), kMaxDepth);
    pcre2_set_heap_limit(state.context.get(), kMaxHeapKib);
    if (state.stack != nullptr) {
      pcre2_jit_stack_assign(state.context.get(), nullptr, state.stack.get());
    }
  }
  static_assert(limits::kPromptBytes <= UINT32_MAX / kStepsPerByte / 4);
  const uint64_t max_steps =
      std::min<uint64_t>(UINT32_MAX, uint64_t{kStepsPerByte} * text.size());
  pcre2_set_match_limit(
      state.context.get(),
      std::max(kMinMatchSteps, static_cast<uint32_t>(max_steps)));
  // The text was proved once; PCRE2 would prove all of it again on each call.
  const int result =
      pcre2_match(code_->code.get(), AsSubject(text), text.size(), start,
                  PCRE2_NO_UTF_CHECK, state.match.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::optional<TextRange>();
  if (result < 0) {
    return absl::UnimplementedError(absl::StrCat(
        "pattern: too expensive for this text: ", TextOfError(result)));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state.match.get());
  // \K is refused, so a match never ends before it begins; a lookbehind cannot
  // move its begin before `start`.
  return std::optional<TextRange>(TextRange{ends[0], ends[1]});
}

}  // namespace lowmem
