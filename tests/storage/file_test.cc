// SPDX-License-Identifier: Apache-2.0
#include "storage/file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "storage/folder.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using testing::IsOk;
using testing::Pattern;
using testing::TemporaryFolder;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

absl::StatusOr<std::string> ReadRange(const RandomAccessFile& file,
                                      uint64_t ofs, size_t count) {
  std::string bytes(count, '\0');
  const absl::Status status = file.Read(
      ofs, absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), count));
  if (!status.ok()) return status;
  return bytes;
}

TEST(OpenFileTest, ReadsAnyRange) {
  const TemporaryFolder folder;
  const std::string bytes = Pattern(10000);
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(folder.Write("a", bytes)));
  EXPECT_EQ(file->path(), folder / "a");
  EXPECT_EQ(file->size_bytes(), 10000u);
  const std::pair<uint64_t, size_t> kRanges[] = {
      {0, 10000}, {0, 0}, {1, 1}, {4095, 2}, {9999, 1}, {10000, 0}};
  for (const auto& [ofs, count] : kRanges) {
    ASSERT_OK_AND_ASSIGN(const std::string got, ReadRange(*file, ofs, count));
    EXPECT_EQ(got, bytes.substr(ofs, count));
  }
}

TEST(OpenFileTest, ReadingBehindTheEndFails) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(folder.Write("a", "12345")));
  EXPECT_THAT(ReadRange(*file, 5, 1), Fails(kUnavailable, "became shorter"));
  EXPECT_THAT(ReadRange(*file, 0, 6), Fails(kUnavailable, "became shorter"));
  EXPECT_THAT(ReadRange(*file, ~uint64_t{0}, 1),
              Fails(kUnavailable, "became shorter"));
  EXPECT_THAT(ReadRange(*file, ~uint64_t{0} / 2, 2),
              Fails(kUnavailable, "became shorter"));
}

TEST(OpenFileTest, TruncationAfterOpeningIsNoticed) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", Pattern(10000));
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  EXPECT_THAT(file->CheckUnchanged(), IsOk());
  fs::resize_file(path, 100);
  EXPECT_THAT(ReadRange(*file, 0, 10000),
              Fails(kUnavailable, "became shorter"));
  EXPECT_THAT(file->CheckUnchanged(),
              Fails(kUnavailable, "expected 10000 bytes, got 100"));
}

TEST(OpenFileTest, WritingAfterOpeningIsNoticed) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "12345");
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  // A time that the file cannot have by chance.
  fs::last_write_time(path,
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THAT(file->CheckUnchanged(),
              Fails(kUnavailable, "written or replaced"));
}

TEST(OpenFileTest, TheDescriptorIsTheIdentity) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "old");
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  fs::remove(path);
  folder.Write("a", "new");
  ASSERT_OK_AND_ASSIGN(const std::string got, ReadRange(*file, 0, 3));
  EXPECT_EQ(got, "old");
}

TEST(OpenFileTest, BehindFourGiBIsReadLikeTheRest) {
  constexpr uint64_t kOfs = (uint64_t{1} << 32) + 100;
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.bin", "front");
  std::filesystem::resize_file(path, kOfs);  // a hole
  {
    std::ofstream end(path, std::ios::app | std::ios::binary);
    end << "back";
  }
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  ASSERT_EQ(file->size_bytes(), kOfs + 4);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadRange(*file, kOfs, 4));
  EXPECT_EQ(bytes, "back");
  EXPECT_THAT(ReadRange(*file, kOfs + 1, 4), Fails(kUnavailable, ""));
  // Where an address has 32 bits there is no room for it.
  const auto mapping = file->Map();
  if (mapping.ok()) {
    EXPECT_EQ((*mapping)->bytes().size(), kOfs + 4);
  } else {
    EXPECT_THAT(mapping, Fails(absl::StatusCode::kResourceExhausted, "a.bin"));
  }
}

TEST(OpenFileTest, AbsentFileIsNotFound) {
  const TemporaryFolder folder;
  folder.Write("a", "");
  fs::create_symlink("nowhere", folder / "dangling");
  for (const std::string& path :
       {folder / "b", folder / "a/b", folder / "dangling", std::string(),
        folder / std::string(5000, 'x'), folder / std::string("a\0b", 3)}) {
    EXPECT_THAT(OpenFile(path), Fails(kNotFound, "cannot open"));
  }
}

TEST(OpenFileTest, FifoIsRefusedInsteadOfWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(OpenFile(folder / "fifo"), Fails(kDataLoss, "it is a pipe"));
}

TEST(OpenFileTest, FolderIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(OpenFile(folder.path()), Fails(kDataLoss, "it is a folder"));
}

