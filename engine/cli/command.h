// SPDX-License-Identifier: Apache-2.0
// The commands by name. Each one is a function in a file of its own.

#ifndef LOWMEM_ENGINE_CLI_COMMAND_H_
#define LOWMEM_ENGINE_CLI_COMMAND_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/cli/console.h"
#include "engine/cli/flags.h"

namespace lowmem::cli {

std::vector<absl::string_view> CommandNames();

// Runs flags.command.
// REQUIRES: it is one of CommandNames().
// Errors: what the command met; ExitCodeOf says what they mean to scripts.
absl::Status RunCommand(const Flags& flags, Console& console);

// Continues a text, printing it as it comes.
absl::Status RunGenerate(const Flags& flags, Console& console);
// Prints what a model is and what it will need.
absl::Status RunInfo(const Flags& flags, Console& console);
// Converts lines of stdin between text and ids.
absl::Status RunTokenize(const Flags& flags, Console& console);
// Writes hidden states and logits of a prompt to a file.
absl::Status RunTrace(const Flags& flags, Console& console);
// Prints how well a model predicts a text.
absl::Status RunPerplexity(const Flags& flags, Console& console);
// Writes a checkpoint as a Hugging Face folder.
absl::Status RunConvert(const Flags& flags, Console& console);
// Compares modes, each in a fresh process.
absl::Status RunBench(const Flags& flags, Console& console);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_COMMAND_H_
