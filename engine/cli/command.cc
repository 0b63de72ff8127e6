// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/command.h"

#include "absl/strings/str_cat.h"

namespace lowmem::cli {
namespace {

struct Command {
  absl::string_view name;
  absl::Status (*run)(const Flags& flags, Console& console);
};

constexpr Command kCommands[] = {
    {"generate", RunGenerate},     {"info", RunInfo},
    {"tokenize", RunTokenize},     {"trace", RunTrace},
    {"perplexity", RunPerplexity}, {"convert", RunConvert},
    {"bench", RunBench},
};

}  // namespace

std::vector<absl::string_view> CommandNames() {
  std::vector<absl::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  return names;
}

absl::Status RunCommand(const Flags& flags, Console& console) {
  for (const Command& command : kCommands) {
    if (command.name == flags.command) return command.run(flags, console);
  }
  return absl::InternalError(
      absl::StrCat("command '", flags.command, "' has no function"));
}

}  // namespace lowmem::cli
