// SPDX-License-Identifier: Apache-2.0
// Files as the engine sees them: read at an offset, map, advise. The interface
// is narrow so that tests can put a failing file in its place.

#ifndef LOWMEM_STORAGE_FILE_H_
#define LOWMEM_STORAGE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "storage/base/json_sax.h"
#include "storage/block_file.h"

namespace lowmem {

// In which files are mapped and cached. A power of two.
uint64_t PageBytes();

// What one page of a page table maps: the unit in which tables are given back.
uint64_t PageTableSpanBytes();

// A read-only shared mapping of a whole file, which begins at a multiple of
// PageTableSpanBytes() when the file is at least as large. Ownership: unmaps
// when destroyed. Thread safety: thread-safe.
class FileMapping {
 public:
  virtual ~FileMapping() = default;
  virtual absl::Span<const uint8_t> bytes() const = 0;
  // The kernel is told that the range is wanted soon (WILLNEED), or that
  // neither this process nor the page cache needs it any longer. Hints:
  // failures do not matter. Any range; it is clipped and widened (or, for drop,
  // narrowed) to pages.
  virtual void Prefetch(uint64_t offset, uint64_t length) const = 0;
  virtual void Drop(uint64_t offset, uint64_t length) const = 0;

  // From now on a page that is touched and absent is read alone, not together
  // with pages around it, and one that the cache holds as a part of a huge page
  // does not bring in all of that. To be called before others use the mapping.
  virtual void AdviseSinglePages() = 0;
  // Waits until the pages of the range are in memory and maps them, so that no
  // thread faults on them. Where the kernel cannot (before Linux 5.14), nothing
  // happens, and they come in when they are touched.
  // Errors: kUnavailable when they cannot be read or the file became shorter.
  virtual absl::Status Populate(uint64_t offset, uint64_t length) const = 0;
  // Gives back page tables that map nothing but pages of the range; the pages
  // are mapped anew when they are touched.
  virtual void FreePageTables(uint64_t offset, uint64_t length) const = 0;
};

// One open regular file. The descriptor is the identity: nothing opens it again
// by name. Thread safety: thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // As the user named it, for messages.
  virtual const std::string& path() const = 0;
  // At the time of opening.
  virtual uint64_t size_bytes() const = 0;

  // Fills all of `out` from `offset`.
  // Errors: kUnavailable when the read fails or the file became shorter.
  virtual absl::Status Read(uint64_t offset, absl::Span<uint8_t> out) const = 0;

  // Errors: kUnavailable; kResourceExhausted when address space is short.
  virtual absl::StatusOr<std::unique_ptr<FileMapping>> Map() const = 0;

  // Tells the kernel that the range is read soon: it begins to fetch it and
  // returns. A hint.
  virtual void Prefetch(uint64_t offset, uint64_t length) const {
    static_cast<void>(offset);
    static_cast<void>(length);
  }

  // Tells the kernel to forget cached pages of the range. A hint.
  virtual void DropCache(uint64_t offset, uint64_t length) const = 0;

  // Bytes of this file in the page cache, or nullopt where that cannot be
  // known.
  virtual std::optional<uint64_t> CachedBytes() const = 0;

  // Errors: kUnavailable when size or times differ from those at opening.
  virtual absl::Status CheckUnchanged() const = 0;

  // The same file through a second descriptor, for streaming.
  // Errors: kUnimplemented where that is not possible; kUnavailable.
  virtual absl::StatusOr<std::unique_ptr<BlockFile>> Reopen(
      BlockCaching caching) const;
};

// Opens a regular file for reading: O_CLOEXEC and O_NONBLOCK, so that a FIFO or
// a device is refused instead of waited for. Symbolic links are followed.
// Errors: kNotFound; kDataLoss when it is no regular file; kUnavailable.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenFile(
    const std::string& path);

// Reads a whole small file.
// Errors: as OpenFile and Read; kDataLoss when it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t max_bytes);

// The bytes [offset, offset + length) of `file` as a stream. The file must
// outlive it.
std::unique_ptr<ByteStream> NewFileStream(const RandomAccessFile& file,
                                          uint64_t offset, uint64_t length);

// A file that appears under its name only once it is complete: written to a
// temporary beside it, synced, renamed. Destroyed before Commit, it leaves
// nothing behind and what stood under the name is untouched. A regular file of
// the name is replaced as rename does it: the folder must be writable, the old
// file need not be (mode 0444 does not protect it). A link stays; what it leads
// to is replaced. Thread safety: one thread at a time.
class AtomicFile {
 public:
  // Errors: those of ResolveOutputFile; kUnavailable (no permission, no space).
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::string& path);
  virtual ~AtomicFile() = default;
  virtual absl::Status Append(absl::Span<const uint8_t> bytes) = 0;
  absl::Status Append(absl::string_view text) {
    return Append(absl::MakeConstSpan(
        reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }
  // Writes at a place of its own, behind what was appended before. What is
  // never written is zeros.
  virtual absl::Status WriteAt(uint64_t offset,
                               absl::Span<const uint8_t> bytes) = 0;
  virtual absl::Status Commit() = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_FILE_H_
