// SPDX-License-Identifier: Apache-2.0
// Option values from their text, strictly: the whole text, in range, or an
// error that names what was expected. The argument parser's own conversions
// take octal, hexadecimal and blanks; these do not.

#ifndef LOWMEM_ENGINE_CLI_OPTION_VALUES_H_
#define LOWMEM_ENGINE_CLI_OPTION_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowmem/options.h"

namespace lowmem::cli {

// All return kInvalidArgument with "expected ..., got '<text>'".

// A decimal integer in [min, max]; a leading minus only where min is negative.
absl::StatusOr<int64_t> ParseInteger(absl::string_view text, int64_t min,
                                     int64_t max);
absl::StatusOr<uint64_t> ParseSeed(absl::string_view text);
// A finite decimal number in [min, max].
absl::StatusOr<float> ParseNumber(absl::string_view text, float min, float max);
// "1,2,3"; blanks around the commas are allowed. At least one.
absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text);
// "512M,1G,auto". At least one. Also the errors of ParseRamBudget.
absl::StatusOr<std::vector<uint64_t>> ParseBudgets(absl::string_view text);
// "auto", "mmap", "copy", "stream".
absl::StatusOr<Mode> ParseMode(absl::string_view text);
// "mmap,copy". At least one.
absl::StatusOr<std::vector<Mode>> ParseModes(absl::string_view text);
// Adds one more text that ends a generation, of at most 64, each of 1 to 4096
// bytes.
absl::Status AddStopText(const std::string& text,
                         std::vector<std::string>& stops);
// "auto", "uring", "pread", "buffered".
absl::StatusOr<Io> ParseIo(absl::string_view text);
// "f32", "bf16", "q8".
absl::StatusOr<KvDtype> ParseKvDtype(absl::string_view text);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_OPTION_VALUES_H_
