// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/ram_budget.h"

#include "storage/base/units.h"
#include "tests/support/status_matchers.h"

namespace lowmem::cli {
namespace {

using lowmem::testing::Fails;

ProcessMemory Memory(std::optional<uint64_t> available,
                     std::optional<uint64_t> limit) {
  ProcessMemory memory;
  memory.available_bytes = available;
  memory.cgroup_available_bytes = limit;
  return memory;
}

TEST(RamBudgetTest, SmallerFigureLessASixteenth) {
  EXPECT_EQ(*AutoRamBudget(Memory(16 * kGiB, std::nullopt)), 15 * kGiB);
  EXPECT_EQ(*AutoRamBudget(Memory(16 * kGiB, 8 * kGiB)), 8 * kGiB - kGiB / 2);
  EXPECT_EQ(*AutoRamBudget(Memory(4 * kGiB, 8 * kGiB)), 4 * kGiB - kGiB / 4);
  EXPECT_EQ(*AutoRamBudget(Memory(std::nullopt, 16 * kGiB)), 15 * kGiB);
}

TEST(RamBudgetTest, MarginIsAtLeast32MiB) {
  EXPECT_EQ(*AutoRamBudget(Memory(256 * kMiB, std::nullopt)), 224 * kMiB);
  EXPECT_EQ(*AutoRamBudget(Memory(32 * kMiB + 1, std::nullopt)), 1u);
}

TEST(RamBudgetTest, AGroupMayBeThereForThisProcessAlone) {
  EXPECT_EQ(*AutoRamBudget(Memory(16 * kGiB, 64 * kMiB)), 60 * kMiB);
  EXPECT_EQ(*AutoRamBudget(Memory(16 * kGiB, 512 * kMiB)), 480 * kMiB);
  EXPECT_THAT(AutoRamBudget(Memory(16 * kGiB, 4 * kMiB)),
              Fails(absl::StatusCode::kResourceExhausted,
                    "the control group has no memory to spare"));
}

TEST(RamBudgetTest, NothingToSpareIsAResourceError) {
  EXPECT_THAT(AutoRamBudget(Memory(32 * kMiB, std::nullopt)),
              Fails(absl::StatusCode::kResourceExhausted,
                    "the machine has no memory to spare"));
  EXPECT_THAT(AutoRamBudget(Memory(kGiB, 0)),
              Fails(absl::StatusCode::kResourceExhausted, "got 0 B"));
}

TEST(RamBudgetTest, UnknownFiguresAskForANumber) {
  EXPECT_THAT(AutoRamBudget(Memory(std::nullopt, std::nullopt)),
              Fails(absl::StatusCode::kInvalidArgument, "such as 512M"));
}

}  // namespace
}  // namespace lowmem::cli
