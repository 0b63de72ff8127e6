// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tensor_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace lowmem {

std::string TensorName(absl::Span<const TensorPattern> patterns,
                       TensorRole role, uint32_t layer_idx) {
  for (const TensorPattern& entry : patterns) {
    if (entry.role != role) continue;
    const size_t mark = entry.pattern.find('#');
    if (mark == absl::string_view::npos) return std::string(entry.pattern);
    return absl::StrCat(entry.pattern.substr(0, mark), layer_idx,
                        entry.pattern.substr(mark + 1));
  }
  return std::string();
}

std::optional<uint32_t> LayerOfName(absl::Span<const TensorPattern> patterns,
                                    absl::string_view name) {
  for (const TensorPattern& entry : patterns) {
    const size_t mark = entry.pattern.find('#');
    if (mark == absl::string_view::npos) continue;
    // All layer patterns of a family share what stands before the index.
    if (!absl::ConsumePrefix(&name, entry.pattern.substr(0, mark))) {
      return std::nullopt;
    }
    const size_t end = name.find_first_not_of("0123456789");
    uint32_t layer_idx = 0;
    if (end == absl::string_view::npos || name[end] != '.' ||
        !absl::SimpleAtoi(name.substr(0, end), &layer_idx)) {
      return std::nullopt;
    }
    return layer_idx;
  }
  return std::nullopt;
}

}  // namespace lowmem
