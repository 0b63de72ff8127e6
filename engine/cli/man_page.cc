// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/man_page.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/cli/exit_code.h"

namespace lowmem::cli {
namespace {

// Text that troff takes literally. A leading dot or quote would be a request.
std::string Escaped(absl::string_view text) {
  std::string result =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}});
  if (!result.empty() && result[0] == '.') result.insert(0, "\\&");
  return result;
}

// "\fB-m\fR, \fB--model\fR \fIMODEL\fR".
std::string OptionTerm(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back(absl::StrCat("\\fB", Escaped("-" + name), "\\fR"));
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back(absl::StrCat("\\fB", Escaped("--" + name), "\\fR"));
  }
  std::string term;
  for (const std::string& name : names) {
    absl::StrAppend(&term, term.empty() ? "" : ", ", name);
  }
  if (names.empty()) {  // positional
    return absl::StrCat("\\fI", Escaped(option.get_single_name()), "\\fR");
  }
  if (option.get_type_size_max() > 0) {
    absl::StrAppend(&term, " \\fI", Escaped(option.get_type_name()), "\\fR");
  }
  return term;
}

void AppendOptions(CLI::App& app, std::string* page) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    absl::StrAppend(page, ".TP\n", OptionTerm(*option), "\n",
                    Escaped(option->get_description()), "\n");
  }
}

// Lines that begin with blanks are shown as they are.
void AppendFooter(absl::string_view footer, std::string* page) {
  bool literal = false;
  for (absl::string_view line : absl::StrSplit(footer, '\n')) {
    const bool indented = !line.empty() && line[0] == ' ';
    if (indented != literal)
      absl::StrAppend(page, indented ? ".nf\n" : ".fi\n");
    literal = indented;
    absl::StrAppend(page, line.empty() ? ".PP" : Escaped(line), "\n");
  }
  if (literal) absl::StrAppend(page, ".fi\n");
}

}  // namespace

std::string ManPage(CLI::App& app) {
  std::string page = absl::StrCat(
      ".TH LOWMEM\\-RUN 1 \"\" \"lowmem ", LOWMEM_VERSION,
      "\" \"User Commands\"\n",
      ".SH NAME\nlowmem\\-run \\- run language models larger than the memory "
      "they "
      "may use\n",
      ".SH SYNOPSIS\n.B lowmem\\-run\n[\\fIoptions\\fR] \\fIcommand\\fR "
      "[\\fIoptions of the command\\fR]\n",
      ".SH DESCRIPTION\n", Escaped(app.get_description()), "\n.PP\n",
      "stdout carries only the result; progress, statistics and warnings go to "
      "stderr.\n",
      ".SH OPTIONS\n");
  AppendOptions(app, &page);
  absl::StrAppend(&page, ".PP\n");
  AppendFooter(app.get_footer(), &page);
  absl::StrAppend(&page, ".SH COMMANDS\n");
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    absl::StrAppend(&page, ".SS ", Escaped(command->get_name()), "\n",
                    Escaped(command->get_description()), ".\n");
    AppendOptions(*command, &page);
    absl::StrAppend(&page, ".PP\n");
    AppendFooter(command->get_footer(), &page);
  }
  absl::StrAppend(&page, ".SH EXIT STATUS\n");
  for (int exit_code = 0; exit_code <= kExitInterrupted; ++exit_code) {
    const absl::string_view meaning = ExitCodeMeaning(exit_code);
    if (meaning.empty()) continue;
    absl::StrAppend(&page, ".TP\n.B ", exit_code, "\n", Escaped(meaning), "\n");
  }
  absl::StrAppend(
      &page, ".PP\nA reader that closes stdout early ends the run with 0.\n");
  return page;
}

}  // namespace lowmem::cli
