// SPDX-License-Identifier: Apache-2.0
// The prompt as the command line gives it, put into a session.

#ifndef LOWMEM_ENGINE_CLI_PROMPT_H_
#define LOWMEM_ENGINE_CLI_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/cli/flags.h"
#include "lowmem/options.h"
#include "lowmem/session.h"

namespace lowmem::cli {

// Reads a prompt that is a file, so that the rest needs none: afterwards either
// text or ids is set. Done before the model is opened, since stdin may take its
// time.
// Errors: those of ReadText.
absl::StatusOr<PromptFlags> ReadPrompt(const PromptFlags& flags,
                                       std::optional<uint64_t> budget_bytes);

// Replaces a text by its ids, so that it is tokenized once.
// REQUIRES: `prompt` comes from ReadPrompt.
absl::Status TokenizePrompt(TokenizeFunction tokenize, PromptFlags& prompt);

// REQUIRES: `prompt` comes from ReadPrompt.
// Errors: kInvalidArgument and kOutOfRange as Session; kInvalidArgument for a
// prompt without any token.
absl::Status AppendPrompt(const PromptFlags& prompt, Session& session);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_PROMPT_H_
