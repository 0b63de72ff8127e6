// SPDX-License-Identifier: Apache-2.0
// AtomicFolder: complete under its name, or as if it had never been.
#include "storage/atomic_folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>

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
using testing::ReadFileBytes;
using testing::TemporaryFolder;

void WriteText(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(AtomicFolderTest, AppearsWhenCommitted) {
  const TemporaryFolder outer;
  {
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         AtomicFolder::Create(outer / "out"));
    WriteText(folder->temporary_path() + "/sub/a", "text");
    EXPECT_FALSE(fs::exists(outer / "out"));
    ASSERT_THAT(folder->Commit(/*replace=*/false), IsOk());
  }
  EXPECT_EQ(ReadFileBytes(outer / "out/sub/a"), "text");
  EXPECT_THAT(ListFolder(outer.path()), ElementsAre("out"));
}

TEST(AtomicFolderTest, DestroyedBeforeCommitLeavesNothing) {
  const TemporaryFolder outer;
  {
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         AtomicFolder::Create(outer / "out"));
    WriteText(folder->temporary_path() + "/sub/a", "text");
  }
  EXPECT_THAT(ListFolder(outer.path()), IsEmpty());
}

TEST(AtomicFolderTest, WhatStandsThereIsKeptUnlessReplaced) {
  const TemporaryFolder outer;
  WriteText(outer / "out/old", "old");
  {
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         AtomicFolder::Create(outer / "out"));
    WriteText(folder->temporary_path() + "/new", "new");
    EXPECT_THAT(folder->Commit(/*replace=*/false),
                Fails(absl::StatusCode::kInvalidArgument, "exists already"));
  }
  EXPECT_THAT(ListFolder(outer / "out"), ElementsAre("old"));
  {
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         AtomicFolder::Create(outer / "out"));
    WriteText(folder->temporary_path() + "/new", "new");
    EXPECT_THAT(folder->Commit(/*replace=*/true), IsOk());
    EXPECT_THAT(ListFolder(outer / "out"), ElementsAre("new"));
  }
  EXPECT_THAT(ListFolder(outer.path()), ElementsAre("out"));
}

TEST(AtomicFolderTest, EvenAnEmptyFolderIsKept) {
  const TemporaryFolder outer;
  fs::create_directory(outer / "out");
  ASSERT_OK_AND_ASSIGN(const auto folder, AtomicFolder::Create(outer / "out"));
  EXPECT_THAT(folder->Commit(/*replace=*/false),
              Fails(absl::StatusCode::kInvalidArgument, "exists already"));
}

TEST(AtomicFolderTest, ReplacingNothingIsCreating) {
  const TemporaryFolder outer;
  ASSERT_OK_AND_ASSIGN(const auto folder, AtomicFolder::Create(outer / "out"));
  EXPECT_THAT(folder->Commit(/*replace=*/true), IsOk());
  EXPECT_TRUE(fs::is_directory(outer / "out"));
}

TEST(AtomicFolderTest, ALinkIsReplacedAndNotWhatItLeadsTo) {
  const TemporaryFolder outer;
  WriteText(outer / "kept/a", "kept");
  fs::create_symlink("kept", outer / "out");
  {
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         AtomicFolder::Create(outer / "out"));
    EXPECT_THAT(folder->Commit(/*replace=*/true), IsOk());
  }
  EXPECT_EQ(ReadFileBytes(outer / "kept/a"), "kept");
  EXPECT_FALSE(fs::is_symlink(outer / "out"));
  EXPECT_THAT(ListFolder(outer.path()), ElementsAre("kept", "out"));
}

TEST(AtomicFolderTest, TrailingSlashesDoNotMatter) {
  const TemporaryFolder outer;
  ASSERT_OK_AND_ASSIGN(const auto folder,
                       AtomicFolder::Create(outer / "out//"));
  EXPECT_THAT(folder->Commit(/*replace=*/false), IsOk());
  EXPECT_TRUE(fs::is_directory(outer / "out"));
}

TEST(AtomicFolderTest, TooLongANameIsSaidToBe) {
  const TemporaryFolder outer;
  const std::string name(256, 'n');
  for (const std::string& path : {outer / name, outer / name + "/out"}) {
    EXPECT_THAT(AtomicFolder::Create(path),
                Fails(absl::StatusCode::kInvalidArgument, "name is too long"));
  }
  EXPECT_THAT(ListFolder(outer.path()), IsEmpty());
}

// However many descriptors are left, what was made is removed.
TEST(AtomicFolderTest, NothingIsLeftWhenDescriptorsRunOut) {
  const TemporaryFolder outer;
  const int lowest_free = open("/", O_RDONLY);
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  int num_created = 0;
  for (int num_left = 0; num_left < 4; ++num_left) {
    const rlimit tight = {static_cast<rlim_t>(lowest_free + num_left),
                          limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    {
      const auto folder = AtomicFolder::Create(outer / "out");
      if (folder.ok()) {
        ++num_created;
        std::ofstream((*folder)->temporary_path() + "/a") << "text";
      }
    }
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_THAT(ListFolder(outer.path()), IsEmpty()) << num_left;
  }
  EXPECT_EQ(num_created, 2);
}

TEST(AtomicFolderTest, NamesThatAreNoFoldersToMakeAreRefused) {
  const TemporaryFolder outer;
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("."), outer / "..",
        outer / std::string("a\0b", 3)}) {
    EXPECT_THAT(
        AtomicFolder::Create(path),
        Fails(absl::StatusCode::kInvalidArgument, "not the name of a folder"));
  }
  EXPECT_THAT(AtomicFolder::Create(outer / "no/out"),
              Fails(absl::StatusCode::kNotFound, "no/out"));
  EXPECT_THAT(ListFolder(outer.path()), IsEmpty());
}

}  // namespace
}  // namespace lowmem
