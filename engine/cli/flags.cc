// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/cli/command.h"
#include "engine/cli/command_line.h"
#include "engine/cli/man_page.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

// Wrong usage, in one line that says where to read on.
absl::Status UsageError(absl::string_view command, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, "; see lowmem-run ", command,
                   command.empty() ? "" : " ", "--help"));
}

std::string CommandChoice() {
  return absl::StrCat("expected one of ", absl::StrJoin(CommandNames(), ", "));
}

// The first argument that nobody wanted.
std::string DescribeExtra(const std::string& extra, bool has_command) {
  const std::string shown = Printable(extra);
  if (extra.size() > 1 && extra[0] == '-') {
    return absl::StrCat("unknown option '", shown, "'");
  }
  if (has_command) return absl::StrCat("unexpected argument '", shown, "'");
  return absl::StrCat("unknown command '", shown, "'; ", CommandChoice());
}

absl::Status CheckPrompt(absl::string_view command, const PromptFlags& prompt) {
  const int given = prompt.text.has_value() + prompt.file.has_value() +
                    prompt.ids.has_value();
  if (given == 1) return absl::OkStatus();
  return UsageError(command,
                    absl::StrCat(command,
                                 ": expected one of -p, --prompt-file and "
                                 "--prompt-ids, got ",
                                 given));
}

// --io is how streams are read; whoever gives it elsewhere expects what does
// not happen. Mode auto may come to a stream.
absl::Status CheckIo(const Flags& flags) {
  if (flags.global.io == Io::kAuto) return absl::OkStatus();
  const auto is_used = [](Mode mode) {
    return mode == Mode::kStream || mode == Mode::kAuto;
  };
  if (flags.command == "bench" && !flags.bench.single_run) {
    const std::vector<Mode>& modes = flags.bench.modes;
    if (std::any_of(modes.begin(), modes.end(), is_used)) {
      return absl::OkStatus();
    }
    return UsageError(
        "bench",
        "bench: --io is how mode stream reads; expected stream or "
        "auto among --modes");
  }
  if (is_used(flags.global.mode)) return absl::OkStatus();
  return UsageError(flags.command,
                    absl::StrCat("--io is how mode stream reads; it does not "
                                 "go with --mode ",
                                 ModeName(flags.global.mode)));
}

// What one option alone cannot know.
absl::Status CheckTogether(const Flags& flags) {
  if (flags.command == "convert") {
    if (!flags.global.model_path.empty()) {
      return UsageError(
          "convert", "--model: convert takes the model as its first argument");
    }
  } else if (flags.global.model_path.empty()) {
    return UsageError(flags.command,
                      absl::StrCat(flags.command, ": no model; give -m MODEL"));
  }
  LOWMEM_RETURN_IF_ERROR(CheckIo(flags));
  if (flags.command == "generate") {
    return CheckPrompt("generate", flags.generate.prompt);
  }
  if (flags.command == "info" && flags.info.plan &&
      !flags.global.ram_budget_bytes.has_value()) {
    return UsageError("info", "info: --plan needs --ram-budget");
  }
  if (flags.command == "trace") {
    return CheckPrompt("trace", flags.trace.prompt);
  }
  if (flags.command == "bench" && !flags.bench.single_run &&
      (flags.global.mode != Mode::kAuto ||
       flags.global.ram_budget_bytes.has_value())) {
    return UsageError(
        "bench",
        "bench: --mode and --ram-budget are --modes and --budgets "
        "here");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedCommandLine> ParseCommandLine(int argc,
                                                   const char* const* argv) {
  CommandLine line;
  CLI::App& app = line.app();
  ParsedCommandLine parsed;
  const auto command = [&app]() -> std::string {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    return chosen.empty() ? "" : chosen.front()->get_name();
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.text = absl::StrCat(app.help(), "\n");
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = absl::StrCat(version.what(), "\n");
    return parsed;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
    return UsageError(command(), DescribeExtra(extras.empty() ? "" : extras[0],
                                               !command().empty()));
  } catch (const CLI::Error& error) {
    return UsageError(command(), Printable(error.what(), 400));
  }
  if (line.wants_manual()) {
    parsed.text = ManPage(app);
    return parsed;
  }
  line.flags().command = command();
  if (command().empty()) {
    return UsageError("", absl::StrCat("no command; ", CommandChoice()));
  }
  LOWMEM_RETURN_IF_ERROR(CheckTogether(line.flags()));
  LOWMEM_RETURN_IF_ERROR(line.unsupported());
  for (int i = 0; i < argc; ++i) {
    line.flags().global.argument_bytes += absl::string_view(argv[i]).size();
  }
  parsed.flags = std::move(line.flags());
  return parsed;
}

}  // namespace lowmem::cli
