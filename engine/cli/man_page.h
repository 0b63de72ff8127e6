// SPDX-License-Identifier: Apache-2.0
// lowmem-run(1), made from the declared commands and options, so that it cannot
// say anything else than --help does.

#ifndef LOWMEM_ENGINE_CLI_MAN_PAGE_H_
#define LOWMEM_ENGINE_CLI_MAN_PAGE_H_

#include <string>

#include "engine/cli/command_line.h"

namespace lowmem::cli {

// The page as man(7) source.
std::string ManPage(CLI::App& app);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_MAN_PAGE_H_
