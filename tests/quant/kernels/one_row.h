// SPDX-License-Identifier: Apache-2.0
// A query head by itself, as quant/kv_rows.h takes it.

#ifndef LOWMEM_TESTS_QUANT_KERNELS_ONE_ROW_H_
#define LOWMEM_TESTS_QUANT_KERNELS_ONE_ROW_H_

#include <cstddef>

#include "quant/kv_rows.h"

namespace lowmem::testing {

template <typename Float>
GroupRows<Float> OneRow(Float* row, size_t n) {
  return {
      .data = row, .num_tokens = 1, .group_size = 1, .token_stride = n, .n = n};
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_QUANT_KERNELS_ONE_ROW_H_
