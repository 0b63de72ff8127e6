// SPDX-License-Identifier: Apache-2.0
// DecodeRow against ggml's own values (gguf-types.safetensors), bit for bit.
#include "quant/decode.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/dtype.h"
#include "tests/quant/kernels/each_target.h"
#include "tests/support/golden_tensors.h"

namespace lowmem {
namespace {

using testing::GoldenTensors;

constexpr size_t kRowElements = 1024;  // of every golden row

const GoldenTensors& Golden() {
  static const GoldenTensors* golden =
      new GoldenTensors(LOWMEM_TESTDATA_DIR "/gguf-types.safetensors");
  return *golden;
}

std::vector<DType> DecodableTypes() {
  std::vector<DType> types;
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (TraitsOf(dtype).decodable) types.push_back(dtype);
  }
  return types;
}

std::vector<uint32_t> BitsOf(const float* values, size_t n) {
  std::vector<uint32_t> bits(n);
  if (n > 0) std::memcpy(bits.data(), values, n * sizeof(float));
  return bits;
}

std::vector<uint32_t> DecodeBits(DType dtype, const uint8_t* src, size_t n) {
  // Behind the row a guard that no decoder may touch.
  std::vector<float> out(n + 16, -77.0f);
  DecodeRow(dtype, src, n, out.data());
  for (size_t i = n; i < out.size(); ++i) {
    EXPECT_EQ(out[i], -77.0f) << "written " << i - n << " beyond the row";
  }
  return BitsOf(out.data(), n);
}

class DecodeTypeTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const std::string name(TraitsOf(GetParam()).name);
    raw_ = Golden().Bytes(name + ".raw");
    values_ = Golden().Floats(name + ".f32");
    if (GetParam() ==
        DType::kF32) {  // not in the file: its bytes are its values
      values_ = Golden().Floats("Q4_0.f32");
      raw_ = Golden().Bytes("Q4_0.f32");
    }
    ASSERT_FALSE(raw_.empty()) << name << " is missing from the golden file";
    ASSERT_EQ(values_.size() % kRowElements, 0u);
    row_bytes_ = *RowBytes(GetParam(), kRowElements);
    ASSERT_EQ(raw_.size() / row_bytes_, values_.size() / kRowElements);
  }

  const uint8_t* raw() const {
    return reinterpret_cast<const uint8_t*>(raw_.data());
  }

  std::string raw_;
  std::vector<float> values_;
  uint64_t row_bytes_ = 0;
};

// Decoding multiplies by half the scale, which may be denormal.
bool NeedsDenormals(DType dtype) { return dtype == DType::kMXFP4; }

TEST_P(DecodeTypeTest, RowsEqualGgmlBitForBit) {
  if (NeedsDenormals(GetParam()) &&
      testing::FlushesDenormals(testing::TestedTargets().front())) {
    GTEST_SKIP() << "this processor takes denormal numbers for zero";
  }
  for (size_t row = 0; row < values_.size() / kRowElements; ++row) {
    EXPECT_EQ(DecodeBits(GetParam(), raw() + row * row_bytes_, kRowElements),
              BitsOf(values_.data() + row * kRowElements, kRowElements))
        << "row " << row;
  }
}

TEST_P(DecodeTypeTest, EveryRowLengthFromNoBlockUp) {
  const DTypeTraits& traits = TraitsOf(GetParam());
  for (size_t n = 0; n <= kRowElements; n += traits.block_elements) {
    EXPECT_EQ(DecodeBits(GetParam(), raw(), n), BitsOf(values_.data(), n))
        << n << " elements";
    if (n >= 130 && traits.block_elements == 1) break;
  }
}

TEST_P(DecodeTypeTest, SourceNeedsNoAlignment) {
  for (size_t shift = 1; shift < 16; ++shift) {
    // The buffer ends with the row, so that a read beyond it is seen by ASan.
    std::vector<uint8_t> moved(shift + row_bytes_);
    std::memcpy(moved.data() + shift, raw(), row_bytes_);
    EXPECT_EQ(DecodeBits(GetParam(), moved.data() + shift, kRowElements),
              BitsOf(values_.data(), kRowElements))
        << "shifted by " << shift;
  }
}

