// SPDX-License-Identifier: Apache-2.0
// A process that ends without its destructors leaves no temporary behind.
#include "storage/unfinished_outputs.h"

#include <unistd.h>

#include <thread>

#include "storage/atomic_folder.h"
#include "storage/file.h"
#include "storage/folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::IsOk;
using testing::ListFolder;
using testing::ReadFileBytes;
using testing::TemporaryFolder;

constexpr std::chrono::milliseconds kPatience(10'000);

absl::Status WriteNew(const std::string& path) {
  absl::StatusOr<std::unique_ptr<AtomicFile>> file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  const absl::Status status = (*file)->Append("new");
  return status.ok() ? (*file)->Commit() : status;
}

// A file and a folder that are begun, a file and a folder that are finished
// and stand where older ones stood, and the end.
[[noreturn]] void WriteAndEnd(const TemporaryFolder& folder) {
  const auto file = AtomicFile::Create(folder / "begun");
  const auto begun = AtomicFolder::Create(folder / "begun-folder");
  const auto within =
      AtomicFile::Create(JoinPath((*begun)->temporary_path(), "a"));
  const auto finished = AtomicFolder::Create(folder / "folder");
  const bool ok = WriteNew(folder / "file").ok() &&
                  WriteNew(JoinPath((*begun)->temporary_path(), "b")).ok() &&
                  WriteNew(JoinPath((*finished)->temporary_path(), "a")).ok() &&
                  (*finished)->Commit(/*replace=*/true).ok() && within.ok() &&
                  file.ok();
  RemoveUnfinishedOutputs(kPatience);
  _exit(ok ? 0 : 1);
}

TEST(UnfinishedOutputsTest, OnlyWhatIsFinishedStays) {
  const TemporaryFolder folder;
  folder.Write("file", "old");
  folder.Write("folder/a", "old");
  EXPECT_EXIT(WriteAndEnd(folder), ::testing::ExitedWithCode(0), "");
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("file", "folder"));
  EXPECT_EQ(ReadFileBytes(folder / "file"), "new");
  EXPECT_EQ(ReadFileBytes(folder / "folder/a"), "new");
}

TEST(UnfinishedOutputsTest, AStepThatDoesNotEndIsNotWaitedForForever) {
  const TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(folder / "a"));
    {
      const OutputStep step;
      std::thread(RemoveUnfinishedOutputs, std::chrono::milliseconds(1)).join();
    }
    EXPECT_THAT(file->Commit(), IsOk());
  }
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("a"));
}

}  // namespace
}  // namespace lowmem
