// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/option_values.h"

#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/cli/ram_budget.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

// The library's own limits, so that a mistake is found before a model is
// opened.
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 4096;

absl::Status Expected(absl::string_view what, absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", what, ", got '", Printable(got), "'"));
}

// Unlike absl::SimpleAtoi and SimpleAtof this takes no blanks and no plus sign.
template <typename T>
bool ParseWhole(absl::string_view text, T* value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *value);
  return result.ec == std::errc() && result.ptr == end;
}

template <typename T, typename ParseOne>
absl::StatusOr<std::vector<T>> ParseList(absl::string_view text,
                                         ParseOne parse_one) {
  std::vector<T> values;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    LOWMEM_ASSIGN_OR_RETURN(const T value,
                            parse_one(absl::StripAsciiWhitespace(item)));
    values.push_back(value);
  }
  return values;
}

}  // namespace

absl::StatusOr<int64_t> ParseInteger(absl::string_view text, int64_t min,
                                     int64_t max) {
  int64_t value = 0;
  if (!ParseWhole(text, &value) || value < min || value > max) {
    return Expected(absl::StrCat("an integer from ", min, " to ", max), text);
  }
  return value;
}

absl::StatusOr<uint64_t> ParseSeed(absl::string_view text) {
  uint64_t value = 0;
  if (!ParseWhole(text, &value)) {
    return Expected("an integer from 0 to 18446744073709551615", text);
  }
  return value;
}

absl::StatusOr<float> ParseNumber(absl::string_view text, float min,
                                  float max) {
  double value = 0;
  if (!ParseWhole(text, &value) || !std::isfinite(value) || value < min ||
      value > max) {
    return Expected(absl::StrCat("a number from ", min, " to ", max), text);
  }
  return static_cast<float>(value);
}

absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text) {
  return ParseList<int32_t>(
      text, [&](absl::string_view item) -> absl::StatusOr<int32_t> {
        int32_t id = 0;
        if (!ParseWhole(item, &id) || id < 0) {
          return Expected("token ids such as 1,2,3", item);
        }
        return id;
      });
}

absl::StatusOr<std::vector<uint64_t>> ParseBudgets(absl::string_view text) {
  return ParseList<uint64_t>(text, ParseRamBudget);
}

absl::StatusOr<Mode> ParseMode(absl::string_view text) {
  for (const Mode mode :
       {Mode::kAuto, Mode::kMmap, Mode::kCopy, Mode::kStream}) {
    if (text == ModeName(mode)) return mode;
  }
  return Expected("auto, mmap, copy or stream", text);
}

absl::StatusOr<std::vector<Mode>> ParseModes(absl::string_view text) {
  return ParseList<Mode>(text, ParseMode);
}

absl::Status AddStopText(const std::string& text,
                         std::vector<std::string>& stops) {
  if (text.empty() || text.size() > kMaxStopBytes) {
    return Expected(absl::StrCat("a text of 1 to ", kMaxStopBytes, " bytes"),
                    text);
  }
  if (stops.size() == kMaxStops) {
    return Expected(absl::StrCat("at most ", kMaxStops, " of them"), text);
  }
  stops.push_back(text);
  return absl::OkStatus();
}

absl::StatusOr<Io> ParseIo(absl::string_view text) {
  for (const Io io : {Io::kAuto, Io::kUring, Io::kPread, Io::kBuffered}) {
    if (text == IoName(io)) return io;
  }
  return Expected("auto, uring, pread or buffered", text);
}

absl::StatusOr<KvDtype> ParseKvDtype(absl::string_view text) {
  for (KvDtype kv_dtype : {KvDtype::kF32, KvDtype::kBF16, KvDtype::kQ8}) {
    if (text == KvDtypeName(kv_dtype)) return kv_dtype;
  }
  return Expected("f32, bf16 or q8", text);
}

}  // namespace lowmem::cli
