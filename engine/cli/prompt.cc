// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/prompt.h"

#include "engine/cli/text_input.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

absl::string_view TextOf(const PromptFlags& prompt) {
  return prompt.text.has_value() ? absl::string_view(*prompt.text) : "";
}

}  // namespace

absl::StatusOr<PromptFlags> ReadPrompt(const PromptFlags& flags,
                                       std::optional<uint64_t> budget_bytes) {
  PromptFlags prompt = flags;
  if (flags.file.has_value()) {
    LOWMEM_ASSIGN_OR_RETURN(prompt.text, ReadText(*flags.file, budget_bytes));
    prompt.file.reset();
  }
  return prompt;
}

absl::Status TokenizePrompt(TokenizeFunction tokenize, PromptFlags& prompt) {
  if (prompt.ids.has_value()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(prompt.ids,
                          tokenize(TextOf(prompt), /*parse_special=*/true));
  prompt.text.reset();
  return absl::OkStatus();
}

absl::Status AppendPrompt(const PromptFlags& prompt, Session& session) {
  LOWMEM_RETURN_IF_ERROR(prompt.ids.has_value()
                             ? session.AppendIds(*prompt.ids)
                             : session.AppendText(TextOf(prompt)));
  if (session.ids().empty()) {
    return absl::InvalidArgumentError(
        "prompt: empty, and this model puts no token in front; expected at "
        "least "
        "one token, got 0");
  }
  return absl::OkStatus();
}

}  // namespace lowmem::cli
