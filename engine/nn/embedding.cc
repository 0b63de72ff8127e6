// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/embedding.h"

#include "quant/decode.h"
#include "storage/base/status_macros.h"

namespace lowmem {

absl::Status EmbedTokens(PassContext& pass, TensorId embedding,
                         absl::Span<const int32_t> ids, float* out) {
  const TensorInfo& info = pass.checkpoint.tensors()[embedding];
  const uint64_t dim = info.num_cols();
  for (size_t t = 0; t < ids.size(); ++t) {
    // A row may cost a read of the disk.
    LOWMEM_RETURN_IF_ERROR(pass.CheckCancelled());
    LOWMEM_ASSIGN_OR_RETURN(
        const WeightLease lease,
        pass.source.Acquire(embedding, static_cast<uint64_t>(ids[t]), 1));
    pass.weight_bytes_read += info.row_bytes();
    DecodeRow(info.dtype, lease.data(), dim, out + t * dim);
  }
  return absl::OkStatus();
}

}  // namespace lowmem
