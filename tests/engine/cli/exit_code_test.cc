// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/exit_code.h"

#include "gtest/gtest.h"

namespace lowmem::cli {
namespace {

struct Row {
  absl::StatusCode code;
  int exit_code;
};

constexpr Row kContract[] = {
    {absl::StatusCode::kOk, 0},
    {absl::StatusCode::kInvalidArgument, 2},
    {absl::StatusCode::kOutOfRange, 2},
    {absl::StatusCode::kNotFound, 3},
    {absl::StatusCode::kDataLoss, 4},
    {absl::StatusCode::kUnimplemented, 5},
    {absl::StatusCode::kResourceExhausted, 6},
    {absl::StatusCode::kUnavailable, 7},
    {absl::StatusCode::kInternal, 70},
    {absl::StatusCode::kUnknown, 70},
    {absl::StatusCode::kFailedPrecondition, 70},
    {absl::StatusCode::kCancelled, 130},
};

TEST(ExitCodeTest, EveryStatusHasTheCodeOfTheContract) {
  for (const Row& row : kContract) {
    EXPECT_EQ(ExitCodeOf(absl::Status(row.code, "x")), row.exit_code);
  }
}

TEST(ExitCodeTest, EveryExitCodeHasAMeaningAndAWayBack) {
  for (const Row& row : kContract) {
    EXPECT_FALSE(ExitCodeMeaning(row.exit_code).empty()) << row.exit_code;
    EXPECT_EQ(ExitCodeOf(absl::Status(StatusCodeOfExit(row.exit_code), "x")),
              row.exit_code);
  }
  EXPECT_EQ(ExitCodeMeaning(1), "");
  EXPECT_EQ(StatusCodeOfExit(1), absl::StatusCode::kInternal);
}

TEST(ExitCodeTest, ErrorIsOneLineWhateverTheMessageHolds) {
  EXPECT_EQ(ErrorLine(absl::DataLossError("a: b\nc\r\x1b[2J")),
            "lowmem-run: a: b\\x0ac\\x0d\\x1b[2J\n");
  EXPECT_LT(ErrorLine(absl::DataLossError(std::string(100000, 'x'))).size(),
            3000u);
}

}  // namespace
}  // namespace lowmem::cli
