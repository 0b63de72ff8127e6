// SPDX-License-Identifier: Apache-2.0
#include "storage/base/printable.h"

#include "absl/strings/str_cat.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

// What can move the cursor, end the line or reorder the text of a terminal.
bool IsUnsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) ||  // C0, DEL and C1 controls
         c == 0x061C || c == 0x200E || c == 0x200F ||  // direction marks
         c == 0x2028 || c == 0x2029 ||                 // separators
         (c >= 0x202A && c <= 0x202E) ||               // embeddings, overrides
         (c >= 0x2066 && c <= 0x2069) ||               // isolates
         c == 0xFEFF;                                  // byte order mark
}

}  // namespace

std::string Printable(absl::string_view text, size_t max_chars) {
  std::string out;
  for (size_t num_chars = 0; !text.empty(); ++num_chars) {
    if (num_chars == max_chars) return absl::StrCat(out, "...");
    const Utf8Step step = DecodeUtf8(text);
    if (!step.ok || (step.num_bytes == 1 && IsUnsafe(step.code_point))) {
      absl::StrAppend(&out, "\\x", absl::Hex(step.code_point, absl::kZeroPad2));
    } else if (IsUnsafe(step.code_point)) {
      absl::StrAppend(&out, "\\u{", absl::Hex(step.code_point, absl::kZeroPad4),
                      "}");
    } else {
      absl::StrAppend(&out, text.substr(0, step.num_bytes));
    }
    text.remove_prefix(step.num_bytes);
  }
  return out;
}

}  // namespace lowmem
