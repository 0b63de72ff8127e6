// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/context_note.h"

#include "absl/strings/str_cat.h"

namespace lowmem::cli {

std::string DescribeContext(uint32_t context_tokens,
                            uint32_t longest_context_tokens) {
  if (longest_context_tokens > context_tokens) {
    return absl::StrCat("the context of ", context_tokens,
                        " tokens that was chosen under the memory budget; "
                        "--ctx up to ",
                        longest_context_tokens, " fits");
  }
  return absl::StrCat("the context of ", context_tokens,
                      " tokens, the longest that fits the memory budget");
}

}  // namespace lowmem::cli
