// SPDX-License-Identifier: Apache-2.0
// The outer form of a file: its length, its name, its first line, its include
// guard, and that nothing is left "to do".

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/habits/source_tree.h"

namespace lowmem::habits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kMaxLines = 500;

std::vector<SourceFile> ReadAllSources() {
  return ReadSources({"storage", "quant", "engine", "tests", "bench"});
}

Complaints CheckLength(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    const auto num_lines = std::count(file.text.begin(), file.text.end(), '\n');
    if (num_lines > kMaxLines) {
      complaints.push_back(absl::StrCat(file.path,
                                        ": too long; expected at most ",
                                        kMaxLines, " lines, got ", num_lines));
    }
  }
  return complaints;
}

// A file is named for the thing in it; these names are for whatever was left
// over.
Complaints CheckName(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    const absl::string_view path = file.path;
    const absl::string_view name = path.substr(path.rfind('/') + 1);
    for (const char* word :
         {"util", "helper", "common", "manager", "misc", "stuff"}) {
      if (absl::StrContains(name, word)) {
        complaints.push_back(
            absl::StrCat(path, ": named for no thing: ", word));
      }
    }
  }
  return complaints;
}

Complaints CheckLicence(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    if (!absl::StartsWith(file.text,
                          "// SPDX-License-Identifier: Apache-2.0\n") &&
        !absl::StartsWith(file.text,
                          "/* SPDX-License-Identifier: Apache-2.0 */\n")) {
      complaints.push_back(
          absl::StrCat(file.path, ": no SPDX line at the top"));
    }
  }
  return complaints;
}

// LOWMEM_STORAGE_BASE_JSON_H_ for storage/base/json.h; public headers are named
// as they are included. Files included once a target, -inl.h, have guards of
// their own.
Complaints CheckGuard(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    if (!absl::EndsWith(file.path, ".h") ||
        absl::EndsWith(file.path, "-inl.h")) {
      continue;
    }
    absl::string_view path = file.path;
    absl::ConsumePrefix(&path, "engine/include/lowmem/");
    const std::string guard =
        absl::StrCat("LOWMEM_",
                     absl::AsciiStrToUpper(absl::StrReplaceAll(
                         path, {{"/", "_"}, {".", "_"}, {"-", "_"}})),
                     "_");
    if (!absl::StrContains(file.text, absl::StrCat("#ifndef ", guard, "\n")) ||
        !absl::StrContains(file.text, absl::StrCat("#define ", guard, "\n"))) {
      complaints.push_back(
          absl::StrCat(file.path, ": include guard; expected ", guard));
    }
  }
  return complaints;
}

// Split so that this file does not complain about itself.
Complaints CheckUnfinished(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    int line_number = 0;
    for (absl::string_view line : absl::StrSplit(file.text, '\n')) {
      ++line_number;
      for (const char* word : {"TO"
                               "DO",
                               "FIX"
                               "ME",
                               "HA"
                               "CK:"}) {
        if (absl::StrContains(line, word)) {
          complaints.push_back(
              absl::StrCat(file.path, ":", line_number, ": ", word));
        }
      }
    }
  }
  return complaints;
}

TEST(FileFormTest, NoFileIsTooLong) {
  EXPECT_THAT(CheckLength(ReadAllSources()), IsEmpty());
}

TEST(FileFormTest, FilesAreNamedForWhatIsInThem) {
  EXPECT_THAT(CheckName(ReadAllSources()), IsEmpty());
}

TEST(FileFormTest, FilesBeginWithTheirLicence) {
  EXPECT_THAT(CheckLicence(ReadAllSources()), IsEmpty());
}

TEST(FileFormTest, GuardsFollowThePath) {
  EXPECT_THAT(CheckGuard(ReadAllSources()), IsEmpty());
}

TEST(FileFormTest, NothingIsLeftToDo) {
  EXPECT_THAT(CheckUnfinished(ReadAllSources()), IsEmpty());
}

TEST(FileFormTest, PlantedViolationsAreFound) {
  EXPECT_THAT(CheckLength({{"a/long.cc", std::string(kMaxLines + 1, '\n')},
                           {"a/short.cc", std::string(kMaxLines, '\n')}}),
              ElementsAre(HasSubstr("got 501")));
  EXPECT_THAT(CheckName({{"storage/file_utils.cc", ""}, {"util/file.cc", ""}}),
              ElementsAre(HasSubstr("storage/file_utils.cc")));
  EXPECT_THAT(CheckLicence({{"a.cc", "#include <vector>\n"}}),
              ElementsAre(HasSubstr("no SPDX line")));
  EXPECT_THAT(
      CheckGuard({{"storage/file.h", "#ifndef FILE_H\n#define FILE_H\n"}}),
      ElementsAre(HasSubstr("expected LOWMEM_STORAGE_FILE_H_")));
  EXPECT_THAT(CheckUnfinished({{"a.cc",
                                "\n// TO"
                                "DO: all of it\n"}}),
              ElementsAre(HasSubstr("a.cc:2: TO"
                                    "DO")));
}

}  // namespace
}  // namespace lowmem::habits
