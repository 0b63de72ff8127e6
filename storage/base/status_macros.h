// SPDX-License-Identifier: Apache-2.0
// Early return on a failed absl::Status or absl::StatusOr. The packaged Abseil
// ships no such macros.

#ifndef LOWMEM_STORAGE_BASE_STATUS_MACROS_H_
#define LOWMEM_STORAGE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Evaluates `expr` (an absl::Status) and returns it from the enclosing function
// unless it is OK.
#define LOWMEM_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    absl::Status lowmem_status_ = (expr);            \
    if (!lowmem_status_.ok()) return lowmem_status_; \
  } while (false)

// LOWMEM_ASSIGN_OR_RETURN(auto x, F()): declares or assigns `x` from the value
// of F() (an absl::StatusOr), or returns its status. Wrap a type that has a
// comma in parentheses-free alias first.
#define LOWMEM_ASSIGN_OR_RETURN(lhs, expr) \
  LOWMEM_ASSIGN_OR_RETURN_IMPL_(           \
      LOWMEM_STATUS_CONCAT_(lowmem_statusor_, __LINE__), lhs, expr)

#define LOWMEM_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr) \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
#define LOWMEM_STATUS_CONCAT_(a, b) LOWMEM_STATUS_CONCAT_IMPL_(a, b)
#define LOWMEM_STATUS_CONCAT_IMPL_(a, b) a##b

#endif  // LOWMEM_STORAGE_BASE_STATUS_MACROS_H_
