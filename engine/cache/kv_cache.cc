// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/kv_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lowmem {
namespace {

size_t PagesFor(uint64_t num_tokens) {
  return (num_tokens + KvCache::kPageTokens - 1) / KvCache::kPageTokens;
}

}  // namespace

uint64_t KvCache::BytesPerToken(const KvShape& shape) {
  return uint64_t{shape.num_layers} * 2 * shape.num_kv_heads *
         KvRowBytes(shape.format, shape.head_dim);
}

KvCache::KvCache(const KvShape& shape, uint32_t max_tokens,
                 MemoryAccount& account)
    : shape_(shape),
      max_tokens_(max_tokens),
      row_bytes_(KvRowBytes(shape.format, shape.head_dim)),
      page_bytes_(BytesPerToken(shape) * kPageTokens),
      account_(account) {}

absl::Status KvCache::Reserve(uint32_t num_tokens) {
  if (num_tokens > max_tokens_ - size_) {
    return absl::OutOfRangeError(
        absl::StrCat("context: no room for ", num_tokens, " more tokens after ",
                     size_, "; expected at most ", max_tokens_, " in all"));
  }
  const size_t num_pages = PagesFor(uint64_t{size_} + num_tokens);
  const size_t num_pages_before = pages_.size();
  while (pages_.size() < num_pages) {
    absl::StatusOr<AlignedBuffer> page =
        AlignedBuffer::Allocate(page_bytes_, account_);
    if (!page.ok()) {
      pages_.resize(num_pages_before);
      return std::move(page).status();
    }
    pages_.push_back(*std::move(page));
  }
  return absl::OkStatus();
}

void KvCache::Store(uint32_t layer_idx, uint32_t kv_head_idx, uint32_t pos,
                    const float* key, const float* value) {
  uint8_t* page = pages_[pos / kPageTokens].data();
  const uint64_t row_ofs = pos % kPageTokens * row_bytes_;
  EncodeKvRow(shape_.format, key, shape_.head_dim,
              page + RowsOffset(layer_idx, 0, kv_head_idx) + row_ofs);
  EncodeKvRow(shape_.format, value, shape_.head_dim,
              page + RowsOffset(layer_idx, 1, kv_head_idx) + row_ofs);
}

void KvCache::Truncate(uint32_t new_size) {
  size_ = new_size;
  if (const size_t num_pages = PagesFor(new_size); num_pages < pages_.size()) {
    pages_.resize(num_pages);
  }
}

}  // namespace lowmem
