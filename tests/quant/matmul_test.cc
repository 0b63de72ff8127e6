// SPDX-License-Identifier: Apache-2.0
// Every result is compared by bits with the documented order of summation, so
// that tiling, threads, tokens, tails and targets are proved to change nothing.
#include "quant/matmul.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "quant/decode.h"
#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/support/matmul_scratch.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::LaneDot;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::unique_ptr<ThreadPool> Threads(size_t num_threads) {
  return *ThreadPool::Create(num_threads);
}

// Rows of random values: of random bytes for block types, whose every bit
// pattern is a number, and of plain numbers for floats.
std::vector<uint8_t> RandomRows(DType dtype, size_t num_rows, size_t num_cols,
                                uint32_t seed) {
  const size_t num_bytes = num_rows * *RowBytes(dtype, num_cols);
  std::vector<uint8_t> bytes(num_bytes);
  if (bytes.empty()) return bytes;
  std::mt19937 random(seed);
  switch (dtype) {
    case DType::kF32: {
      const std::vector<float> values = RandomFloats(num_rows * num_cols, seed);
      std::memcpy(bytes.data(), values.data(), num_bytes);
      break;
    }
    case DType::kF16:
    case DType::kBF16:
      for (size_t i = 0; i < num_bytes; i += 2) {
        // Exponents near 1 in either format.
        const uint32_t exponent = dtype == DType::kF16 ? 12 << 10 : 124 << 7;
        const uint16_t bits = static_cast<uint16_t>(
            (random() & 0x8000u) + exponent + (random() & 0x03ffu));
        std::memcpy(bytes.data() + i, &bits, 2);
      }
      break;
    default:
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  }
  return bytes;
}

WeightRows View(DType dtype, const uint8_t* data, size_t num_rows,
                size_t num_cols) {
  return {dtype, data, static_cast<size_t>(*RowBytes(dtype, num_cols)),
          num_rows, num_cols};
}

// [num_tokens, num_rows]
std::vector<float> Reference(const WeightRows& weights, const float* x,
                             size_t x_stride, size_t num_tokens, bool fused) {
  std::vector<float> expected(num_tokens * weights.num_rows);
  std::vector<float> row(weights.num_cols);
  for (size_t r = 0; r < weights.num_rows; ++r) {
    DecodeRow(weights.dtype, weights.data + r * weights.row_bytes,
              weights.num_cols, row.data());
    for (size_t t = 0; t < num_tokens; ++t) {
      expected[t * weights.num_rows + r] =
          LaneDot(row.data(), x + t * x_stride, weights.num_cols, fused);
    }
  }
  return expected;
}

class MatMulTest : public lowmem::testing::EachTargetTest {
 protected:
  // Computes with room around every output row and compares the first
  // `num_tokens` rows with `expected`.
  static void ExpectProduct(const WeightRows& weights, const float* x,
                            size_t x_stride, size_t num_tokens,
                            const std::vector<float>& expected,
                            ThreadPool& pool) {
    SCOPED_TRACE(::testing::Message()
                 << TraitsOf(weights.dtype).name << " rows " << weights.num_rows
                 << " cols " << weights.num_cols << " tokens " << num_tokens);
    constexpr size_t kRoom = 3;
    const size_t out_stride = weights.num_rows + kRoom;
    std::vector<float> out(kRoom + num_tokens * out_stride, kNaN);
    float* first = out.data() + kRoom;
    MatMulAlone(weights, x, x_stride, num_tokens, first, out_stride, pool);
    for (size_t i = 0; i < kRoom; ++i) ASSERT_TRUE(std::isnan(out[i]));
    for (size_t t = 0; t < num_tokens; ++t) {
      for (size_t r = 0; r < weights.num_rows; ++r) {
        ASSERT_THAT(first[t * out_stride + r],
                    SameBits(expected[t * weights.num_rows + r]))
            << "token " << t << " row " << r;
      }
      for (size_t i = 0; i < kRoom; ++i) {
        ASSERT_TRUE(std::isnan(first[t * out_stride + weights.num_rows + i]))
            << "written behind token " << t;
      }
    }
  }
};
INSTANTIATE_ON_EACH_TARGET(MatMulTest);

