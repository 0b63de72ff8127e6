// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "quant/decode.h"
#include "quant/matmul.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Work between two looks at the cancel flag, which is to take effect within
// half a second. Multiplications: some milliseconds on a desktop core, a tenth
// of a second on a slow one.
constexpr uint64_t kProductsPerRange = uint64_t{1} << 28;
// Bytes, because a mapping may still have to fetch them: 0.2 s from an SD card.
constexpr uint64_t kBytesPerRange = uint64_t{8} << 20;
// Fewer rows than this would leave threads without work.
constexpr uint64_t kMinRowsPerRange = 64;

// More than a block of a layer has matrices of one input.
constexpr size_t kMaxLeases = 4;

// What a row adds to the work of a range, which is 1.
double ShareOfRange(const TensorInfo& weight, size_t num_tokens) {
  const auto products = static_cast<double>(weight.num_cols() * num_tokens);
  const auto bytes = static_cast<double>(weight.row_bytes());
  return std::min(1.0 / kMinRowsPerRange, std::max(products / kProductsPerRange,
                                                   bytes / kBytesPerRange));
}

// Rows of some matrices in the order of use, as many as make up a range.
class RowRanges {
 public:
  RowRanges(PassContext& pass, absl::Span<const Projection> projections,
            size_t num_tokens)
      : pass_(pass), projections_(projections), num_tokens_(num_tokens) {
    double total = 0;
    for (const Projection& projection : projections) {
      const TensorInfo& info = pass.checkpoint.tensors()[projection.weight];
      total +=
          static_cast<double>(info.num_rows()) * ShareOfRange(info, num_tokens);
    }
    // All ranges alike, so that none is too short for the threads.
    shares_per_range_ = total / std::ceil(total);
  }

  bool AtEnd() const { return projection_idx_ == projections_.size(); }

  // Leases the next range, or what the source gives of it. The leases before
  // end. REQUIRES: !AtEnd(). Errors: what the source returns.
  absl::Status Next() {
    num_leases_ = 0;
    leases_ = {};
    double left = shares_per_range_;
    do {
      const Projection& projection = projections_[projection_idx_];
      const TensorInfo& info = pass_.checkpoint.tensors()[projection.weight];
      const double share = ShareOfRange(info, num_tokens_);
      const auto wanted = static_cast<uint64_t>(std::ceil(left / share));
      LOWMEM_ASSIGN_OR_RETURN(
          leases_[num_leases_],
          pass_.source.Acquire(projection.weight, row_,
                               std::min(wanted, info.num_rows() - row_)));
      const WeightLease& lease = leases_[num_leases_];
      parts_[num_leases_] = {
          .weights = {.dtype = info.dtype,
                      .data = lease.data(),
                      .row_bytes = static_cast<size_t>(info.row_bytes()),
                      .num_rows = static_cast<size_t>(lease.num_rows()),
                      .num_cols = static_cast<size_t>(info.num_cols())},
          .out = projection.out + row_,
          .out_stride = static_cast<size_t>(info.num_rows())};
      ++num_leases_;
      pass_.weight_bytes_read += lease.num_rows() * info.row_bytes();
      left -= static_cast<double>(lease.num_rows()) * share;
      row_ += lease.num_rows();
      if (row_ == info.num_rows()) {
        ++projection_idx_;
        row_ = 0;
      }
    } while (!AtEnd() && left > kLeastShare && num_leases_ < kMaxLeases &&
             pass_.source.AllowsManyLeases());
    return absl::OkStatus();
  }

  absl::Span<const MatMulPart> parts() const {
    return absl::MakeConstSpan(parts_.data(), num_leases_);
  }

 private:
  static constexpr double kLeastShare = 1e-6;  // less is rounding

  PassContext& pass_;
  const absl::Span<const Projection> projections_;
  const size_t num_tokens_;
  double shares_per_range_;
  size_t projection_idx_ = 0;
  uint64_t row_ = 0;
  size_t num_leases_ = 0;
  std::array<WeightLease, kMaxLeases> leases_;
  std::array<MatMulPart, kMaxLeases> parts_;
};

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

absl::Status Linear(PassContext& pass, absl::Span<const Projection> projections,
                    const float* x, size_t num_tokens,
                    absl::Span<float> scratch) {
  const std::vector<TensorInfo>& tensors = pass.checkpoint.tensors();
  const uint64_t num_cols = tensors[projections[0].weight].num_cols();
  for (RowRanges ranges(pass, projections, num_tokens); !ranges.AtEnd();) {
    LOWMEM_RETURN_IF_ERROR(pass.CheckCancelled());
    LOWMEM_RETURN_IF_ERROR(ranges.Next());
    MatMulAll(ranges.parts(), x, num_cols, num_tokens,
              {pass.pool, pass.matmul_scratch});
  }
  for (const Projection& projection : projections) {
    if (!projection.bias.has_value()) continue;
    const uint64_t num_rows = tensors[projection.weight].num_rows();
    LOWMEM_RETURN_IF_ERROR(DecodeVector(pass, *projection.bias, scratch));
    pass.ForEachToken(num_tokens, [&](size_t t) {
      AddInPlace(scratch.data(), num_rows, projection.out + t * num_rows);
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
