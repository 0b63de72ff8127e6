// SPDX-License-Identifier: Apache-2.0
// Thousands of seeded mutations of the tiny models' heads: bytes, and fields of
// four or eight bytes set to the values that break arithmetic. The reader may
// accept or refuse, but never crash, never say something else than its contract
// allows, and never ask for more memory than the file's size explains.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "storage/gguf_reader.h"
#include "tests/support/faulty_file.h"
#include "tests/support/temporary_folder.h"

namespace {

// Bytes asked for since the count began; this executable's own operator new.
uint64_t g_requested_bytes = 0;
uint64_t g_largest_request = 0;

}  // namespace

void* operator new(size_t size) {
  g_requested_bytes += size;
  if (size > g_largest_request) g_largest_request = size;
  // Without this a test that fails would take the machine with it.
  void* memory = size > (size_t{1} << 30) ? nullptr : std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace lowmem {
namespace {

using testing::FaultyFile;
using testing::ReadFileBytes;

constexpr uint64_t kBreakingValues[] = {0,
                                        1,
                                        7,
                                        8,
                                        9,
                                        31,
                                        32,
                                        0x7F,
                                        0x80,
                                        0xFF,
                                        0x7FFF,
                                        0xFFFF,
                                        0x7FFFFFFF,
                                        0x80000000,
                                        0xFFFFFFFF,
                                        0x100000000,
                                        uint64_t{1} << 61,
                                        (uint64_t{1} << 61) + 1,
                                        uint64_t{1} << 62,
                                        0x7FFFFFFFFFFFFFFF,
                                        uint64_t{1} << 63,
                                        0xFFFFFFFFFFFFFFE0,
                                        0xFFFFFFFFFFFFFFFF};

std::string Mutate(std::string bytes, size_t head_bytes, std::mt19937& random) {
  const int num_changes = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < num_changes; ++i) {
    const size_t pos = random() % (head_bytes - 8);
    const uint64_t value =
        kBreakingValues[random() % std::size(kBreakingValues)];
    switch (random() % 5) {
      case 0:
        bytes[pos] = static_cast<char>(random());
        break;
      case 1:
        bytes[pos] = static_cast<char>(bytes[pos] ^ (1 << random() % 8));
        break;
      case 2:
        std::memcpy(bytes.data() + pos, &value, 4);
        break;
      case 3:
        std::memcpy(bytes.data() + pos, &value, 8);
        break;
      default:
        bytes.erase(pos, 1 + random() % 8);
        break;
    }
  }
  return bytes;
}

TEST(GgufMutationTest, NoMutationCrashesOrTakesMemoryTheFileDoesNotExplain) {
  constexpr uint32_t kSeed = 20240611;
  constexpr int kRounds = 1500;  // for each file
  std::mt19937 random(kSeed);
  int num_accepted = 0;
  int num_refused = 0;
  for (const char* name : {"llama-mixed", "llama3-bf16", "qwen2-q8_0"}) {
    const std::string whole = ReadFileBytes(std::string(LOWMEM_TESTDATA_DIR) +
                                            "/tiny-gguf/" + name + ".gguf");
    ASSERT_GT(whole.size(), 1000u) << name;
    uint64_t head_bytes = 0;
    {
      const FaultyFile file(whole);
      const absl::StatusOr<GgufHead> head = ReadGgufHead(file);
      ASSERT_TRUE(head.ok()) << head.status();
      head_bytes = whole.size();
      for (const TensorInfo& tensor : head->tensors) {
        head_bytes = std::min(head_bytes, tensor.file_ofs);
      }
    }
    for (int round = 0; round < kRounds; ++round) {
      const FaultyFile file(Mutate(whole, head_bytes, random));
      g_requested_bytes = 0;
      g_largest_request = 0;
      const absl::StatusOr<GgufHead> head = ReadGgufHead(file);
      const uint64_t requested = g_requested_bytes;
      const uint64_t largest = g_largest_request;
      SCOPED_TRACE(::testing::Message()
                   << name << ", seed " << kSeed << ", round " << round);
      // A table entry takes about 100 bytes for at least 25 in the file.
      ASSERT_LT(largest, 5 * file.size_bytes() + (64u << 10));
      ASSERT_LT(requested, 16 * file.size_bytes() + (256u << 10));
      if (head.ok()) {
        ++num_accepted;
        for (const TensorInfo& tensor : head->tensors) {
          ASSERT_LE(tensor.file_ofs, file.size_bytes());
          ASSERT_LE(tensor.size_bytes, file.size_bytes() - tensor.file_ofs);
        }
        // The walks that the tokenizer makes must hold too.
        for (const auto& [key, value] : head->metadata.values()) {
          if (value.type != GgufType::kArray) continue;
          uint64_t visits = 0;
          const absl::Status walked = head->metadata.ForEachString(
              key, [&](uint64_t, absl::string_view) {
                ++visits;
                return absl::OkStatus();
              });
          if (walked.ok()) {
            ASSERT_EQ(visits, value.num_elements);
          }
        }
      } else {
        ++num_refused;
        const absl::StatusCode code = head.status().code();
        ASSERT_TRUE(code == absl::StatusCode::kDataLoss ||
                    code == absl::StatusCode::kUnimplemented)
            << head.status();
        ASSERT_EQ(head.status().message().find('\n'), absl::string_view::npos)
            << head.status();
      }
    }
  }
  // Both happen, else the mutations test nothing.
  EXPECT_GT(num_accepted, 100);
  EXPECT_GT(num_refused, 100);
}

}  // namespace
}  // namespace lowmem
