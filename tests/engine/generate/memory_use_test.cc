// SPDX-License-Identifier: Apache-2.0
// What an engine on a published model takes, counted by the kernel in a process
// of its own. Skipped where the model was not fetched, and under sanitizers,
// whose own memory would be counted.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/base/units.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace lowmem {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsInstrumented = true;
#else
constexpr bool kIsInstrumented = false;
#endif

class MemoryUseTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (kIsInstrumented) GTEST_SKIP() << "sanitizers take memory of their own";
    const std::string path =
        absl::StrCat(LOWMEM_SOURCE_DIR, "/models/", GetParam());
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "models/" << GetParam() << " was not fetched";
    }
    // More than two chunks, so that every activation is in use.
    const testing::SubprocessResult result = testing::RunSubprocess(
        {.program = LOWMEM_MEMORY_PROBE, .args = {path, "300", "12"}});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    ASSERT_OK_AND_ASSIGN(meters_, JsonValue::Parse(result.out));
    ASSERT_EQ(meters_.items().size(), 2);
  }

  uint64_t Opened(const char* field) const { return Field(0, field); }
  uint64_t AtTheEnd(const char* field) const { return Field(1, field); }

 private:
  uint64_t Field(size_t meter_idx, const char* field) const {
    const std::optional<uint64_t> value =
        meters_.items()[meter_idx].Find(field)->AsUint64();
    EXPECT_TRUE(value.has_value()) << field;
    return value.value_or(0);
  }

  JsonValue meters_;
};

// Keys and values of 312 tokens in pages of 16 are 45 KiB a token; everything
// else that is not the mapped file fits 12 MiB.
TEST_P(MemoryUseTest, AnonymousMemoryIsSmallBesideKeysAndValues) {
  EXPECT_EQ(AtTheEnd("kv_bytes"), 320 * 30 * 2 * 3 * 64 * sizeof(float));
  EXPECT_LE(AtTheEnd("rss_anon_bytes"), 12 * kMiB + AtTheEnd("kv_bytes"));
  EXPECT_EQ(AtTheEnd("resident_weight_bytes"), 0);
  // That the test measures what it says: the weights were mapped and used.
  EXPECT_GE(AtTheEnd("rss_file_bytes"), AtTheEnd("model_bytes") * 9 / 10);
}

TEST_P(MemoryUseTest, OpeningReadsNoWeights) {
  EXPECT_LE(Opened("storage_read_bytes"), 8 * kMiB);
  EXPECT_LE(Opened("rss_file_bytes"), 24 * kMiB);
  EXPECT_GE(Opened("model_bytes"), 250 * kMiB);
  EXPECT_LE(Opened("rss_anon_bytes"), 8 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Published, MemoryUseTest,
                         ::testing::Values("smollm2-bf16"),
                         [](const auto&) { return "smollm2_bf16"; });

}  // namespace
}  // namespace lowmem