TEST_P(MatMulTest, FollowsTheLaneOrderForEveryLengthAndTokenCount) {
  std::vector<size_t> lengths = {127,  128,  129,  576,  896,
                                 1023, 1024, 1025, 2064, 4864};
  for (size_t n = 1; n <= 70; ++n) lengths.push_back(n);
  const auto pool = Threads(1);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const size_t num_cols : lengths) {
      constexpr size_t kNumRows = 7;
      constexpr size_t kNumTokens = 12;
      const std::vector<uint8_t> bytes =
          RandomRows(dtype, kNumRows, num_cols, 1);
      const WeightRows weights = View(dtype, bytes.data(), kNumRows, num_cols);
      const size_t x_stride = num_cols + 1;
      const std::vector<float> x = RandomFloats(kNumTokens * x_stride, 2);
      const std::vector<float> expected =
          Reference(weights, x.data(), x_stride, kNumTokens, IsFused());
      for (size_t num_tokens = 0; num_tokens <= kNumTokens; ++num_tokens) {
        ExpectProduct(weights, x.data(), x_stride, num_tokens, expected, *pool);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatMulTest, EqualsDecodingFirstForEveryStoredType) {
  const auto pool = Threads(2);
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const DTypeTraits& traits = TraitsOf(dtype);
    if (!traits.decodable) continue;
    for (const size_t num_cols : {size_t{traits.block_elements}, size_t{256},
                                  size_t{768}, size_t{1536}}) {
      if (num_cols % traits.block_elements != 0) continue;
      constexpr size_t kNumRows = 23;
      constexpr size_t kNumTokens = 33;
      const std::vector<uint8_t> bytes =
          RandomRows(dtype, kNumRows, num_cols, 3);
      const WeightRows weights = View(dtype, bytes.data(), kNumRows, num_cols);
      const std::vector<float> x = RandomFloats(kNumTokens * num_cols, 4);
      const std::vector<float> expected =
          Reference(weights, x.data(), num_cols, kNumTokens, IsFused());
      for (const size_t num_tokens : {1, 2, 5, 8, 15, 16, 33}) {
        ExpectProduct(weights, x.data(), num_cols, num_tokens, expected, *pool);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(MatMulTest, DoesNotDependOnThreadsOrRowSplits) {
  constexpr size_t kNumRows = 131;
  constexpr size_t kNumCols = 1040;
  constexpr size_t kNumTokens = 6;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const std::vector<uint8_t> bytes = RandomRows(dtype, kNumRows, kNumCols, 5);
    const WeightRows all = View(dtype, bytes.data(), kNumRows, kNumCols);
    const std::vector<float> x = RandomFloats(kNumTokens * kNumCols, 6);
    const std::vector<float> expected =
        Reference(all, x.data(), kNumCols, kNumTokens, IsFused());
    for (const size_t num_threads : {1, 2, 3}) {
      const auto pool = Threads(num_threads);
      for (const size_t num_tokens : {size_t{1}, kNumTokens}) {
        ExpectProduct(all, x.data(), kNumCols, num_tokens, expected, *pool);
        // In pieces, as leases of a streaming source come.
        for (size_t begin = 0; begin < kNumRows; begin += 17) {
          WeightRows piece = all;
          piece.data += begin * all.row_bytes;
          piece.num_rows = std::min<size_t>(17, kNumRows - begin);
          std::vector<float> out(num_tokens * kNumRows, kNaN);
          MatMulAlone(piece, x.data(), kNumCols, num_tokens, out.data() + begin,
                      kNumRows, *pool);
          for (size_t t = 0; t < num_tokens; ++t) {
            for (size_t r = begin; r < begin + piece.num_rows; ++r) {
              ASSERT_THAT(out[t * kNumRows + r],
                          SameBits(expected[t * kNumRows + r]));
            }
          }
        }
      }
    }
  }
}

TEST_P(MatMulTest, SeveralTogetherAreWhatEachIsAlone) {
  constexpr size_t kNumCols = 256;
  struct Shape {
    DType dtype;
    size_t num_rows;
  };
  // Rows that are no multiple of what is handed out, none at all, and kinds
  // that are handed out differently.
  const std::vector<Shape> shapes = {{DType::kBF16, 97},
                                     {DType::kQ4_K, 33},
                                     {DType::kF32, 0},
                                     {DType::kF32, 1},
                                     {DType::kQ8_0, 64}};
  for (const size_t num_tokens : {0, 1, 2, 7}) {
    const std::vector<float> x = RandomFloats((num_tokens + 1) * kNumCols, 33);
    std::vector<std::vector<uint8_t>> bytes;
    std::vector<std::vector<float>> alone, together;
    std::vector<MatMulPart> parts;
    for (const Shape& shape : shapes) {
      bytes.push_back(RandomRows(shape.dtype, shape.num_rows, kNumCols, 34));
      const WeightRows weights =
          View(shape.dtype, bytes.back().data(), shape.num_rows, kNumCols);
      alone.emplace_back(num_tokens * shape.num_rows + 1, kNaN);
      together.emplace_back(num_tokens * shape.num_rows + 1, kNaN);
      MatMulAlone(weights, x.data(), kNumCols, num_tokens, alone.back().data(),
                  shape.num_rows, *Threads(1));
      parts.push_back({weights, together.back().data(), shape.num_rows});
    }
    for (const size_t num_threads : {1, 2, 3}) {
      MatMulScratchSpace scratch(num_threads, kNumCols, num_tokens);
      MatMulAll(parts, x.data(), kNumCols, num_tokens,
                {*Threads(num_threads), scratch.floats()});
      for (size_t p = 0; p < parts.size(); ++p) {
        for (size_t i = 0; i < alone[p].size(); ++i) {
          ASSERT_THAT(together[p][i], SameBits(alone[p][i]))
              << num_threads << " threads, " << num_tokens << " tokens, part "
              << p << ", " << i;
        }
        together[p].assign(together[p].size(), kNaN);
      }
    }
  }
}

TEST_P(MatMulTest, TakesMoreTokensThanABlock) {
  constexpr size_t kNumRows = 26;
  constexpr size_t kNumCols = 1056;
  const auto pool = Threads(2);
  const std::vector<uint8_t> bytes =
      RandomRows(DType::kBF16, kNumRows, kNumCols, 7);
  const WeightRows weights =
      View(DType::kBF16, bytes.data(), kNumRows, kNumCols);
  constexpr size_t kMaxTokens = 259;
  const std::vector<float> x = RandomFloats(kMaxTokens * kNumCols, 8);
  const std::vector<float> expected =
      Reference(weights, x.data(), kNumCols, kMaxTokens, IsFused());
  for (const size_t num_tokens : {127, 128, 129, 259}) {
    ExpectProduct(weights, x.data(), kNumCols, num_tokens, expected, *pool);
  }
}

TEST_P(MatMulTest, ReadsRowsAtAnyAlignment) {
  constexpr size_t kNumRows = 9;
  constexpr size_t kNumCols = 83;
  const auto pool = Threads(1);
  const std::vector<float> x = RandomFloats(4 * kNumCols, 10);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::vector<uint8_t> bytes = RandomRows(dtype, kNumRows, kNumCols, 9);
    const std::vector<float> expected =
        Reference(View(dtype, bytes.data(), kNumRows, kNumCols), x.data(),
                  kNumCols, 4, IsFused());
    for (size_t shift = 0; shift < 16; ++shift) {
      std::vector<uint8_t> shifted(shift);
      shifted.insert(shifted.end(), bytes.begin(), bytes.end());
      for (const size_t num_tokens : {1, 4}) {
        ExpectProduct(View(dtype, shifted.data() + shift, kNumRows, kNumCols),
                      x.data(), kNumCols, num_tokens, expected, *pool);
      }
    }
  }
}

// Bytes that end where readable memory ends.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::vector<uint8_t>& bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t readable = (bytes.size() + page - 1) / page * page;
    mapped_bytes_ = readable + page;
    void* base = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return;
    base_ = static_cast<uint8_t*>(base);
    mprotect(base_ + readable, page, PROT_NONE);
    data_ = base_ + readable - bytes.size();
    std::memcpy(data_, bytes.data(), bytes.size());
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() {
    if (base_ != nullptr) munmap(base_, mapped_bytes_);
  }
  const uint8_t* data() const { return data_; }

 private:
  uint8_t* base_ = nullptr;
  uint8_t* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

TEST_P(MatMulTest, NeverReadsBehindTheLastRow) {
  const auto pool = Threads(1);
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const DTypeTraits& traits = TraitsOf(dtype);
    if (!traits.decodable) continue;
    for (size_t num_blocks = 1; num_blocks <= 35; num_blocks += 2) {
      const size_t num_cols = num_blocks * traits.block_elements;
      const GuardedBytes bytes(RandomRows(dtype, 3, num_cols, 11));
      ASSERT_NE(bytes.data(), nullptr);
      std::vector<uint8_t> x_bytes(4 * num_cols * sizeof(float), 0);
      const GuardedBytes x_guarded(x_bytes);
      const float* x = reinterpret_cast<const float*>(x_guarded.data());
      for (const size_t num_tokens : {1, 4}) {
        std::vector<float> out(num_tokens * 3);
        MatMulAlone(View(dtype, bytes.data(), 3, num_cols), x, num_cols,
                    num_tokens, out.data(), 3, *pool);
      }
    }
  }
}

TEST_P(MatMulTest, KeepsInfinitiesNaNsDenormalsAndSignedZeros) {
  const auto pool = Threads(1);
  constexpr size_t kNumCols = 37;
  const float infinity = std::numeric_limits<float>::infinity();
  const float denormal = std::numeric_limits<float>::denorm_min();
  const float special[] = {infinity, -infinity, kNaN,     denormal, -denormal,
                           0.0f,     -0.0f,     3e38f,    -3e38f,   1e-38f,
                           1e-30f,   -1e-30f,   0x1p-149f};
  constexpr size_t kNumRows = std::size(special);
  std::vector<float> rows(kNumRows * kNumCols, 1e-10f);
  for (size_t r = 0; r < kNumRows; ++r) {
    rows[r * kNumCols + (5 * r) % kNumCols] = special[r];
    rows[r * kNumCols + kNumCols - 1] = special[r];
  }
  std::vector<float> x = RandomFloats(3 * kNumCols, 12);
  std::fill_n(x.begin() + kNumCols, kNumCols, -1e-35f);
  std::fill_n(x.begin() + 2 * kNumCols, kNumCols, 2.0f);
  const WeightRows weights =
      View(DType::kF32, reinterpret_cast<const uint8_t*>(rows.data()), kNumRows,
           kNumCols);
  const std::vector<float> expected =
      Reference(weights, x.data(), kNumCols, 3, IsFused());
  for (const size_t num_tokens : {1, 2, 3}) {
    ExpectProduct(weights, x.data(), kNumCols, num_tokens, expected, *pool);
  }
}

TEST_P(MatMulTest, DecodesEvery16BitFloatAsDecodeRowDoes) {
  const auto pool = Threads(1);
  // One element a row, so that the product with 1 is the element itself.
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(bits.data());
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<float> decoded(bits.size());
    DecodeRow(dtype, bytes, bits.size(), decoded.data());
    for (const size_t num_tokens : {1, 2}) {
      const std::vector<float> ones(num_tokens, 1.0f);
      std::vector<float> out(num_tokens * bits.size());
      MatMulAlone(View(dtype, bytes, bits.size(), 1), ones.data(), 1,
                  num_tokens, out.data(), bits.size(), *pool);
      for (size_t i = 0; i < out.size(); ++i) {
        // Adding to the zero of a fresh lane turns -0 into +0.
        ASSERT_THAT(out[i], SameBits(decoded[i % bits.size()] + 0.0f)) << i;
      }
    }
  }
}

TEST_P(MatMulTest, DotIsTheProductOfOneRow) {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{15}, size_t{16},
                         size_t{64}, size_t{100}, size_t{4097}}) {
    const std::vector<float> a = RandomFloats(n, 13);
    const std::vector<float> b = RandomFloats(n, 14);
    EXPECT_THAT(Dot(a.data(), b.data(), n),
                SameBits(LaneDot(a.data(), b.data(), n, IsFused())));
  }
}

TEST(MatMulTargetsTest, BestTargetOfThisProcessorIsCompiled) {
  lowmem::testing::ChooseTargets(0);
  const std::vector<int64_t> targets = lowmem::testing::TestedTargets();
  ASSERT_FALSE(targets.empty());
#if HWY_ARCH_X86_64
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_NE(std::find(targets.begin(), targets.end(), HWY_AVX2),
              targets.end());
  }
  if (__builtin_cpu_supports("avx512bw")) {
    EXPECT_NE(std::find(targets.begin(), targets.end(), HWY_AVX3),
              targets.end());
  }
#endif
}

}  // namespace
}  // namespace lowmem
