// SPDX-License-Identifier: Apache-2.0
// AtomicFolder: complete under its name, or as if it had never been.
#include "storage/atomic_folder.h"

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
