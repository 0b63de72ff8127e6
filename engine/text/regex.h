// SPDX-License-Identifier: Apache-2.0
// A compiled pattern over valid UTF-8. It hides PCRE2, which compiles to
// machine code where it may and never recurses on the text (std::regex does,
// and dies of a long word).

#ifndef LOWMEM_ENGINE_TEXT_REGEX_H_
#define LOWMEM_ENGINE_TEXT_REGEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// A range of bytes.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
  bool empty() const { return begin == end; }
};

// Room that a text on its way to ids needs, and the work that matches may do
// together: a pattern that looks far ahead of each short match would else take
// time that grows with the square of the text. Thread safety: one thread at a
// time.
class RegexScratch {
 public:
  // Matching ends with kCancelled once `*cancel` is true; nullptr for never.
  // Lifetime: `cancel` and `account` must outlive the scratch.
  explicit RegexScratch(const std::atomic<bool>* cancel = nullptr,
                        MemoryAccount* account = nullptr);
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;

  // Allows the work that is due to a text of that many bytes.
  void Allow(size_t num_bytes);
  bool is_cancelled() const;
  // What copies of the text are charged to, before they are made; nullptr for
  // nothing.
  MemoryAccount* account() const { return account_; }

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
  MemoryAccount* account_;
};

// Thread safety: const methods are thread-safe.
class Regex {
 public:
  // Compiles a pattern in PCRE2's syntax, with Unicode properties and "$" at
  // line ends. REQUIRES: no "^" (see TranslateOniguruma). Errors: kDataLoss for
  // a malformed or too long pattern; kUnimplemented for one that nests too
  // deep.
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // The leftmost match in `text` that begins at or behind `start`; nullopt when
  // there is none. Looks behind see the text before `start`.
  // REQUIRES: `text` is valid UTF-8, `start` between two characters.
  // Errors: kUnimplemented when the pattern takes more memory than it may, or
  // all matches with that scratch more work; kCancelled.
  absl::StatusOr<std::optional<TextRange>> Find(absl::string_view text,
                                                size_t start,
                                                RegexScratch& scratch) const;

 private:
  struct Code;
  // What PCRE2 returns for text[0, end), told that more follows unless that is
  // all of it.
  int Match(absl::string_view text, size_t start, size_t end,
            uint64_t max_steps, RegexScratch& scratch) const;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_REGEX_H_
