// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/option_adder.h"

#include "absl/strings/str_cat.h"
#include "engine/cli/option_values.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {

CLI::Option* OptionAdder::AddValue(CLI::App& command, const std::string& name,
                                   const std::string& type,
                                   const std::string& description, Take take) {
  return command
      .add_option(
          name,
          [this, name, take](const CLI::results_t& results) {
            for (const std::string& text : results) {
              const absl::Status status = take(text);
              if (absl::IsInvalidArgument(status)) {
                throw CLI::ValidationError(name.substr(name.rfind(',') + 1),
                                           std::string(status.message()));
              }
              Unsupported(status);
            }
            return true;
          },
          description)
      ->type_name(type);
}

CLI::Option* OptionAdder::AddText(CLI::App& command, const std::string& name,
                                  const std::string& type,
                                  const std::string& description,
                                  std::string& value) {
  return AddValue(command, name, type, description,
                  [&value, type](const std::string& text) {
                    if (text.empty()) {
                      return absl::InvalidArgumentError(
                          absl::StrCat("expected ", type, ", got ''"));
                    }
                    value = text;
                    return absl::OkStatus();
                  });
}

CLI::Option* OptionAdder::AddCount(CLI::App& command, const std::string& name,
                                   const std::string& description,
                                   uint32_t& value, uint32_t min,
                                   uint32_t max) {
  return AddValue(command, name, "N", description,
                  [&value, min, max](const std::string& text) {
                    return AssignTo(ParseInteger(text, min, max), value);
                  });
}

CLI::Option* OptionAdder::AddNumber(CLI::App& command, const std::string& name,
                                    const std::string& description,
                                    std::optional<float>& value, float min,
                                    float max) {
  return AddValue(command, name, "X", description,
                  [&value, min, max](const std::string& text) {
                    LOWMEM_ASSIGN_OR_RETURN(value, ParseNumber(text, min, max));
                    return absl::OkStatus();
                  });
}

}  // namespace lowmem::cli
