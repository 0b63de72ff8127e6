// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/wrapped_help.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lowmem::cli {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kNameColumns = 28;

}  // namespace

WrappedHelp::WrappedHelp() {
  column_width(kNameColumns);
  label("SUBCOMMAND", "COMMAND");
}

std::string WrappedHelp::make_option_desc(const CLI::Option* option) const {
  std::string text;
  size_t column = 0;
  for (absl::string_view word :
       absl::StrSplit(option->get_description(), ' ')) {
    if (column + 1 + word.size() > kColumns - kNameColumns) {
      absl::StrAppend(&text, "\n", word);
      column = word.size();
    } else {
      absl::StrAppend(&text, text.empty() ? "" : " ", word);
      column += word.size() + 1;
    }
  }
  return text;
}

}  // namespace lowmem::cli
