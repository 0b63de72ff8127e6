// SPDX-License-Identifier: Apache-2.0
// Byte counts as people write and read them.

#ifndef LOWMEM_STORAGE_BASE_UNITS_H_
#define LOWMEM_STORAGE_BASE_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lowmem {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// Parses "4096", "512M", "1.5G", "64 MiB", "32kb": a decimal number and an
// optional suffix B, K, M, G or T, also as KB, MB or KiB, MiB, in any case. All
// suffixes are powers of 1024. A fraction of a byte is dropped.
// Errors: kInvalidArgument for anything else, for zero, for a negative number
// and for a value that does not fit 63 bits.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// "512 B", "46.1 KiB", "1.17 GiB": three significant digits, 1024-based.
std::string FormatBytes(uint64_t num_bytes);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_UNITS_H_
