// SPDX-License-Identifier: Apache-2.0
#include "engine/text/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "engine/text/utf8_text.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

bool IsComposed(UnicodeForm form) {
  return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
}

// Characters below this are unchanged by the form, unless a mark behind one
// composes with it.
char32_t FirstAffected(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kNfc:
      return 0x300;
    case UnicodeForm::kNfd:
      return 0xC0;
    case UnicodeForm::kNfkc:
    case UnicodeForm::kNfkd:
      return 0xA0;
  }
  return 0;
}

utf8proc_option_t OptionsOf(UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) {
    options |= UTF8PROC_COMPAT;
  }
  // Decomposition first in any case; composing is a step of its own.
  return static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE);
}

void AppendDecomposed(absl::string_view text, UnicodeForm form,
                      std::vector<int32_t>& out) {
  // The longest decomposition of one character is 18 (U+FDFA).
  constexpr utf8proc_ssize_t kRoom = 32;
  int32_t parts[kRoom];
  while (!text.empty()) {
    const Utf8Step step = DecodeUtf8(text);
    text.remove_prefix(step.num_bytes);
    int last_boundclass = UTF8PROC_BOUNDCLASS_START;
    const utf8proc_ssize_t num_parts =
        utf8proc_decompose_char(static_cast<int32_t>(step.code_point), parts,
                                kRoom, OptionsOf(form), &last_boundclass);
    if (num_parts <= 0 || num_parts > kRoom) {
      out.push_back(static_cast<int32_t>(step.code_point));
    } else {
      out.insert(out.end(), parts, parts + num_parts);
    }
  }
}

// Canonical order: marks between two starters by combining class. utf8proc's
// own sorting is quadratic in the number of marks.
void SortMarks(std::vector<int32_t>& chars) {
  const auto class_of = [](int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  const auto by_class = [&](int32_t a, int32_t b) {
    return class_of(a) < class_of(b);
  };
  const auto is_starter = [&](int32_t c) { return class_of(c) == 0; };
  for (auto begin = chars.begin(); begin != chars.end();) {
    begin = std::find_if_not(begin, chars.end(), is_starter);
    const auto end = std::find_if(begin, chars.end(), is_starter);
    std::stable_sort(begin, end, by_class);
    begin = end;
  }
}

void AppendAffected(absl::string_view text, UnicodeForm form,
                    std::string& out) {
  std::vector<int32_t> chars;
  chars.reserve(text.size());
  AppendDecomposed(text, form, chars);
  SortMarks(chars);
  if (IsComposed(form)) {
    const utf8proc_ssize_t num_chars = utf8proc_normalize_utf32(
        chars.data(), static_cast<utf8proc_ssize_t>(chars.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    chars.resize(static_cast<size_t>(std::max<utf8proc_ssize_t>(num_chars, 0)));
  }
  for (const int32_t c : chars) AppendUtf8(static_cast<char32_t>(c), out);
}

}  // namespace

void AppendInForm(absl::string_view text, UnicodeForm form, std::string& out) {
  const char32_t first_affected = FirstAffected(form);
  size_t copied = 0;     // everything before is in `out`
  size_t last_char = 0;  // begin of the character before `pos`
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Step step = DecodeUtf8(text.substr(pos));
    if (step.code_point < first_affected) {
      last_char = pos;
      pos += step.num_bytes;
      continue;
    }
    // A stretch from the character that marks may compose with to the next
    // ASCII one, which composes with nothing before it.
    const size_t begin = std::max(copied, last_char);
    size_t end = pos;
    while (end < text.size() && !absl::ascii_isascii(text[end])) ++end;
    out.append(text.data() + copied, begin - copied);
    AppendAffected(text.substr(begin, end - begin), form, out);
    copied = pos = last_char = end;
  }
  out.append(text.data() + copied, text.size() - copied);
}

uint64_t WorkBytesOfForm(absl::string_view text, UnicodeForm form) {
  size_t longest = 0;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    size_t end = pos;
    while (end < text.size() && !absl::ascii_isascii(text[end])) ++end;
    longest = std::max(longest, end - pos);
    pos = end;
  }
  // Composed forms have at most twice as many characters in between.
  return longest * sizeof(int32_t) * (IsComposed(form) ? 1 : 2);
}

void AppendLowerCase(absl::string_view text, std::string& out) {
  while (!text.empty()) {
    const Utf8Step step = DecodeUtf8(text);
    text.remove_prefix(step.num_bytes);
    if (step.code_point == 0x130) {
      out.append("i\xCC\x87");  // the one lower case of two characters
    } else {
      AppendUtf8(static_cast<char32_t>(
                     utf8proc_tolower(static_cast<int32_t>(step.code_point))),
                 out);
    }
  }
}

bool IsNumeric(char32_t code_point) {
  const utf8proc_category_t category =
      utf8proc_category(static_cast<int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsPunctuation(char32_t code_point) {
  if (code_point < 0x80) {
    return absl::ascii_ispunct(static_cast<unsigned char>(code_point));
  }
  const utf8proc_category_t category =
      utf8proc_category(static_cast<int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

}  // namespace lowmem
