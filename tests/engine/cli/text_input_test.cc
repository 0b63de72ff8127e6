// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/text_input.h"

#include <filesystem>
#include <string>

#include "engine/generate/model_footprint.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem::cli {
namespace {

using testing::Fails;

TEST(TextInputTest, ABudgetLeavesRoomForTheProgram) {
  const testing::TemporaryFolder folder;
  const std::string text(100'000, 'a');
  const std::string path = folder.Write("text", text);
  const uint64_t least = kProgramBytes + text.size();
  for (const std::optional<uint64_t> budget :
       {std::optional<uint64_t>(), std::optional<uint64_t>(least)}) {
    ASSERT_OK_AND_ASSIGN(const std::string read, ReadText(path, budget));
    EXPECT_EQ(read, text);
  }
  for (const uint64_t budget : {uint64_t{1}, kProgramBytes, least - 1}) {
    EXPECT_THAT(
        ReadText(path, budget),
        Fails(absl::StatusCode::kResourceExhausted,
              "text: does not fit the memory budget; needed at least "));
  }
}

TEST(TextInputTest, ALongFileIsRefusedUnread) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.Write("text", "");
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  EXPECT_THAT(ReadText(path, std::nullopt),
              Fails(absl::StatusCode::kInvalidArgument,
                    "too long; expected at most 64.0 MiB"));
  EXPECT_THAT(
      ReadText(path, uint64_t{32} << 20),
      Fails(absl::StatusCode::kResourceExhausted,
            "allowed 32.0 MiB (33554432), largest item: text 1.00 TiB"));
}

}  // namespace
}  // namespace lowmem::cli
