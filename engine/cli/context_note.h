// SPDX-License-Identifier: Apache-2.0
// How a context that the memory budget limits is told to people.

#ifndef LOWMEM_ENGINE_CLI_CONTEXT_NOTE_H_
#define LOWMEM_ENGINE_CLI_CONTEXT_NOTE_H_

#include <cstdint>
#include <string>

namespace lowmem::cli {

// The end of a sentence: what the context is, and what --ctx could ask for.
std::string DescribeContext(uint32_t context_tokens,
                            uint32_t longest_context_tokens);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_CONTEXT_NOTE_H_
