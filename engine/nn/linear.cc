// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/linear.h"

#include <algorithm>

#include "quant/decode.h"
#include "quant/matmul.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Work between two looks at the cancel flag, which is to take effect within
// half a second. Multiplications: about a millisecond on a desktop core, some
// tens of them on a Raspberry Pi.
constexpr uint64_t kProductsPerRange = uint64_t{1} << 26;
// Bytes, because a mapping may still have to fetch them: 0.2 s from an SD card.
constexpr uint64_t kBytesPerRange = uint64_t{8} << 20;
// Fewer rows than this would leave threads without work.
constexpr uint64_t kMinRowsPerRange = 64;

uint64_t RowsPerRange(const TensorInfo& weight, size_t num_tokens) {
  const uint64_t products_per_row =
      std::max<uint64_t>(1, weight.num_cols() * num_tokens);
  const uint64_t bytes_per_row = std::max<uint64_t>(1, weight.row_bytes());
  return std::max(kMinRowsPerRange,
                  std::min(kProductsPerRange / products_per_row,
                           kBytesPerRange / bytes_per_row));
}

}  // namespace

absl::Status DecodeVector(PassContext& pass, TensorId tensor,
                          absl::Span<float> out) {
  const TensorInfo& info = pass.checkpoint.tensors()[tensor];
  LOWMEM_ASSIGN_OR_RETURN(const WeightLease lease,
                          pass.source.Acquire(tensor, 0, 1));
  pass.weight_bytes_read += info.size_bytes;
  DecodeRow(info.dtype, lease.data(), info.num_cols(), out.data());
  return absl::OkStatus();
}

absl::Status Linear(PassContext& pass, TensorId weight,
                    std::optional<TensorId> bias, const float* x,
                    size_t num_tokens, absl::Span<float> scratch, float* out) {
  const TensorInfo& info = pass.checkpoint.tensors()[weight];
  const uint64_t num_rows = info.num_rows();
  const uint64_t num_cols = info.num_cols();
  const uint64_t rows_per_range = RowsPerRange(info, num_tokens);
  for (uint64_t row = 0; row < num_rows;) {
    LOWMEM_RETURN_IF_ERROR(pass.CheckCancelled());
    LOWMEM_ASSIGN_OR_RETURN(
        const WeightLease lease,
        pass.source.Acquire(weight, row,
                            std::min(rows_per_range, num_rows - row)));
    const WeightRows rows = {.dtype = info.dtype,
                             .data = lease.data(),
                             .row_bytes = info.row_bytes(),
                             .num_rows = lease.num_rows(),
                             .num_cols = num_cols};
    MatMul(rows, x, num_cols, num_tokens, out + row, num_rows, pass.pool);
    pass.weight_bytes_read += lease.num_rows() * info.row_bytes();
    row += lease.num_rows();
  }
  if (bias.has_value()) {
    LOWMEM_RETURN_IF_ERROR(DecodeVector(pass, *bias, scratch));
    pass.ForEachToken(num_tokens, [&](size_t t) {
      AddInPlace(scratch.data(), num_rows, out + t * num_rows);
    });
  }
  return absl::OkStatus();
}

absl::Status NormTokens(PassContext& pass, TensorId weight, float epsilon,
                        size_t dim, const float* x, size_t num_tokens,
                        absl::Span<float> scratch, float* normed) {
  LOWMEM_RETURN_IF_ERROR(DecodeVector(pass, weight, scratch));
  pass.ForEachToken(num_tokens, [&](size_t t) {
    RmsNorm(x + t * dim, scratch.data(), epsilon, dim, normed + t * dim);
  });
  return absl::OkStatus();
}

void AddTokens(const PassContext& pass, const float* addend, size_t num_tokens,
               size_t width, float* inout) {
  pass.ForEachToken(num_tokens, [&](size_t t) {
    AddInPlace(addend + t * width, width, inout + t * width);
  });
}

}  // namespace lowmem
