// SPDX-License-Identifier: Apache-2.0
// Declares options whose values are checked by our own functions as they are
// taken.

#ifndef LOWMEM_ENGINE_CLI_OPTION_ADDER_H_
#define LOWMEM_ENGINE_CLI_OPTION_ADDER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace lowmem::cli {

// Wrong values are thrown as CLI::ValidationError, as the parser expects; what
// is known but not supported is kept, so that wrong usage is reported first.
// Lifetime: it and the variables it fills outlive the parser.
class OptionAdder {
 public:
  // Takes one value. kInvalidArgument: wrong usage; another code: not
  // supported.
  using Take = std::function<absl::Status(const std::string& text)>;

  CLI::Option* AddValue(CLI::App& command, const std::string& name,
                        const std::string& type, const std::string& description,
                        Take take);
  // Any text but the empty one.
  CLI::Option* AddText(CLI::App& command, const std::string& name,
                       const std::string& type, const std::string& description,
                       std::string& value);
  CLI::Option* AddCount(CLI::App& command, const std::string& name,
                        const std::string& description, uint32_t& value,
                        uint32_t min, uint32_t max);
  CLI::Option* AddNumber(CLI::App& command, const std::string& name,
                         const std::string& description,
                         std::optional<float>& value, float min, float max);

  // Keeps the first of them.
  void Unsupported(const absl::Status& status) { unsupported_.Update(status); }
  const absl::Status& unsupported() const { return unsupported_; }

 private:
  absl::Status unsupported_;
};

// The value into `target`, or its status.
template <typename T, typename U>
absl::Status AssignTo(absl::StatusOr<T> value, U& target) {
  if (!value.ok()) return value.status();
  target = static_cast<U>(*std::move(value));
  return absl::OkStatus();
}

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_OPTION_ADDER_H_
