// SPDX-License-Identifier: Apache-2.0
#include "storage/residency_plan.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;

constexpr uint64_t kRingBytes = 1 << 20;
constexpr uint64_t kMaxRowBytes = 4 * 1536;

// Seven matrices and two vectors a layer as in a small decoder, then the head;
// the embedding apart. Sizes divide by nothing convenient.
ResidencyRequest SmallDecoder(uint64_t available_bytes) {
  ResidencyRequest request;
  TensorId id = 0;
  for (int layer = 0; layer < 6; ++layer) {
    auto& step = request.steps.emplace_back();
    const auto matrix = [&](uint64_t rows, uint64_t cols) {
      step.push_back({id++, rows, 2 * cols, true});
    };
    step.push_back({id++, 1, 2 * 577, false});
    matrix(577, 577);
    matrix(192, 577);
    matrix(192, 577);
    matrix(577, 577);
    step.push_back({id++, 1, 2 * 577, false});
    matrix(1536, 577);
    matrix(1536, 577);
    matrix(577, 1536);
  }
  request.steps.push_back(
      {{id++, 1, 2 * 577, false}, {id++, 49153, 2 * 577, true}});
  request.looked_up.push_back({id++, 49153, 2 * 577, true});
  request.available_bytes = available_bytes;
  request.ring_bytes = kRingBytes;
  return request;
}

uint64_t StreamableBytes(const std::vector<TensorUse>& step) {
  uint64_t sum = 0;
  for (const TensorUse& use : step) {
    if (use.may_stream) sum += use.num_rows * use.row_bytes;
  }
  return sum;
}

uint64_t StreamableBytes(const ResidencyRequest& request) {
  uint64_t sum = 0;
  for (const auto& step : request.steps) sum += StreamableBytes(step);
  return sum;
}

uint64_t StreamedBytes(const std::vector<TensorPlacement>& step) {
  uint64_t sum = 0;
  for (const TensorPlacement& tensor : step) sum += tensor.streamed_bytes();
  return sum;
}

// The smallest that is accepted, found from the refusal's border.
uint64_t SmallestAvailable() {
  uint64_t low = 0;
  uint64_t high = kRingBytes * 2;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (PlanResidency(SmallDecoder(middle)).ok() ? high : low) = middle;
  }
  return high;
}

// What PlanResidency promises of any plan.
void CheckPromises(const ResidencyRequest& request, const ResidencyPlan& plan) {
  SCOPED_TRACE(request.available_bytes);
  ASSERT_EQ(plan.steps.size(), request.steps.size());
  ASSERT_EQ(plan.looked_up.size(), request.looked_up.size());
  uint64_t resident_bytes = 0;
  uint64_t streamed_bytes = 0;
  const auto check = [&](const TensorPlacement& placed, const TensorUse& use) {
    EXPECT_EQ(placed.tensor, use.tensor);
    EXPECT_EQ(placed.num_rows, use.num_rows);
    EXPECT_EQ(placed.row_bytes, use.row_bytes);
    EXPECT_LE(placed.resident_rows, use.num_rows);
    EXPECT_TRUE(use.may_stream || placed.resident_rows == use.num_rows);
    resident_bytes += placed.resident_bytes();
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    ASSERT_EQ(plan.steps[s].size(), request.steps[s].size());
    for (size_t i = 0; i < plan.steps[s].size(); ++i) {
      check(plan.steps[s][i], request.steps[s][i]);
    }
    streamed_bytes += StreamedBytes(plan.steps[s]);
  }
  for (size_t i = 0; i < plan.looked_up.size(); ++i) {
    check(plan.looked_up[i], request.looked_up[i]);
  }
  EXPECT_EQ(plan.resident_bytes, resident_bytes);
  EXPECT_EQ(plan.streamed_bytes_per_pass, streamed_bytes);
  EXPECT_GE(plan.block_bytes, plan.resident_bytes);
  EXPECT_LE(plan.block_bytes + plan.ring_bytes, request.available_bytes);
}

TEST(ResidencyPlanTest, KeepsItsPromisesForAnyBudget) {
  const uint64_t smallest = SmallestAvailable();
  const uint64_t all = 2 * StreamableBytes(SmallDecoder(0));
  for (uint64_t available = smallest; available < all;
       available += all / 331 + 7) {
    const ResidencyRequest request = SmallDecoder(available);
    ASSERT_OK_AND_ASSIGN(const ResidencyPlan plan, PlanResidency(request));
    CheckPromises(request, plan);
  }
}

