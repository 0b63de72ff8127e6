// SPDX-License-Identifier: Apache-2.0
// Every command and option, declared once: what the parser accepts, what --help
// prints and what the manual says come from here. Included by flags.cc and
// man_page.cc only, since the parser's header is heavy.

#ifndef LOWMEM_ENGINE_CLI_COMMAND_LINE_H_
#define LOWMEM_ENGINE_CLI_COMMAND_LINE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "engine/cli/flags.h"
#include "engine/cli/option_adder.h"

namespace lowmem::cli {

// Parsing fills flags(). Values are checked as they are taken: a wrong one is
// thrown as CLI::ValidationError, as the parser expects; one that this version
// does not support is kept in unsupported(), so that wrong usage is reported
// first. Lifetime: not movable, the parser holds references into it.
class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }
  Flags& flags() { return flags_; }
  const absl::Status& unsupported() const { return options_.unsupported(); }
  bool wants_manual() const { return wants_manual_; }

 private:
  void DefineGlobal();
  void DefineGenerate();
  void DefineSampling(CLI::App& command);
  void DefineInfo();
  void DefineTokenize();
  void DefineTrace();
  void DefinePerplexity();
  void DefineConvert();
  void DefineBench();

  CLI::App& AddCommand(const std::string& name, const std::string& summary,
                       const std::string& example);
  void AddPrompt(CLI::App& command, PromptFlags& prompt);

  CLI::App app_;
  Flags flags_;
  OptionAdder options_;
  bool wants_manual_ = false;
};

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_COMMAND_LINE_H_
