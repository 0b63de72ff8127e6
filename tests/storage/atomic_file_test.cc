// SPDX-License-Identifier: Apache-2.0
// AtomicFile: complete under its name, or as if it had never been.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "storage/file.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::ListFolder;
using testing::Pattern;
using testing::ReadFileBytes;
using testing::SmallDisk;
using testing::TemporaryFolder;

constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class UnixSocket {
 public:
  explicit UnixSocket(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(
        bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
  }
  ~UnixSocket() { close(fd_); }

 private:
  const int fd_;
};

TEST(AtomicFileTest, AppearsWhenCommitted) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
  ASSERT_THAT(file->Append("first "), IsOk());
  ASSERT_THAT(file->Append("second"), IsOk());
  EXPECT_FALSE(fs::exists(folder / "a"));
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(folder / "a"), "first second");
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("a"));
}

TEST(AtomicFileTest, PiecesOfAnySizeArriveInOrder) {
  const TemporaryFolder folder;
  std::string expected;
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
  // Around the buffer, and past several pieces of write-behind.
  for (const size_t count :
       {0u, 1u, 65535u, 1u, 65536u, 65537u, 3u, 70u << 20, 7u}) {
    const std::string piece = Pattern(count, static_cast<int>(expected.size()));
    ASSERT_THAT(file->Append(piece), IsOk());
    expected += piece;
  }
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_TRUE(ReadFileBytes(folder / "a") == expected);
}

TEST(AtomicFileTest, DestroyedBeforeCommitLeavesTheOldFile) {
  const TemporaryFolder folder;
  folder.Write("a", "old");
  {
    ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
    ASSERT_THAT(file->Append(Pattern(200000)), IsOk());
  }
  EXPECT_EQ(ReadFileBytes(folder / "a"), "old");
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("a"));
}

TEST(AtomicFileTest, CommitReplacesTheOldFileAndNotWhatIsOpen) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto old, OpenFile(folder.Write("a", "old")));
  ASSERT_OK_AND_ASSIGN(const auto mapping, old->Map());
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
  ASSERT_THAT(file->Append("new"), IsOk());
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(folder / "a"), "new");
  EXPECT_EQ(mapping->bytes()[0], 'o');
}

TEST(AtomicFileTest, SecondCommitIsRefused) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_THAT(file->Commit(), Fails(absl::StatusCode::kInternal, "twice"));
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("a"));
}

TEST(AtomicFileTest, TwoWritersOfOneNameDoNotMix) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto one, AtomicFile::Create(folder / "a"));
  ASSERT_OK_AND_ASSIGN(const auto two, AtomicFile::Create(folder / "a"));
  ASSERT_THAT(one->Append("one"), IsOk());
  ASSERT_THAT(two->Append("two"), IsOk());
  ASSERT_THAT(one->Commit(), IsOk());
  ASSERT_THAT(two->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(folder / "a"), "two");
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("a"));
}

TEST(AtomicFileTest, PermissionsAreThoseOfTheUser) {
  const TemporaryFolder folder;
  const mode_t old_mask = umask(027);
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
  umask(old_mask);
  ASSERT_THAT(file->Commit(), IsOk());
  struct stat info;
  ASSERT_EQ(stat((folder / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFileTest, AbsentFolderIsNotFound) {
  const TemporaryFolder folder;
  EXPECT_THAT(AtomicFile::Create(folder / "no/a"), Fails(kNotFound, "no/a"));
}

TEST(AtomicFileTest, NamesThatAreNoFilesAreRefused) {
  const TemporaryFolder folder;
  for (const std::string& name :
       {std::string(), std::string("."), std::string("..")}) {
    EXPECT_THAT(
        AtomicFile::Create(folder / name),
        Fails(absl::StatusCode::kInvalidArgument, "not the name of a file"));
  }
}

TEST(AtomicFileTest, WhatIsNoRegularFileIsKept) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  const UnixSocket socket(folder / "socket");
  fs::create_symlink("fifo", folder / "link");
  fs::create_symlink("folder", folder / "link to folder");
  const auto before = ListFolder(folder.path());
  for (const char* name :
       {"folder", "fifo", "socket", "link", "link to folder"}) {
    EXPECT_THAT(AtomicFile::Create(folder / name),
                Fails(kInvalidArgument, "no regular file"))
        << name;
  }
  EXPECT_TRUE(fs::is_fifo(folder / "fifo"));
  EXPECT_TRUE(fs::is_socket(folder / "socket"));
  EXPECT_EQ(ListFolder(folder.path()), before);
}

TEST(AtomicFileTest, ALinkStaysAndWhatItLeadsToIsReplaced) {
  const TemporaryFolder folder;
  folder.Write("there/old", "old");
  fs::create_directory(folder / "here");
  fs::create_symlink("../there/old", folder / "here/old");
  fs::create_symlink("../there/new", folder / "here/new");
  fs::create_symlink("new", folder / "here/twice");
  fs::create_symlink(folder / "there/absolute", folder / "here/absolute");
  const std::pair<const char*, const char*> kCases[] = {
      {"here/old", "there/old"},
      {"here/twice", "there/new"},
      {"here/absolute", "there/absolute"}};
  for (const auto& [link, target] : kCases) {
    ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / link));
    ASSERT_THAT(file->Append("text"), IsOk());
    ASSERT_THAT(file->Commit(), IsOk());
    EXPECT_TRUE(fs::is_symlink(folder / link));
    EXPECT_FALSE(fs::is_symlink(folder / target));
    EXPECT_EQ(ReadFileBytes(folder / target), "text");
  }
  EXPECT_THAT(ListFolder(folder / "there"),
              ElementsAre("absolute", "new", "old"));
}

