// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/prompt.h"

#include "engine/cli/text_input.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {

absl::StatusOr<PromptFlags> ReadPrompt(const PromptFlags& flags) {
  PromptFlags prompt = flags;
  if (flags.file.has_value()) {
    LOWMEM_ASSIGN_OR_RETURN(prompt.text,
                            ReadText(*flags.file, limits::kPromptBytes));
    prompt.file.reset();
  }
  return prompt;
}

absl::Status TokenizePrompt(TokenizeFunction tokenize, PromptFlags& prompt) {
  if (prompt.ids.has_value()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(
      prompt.ids, tokenize(prompt.text.value_or(""), /*parse_special=*/true));
  prompt.text.reset();
  return absl::OkStatus();
}

absl::Status AppendPrompt(const PromptFlags& prompt, Session& session) {
  LOWMEM_RETURN_IF_ERROR(prompt.ids.has_value()
                             ? session.AppendIds(*prompt.ids)
                             : session.AppendText(prompt.text.value_or("")));
  if (session.ids().empty()) {
    return absl::InvalidArgumentError(
        "prompt: empty, and this model puts no token in front; expected at "
        "least "
        "one token, got 0");
  }
  return absl::OkStatus();
}

}  // namespace lowmem::cli
