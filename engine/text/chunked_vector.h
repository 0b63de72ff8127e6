// SPDX-License-Identifier: Apache-2.0
// A vector that grows by chunks of equal size and never moves what it holds:
// while a table of unknown length is read, memory stays at its size, where
// doubling needs up to three times as much and leaves holes behind (gpt-oss: 33
// MB after loading instead of 12).

#ifndef LOWMEM_ENGINE_TEXT_CHUNKED_VECTOR_H_
#define LOWMEM_ENGINE_TEXT_CHUNKED_VECTOR_H_

#include <bit>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace lowmem {

template <typename T>
class ChunkedVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void push_back(const T& item) {
    if (size_ % kChunkItems == 0) {
      chunks_.push_back(std::make_unique_for_overwrite<T[]>(kChunkItems));
    }
    chunks_.back()[size_ % kChunkItems] = item;
    ++size_;
  }

  // REQUIRES: idx < size().
  const T& operator[](size_t idx) const {
    return chunks_[idx / kChunkItems][idx % kChunkItems];
  }
  size_t size() const { return size_; }

  // Gives the memory back.
  void Clear() {
    chunks_ = std::vector<std::unique_ptr<T[]>>();
    size_ = 0;
  }

 private:
  static constexpr size_t kChunkBytes = 64u << 10;
  static constexpr size_t kChunkItems = std::bit_floor(kChunkBytes / sizeof(T));

  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t size_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_CHUNKED_VECTOR_H_
