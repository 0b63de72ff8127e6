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

// Work is counted in bytes looked at and steps of backtracking. PCRE2 tells
// neither, so a match is tried with a part of the text and few steps; each time
// that is not enough, what was spent is known, and it is tried with more.
constexpr size_t kFirstWindowBytes = 64;
constexpr size_t kWindowGrowth = 4;
constexpr uint64_t kFirstSteps = 256;
constexpr uint64_t kStepGrowth = 16;
// Published patterns stay below 10 units a byte in the worst texts.
constexpr uint64_t kBaseWork = 10'000'000;
constexpr uint64_t kWorkPerByte = 64;
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

// The end of `num_bytes` and the rest of a character of `text` from `start`.
size_t WindowEnd(absl::string_view text, size_t start, size_t num_bytes) {
  if (num_bytes >= text.size() - start) return text.size();
  size_t end = start + num_bytes;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  return end;
}

}  // namespace

struct RegexScratch::State {
  const std::atomic<bool>* cancel = nullptr;
  uint64_t work_left = kBaseWork;
  MatchContextPtr context;
  MatchDataPtr match;
  JitStackPtr stack;
};

RegexScratch::RegexScratch(const std::atomic<bool>* cancel,
                           MemoryAccount* account)
    : state_(std::make_unique<State>()), account_(account) {
  state_->cancel = cancel;
}
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;

void RegexScratch::Allow(size_t num_bytes) {
  state_->work_left += kWorkPerByte * num_bytes;
}

bool RegexScratch::is_cancelled() const {
  return state_->cancel != nullptr && state_->cancel->load();
}

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
  pcre2_jit_compile(compiled->code.get(),
                    PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return Regex(std::move(compiled));
}

int Regex::Match(absl::string_view text, size_t start, size_t end,
                 uint64_t max_steps, RegexScratch& scratch) const {
  RegexScratch::State& state = *scratch.state_;
  pcre2_set_match_limit(
      state.context.get(),
      static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, max_steps)));
  // A match that would look at the end of a part is reported as a partial one,
  // so any other is a match in the whole text too.
  // The text was proved once; PCRE2 would prove all of it again on each call.
  const uint32_t options =
      PCRE2_NO_UTF_CHECK | (end < text.size() ? PCRE2_PARTIAL_HARD : 0);
  return pcre2_match(code_->code.get(), AsSubject(text), end, start, options,
                     state.match.get(), state.context.get());
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
  size_t window = kFirstWindowBytes;
  uint64_t max_steps = kFirstSteps;
  int result;
  for (;;) {
    if (scratch.is_cancelled()) {
      return absl::CancelledError("interrupted");
    }
    const size_t end = WindowEnd(text, start, window);
    result = Match(text, start, end, max_steps, scratch);
    uint64_t spent = 0;
    if (result == PCRE2_ERROR_MATCHLIMIT) {
      spent = max_steps;
      max_steps *= kStepGrowth;
    } else if (end < text.size() && (result == PCRE2_ERROR_NOMATCH ||
                                     result == PCRE2_ERROR_PARTIAL)) {
      spent = end - start;
      window = spent * kWindowGrowth;
    } else {
      break;
    }
    if (spent >= state.work_left) {
      return absl::UnimplementedError(
          "pattern: too expensive for this text: it looks too far ahead or "
          "back");
    }
    state.work_left -= spent;
    max_steps = std::min(max_steps, state.work_left);
  }
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
