// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel and splits the rows over the threads.
#include "quant/matmul.h"

#include <algorithm>

#include "quant/kernels/dot_rows.h"
#include "quant/kernels/multiply_floats.h"
#include "quant/kernels/multiply_rows.h"

namespace lowmem {
namespace {

// Short ranges would bring the rows that are walked together close to another.
constexpr size_t kRowsForOneToken = 16;
// Whole tiles of every target, far enough apart.
constexpr size_t kRowsForFewTokens = 24;
// From so many tokens on it pays to decode floats, too, before they are
// multiplied.
constexpr size_t kManyTokens = 16;

enum class Kernel { kDot, kMultiplyFloats, kMultiplyRows };

Kernel KernelFor(DType dtype, size_t num_tokens) {
  if (num_tokens == 1) return Kernel::kDot;
  return num_tokens < kManyTokens && TraitsOf(dtype).block_elements == 1
             ? Kernel::kMultiplyFloats
             : Kernel::kMultiplyRows;
}

size_t GrainRows(const WeightRows& weights, size_t num_tokens) {
  switch (KernelFor(weights.dtype, num_tokens)) {
    case Kernel::kDot:
      return kRowsForOneToken;
    case Kernel::kMultiplyFloats:
      return kRowsForFewTokens;
    case Kernel::kMultiplyRows:
      break;
  }
  return kRowsOfWholeTiles;
}

void MultiplyRange(const WeightRows& weights, size_t begin, size_t end,
                   const Tokens& tokens, float* scratch) {
  switch (KernelFor(weights.dtype, tokens.num_tokens)) {
    case Kernel::kDot:
      return DotRows(weights, begin, end, tokens.x, tokens.out);
    case Kernel::kMultiplyFloats:
      return MultiplyFloats(weights, begin, end, tokens);
    case Kernel::kMultiplyRows:
      return MultiplyRows(weights, begin, end, tokens, scratch);
  }
}

}  // namespace

size_t MatMulScratch(size_t num_cols, size_t num_tokens) {
  return num_tokens <= 1 ? 0 : MultiplyRowsScratch(num_cols, num_tokens);
}

void MatMul(const WeightRows& weights, const float* x, size_t x_stride,
            size_t num_tokens, float* out, size_t out_stride,
            const MatMulWorkers& workers) {
  const MatMulPart part = {weights, out, out_stride};
  MatMulAll(absl::MakeConstSpan(&part, 1), x, x_stride, num_tokens, workers);
}

void MatMulAll(absl::Span<const MatMulPart> parts, const float* x,
               size_t x_stride, size_t num_tokens,
               const MatMulWorkers& workers) {
  if (num_tokens == 0 || parts.empty()) return;
  const size_t scratch_floats =
      MatMulScratch(parts[0].weights.num_cols, num_tokens);
  const auto num_grains = [&](const MatMulPart& part) {
    const size_t grain = GrainRows(part.weights, num_tokens);
    return (part.weights.num_rows + grain - 1) / grain;
  };
  size_t num_items = 0;
  for (const MatMulPart& part : parts) num_items += num_grains(part);
  workers.pool.ParallelFor(
      num_items, 1, [&](size_t begin, size_t end, size_t thread_idx) {
        float* scratch = workers.scratch.data() + thread_idx * scratch_floats;
        size_t first = 0;  // of the part's grains
        for (const MatMulPart& part : parts) {
          const size_t next = first + num_grains(part);
          if (begin < next && first < end) {
            const size_t grain = GrainRows(part.weights, num_tokens);
            MultiplyRange(
                part.weights, (std::max(begin, first) - first) * grain,
                std::min((std::min(end, next) - first) * grain,
                         part.weights.num_rows),
                {x, x_stride, num_tokens, part.out, part.out_stride}, scratch);
          }
          first = next;
        }
      });
}

float Dot(const float* a, const float* b, size_t num_elements) {
  const WeightRows row{DType::kF32, reinterpret_cast<const uint8_t*>(a),
                       num_elements * sizeof(float), 1, num_elements};
  float result;
  DotRows(row, 0, 1, b, &result);
  return result;
}

}  // namespace lowmem
