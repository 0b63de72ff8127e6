// SPDX-License-Identifier: Apache-2.0
#include "storage/base/units.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "storage/base/checked_math.h"
#include "storage/base/printable.h"

namespace lowmem {
namespace {

constexpr uint64_t kMaxBytes = ~uint64_t{0} >> 1;

absl::string_view TakeDigits(absl::string_view& text) {
  size_t num_digits = 0;
  while (num_digits < text.size() && absl::ascii_isdigit(text[num_digits])) {
    ++num_digits;
  }
  const absl::string_view digits = text.substr(0, num_digits);
  text.remove_prefix(num_digits);
  return digits;
}

std::optional<uint64_t> UnitOfSuffix(absl::string_view suffix) {
  std::string letters = absl::AsciiStrToLower(suffix);
  if (letters.empty() || letters == "b") return 1;
  absl::string_view rest = absl::string_view(letters).substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
  switch (letters[0]) {
    case 'k':
      return kKiB;
    case 'm':
      return kMiB;
    case 'g':
      return kGiB;
    case 't':
      return kGiB << 10;
    default:
      return std::nullopt;
  }
}

// whole.fraction units in bytes, exactly, rounded down; nullopt beyond 64 bits.
std::optional<uint64_t> ToBytes(absl::string_view whole,
                                absl::string_view fraction, uint64_t unit) {
  uint64_t num_units = 0;
  for (const char digit : whole) {
    const std::optional<uint64_t> tens = CheckedMul(num_units, 10);
    const std::optional<uint64_t> sum =
        tens ? CheckedAdd(*tens, digit - '0') : std::nullopt;
    if (!sum) return std::nullopt;
    num_units = *sum;
  }
  // From the last digit to the first, so that rounding down at every step is
  // the same as rounding down once.
  uint64_t part_bytes = 0;
  for (auto it = fraction.rbegin(); it != fraction.rend(); ++it) {
    part_bytes = (part_bytes + (*it - '0') * unit) / 10;
  }
  const std::optional<uint64_t> whole_bytes = CheckedMul(num_units, unit);
  if (!whole_bytes) return std::nullopt;
  return CheckedAdd(*whole_bytes, part_bytes);
}

absl::Status NotASize(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "size: ", why,
      "; expected bytes or a number with K, M, G or T, such as 512M or 1.5G, "
      "got \"",
      Printable(text), "\""));
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  absl::string_view rest = text;
  const absl::string_view whole = TakeDigits(rest);
  absl::string_view fraction;
  if (absl::ConsumePrefix(&rest, ".")) {
    fraction = TakeDigits(rest);
    if (fraction.empty()) return NotASize(text, "no digit behind the point");
  }
  if (whole.empty()) {
    return NotASize(text, text.substr(0, 1) == "-" ? "negative" : "no number");
  }
  const std::optional<uint64_t> unit =
      UnitOfSuffix(absl::StripLeadingAsciiWhitespace(rest));
  if (!unit) return NotASize(text, "unknown unit");
  const std::optional<uint64_t> num_bytes = ToBytes(whole, fraction, *unit);
  if (!num_bytes || *num_bytes > kMaxBytes) return NotASize(text, "too large");
  if (*num_bytes == 0) return NotASize(text, "zero");
  return *num_bytes;
}

std::string FormatBytes(uint64_t num_bytes) {
  if (num_bytes < kKiB) return absl::StrCat(num_bytes, " B");
  static constexpr absl::string_view kUnits[] = {"KiB", "MiB", "GiB",
                                                 "TiB", "PiB", "EiB"};
  size_t unit_idx = 0;
  double value = static_cast<double>(num_bytes) / 1024;
  // 1023.5 would print as 1024.
  while (value >= 1023.5 && unit_idx + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit_idx;
  }
  const int num_decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", num_decimals, value, kUnits[unit_idx]);
}

}  // namespace lowmem
