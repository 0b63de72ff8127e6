// SPDX-License-Identifier: Apache-2.0
// A compiled pattern over valid UTF-8. It hides PCRE2, which compiles to
// machine code where it may and never recurses on the text (std::regex does,
// and dies of a long word).

#ifndef LOWMEM_ENGINE_TEXT_REGEX_H_
#define LOWMEM_ENGINE_TEXT_REGEX_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lowmem {

// A range of bytes.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool empty() const { return begin == end; }
};

// Room that a match needs. Thread safety: one thread at a time.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// Thread safety: const methods are thread-safe.
class Regex {
 public:
  // Compiles a pattern in PCRE2's syntax, with Unicode properties, "^" and "$"
  // at line ends. Errors: kDataLoss for a malformed or too long pattern;
  // kUnimplemented for one that nests too deep.
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // The leftmost match in `text` that begins at or behind `start`; nullopt when
  // there is none. Looks behind see the text before `start`.
  // REQUIRES: `text` is valid UTF-8, `start` between two characters.
  // Errors: kUnimplemented when the pattern takes more steps or memory than it
  // may.
  absl::StatusOr<std::optional<TextRange>> Find(absl::string_view text,
                                                size_t start,
                                                RegexScratch& scratch) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_REGEX_H_
