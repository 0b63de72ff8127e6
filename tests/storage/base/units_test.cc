// SPDX-License-Identifier: Apache-2.0
#include "storage/base/units.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;

TEST(ParseBytesTest, AcceptedForms) {
  const struct {
    const char* text;
    uint64_t num_bytes;
  } kCases[] = {
      {"1", 1},
      {"4096", 4096},
      {"4096B", 4096},
      {"512 B", 512},
      {"0512", 512},
      {"1k", kKiB},
      {"32kb", 32 * kKiB},
      {"64 MiB", 64 * kMiB},
      {"64mib", 64 * kMiB},
      {"512M", 512 * kMiB},
      {"1.5G", kGiB + kGiB / 2},
      {"0.5K", 512},
      {"2T", 2048 * kGiB},
      {"1.0000001K", 1024},  // the fraction of a byte is dropped
      {"1.9999", 1},
      {"0.0009765625K", 1},
      {"0.00000000000000000000000000000000000000000000001G", 0},
      {"9223372036854775807", 9223372036854775807u},
      {"8388607T", 8388607 * (kGiB << 10)},
  };
  for (const auto& c : kCases) {
    const absl::StatusOr<uint64_t> result = ParseBytes(c.text);
    if (c.num_bytes == 0) {
      EXPECT_THAT(result,
                  Fails(absl::StatusCode::kInvalidArgument, "size: zero"));
      continue;
    }
    ASSERT_THAT(result, testing::IsOk()) << c.text;
    EXPECT_EQ(*result, c.num_bytes) << c.text;
  }
}

TEST(ParseBytesTest, FractionsAreExact) {
  // 0.1 has no exact double; 107374182.4 bytes round down.
  EXPECT_EQ(*ParseBytes("0.1G"), 107374182u);
  EXPECT_EQ(*ParseBytes("0.9999999999999999999999G"), kGiB - 1);
}

TEST(ParseBytesTest, RefusedForms) {
  const struct {
    const char* text;
    const char* why;
  } kCases[] = {
      {"", "no number"},
      {"G", "no number"},
      {" 1G", "no number"},
      {"+1G", "no number"},
      {".5G", "no number"},
      {"auto", "no number"},
      {"-1", "negative"},
      {"-1G", "negative"},
      {"1.", "behind the point"},
      {"1.G", "behind the point"},
      {"0", "zero"},
      {"0G", "zero"},
      {"0.9", "zero"},
      {"1X", "unknown unit"},
      {"1GG", "unknown unit"},
      {"1Gi", "unknown unit"},
      {"1Gbit", "unknown unit"},
      {"1 G ", "unknown unit"},
      {"1e9", "unknown unit"},
      {"0x10", "unknown unit"},
      {"1.5.5G", "unknown unit"},
      {"1,5G", "unknown unit"},
      {"1BB", "unknown unit"},
      {"9223372036854775808", "too large"},
      {"8388608T", "too large"},
      {"18446744073709551616", "too large"},
      {"99999999999999999999999G", "too large"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(ParseBytes(c.text),
                Fails(absl::StatusCode::kInvalidArgument, c.why))
        << c.text;
  }
}

TEST(ParseBytesTest, MessageIsOneCleanLine) {
  const absl::Status status = ParseBytes("1\n\x1b[31mG").status();
  EXPECT_EQ(status.message(),
            "size: unknown unit; expected bytes or a number with K, M, G or T, "
            "such as 512M or 1.5G, got \"1\\x0a\\x1b[31mG\"");
}

TEST(FormatBytesTest, ThreeSignificantDigits) {
  const struct {
    uint64_t num_bytes;
    const char* text;
  } kCases[] = {
      {0, "0 B"},
      {512, "512 B"},
      {1023, "1023 B"},
      {1024, "1.00 KiB"},
      {47206, "46.1 KiB"},
      {102400, "100 KiB"},
      {10234, "9.99 KiB"},
      {10236, "10.0 KiB"},
      {1023 * kKiB, "1023 KiB"},
      {kMiB - 1, "1.00 MiB"},
      {kMiB, "1.00 MiB"},
      {1256277934, "1.17 GiB"},
      {~uint64_t{0}, "16.0 EiB"},
  };
  for (const auto& c : kCases) EXPECT_EQ(FormatBytes(c.num_bytes), c.text);
}

}  // namespace
}  // namespace lowmem
