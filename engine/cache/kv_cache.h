// SPDX-License-Identifier: Apache-2.0
// Keys and values of one sequence, in pages that are taken as the sequence grows.

#ifndef LOWMEM_ENGINE_CACHE_KV_CACHE_H_
#define LOWMEM_ENGINE_CACHE_KV_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"

namespace lowmem {

struct KvShape {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
};

// float32 rows. A page holds kPageTokens positions of every layer.
// Thread safety: one writer; readers of completed rows may run together.
// Memory: BytesPerToken for each position, in whole pages, charged as they are
// taken.
class KvCache {
 public:
  static constexpr uint32_t kPageTokens = 16;

  static uint64_t BytesPerToken(const KvShape& shape);

  KvCache(const KvShape& shape, uint32_t max_tokens, MemoryAccount& account);

  // Makes room for positions [size(), size() + num_tokens).
  // Errors: kOutOfRange beyond max_tokens; kResourceExhausted.
  absl::Status Reserve(uint32_t num_tokens);

  // Key and value of one position: [num_kv_heads * head_dim].
  // REQUIRES: room was reserved for `pos`.
  float* Key(uint32_t layer_idx, uint32_t pos);
  float* Value(uint32_t layer_idx, uint32_t pos);
  const float* Key(uint32_t layer_idx, uint32_t pos) const;
  const float* Value(uint32_t layer_idx, uint32_t pos) const;

  // Positions that are complete.
  uint32_t size() const { return size_; }
  uint32_t max_tokens() const { return max_tokens_; }
  // Declares `num_tokens` further positions complete.
  void Advance(uint32_t num_tokens);
  // Forgets every position from `new_size` on and gives whole pages back.
  // REQUIRES: new_size <= size().
  void Truncate(uint32_t new_size);
  uint64_t allocated_bytes() const;

 private:
  const KvShape shape_;
  const uint32_t max_tokens_;
  MemoryAccount& account_;
  std::vector<AlignedBuffer> pages_;
  uint32_t size_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_CACHE_KV_CACHE_H_
