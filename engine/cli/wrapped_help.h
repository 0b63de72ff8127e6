// SPDX-License-Identifier: Apache-2.0
// --help for a terminal of 80 columns.

#ifndef LOWMEM_ENGINE_CLI_WRAPPED_HELP_H_
#define LOWMEM_ENGINE_CLI_WRAPPED_HELP_H_

#include <string>

#include "CLI/CLI.hpp"

namespace lowmem::cli {

// The parser's own formatter indents the lines of a description but does not
// break them; this one does.
class WrappedHelp : public CLI::Formatter {
 public:
  WrappedHelp();
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_WRAPPED_HELP_H_
