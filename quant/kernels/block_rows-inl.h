// SPDX-License-Identifier: Apache-2.0
// Rows of a block type decoded, and their dot products with one vector. The
// loops are the same for all types (see small_blocks-inl.h for what a type is).
// Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_BLOCK_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_BLOCK_ROWS_INL_H_
#undef LOWMEM_QUANT_KERNELS_BLOCK_ROWS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_BLOCK_ROWS_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/kernels/block_kernels.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/row_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// A type whose decoder writes to memory.
template <RowDecoder kDecodeRow, size_t kNumElements, size_t kNumBytes>
struct StoredBlock {
  static constexpr size_t kElements = kNumElements;
  static constexpr size_t kBytes = kNumBytes;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE StoredBlock(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    HWY_ALIGN float values[kElements];
    kDecodeRow(block, kElements, values);
    for (size_t group = 0; group < kElements / kNumLanes; ++group) {
      Lanes lanes;
      LOWMEM_UNROLL
      for (size_t v = 0; v < kNumVecs; ++v) {
        lanes.vec[v] =
            hn::Load(FloatTag(), values + group * kNumLanes + v * kVecLanes);
      }
      sink(group, lanes);
    }
  }

  const uint8_t* block;
};

// Calls f with 0, 1, ... kNum - 1 as std::integral_constant.
template <size_t kNum, class F>
HWY_INLINE void ForEachConstant(F f) {
  if constexpr (kNum > 0) {
    ForEachConstant<kNum - 1>(f);
    f(std::integral_constant<size_t, kNum - 1>());
  }
}

template <class Block>
void DecodeBlocks(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                  float* HWY_RESTRICT dst) {
  for (size_t i = 0; i < num_elements;
       i += Block::kElements, src += Block::kBytes) {
    const Block block(src);
    float* out = dst + i;
    ForEachConstant<Block::kNumParts>([&block, out](auto part) HWY_ATTR {
      block.template Decode<part()>(
          [out](size_t group, const Lanes& lanes) HWY_ATTR {
            LOWMEM_UNROLL
            for (size_t v = 0; v < kNumVecs; ++v) {
              hn::StoreU(lanes.vec[v], FloatTag(),
                         out + group * kNumLanes + v * kVecLanes);
            }
          });
    });
  }
}

// Asked for this far ahead, rows come from memory as fast as they are decoded;
// the processor alone follows blocks badly that are not read from front to back
// (one Zen 5 thread, GB/s without and with it: Q6_K 10.9, 18.7; Q4_0 16.5, 22).
inline constexpr size_t kBlockPrefetchBytes = 1024;

// The blocks of rows that are taken in turns, in place: they are not copied.
template <class Block, size_t kNum, size_t... kIdx>
HWY_INLINE std::array<Block, kNum> BlocksAt(const uint8_t* const (&rows)[kNum],
                                            size_t ofs,
                                            std::index_sequence<kIdx...>) {
  return {Block(rows[kIdx] + ofs)...};
}

// More rows at once wait for memory less, and small blocks leave the registers
// for it (one Zen 5 thread, GB/s with 4 and 8: Q8_0 26, 38; Q4_0 22, 24; Q5_0
// 20, 22; with superblocks 8 are slower, Q4_K 22, 18).
template <class Block>
inline constexpr size_t kBlockRowsAtOnce =
    kNumVecs == 1 && Block::kElements == kSmallBlock ? 8 : kRowsAtOnce;

// A row's sum is a chain of additions, so rows are taken in turns, part by
// part (Q4_K, block by block: 2.35 cycles a group of 16; by parts: 1.6). They
// are a fraction of the range apart, as in dot_rows.cc.
template <class Block>
void DotBlocks(const WeightRows& weights, size_t row_begin, size_t row_end,
               const float* x, float* out) {
  constexpr size_t kRows = kBlockRowsAtOnce<Block>;
  const size_t num_blocks = weights.num_cols / Block::kElements;
  const size_t distance = hwy::DivCeil(row_end - row_begin, kRows);
  for (size_t i = 0; i < distance; ++i) {
    size_t row_idx[kRows];
    const uint8_t* rows[kRows];
    Lanes acc[kRows];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      row_idx[r] = HWY_MIN(row_begin + r * distance + i, row_end - 1);
      rows[r] = weights.data + row_idx[r] * weights.row_bytes;
      acc[r] = ZeroLanes();
    }
    for (size_t b = 0; b < num_blocks; ++b) {
      const size_t ofs = b * Block::kBytes;
      LOWMEM_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t line = 0; line < Block::kBytes; line += kCacheLineBytes) {
          hwy::Prefetch(rows[r] + ofs + line + kBlockPrefetchBytes);
        }
      }
      const float* block_x = x + b * Block::kElements;
      const auto blocks =
          BlocksAt<Block>(rows, ofs, std::make_index_sequence<kRows>());
      ForEachConstant<Block::kNumParts>([&](auto part) HWY_ATTR {
        LOWMEM_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
          Lanes& sum = acc[r];
          blocks[r].template Decode<part()>(
              [&sum, block_x](size_t group, const Lanes& lanes) HWY_ATTR {
                LOWMEM_UNROLL
                for (size_t v = 0; v < kNumVecs; ++v) {
                  const FloatVec xv = hn::LoadU(
                      FloatTag(), block_x + group * kNumLanes + v * kVecLanes);
                  sum.vec[v] = hn::MulAdd(lanes.vec[v], xv, sum.vec[v]);
                }
              });
        }
      });
    }
    LOWMEM_UNROLL
    for (size_t r = 0; r < kRows; ++r) out[row_idx[r]] = SumOfLanes(acc[r]);
  }
}

template <class Block>
HWY_INLINE BlockKernels KernelsOfBlock() {
  return {DecodeBlocks<Block>, DotBlocks<Block>};
}

// Superblocks whose decoder writes to memory.
template <RowDecoder kDecodeRow, size_t kNumBytes>
HWY_INLINE BlockKernels KernelsOfStoredBlock() {
  return {kDecodeRow,
          DotBlocks<StoredBlock<kDecodeRow, kSuperBlock, kNumBytes>>};
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_BLOCK_ROWS_INL_H_