TEST(ResidencyPlanTest, UsesTheBudgetToWithinARowAndTheAlignment) {
  const uint64_t smallest = SmallestAvailable();
  const uint64_t streamable = StreamableBytes(SmallDecoder(0));
  const uint64_t padding = 64 * 64;
  for (uint64_t part = 0; part <= 100; ++part) {
    const uint64_t available = smallest + streamable * part / 100;
    ASSERT_OK_AND_ASSIGN(const ResidencyPlan plan,
                         PlanResidency(SmallDecoder(available)));
    EXPECT_LE(available,
              plan.block_bytes + plan.ring_bytes + kMaxRowBytes + padding)
        << part;
  }
}

TEST(ResidencyPlanTest, TheSmallestBudgetStreamsAllThatMayStream) {
  const ResidencyRequest request = SmallDecoder(SmallestAvailable());
  ASSERT_OK_AND_ASSIGN(const ResidencyPlan plan, PlanResidency(request));
  EXPECT_EQ(plan.streamed_bytes_per_pass, StreamableBytes(request));
  EXPECT_EQ(plan.resident_bytes, 13u * 2 * 577);
  EXPECT_EQ(plan.looked_up[0].resident_rows, 0u);
}

TEST(ResidencyPlanTest, BelowTheSmallestBudgetSaysWhatIsNeeded) {
  EXPECT_THAT(
      PlanResidency(SmallDecoder(SmallestAvailable() - 1)),
      Fails(absl::StatusCode::kResourceExhausted, "1.00 MiB for reading"));
  EXPECT_THAT(PlanResidency(SmallDecoder(0)),
              Fails(absl::StatusCode::kResourceExhausted, "got 0 B"));
  ResidencyRequest request = SmallDecoder(1 << 20);
  request.ring_bytes = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(PlanResidency(request),
              Fails(absl::StatusCode::kResourceExhausted, "stream"));
}

TEST(ResidencyPlanTest, ABudgetThatHoldsAllStreamsNothing) {
  ASSERT_OK_AND_ASSIGN(
      const ResidencyPlan plan,
      PlanResidency(SmallDecoder(std::numeric_limits<uint64_t>::max())));
  EXPECT_EQ(plan.streamed_bytes_per_pass, 0u);
  EXPECT_EQ(plan.ring_bytes, kRingBytes);
  EXPECT_EQ(plan.looked_up[0].resident_rows, 49153u);
}

TEST(ResidencyPlanTest, RowsThatAreLookedUpComeLast) {
  const uint64_t steps_only =
      SmallestAvailable() + StreamableBytes(SmallDecoder(0));
  ASSERT_OK_AND_ASSIGN(const ResidencyPlan without,
                       PlanResidency(SmallDecoder(steps_only - 2 * 577)));
  EXPECT_GT(without.streamed_bytes_per_pass, 0u);
  EXPECT_EQ(without.looked_up[0].resident_rows, 0u);
  ASSERT_OK_AND_ASSIGN(const ResidencyPlan with,
                       PlanResidency(SmallDecoder(steps_only + 20 * 577)));
  EXPECT_EQ(with.streamed_bytes_per_pass, 0u);
  EXPECT_EQ(with.looked_up[0].resident_rows, 10u);
}

TEST(ResidencyPlanTest, EveryStepStreamsTheSameShareOfItsBytes) {
  const ResidencyRequest sizes = SmallDecoder(0);
  const double streamable = StreamableBytes(sizes);
  const uint64_t smallest = SmallestAvailable();
  for (const double share : {0.0, 0.01, 0.3, 0.52, 0.77, 0.99}) {
    ASSERT_OK_AND_ASSIGN(
        const ResidencyPlan plan,
        PlanResidency(SmallDecoder(smallest +
                                   static_cast<uint64_t>(share * streamable))));
    double streamed = 0;
    double passed = 0;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      streamed += StreamedBytes(plan.steps[s]);
      passed += StreamableBytes(sizes.steps[s]);
      EXPECT_NEAR(streamed, passed * (1 - share), 2 * kMaxRowBytes)
          << share << ": step " << s;
    }
  }
}