TEST(OpenFileTest, DeviceIsRefused) {
  EXPECT_THAT(OpenFile("/dev/zero"), Fails(kDataLoss, "it is a device"));
  EXPECT_THAT(ReadWholeFile("/dev/zero", 100),
              Fails(kDataLoss, "it is a device"));
}

TEST(OpenFileTest, SocketIsRefused) {
  const TemporaryFolder folder;
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(fd, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "s";
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_THAT(OpenFile(path), Fails(kDataLoss, "not a regular file"));
  close(fd);
}

TEST(OpenFileTest, LinksAreFollowed) {
  const TemporaryFolder folder;
  folder.Write("blobs/x", "12345");
  fs::create_symlink("blobs/x", folder / "link");
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadWholeFile(folder / "link", 5));
  EXPECT_EQ(text, "12345");
}

TEST(OpenFileTest, UnreadableFileIsUnavailable) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "x");
  fs::permissions(path, fs::perms::none);
  EXPECT_THAT(OpenFile(path), Fails(kUnavailable, "permission denied"));
}

TEST(OpenFileTest, ControlBytesOfAPathAreEscaped) {
  EXPECT_THAT(OpenFile("/no/\x1b[31m\n"),
              Fails(kNotFound, "/no/\\x1b[31m\\x0a: cannot open"));
}

TEST(FolderTest, OpensBeneathTheFolderThatWasOpened) {
  const TemporaryFolder outer;
  outer.Write("m/a", "first");
  ASSERT_OK_AND_ASSIGN(const auto folder, OpenFolder(outer / "m"));
  fs::rename(outer / "m", outer / "moved");
  outer.Write("m/a", "other");
  ASSERT_OK_AND_ASSIGN(const auto file, folder->OpenFile("a"));
  ASSERT_OK_AND_ASSIGN(const std::string got, ReadRange(*file, 0, 5));
  EXPECT_EQ(got, "first");
  EXPECT_EQ(file->path(), outer / "m/a");
  EXPECT_TRUE(folder->Has("a"));
  EXPECT_FALSE(folder->Has("b"));
}

TEST(FolderTest, FileIsNoFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(OpenFolder(folder.Write("a", "")), Fails(kNotFound, ""));
  EXPECT_FALSE(IsFolder(folder / "a"));
  EXPECT_FALSE(IsFolder(folder / "b"));
  EXPECT_TRUE(IsFolder(folder.path()));
}

TEST(FolderTest, PathsAreJoinedAndTakenApart) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(FolderOfPath("a/b"), "a");
  EXPECT_EQ(FolderOfPath("/b"), "/");
  EXPECT_EQ(FolderOfPath("b"), ".");
}

TEST(ReadWholeFileTest, CapIsInclusive) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a", "12345");
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadWholeFile(path, 5));
  EXPECT_EQ(text, "12345");
  EXPECT_THAT(ReadWholeFile(path, 4),
              Fails(kDataLoss, "too long; expected at most 4 bytes, got 5"));
  ASSERT_OK_AND_ASSIGN(const std::string empty,
                       ReadWholeFile(folder.Write("b", ""), 0));
  EXPECT_EQ(empty, "");
}

TEST(ReadWholeFileTest, FileWithoutSizeEndsAtOnce) {
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadWholeFile("/proc/self/status", 1000));
  EXPECT_EQ(text, "");
}

TEST(FileStreamTest, GivesTheRangeAndThenTheEnd) {
  const TemporaryFolder folder;
  const std::string bytes = Pattern(1000);
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(folder.Write("a", bytes)));
  const auto stream = NewFileStream(*file, 100, 700);
  std::string got;
  for (;;) {
    char part[64];
    ASSERT_OK_AND_ASSIGN(const size_t count,
                         stream->Read(absl::MakeSpan(part)));
    if (count == 0) break;
    got.append(part, count);
  }
  EXPECT_EQ(got, bytes.substr(100, 700));
}

TEST(FileMappingTest, ShowsTheFile) {
  const TemporaryFolder folder;
  const std::string bytes = Pattern(3 * 4096 + 5);
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(folder.Write("a", bytes)));
  ASSERT_OK_AND_ASSIGN(const auto mapping, file->Map());
  const auto text = [&] {
    return std::string(mapping->bytes().begin(), mapping->bytes().end());
  };
  EXPECT_EQ(text(), bytes);
  // Hints over any range leave the bytes as they are.
  const uint64_t kOffsets[] = {0,     1,     4095,  4096,
                               12288, 12293, 20000, ~uint64_t{0}};
  for (const uint64_t ofs : kOffsets) {
    for (const uint64_t length :
         {uint64_t{0}, uint64_t{1}, uint64_t{5000}, ~uint64_t{0}}) {
      mapping->Prefetch(ofs, length);
      mapping->Drop(ofs, length);
      file->DropCache(ofs, length);
    }
  }
  EXPECT_EQ(text(), bytes);
}

