// SPDX-License-Identifier: Apache-2.0
// The sources that keep what a plan says in memory and fetch the rest, as one
// table, for tests of what holds for all of them.

#ifndef LOWMEM_TESTS_SUPPORT_BOUNDED_SOURCE_H_
#define LOWMEM_TESTS_SUPPORT_BOUNDED_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "storage/block_file.h"
#include "storage/bounded_mmap_source.h"
#include "storage/file.h"
#include "storage/mapped_window.h"
#include "storage/stream_source.h"

namespace lowmem::testing {

struct BoundedSource {
  std::unique_ptr<WeightSource> source;
  std::function<uint64_t()> streamed_bytes;

  WeightSource* operator->() const { return source.get(); }
  WeightSource& operator*() const { return *source; }
};

struct BoundedSourceKind {
  const char* name;
  // ResidencyRequest::ring_bytes.
  uint64_t (*ring_bytes)(const StreamRingShape& ring, uint64_t max_row_bytes);
  // The smallest window is taken where there is no ring. kUnimplemented where
  // this way of reading does not work.
  absl::StatusOr<BoundedSource> (*open)(const Checkpoint& checkpoint,
                                        const ResidencyPlan& plan,
                                        const StreamRingShape& ring,
                                        MemoryAccount& account);
  // What streams is read in whole pieces of this size.
  uint64_t (*piece_bytes)();
};

template <typename Source>
absl::StatusOr<BoundedSource> AsBoundedSource(
    absl::StatusOr<std::unique_ptr<Source>> source) {
  if (!source.ok()) return source.status();
  const Source* const streams = source->get();
  return BoundedSource{*std::move(source),
                       [streams] { return streams->streamed_bytes(); }};
}

template <IoMethod kMethod>
BoundedSourceKind StreamKind(const char* name) {
  return {
      .name = name,
      .ring_bytes = StreamBufferBytes,
      .open =
          [](const Checkpoint& checkpoint, const ResidencyPlan& plan,
             const StreamRingShape& ring, MemoryAccount& account) {
            return AsBoundedSource(NewStreamSource(
                checkpoint, plan, {.ring = ring, .io_method = kMethod}, account,
                [](uint64_t, uint64_t) { return absl::OkStatus(); }));
          },
      .piece_bytes = [] { return BlockFile::kBlockBytes; }};
}

inline BoundedSourceKind MmapKind() {
  return {
      .name = "Mmap",
      .ring_bytes = [](const StreamRingShape&, uint64_t) -> uint64_t {
        return 0;
      },
      .open =
          [](const Checkpoint& checkpoint, const ResidencyPlan& plan,
             const StreamRingShape&, MemoryAccount& account) {
            return AsBoundedSource(NewBoundedMmapSource(
                checkpoint, plan,
                SmallestWindowBytes(MaxRowBytes(plan), PageBytes()), account,
                [](uint64_t, uint64_t) { return absl::OkStatus(); }));
          },
      .piece_bytes = PageBytes};
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_BOUNDED_SOURCE_H_
