// SPDX-License-Identifier: Apache-2.0
// info --plan of a model that its budget does not hold.
#include <string>
#include <vector>

#include "tests/e2e/cli_fixture.h"
#include "tests/e2e/grown_model.h"

namespace lowmem::testing {
namespace {

using ::testing::HasSubstr;

// A mapping is not read as a stream is: its speed is not told by one.
TEST(PlanTest, OnlyAStreamsPlanHasASpeed) {
  const GrownModel model;
  for (const char* mode : {"mmap", "stream"}) {
    std::vector<std::string> args = {"-m",   model.path(),   "--mode",
                                     mode,   "--ram-budget", "24M",
                                     "info", "--plan"};
    const SubprocessResult text = RunCli(args);
    ASSERT_EQ(text.exit_code, 0) << text.err;
    const bool is_stream = mode == std::string("stream");
    EXPECT_THAT(text.out, HasSubstr("read a token"));
    for (const char* part : {"measured now", "tokens/s"}) {
      EXPECT_EQ(text.out.find(part) != std::string::npos, is_stream)
          << mode << ": " << part;
    }
    args.push_back("--json");
    const SubprocessResult json = RunCli(args);
    ASSERT_EQ(json.exit_code, 0) << json.err;
    const JsonValue plan = At(ParseJsonText(json.out), "plan");
    EXPECT_GT(At(plan, "streamed_bytes_per_token").AsUint64().value_or(0), 0u);
    EXPECT_EQ(At(plan, "read_bytes_per_s").is_null(), !is_stream);
  }
}

}  // namespace
}  // namespace lowmem::testing