TEST(FileMappingTest, OutlivesTheFile) {
  const TemporaryFolder folder;
  std::unique_ptr<FileMapping> mapping;
  {
    ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(folder.Write("a", "12345")));
    ASSERT_OK_AND_ASSIGN(mapping, file->Map());
  }
  mapping->Drop(0, 5);
  EXPECT_EQ(mapping->bytes()[4], '5');
}

TEST(FileMappingTest, LargeFilesBeginWhereAPageTableDoes) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("large", "begin");
  const uint64_t span_bytes = PageTableSpanBytes();
  for (const uint64_t size_bytes : {span_bytes, 3 * span_bytes + 12345}) {
    fs::resize_file(path, size_bytes);
    ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
    ASSERT_OK_AND_ASSIGN(const auto mapping, file->Map());
    const absl::Span<const uint8_t> bytes = mapping->bytes();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % span_bytes, 0u);
    EXPECT_EQ(bytes.size(), size_bytes);
    EXPECT_EQ(bytes[4], 'n');
    EXPECT_EQ(bytes[size_bytes - 1], 0);
  }
}

TEST(FileMappingTest, PopulatesFreesAndGivesTheSameBytes) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("file", std::string(10000, 'x'));
  const uint64_t size_bytes = 2 * PageTableSpanBytes() + 5;
  fs::resize_file(path, size_bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  ASSERT_OK_AND_ASSIGN(const auto mapping, file->Map());
  mapping->AdviseSinglePages();
  const auto mapped_bytes = [&path] {
    return testing::MappedMemoryOf(path).resident_bytes;
  };
  EXPECT_EQ(mapped_bytes(), 0u);
  EXPECT_THAT(mapping->Populate(9999, 2), IsOk());
  EXPECT_GE(mapped_bytes(), PageBytes());
  EXPECT_THAT(mapping->Populate(size_bytes - 1, 100), IsOk());
  EXPECT_THAT(mapping->Populate(size_bytes, 1), IsOk());
  EXPECT_THAT(mapping->Populate(0, 0), IsOk());
  // A part of a table's range is left as it is.
  mapping->FreePageTables(1, size_bytes);
  EXPECT_GE(mapped_bytes(), PageBytes());
  mapping->FreePageTables(0, size_bytes);
  EXPECT_LE(mapped_bytes(), PageBytes());  // of the end
  EXPECT_EQ(testing::MappedMemoryOf(path).num_mappings, 1u);
  EXPECT_EQ(mapping->bytes()[9999], 'x');
  EXPECT_EQ(mapping->bytes()[10000], 0);
}

TEST(FileMappingTest, WhatATruncatedFileLostCannotBePopulated) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("file", std::string(100'000, 'x'));
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  ASSERT_OK_AND_ASSIGN(const auto mapping, file->Map());
  fs::resize_file(path, 10);
  EXPECT_THAT(mapping->Populate(0, 10), IsOk());
  EXPECT_THAT(mapping->Populate(90'000, 10),
              Fails(kUnavailable, "cannot read"));
}

TEST(FileMappingTest, EmptyFileIsAnEmptyMapping) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(folder.Write("a", "")));
  ASSERT_OK_AND_ASSIGN(const auto mapping, file->Map());
  EXPECT_EQ(mapping->bytes().size(), 0u);
  mapping->Prefetch(0, 1);
  mapping->Drop(0, 1);
}

TEST(CachedBytesTest, FollowsReadingAndDropping) {
  const TemporaryFolder folder;
  constexpr size_t kBytes = 4 << 20;
  const std::string path = folder.Write("a", Pattern(kBytes + 100));
  const int fd = open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(fsync(fd), 0) << "dirty pages cannot be dropped";
  close(fd);
  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  ASSERT_OK_AND_ASSIGN(const std::string all,
                       ReadRange(*file, 0, kBytes + 100));
  if (!file->CachedBytes().has_value())
    GTEST_SKIP() << "the kernel does not tell";
  EXPECT_EQ(*file->CachedBytes(), kBytes + 100);
  file->DropCache(0, file->size_bytes());
  const uint64_t left = *file->CachedBytes();
  if (left == kBytes + 100)
    GTEST_SKIP() << "a file system without a backing disk";
  EXPECT_EQ(left, 0u);
}

}  // namespace
}  // namespace lowmem
