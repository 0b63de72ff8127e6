// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/meter_format.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

// The contract with everybody who reads our output.
const char* const kFields[] = {"mode",
                               "threads",
                               "ram_budget_bytes",
                               "model_bytes",
                               "resident_weight_bytes",
                               "arena_bytes",
                               "kv_bytes",
                               "vm_hwm_bytes",
                               "rss_anon_bytes",
                               "rss_file_bytes",
                               "cgroup_peak_bytes",
                               "page_cache_bytes",
                               "major_faults",
                               "storage_read_bytes",
                               "weight_bytes_read",
                               "prompt_tokens",
                               "generated_tokens",
                               "prefill_weight_passes",
                               "decode_weight_passes",
                               "load_s",
                               "time_to_first_token_s",
                               "prefill_tokens_per_s",
                               "decode_tokens_per_s",
                               "io",
                               "io_bytes_per_s"};

TEST(MeterFormatTest, JsonHasEveryFieldInOrder) {
  ASSERT_OK_AND_ASSIGN(const JsonValue json, JsonValue::Parse(MeterToJson({})));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.members()) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAreArray(kFields));
}

TEST(MeterFormatTest, AbsentFiguresAreNullAndZeroIsNot) {
  Meter meter;
  meter.major_faults = 0;
  ASSERT_OK_AND_ASSIGN(const JsonValue json,
                       JsonValue::Parse(MeterToJson(meter)));
  EXPECT_EQ(json.Find("major_faults")->AsUint64(), 0u);
  EXPECT_TRUE(json.Find("ram_budget_bytes")->is_null());
  EXPECT_TRUE(json.Find("load_s")->is_null());
  EXPECT_EQ(json.Find("kv_bytes")->AsUint64(), 0u);
}

TEST(MeterFormatTest, JsonNumbersAreExact) {
  Meter meter;
  meter.mode = "mmap";
  meter.model_bytes = 12345678901234567u;
  meter.decode_tokens_per_s = 27.5;
  ASSERT_OK_AND_ASSIGN(const JsonValue json,
                       JsonValue::Parse(MeterToJson(meter)));
  EXPECT_EQ(json.Find("mode")->string(), "mmap");
  EXPECT_EQ(json.Find("model_bytes")->AsUint64(), 12345678901234567u);
  EXPECT_EQ(json.Find("decode_tokens_per_s")->AsDouble(), 27.5);
}

TEST(MeterFormatTest, TextHasALineForEachField) {
  Meter meter;
  meter.mode = "copy";
  meter.model_bytes = 1536;
  meter.load_s = 0.25;
  const std::string text = MeterToText(meter);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<int>(std::size(kFields)));
  EXPECT_THAT(text, ::testing::HasSubstr("mode                    copy\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("model_bytes             1.50 KiB\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("load_s                  0.250 s\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("vm_hwm_bytes            -\n"));
}

}  // namespace
}  // namespace lowmem