TEST_P(DecodeTypeTest, AllBytesOfAnyValueAreAccepted) {
  // Codes index tables and scales may be NaN: no byte may lead out of a table.
  const DTypeTraits& traits = TraitsOf(GetParam());
  const size_t elements =
      traits.block_elements == 1 ? 64 : traits.block_elements;
  std::vector<uint8_t> bytes(*RowBytes(GetParam(), elements));
  std::vector<float> out(elements);
  uint32_t state = 12345;
  for (int round = 0; round < 300; ++round) {
    for (uint8_t& byte : bytes) {
      state = state * 1664525u + 1013904223u;
      byte = round < 256 ? static_cast<uint8_t>(round)
                         : static_cast<uint8_t>(state >> 24);
    }
    std::fill(out.begin(), out.end(), 0.0f);
    DecodeRow(GetParam(), bytes.data(), elements, out.data());
    std::vector<float> again(elements, 1.0f);
    DecodeRow(GetParam(), bytes.data(), elements, again.data());
    // Every value is written, whatever was there before.
    ASSERT_EQ(BitsOf(again.data(), elements), BitsOf(out.data(), elements))
        << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DecodeTypeTest,
                         ::testing::ValuesIn(DecodableTypes()),
                         [](const ::testing::TestParamInfo<DType>& param) {
                           return std::string(TraitsOf(param.param).name);
                         });

TEST(DecodeTest, EveryInstructionSetDecodesToTheSameBits) {
  for (const int64_t target : testing::TestedTargets()) {
    testing::ChooseTargets(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const DType dtype : DecodableTypes()) {
      if (dtype == DType::kF32) continue;  // a copy on every target
      if (NeedsDenormals(dtype) && testing::FlushesDenormals(target)) continue;
      const std::string name(TraitsOf(dtype).name);
      const std::string raw = Golden().Bytes(name + ".raw");
      const std::vector<float> values = Golden().Floats(name + ".f32");
      ASSERT_FALSE(raw.empty()) << name;
      EXPECT_EQ(DecodeBits(dtype, reinterpret_cast<const uint8_t*>(raw.data()),
                           values.size()),
                BitsOf(values.data(), values.size()))
          << name;
    }
  }
  testing::ChooseTargets(0);
}

TEST(DecodeTest, ADecoderExistsExactlyWhereTheTypeIsDecodable) {
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(HasDecoder(dtype), TraitsOf(dtype).decodable)
        << TraitsOf(dtype).name;
  }
}

// The number after the first `key` at or behind `pos`.
uint32_t NumberBehind(const std::string& json, const std::string& key,
                      size_t pos) {
  const std::string quoted = "\"" + key + "\": ";
  const size_t found = json.find(quoted, pos);
  if (found == std::string::npos) return 0;
  return static_cast<uint32_t>(
      std::stoul(json.substr(found + quoted.size(), 8)));
}

TEST(DecodeTest, TypesAndBlocksAreThoseOfTheGoldenList) {
  std::ifstream in(LOWMEM_TESTDATA_DIR "/gguf-types.json");
  const std::string json(std::istreambuf_iterator<char>(in), {});
  ASSERT_FALSE(json.empty());
  const size_t not_decodable = json.find("\"not_decoded_by_the_package\"");
  size_t found = 0;
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DTypeTraits& traits = TraitsOf(static_cast<DType>(i));
    const size_t entry = json.find("\"" + std::string(traits.name) + "\": {");
    if (entry == std::string::npos) continue;
    ++found;
    EXPECT_EQ(NumberBehind(json, "block_elements", entry),
              traits.block_elements)
        << traits.name;
    EXPECT_EQ(NumberBehind(json, "block_bytes", entry), traits.block_bytes)
        << traits.name;
    EXPECT_EQ(DTypeFromGguf(NumberBehind(json, "id", entry)),
              static_cast<DType>(i))
        << traits.name;
    EXPECT_EQ(entry < not_decodable, traits.decodable) << traits.name;
  }
  EXPECT_EQ(found, 33u);  // 25 decodable, 8 others
}

}  // namespace
}  // namespace lowmem