TEST(ResidencyPlanTest, MoreBudgetNeverStreamsMore) {
  const uint64_t smallest = SmallestAvailable();
  const uint64_t all = 2 * StreamableBytes(SmallDecoder(0));
  uint64_t last_streamed = std::numeric_limits<uint64_t>::max();
  uint64_t last_resident = 0;
  for (uint64_t available = smallest; available < all; available += all / 777) {
    ASSERT_OK_AND_ASSIGN(const ResidencyPlan plan,
                         PlanResidency(SmallDecoder(available)));
    EXPECT_LE(plan.streamed_bytes_per_pass, last_streamed) << available;
    // The steps' share is rounded; what is held may waver by a row.
    EXPECT_GE(plan.resident_bytes + kMaxRowBytes, last_resident) << available;
    last_streamed = plan.streamed_bytes_per_pass;
    last_resident = plan.resident_bytes;
  }
}

TEST(ResidencyPlanTest, PiecesAreFewAndLargeWhenLittleStreams) {
  const uint64_t streamable = StreamableBytes(SmallDecoder(0));
  ASSERT_OK_AND_ASSIGN(
      const ResidencyPlan plan,
      PlanResidency(SmallDecoder(SmallestAvailable() + streamable * 80 / 100)));
  for (const auto& step : plan.steps) {
    int num_pieces = 0;
    for (const TensorPlacement& tensor : step) {
      num_pieces += tensor.streamed_rows() > 0;
    }
    // A fifth of 7.1 MB makes no two pieces of 1 MiB.
    EXPECT_EQ(num_pieces, 1);
  }
}

TEST(ResidencyPlanTest, OddShapes) {
  const struct {
    const char* name;
    std::vector<std::vector<TensorUse>> steps;
    uint64_t available_bytes;
    uint64_t streamed_bytes;
  } kCases[] = {
      {"nothing at all", {}, 0, 0},
      {"a step without tensors", {{}, {{0, 10, 100, true}}}, 64, 1000},
      {"one row", {{{0, 1, 1000000, true}}}, 500000, 1000000},
      {"no rows", {{{0, 0, 100, true}, {1, 4, 25, true}}}, 128, 100},
      {"rows of no bytes", {{{0, 9, 0, true}, {1, 4, 25, true}}}, 128, 100},
      {"half of two rows", {{{0, 2, 100, true}}}, 164, 100},
      {"a byte short of two rows", {{{0, 2, 100, true}}}, 263, 100},
      {"exactly two rows", {{{0, 2, 100, true}}}, 264, 0},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    ResidencyRequest request;
    request.steps = c.steps;
    request.available_bytes = c.available_bytes;
    ASSERT_OK_AND_ASSIGN(const ResidencyPlan plan, PlanResidency(request));
    CheckPromises(request, plan);
    EXPECT_EQ(plan.streamed_bytes_per_pass, c.streamed_bytes);
  }
}

TEST(ResidencyPlanTest, SizesBeyond63BitsAreRefused) {
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  ResidencyRequest request;
  request.available_bytes = 1 << 20;
  request.steps = {{{0, kHuge, 4, true}}};
  EXPECT_THAT(PlanResidency(request),
              Fails(absl::StatusCode::kOutOfRange, "2^63"));
  request.steps = {{{0, kHuge, 1, true}}, {{1, kHuge, 1, true}}};
  EXPECT_THAT(PlanResidency(request),
              Fails(absl::StatusCode::kOutOfRange, "2^63"));
}

TEST(ResidencyPlanTest, AlmostAllOf63BitsIsSharedExactly) {
  constexpr uint64_t kRows = uint64_t{1} << 50;
  ResidencyRequest request;
  request.steps = {{{0, kRows, 1000, true}}, {{1, kRows, 1000, true}}};
  request.available_bytes = kRows * 500;
  ASSERT_OK_AND_ASSIGN(const ResidencyPlan plan, PlanResidency(request));
  CheckPromises(request, plan);
  EXPECT_EQ(plan.steps[0][0].resident_rows, kRows / 4 - 1);
}

TEST(ResidencyPlanTest, ATensorUsedTwiceIsRefused) {
  ResidencyRequest request;
  request.steps = {{{3, 1, 1, true}}, {{3, 1, 1, true}}};
  EXPECT_THAT(PlanResidency(request), Fails(absl::StatusCode::kInvalidArgument,
                                            "tensor 3: used twice"));
}

}  // namespace
}  // namespace lowmem
