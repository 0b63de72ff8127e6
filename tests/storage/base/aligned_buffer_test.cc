// SPDX-License-Identifier: Apache-2.0
#include "storage/base/aligned_buffer.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

TEST(AlignedBufferTest, PagesAreAlignedZeroAndWritable) {
  MemoryAccount account("all", MemoryAccount::kUnlimited, nullptr);
  for (const uint64_t size_bytes : {1, 4095, 4096, 4097, 100'000}) {
    ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer,
                         AlignedBuffer::Allocate(size_bytes, account));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) %
                  AlignedBuffer::kAlignmentBytes,
              0u);
    ASSERT_EQ(buffer.size_bytes(), size_bytes);
    for (size_t i = 0; i < size_bytes; ++i) {
      ASSERT_EQ(buffer.data()[i], 0) << i;
      buffer.data()[i] = 0xAB;
    }
  }
}

TEST(AlignedBufferTest, WholePagesAreChargedUntilDestroyed) {
  MemoryAccount account("all", MemoryAccount::kUnlimited, nullptr);
  {
    ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer,
                         AlignedBuffer::Allocate(4097, account));
    EXPECT_GE(account.used_bytes(), 8192u);
    EXPECT_EQ(account.used_bytes() % AlignedBuffer::kAlignmentBytes, 0u);
  }
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(AlignedBufferTest, EmptyBufferTakesNothing) {
  MemoryAccount account("all", 0, nullptr);
  ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer,
                       AlignedBuffer::Allocate(0, account));
  EXPECT_EQ(buffer.size_bytes(), 0u);
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(AlignedBufferTest, AccountRefuses) {
  MemoryAccount account("weights", 4095, nullptr);
  EXPECT_THAT(AlignedBuffer::Allocate(1, account),
              Fails(kResourceExhausted, "weights: "));
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(AlignedBufferTest, SystemRefusesAndTheChargeIsGivenBack) {
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  EXPECT_THAT(AlignedBuffer::Allocate(uint64_t{1} << 60, account),
              Fails(kResourceExhausted, "weights: "));
  EXPECT_THAT(AlignedBuffer::Allocate(~uint64_t{0}, account),
              Fails(kResourceExhausted, "address space"));
  EXPECT_EQ(account.used_bytes(), 0u);
}

// Where an address has 32 bits it must not become one of 4096 bytes.
TEST(AlignedBufferTest, MoreThan32BitsIsGivenOrRefused) {
  constexpr uint64_t kBytes = (uint64_t{1} << 32) + 4096;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  {
    const auto buffer = AlignedBuffer::Allocate(kBytes, account);
    if (buffer.ok()) {
      EXPECT_EQ(buffer->size_bytes(), kBytes);
    } else {
      EXPECT_THAT(buffer, Fails(kResourceExhausted, "weights: "));
    }
  }
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(AlignedBufferTest, MoveKeepsTheBytesAndTheCharge) {
  MemoryAccount account("all", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(AlignedBuffer first,
                       AlignedBuffer::Allocate(100, account));
  const uint64_t used_bytes = account.used_bytes();
  first.data()[99] = 7;
  AlignedBuffer second = std::move(first);
  EXPECT_EQ(second.data()[99], 7);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(first.size_bytes(), 0u);
  EXPECT_EQ(account.used_bytes(), used_bytes);

  ASSERT_OK_AND_ASSIGN(second, AlignedBuffer::Allocate(1, account));
  EXPECT_EQ(account.used_bytes(), used_bytes);
  EXPECT_EQ(second.data()[0], 0);
  AlignedBuffer& alias = second;
  second = std::move(alias);
  EXPECT_EQ(second.size_bytes(), 1u);
  second = AlignedBuffer();
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(AlignedBufferTest, ContiguousBytesBeginAtAHugePage) {
  MemoryAccount account("all", MemoryAccount::kUnlimited, nullptr);
  constexpr uint64_t kHugePageBytes = 2 << 20;
  for (const uint64_t head_bytes : {0, 4096, 20480}) {
    for (const uint64_t size_bytes : {1, 500'000, 2 << 20, 5 << 20}) {
      ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer,
                           AlignedBuffer::AllocateContiguous(
                               head_bytes + size_bytes, head_bytes, account));
      EXPECT_EQ((reinterpret_cast<uintptr_t>(buffer.data()) + head_bytes) %
                    kHugePageBytes,
                0u);
      ASSERT_EQ(buffer.size_bytes(), head_bytes + size_bytes);
      EXPECT_LT(account.used_bytes(), buffer.size_bytes() + 65536);
      for (size_t i = 0; i < buffer.size_bytes(); ++i) {
        ASSERT_EQ(buffer.data()[i], 0) << i;
        buffer.data()[i] = 0xAB;
      }
    }
  }
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(AlignedBufferTest, ContiguousBytesTakeNoMoreThanTheAccountAllows) {
  MemoryAccount account("ring", 300'000, nullptr);
  ASSERT_OK_AND_ASSIGN(const AlignedBuffer buffer,
                       AlignedBuffer::AllocateContiguous(250'000, 0, account));
  EXPECT_LE(account.peak_bytes(), 300'000u);
  EXPECT_THAT(AlignedBuffer::AllocateContiguous(250'000, 4096, account),
              Fails(kResourceExhausted, "ring: "));
}

}  // namespace
}  // namespace lowmem
