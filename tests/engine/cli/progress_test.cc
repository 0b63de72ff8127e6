// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/progress.h"

#include "gtest/gtest.h"

namespace lowmem::cli {
namespace {

TEST(ProgressTest, LineShowsShareAndBytes) {
  EXPECT_EQ(ProgressLine("copying", ProgressUnit::kBytes, 0, 2048),
            "copying [------------------------]   0 %, 0 B of 2.00 KiB");
  EXPECT_EQ(ProgressLine("copying", ProgressUnit::kBytes, 1024, 2048),
            "copying [############------------]  50 %, 1.00 KiB of 2.00 KiB");
  EXPECT_EQ(ProgressLine("copying", ProgressUnit::kBytes, 2048, 2048),
            "copying [########################] 100 %, 2.00 KiB of 2.00 KiB");
}

TEST(ProgressTest, TokensAreNumbers) {
  EXPECT_EQ(ProgressLine("predicting", ProgressUnit::kTokens, 512, 2048),
            "predicting [######------------------]  25 %, 512 of 2048");
}

TEST(ProgressTest, NothingAndMoreThanAllAreFull) {
  for (const std::string& line :
       {ProgressLine("x", ProgressUnit::kBytes, 0, 0),
        ProgressLine("x", ProgressUnit::kBytes, 3000, 2048)}) {
    EXPECT_NE(line.find("100 %"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace lowmem::cli
