// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/progress.h"

#include "gtest/gtest.h"

namespace lowmem::cli {
namespace {

TEST(ProgressTest, LineShowsShareAndBytes) {
  EXPECT_EQ(ProgressLine("copying", 0, 2048),
            "copying [------------------------]   0 %, 0 B of 2.00 KiB");
  EXPECT_EQ(ProgressLine("copying", 1024, 2048),
            "copying [############------------]  50 %, 1.00 KiB of 2.00 KiB");
  EXPECT_EQ(ProgressLine("copying", 2048, 2048),
            "copying [########################] 100 %, 2.00 KiB of 2.00 KiB");
}

TEST(ProgressTest, NothingAndMoreThanAllAreFull) {
  for (const std::string& line :
       {ProgressLine("x", 0, 0), ProgressLine("x", 3000, 2048)}) {
    EXPECT_NE(line.find("100 %"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace lowmem::cli
