// SPDX-License-Identifier: Apache-2.0
#include "engine/text/regex_syntax.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// What Oniguruma's \w matches (6.9.8, tried with every assigned code point).
// Inside a class it is the Unicode property; alone and in \b it also takes the
// superscripts and fractions of Latin-1.
constexpr absl::string_view kWordInClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr absl::string_view kWordAlone =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xb2\xb3\xb9\xbc-\xbe)";

absl::Status Unsupported(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("pattern: \"", Printable(what), "\" is not supported"));
}

// Walks the pattern once; each method handles what `rest_` begins with.
class Translator {
 public:
  explicit Translator(absl::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (!rest_.empty()) {
      switch (rest_.front()) {
        case '\\':
          LOWMEM_RETURN_IF_ERROR(Escape(/*in_class=*/false));
          break;
        case '[':
          LOWMEM_RETURN_IF_ERROR(Class());
          break;
        case '(':
          LOWMEM_RETURN_IF_ERROR(Group());
          break;
        case '{':
          LOWMEM_RETURN_IF_ERROR(Braces());
          break;
        case '^':
          // PCRE2's own fails at the end of a text even where more of it is
          // to come (PCRE2_PARTIAL_HARD).
          Replace(1, R"((?:\A|(?<=\n)(?!\z)))");
          break;
        default:
          Copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  void Copy(size_t num_bytes) {
    absl::StrAppend(&out_, rest_.substr(0, num_bytes));
    rest_.remove_prefix(num_bytes);
  }
  void Replace(size_t num_bytes, absl::string_view with) {
    absl::StrAppend(&out_, with);
    rest_.remove_prefix(num_bytes);
  }

  static std::string WordBoundary(bool negated) {
    const std::string behind = absl::StrCat("(?<=[", kWordAlone, "])");
    const std::string not_behind = absl::StrCat("(?<![", kWordAlone, "])");
    const std::string ahead = absl::StrCat("(?=[", kWordAlone, "])");
    const std::string not_ahead = absl::StrCat("(?![", kWordAlone, "])");
    return negated ? absl::StrCat("(?:", behind, ahead, "|", not_behind,
                                  not_ahead, ")")
                   : absl::StrCat("(?:", behind, not_ahead, "|", not_behind,
                                  ahead, ")");
  }

  absl::Status Escape(bool in_class) {
    if (rest_.size() < 2) return Unsupported(rest_);
    const char c = rest_[1];
    switch (c) {
      // PCRE2's own \s also counts U+180E, which is no White_Space.
      case 's':
        Replace(2, R"(\p{White_Space})");
        return absl::OkStatus();
      case 'S':
        Replace(2, R"(\P{White_Space})");
        return absl::OkStatus();
      case 'd':
        Replace(2, R"(\p{Nd})");
        return absl::OkStatus();
      case 'D':
        Replace(2, R"(\P{Nd})");
        return absl::OkStatus();
      case 'v':
        Replace(2, R"(\x0b)");
        return absl::OkStatus();
      case 'w':
        Replace(2, in_class ? std::string(kWordInClass)
                            : absl::StrCat("[", kWordAlone, "]"));
        return absl::OkStatus();
      case 'W':
        if (in_class) break;
        Replace(2, absl::StrCat("[^", kWordAlone, "]"));
        return absl::OkStatus();
      case 'b':
      case 'B':
        if (in_class) break;
        Replace(2, WordBoundary(/*negated=*/c == 'B'));
        return absl::OkStatus();
      case 'p':
      case 'P': {
        const size_t end = rest_.find('}');
        if (rest_.size() < 3 || rest_[2] != '{' || end == rest_.npos) break;
        Copy(end + 1);
        return absl::OkStatus();
      }
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        Copy(2);
        return absl::OkStatus();
      case 'A':
      case 'z':
      case 'Z':
        if (in_class) break;
        Copy(2);
        return absl::OkStatus();
      case 'x':
      case 'u':
        return CodePoint();
      default:
        if (!absl::ascii_isalnum(c)) {
          Copy(absl::ascii_isascii(c) ? 2 : 1);
          return absl::OkStatus();
        }
    }
    return Unsupported(rest_.substr(0, 2));
  }

  // \uHHHH, \xHH below 0x80 (beyond, Oniguruma means a raw byte) and \x{H...}.
  absl::Status CodePoint() {
    const bool is_u = rest_[1] == 'u';
    if (!is_u && rest_.size() > 2 && rest_[2] == '{') {
      const size_t end = rest_.find('}');
      if (end == rest_.npos) return Unsupported(rest_);
      Copy(end + 1);
      return absl::OkStatus();
    }
    const size_t num_digits = is_u ? 4 : 2;
    const absl::string_view digits = rest_.substr(2, num_digits);
    for (const char c : digits) {
      if (!absl::ascii_isxdigit(c)) return Unsupported(rest_.substr(0, 6));
    }
    if (digits.size() != num_digits || (!is_u && digits[0] > '7')) {
      return Unsupported(rest_.substr(0, 2 + num_digits));
    }
    Replace(2 + num_digits, absl::StrCat("\\x{", digits, "}"));
    return absl::OkStatus();
  }

  absl::Status Class() {
    Copy(1);
    if (absl::StartsWith(rest_, "^")) Copy(1);
    if (absl::StartsWith(rest_, "]")) Replace(1, "\\]");
    while (!rest_.empty() && rest_.front() != ']') {
      if (rest_.front() == '\\') {
        LOWMEM_RETURN_IF_ERROR(Escape(/*in_class=*/true));
      } else if (rest_.front() == '[' || absl::StartsWith(rest_, "&&")) {
        // Nested classes and intersections, which PCRE2 takes literally.
        return Unsupported(rest_.substr(0, 2));
      } else {
        Copy(1);
      }
    }
    if (!rest_.empty()) Copy(1);
    return absl::OkStatus();
  }

  absl::Status Group() {
    if (absl::StartsWith(rest_, "(*")) return Unsupported("(*");
    if (!absl::StartsWith(rest_, "(?")) {
      Copy(1);
      return absl::OkStatus();
    }
    for (const absl::string_view known :
         {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)",
          "(?-i:", "(?-i)"}) {
      if (absl::StartsWith(rest_, known)) {
        Copy(known.size());
        return absl::OkStatus();
      }
    }
    return Unsupported(rest_.substr(0, 4));
  }

  // {n,m}: Ruby has no possessive form of it, and reads {,m} and {n}?
  // otherwise.
  absl::Status Braces() {
    const size_t end = rest_.find('}');
    const absl::string_view braces = rest_.substr(0, end + 1);
    if (end == rest_.npos ||
        braces.find_first_not_of("0123456789,", 1) != end) {
      Copy(1);
      return absl::OkStatus();
    }
    const absl::string_view next = rest_.substr(end + 1, 1);
    const bool is_range = braces.find(',') != braces.npos;
    if (absl::StartsWith(braces, "{,") || next == "+" ||
        (next == "?" && !is_range)) {
      return Unsupported(rest_.substr(0, end + 2));
    }
    Copy(end + 1);
    return absl::OkStatus();
  }

  absl::string_view rest_;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslateOniguruma(absl::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace lowmem
