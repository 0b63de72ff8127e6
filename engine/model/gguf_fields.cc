// SPDX-License-Identifier: Apache-2.0
#include "engine/model/gguf_fields.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"

namespace lowmem {

std::string GgufFields::Key(absl::string_view name) const {
  return absl::StrCat(architecture_, ".", name);
}

bool GgufFields::Has(absl::string_view name) const {
  return metadata_.Find(Key(name)) != nullptr;
}

absl::StatusOr<uint32_t> GgufFields::Uint(absl::string_view name,
                                          uint64_t max) const {
  if (!Has(name)) return DataLoss(name, "is absent");
  return UintOr(name, 0, max);
}

absl::StatusOr<uint32_t> GgufFields::UintOr(absl::string_view name,
                                            uint64_t if_absent,
                                            uint64_t max) const {
  uint64_t number = if_absent;
  if (const GgufValue* value = metadata_.Find(Key(name)); value != nullptr) {
    if (value->type == GgufType::kArray) {
      return Unimplemented(name, "no support for one value a layer");
    }
    const std::optional<uint64_t> read = metadata_.GetUint(Key(name));
    if (!read.has_value()) return DataLoss(name, "expected an integer");
    number = *read;
  }
  if (number < 1 || number > max) {
    return DataLoss(name, absl::StrCat("expected an integer from 1 to ", max,
                                       ", got ", number));
  }
  return static_cast<uint32_t>(number);
}

absl::StatusOr<double> GgufFields::Positive(absl::string_view name) const {
  if (!Has(name)) return DataLoss(name, "is absent");
  const std::optional<double> number = metadata_.GetFloat(Key(name));
  if (!number.has_value()) return DataLoss(name, "expected a number");
  if (!std::isfinite(*number) || *number <= 0) {
    return DataLoss(
        name, absl::StrCat("expected a number above zero, got ", *number));
  }
  return *number;
}

absl::StatusOr<double> GgufFields::PositiveOr(absl::string_view name,
                                              double if_absent) const {
  return Has(name) ? Positive(name) : if_absent;
}

absl::StatusOr<std::string> GgufFields::StringOr(
    absl::string_view name, absl::string_view if_absent) const {
  if (!Has(name)) return std::string(if_absent);
  const std::string* text = metadata_.GetString(Key(name));
  if (text == nullptr) return DataLoss(name, "expected a string");
  return *text;
}

absl::Status GgufFields::DataLoss(absl::string_view name,
                                  absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(path_, ": ", Key(name), ": ", what));
}

absl::Status GgufFields::Unimplemented(absl::string_view name,
                                       absl::string_view what) const {
  return absl::UnimplementedError(
      absl::StrCat(path_, ": ", Key(name), ": ", what));
}

}  // namespace lowmem
