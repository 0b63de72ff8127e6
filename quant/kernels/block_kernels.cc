// SPDX-License-Identifier: Apache-2.0
#include "quant/kernels/block_kernels.h"

namespace lowmem {

BlockKernels KernelsOf(DType dtype) {
  for (const auto family : {SmallBlockKernels, KBlockKernels, IqBlockKernels}) {
    const BlockKernels kernels = family(dtype);
    if (kernels.decode_row != nullptr) return kernels;
  }
  return {};
}

}  // namespace lowmem
