// SPDX-License-Identifier: Apache-2.0
// Matchers for absl::Status and absl::StatusOr; the packaged Abseil has none.

#ifndef LOWMEM_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define LOWMEM_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lowmem::testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// EXPECT_THAT(result, IsOk()).
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// EXPECT_THAT(result, Fails(absl::StatusCode::kDataLoss, "part of the
// message")).
MATCHER_P2(Fails, code, part,
           std::string("fails with code ") + absl::StatusCodeToString(code) +
               " and a message with \"" + part + "\"") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         StatusOf(arg).message().find(part) != absl::string_view::npos;
}

}  // namespace lowmem::testing

// ASSERT_OK_AND_ASSIGN(auto x, F()).
#define ASSERT_OK_AND_ASSIGN(lhs, expr)                                        \
  ASSERT_OK_AND_ASSIGN_IMPL_(ASSERT_OK_CONCAT_(assert_ok_statusor_, __LINE__), \
                             lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL_(statusor, lhs, expr) \
  auto statusor = (expr);                               \
  ASSERT_TRUE(statusor.ok()) << statusor.status();      \
  lhs = *std::move(statusor)
#define ASSERT_OK_CONCAT_(a, b) ASSERT_OK_CONCAT_IMPL_(a, b)
#define ASSERT_OK_CONCAT_IMPL_(a, b) a##b

#endif  // LOWMEM_TESTS_SUPPORT_STATUS_MATCHERS_H_