TEST(AtomicFileTest, LinksThatLeadNowhereAreRefused) {
  const TemporaryFolder folder;
  fs::create_symlink("no/such/file", folder / "nowhere");
  fs::create_symlink("round", folder / "round");
  EXPECT_THAT(AtomicFile::Create(folder / "nowhere"),
              Fails(kNotFound, "no/such"));
  EXPECT_THAT(AtomicFile::Create(folder / "round"),
              Fails(kInvalidArgument, "round"));
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("nowhere", "round"));
}

// The file behind it has no name any more: the text of the link is not it.
TEST(AtomicFileTest, LinkOfTheKernelToADeletedFileIsRefused) {
  const TemporaryFolder folder;
  const int fd = open((folder / "a").c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  fs::remove(folder / "a");
  EXPECT_THAT(AtomicFile::Create("/proc/self/fd/" + std::to_string(fd)),
              Fails(kInvalidArgument, "no regular file"));
  close(fd);
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
}

TEST(AtomicFileTest, AFileWithoutRightsIsReplacedByItsOwner) {
  const TemporaryFolder folder;
  fs::permissions(folder.Write("a", "old"), fs::perms::owner_read);
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
  ASSERT_THAT(file->Append("new"), IsOk());
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(folder / "a"), "new");
}

TEST(AtomicFileTest, TooLongANameIsSaidToBe) {
  const TemporaryFolder folder;
  const std::string name(256, 'n');
  EXPECT_THAT(AtomicFile::Create(folder / name),
              Fails(kInvalidArgument, "the name is too long"));
  EXPECT_THAT(AtomicFile::Create(folder / name + "/a"),
              Fails(kInvalidArgument, "the name is too long"));
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
}

TEST(AtomicFileTest, LongestNameWorks) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / name));
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre(name));
}

TEST(AtomicFileTest, FullDiskLeavesNothingBehind) {
  const SmallDisk disk(1 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  {
    ASSERT_OK_AND_ASSIGN(const auto old,
                         AtomicFile::Create(disk.path() + "/a"));
    ASSERT_THAT(old->Append("old"), IsOk());
    ASSERT_THAT(old->Commit(), IsOk());
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto file,
                         AtomicFile::Create(disk.path() + "/a"));
    absl::Status status;
    for (int i = 0; i < 100 && status.ok(); ++i)
      status = file->Append(Pattern(100000));
    EXPECT_THAT(status, Fails(kUnavailable, "no space left on the disk"));
    // The first failure stays: a file with a piece lost must never be
    // committed.
    EXPECT_THAT(file->Append("x"),
                Fails(kUnavailable, "no space left on the disk"));
    EXPECT_THAT(file->Commit(),
                Fails(kUnavailable, "no space left on the disk"));
  }
  EXPECT_EQ(ReadFileBytes(disk.path() + "/a"), "old");
  EXPECT_THAT(ListFolder(disk.path()), ElementsAre("a"));
}

}  // namespace
}  // namespace lowmem
