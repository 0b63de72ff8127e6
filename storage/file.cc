// SPDX-License-Identifier: Apache-2.0
// What can be said of files without the system: whole files, streams, paths.
#include "storage/file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

class FileStream final : public ByteStream {
 public:
  FileStream(const RandomAccessFile& file, uint64_t offset, uint64_t length)
      : file_(file), offset_(offset), left_bytes_(length) {}

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t count =
        static_cast<size_t>(std::min<uint64_t>(out.size(), left_bytes_));
    if (count == 0) return 0;
    LOWMEM_RETURN_IF_ERROR(file_.Read(
        offset_,
        absl::MakeSpan(reinterpret_cast<uint8_t*>(out.data()), count)));
    offset_ += count;
    left_bytes_ -= count;
    return count;
  }

 private:
  const RandomAccessFile& file_;
  uint64_t offset_;
  uint64_t left_bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockFile>> RandomAccessFile::Reopen(
    BlockCaching) const {
  return absl::UnimplementedError(absl::StrCat(
      PrintablePath(path()), ": this file cannot be opened again"));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          uint64_t max_bytes) {
  LOWMEM_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                          OpenFile(path));
  if (file->size_bytes() > max_bytes) {
    return absl::DataLossError(absl::StrCat(
        PrintablePath(path), ": the file is too long; expected at most ",
        max_bytes, " bytes, got ", file->size_bytes()));
  }
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  LOWMEM_RETURN_IF_ERROR(file->Read(
      0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size())));
  // Half of an old and half of a new file may still parse.
  LOWMEM_RETURN_IF_ERROR(file->CheckUnchanged());
  return text;
}

std::unique_ptr<ByteStream> NewFileStream(const RandomAccessFile& file,
                                          uint64_t offset, uint64_t length) {
  return std::make_unique<FileStream>(file, offset, length);
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

std::string FolderOfPath(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string PrintablePath(absl::string_view path) {
  constexpr size_t kMaxChars = 1000;
  return Printable(path, kMaxChars);
}

}  // namespace lowmem
