// SPDX-License-Identifier: Apache-2.0
// Includes point one way. The table below is the architecture: a folder may
// include what it names and itself, nothing else.

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/habits/source_tree.h"

namespace lowmem::habits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Folders = std::set<std::string>;

const std::map<std::string, Folders>& Layers() {
  static const auto* const kLayers = new std::map<std::string, Folders>{
      {"storage/base", {}},
      {"storage", {"storage/base"}},
      {"quant", {"storage/base", "storage"}},
      {"engine/model", {"storage/base", "storage", "quant"}},
      {"engine/text", {"storage/base", "storage", "quant", "engine/model"}},
      {"engine/cache", {"storage/base", "storage", "quant"}},
      {"engine/nn",
       {"storage/base", "storage", "quant", "engine/model", "engine/text",
        "engine/cache"}},
      {"engine/include/lowmem", {}},
      {"engine/generate",
       {"storage/base", "storage", "quant", "engine/model", "engine/text",
        "engine/cache", "engine/nn", "engine/include/lowmem"}},
      {"engine/cli",
       {"storage/base", "storage", "quant", "engine/model", "engine/text",
        "engine/cache", "engine/nn", "engine/include/lowmem",
        "engine/generate"}},
  };
  return *kLayers;
}

// The layer that a file, or an included path, belongs to: the longest that
// matches. Empty for what is not the project's.
std::string LayerOf(absl::string_view path) {
  if (absl::StartsWith(path, "lowmem/")) return "engine/include/lowmem";
  std::string longest;
  for (const auto& [folder, allowed] : Layers()) {
    if (absl::StartsWith(path, absl::StrCat(folder, "/")) &&
        folder.size() > longest.size()) {
      longest = folder;
    }
  }
  return longest;
}

std::string FileName(absl::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string Complaint(const SourceFile& file, const Include& include,
                      absl::string_view why) {
  return absl::StrCat(file.path, ":", include.line, ": includes ", include.path,
                      "; ", why);
}

Complaints CheckLayers(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    const std::string layer = LayerOf(file.path);
    if (layer.empty()) {
      complaints.push_back(absl::StrCat(file.path, ": belongs to no layer"));
      continue;
    }
    for (const Include& include : IncludesOf(file)) {
      const std::string included = LayerOf(include.path);
      if (included.empty() || included == layer) continue;
      if (Layers().at(layer).count(included) == 0) {
        complaints.push_back(Complaint(
            file, include, absl::StrCat(layer, " is above ", included)));
      }
    }
  }
  return complaints;
}

// Which files may include what is not ours. A rule holds for include paths that
// begin with `prefix`.
struct DependencyRule {
  const char* prefix;
  const char* allowed_in;  // beginning of a file's path
};
constexpr DependencyRule kDependencies[] = {
    {"absl/", ""},
    {"hwy/", "quant/"},
    {"rapidjson/", "storage/base/json"},
    {"CLI/", "engine/cli/"},
    {"pcre2.h", "engine/text/"},
    {"utf8proc.h", "engine/text/"},
    {"liburing.h", "storage/io_uring_"},
};

// Headers of C itself; every other <name.h> is the system's.
bool IsStandardCHeader(absl::string_view path) {
  static constexpr absl::string_view kHeaders[] = {
      "stdbool.h", "stddef.h", "stdint.h", "stdio.h",
      "stdlib.h",  "string.h", "time.h"};
  return std::find(std::begin(kHeaders), std::end(kHeaders), path) !=
         std::end(kHeaders);
}

bool MayUseTheSystem(absl::string_view path) {
  static constexpr absl::string_view kFiles[] = {
      "storage/base/aligned_buffer.cc", "storage/base/memory_meter.cc",
      "storage/base/thread_pool.cc"};
  return absl::StartsWith(path, "engine/cli/") ||
         absl::StartsWith(FileName(path), "posix_") ||
         absl::StartsWith(FileName(path), "io_uring_") ||
         std::find(std::begin(kFiles), std::end(kFiles), path) !=
             std::end(kFiles);
}

Complaints CheckDependencies(const std::vector<SourceFile>& files) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    for (const Include& include : IncludesOf(file)) {
      if (!LayerOf(include.path).empty()) continue;
      const auto* rule =
          std::find_if(std::begin(kDependencies), std::end(kDependencies),
                       [&](const DependencyRule& r) {
                         return absl::StartsWith(include.path, r.prefix);
                       });
      if (rule != std::end(kDependencies)) {
        if (!absl::StartsWith(file.path, rule->allowed_in)) {
          complaints.push_back(Complaint(
              file, include,
              absl::StrCat("allowed in ", rule->allowed_in, " only")));
        }
      } else if (absl::EndsWith(include.path, ".h") &&
                 !IsStandardCHeader(include.path)) {
        if (include.is_quoted) {
          complaints.push_back(
              Complaint(file, include, "give the path from the root"));
        } else if (!MayUseTheSystem(file.path)) {
          complaints.push_back(
              Complaint(file, include, "allowed in files named for it only"));
        }
      } else if (absl::StrContains(include.path, '/') || include.is_quoted) {
        complaints.push_back(Complaint(file, include, "unknown dependency"));
      }
    }
  }
  return complaints;
}

// Headers that are installed, and programs that stand for their users, know of
// the engine what is installed.
Complaints CheckPublicOnly(const std::vector<SourceFile>& files,
                           const Folders& also_allowed) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    for (const Include& include : IncludesOf(file)) {
      const std::string layer = LayerOf(include.path);
      if (!layer.empty() && layer != "engine/include/lowmem" &&
          also_allowed.count(layer) == 0) {
        complaints.push_back(Complaint(file, include, "not a public header"));
      }
    }
  }
  return complaints;
}

std::vector<SourceFile> Named(const std::string& folder,
                              absl::string_view prefix) {
  std::vector<SourceFile> files;
  for (SourceFile& file : ReadSources({folder})) {
    if (absl::StartsWith(FileName(file.path), prefix)) {
      files.push_back(std::move(file));
    }
  }
  return files;
}

TEST(LayeringTest, IncludesPointUp) {
  EXPECT_THAT(CheckLayers(ReadProductSources()), IsEmpty());
}

TEST(LayeringTest, PlantedUpwardIncludeIsFound) {
  EXPECT_THAT(CheckLayers({{"storage/file.cc",
                            "#include \"storage/base/json.h\"\n"
                            "#include \"quant/decode.h\"\n"}}),
              ElementsAre("storage/file.cc:2: includes quant/decode.h; storage "
                          "is above quant"));
  EXPECT_THAT(
      CheckLayers({{"storage/base/json.cc", "#include \"storage/file.h\"\n"}}),
      ElementsAre(HasSubstr("storage/base is above storage")));
  EXPECT_THAT(
      CheckLayers({{"engine/nn/rope.cc", "#include \"lowmem/engine.h\"\n"}}),
      ElementsAre(HasSubstr("engine/nn is above engine/include/lowmem")));
  EXPECT_THAT(CheckLayers({{"engine/cache/kv_cache.cc",
                            "#include \"engine/nn/rope.h\"\n"}}),
              ElementsAre(HasSubstr("engine/cache is above engine/nn")));
  EXPECT_THAT(CheckLayers({{"engine/misc/new.cc", ""}}),
              ElementsAre(HasSubstr("belongs to no layer")));
}

TEST(LayeringTest, AllowedGraphHasNoCycle) {
  // Takes away layers whose needs are met, until none is left or none can be
  // taken.
  Folders done;
  for (bool progress = true; progress;) {
    progress = false;
    for (const auto& [folder, allowed] : Layers()) {
      if (done.count(folder) == 0 &&
          std::includes(done.begin(), done.end(), allowed.begin(),
                        allowed.end())) {
        done.insert(folder);
        progress = true;
      }
    }
  }
  EXPECT_EQ(done.size(), Layers().size());
}

TEST(DependencyTest, OutsideHeadersStayWhereTheyBelong) {
  EXPECT_THAT(CheckDependencies(ReadProductSources()), IsEmpty());
}

TEST(DependencyTest, PlantedDependencyIsFound) {
  const struct {
    const char* path;
    const char* include;
    const char* complaint;
  } kCases[] = {
      {"engine/nn/rope.cc", "\"hwy/highway.h\"", "allowed in quant/ only"},
      {"storage/gguf_reader.cc", "\"rapidjson/reader.h\"",
       "allowed in storage/base/json only"},
      {"engine/generate/stop.cc", "\"CLI/CLI.hpp\"",
       "allowed in engine/cli/ only"},
      {"storage/file.h", "<pcre2.h>", "allowed in engine/text/ only"},
      {"storage/safetensors_reader.cc", "<unistd.h>", "named for it"},
      {"quant/matmul.cc", "<sys/mman.h>", "named for it"},
      {"quant/matmul.cc", "<immintrin.h>", "named for it"},
      {"quant/matmul.cc", "\"matmul.h\"", "path from the root"},
      {"quant/matmul.cc", "<boost/any.hpp>", "unknown dependency"},
      {"quant/matmul.cc", "<gtest/internal>", "unknown dependency"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(CheckDependencies(
                    {{c.path, absl::StrCat("#include ", c.include, "\n")}}),
                ElementsAre(HasSubstr(c.complaint)))
        << c.include;
  }
  EXPECT_THAT(
      CheckDependencies({{"storage/posix_file.cc", "#include <fcntl.h>\n"},
                         {"engine/cli/console.cc", "#include <poll.h>\n"},
                         {"quant/dot.cc", "#include \"hwy/highway.h\"\n"},
                         {"quant/dot.cc", "#include <vector>\n"}}),
      IsEmpty());
}

TEST(PublicHeaderTest, IncludeAbseilTheStandardLibraryAndEachOther) {
  const std::vector<SourceFile> headers = ReadSources({"engine/include"});
  ASSERT_GE(headers.size(), 5u);
  EXPECT_THAT(CheckPublicOnly(headers, {}), IsEmpty());
  EXPECT_THAT(CheckDependencies(headers), IsEmpty());
}

TEST(PublicHeaderTest, GenerateCommandAndExampleUseTheLibraryAsAnybodyCan) {
  const std::vector<SourceFile> command =
      Named("engine/cli", "generate_command.");
  ASSERT_FALSE(command.empty());
  EXPECT_THAT(CheckPublicOnly(command, {"engine/cli", "storage/base"}),
              IsEmpty());
  const std::vector<SourceFile> example = Named("tests/consumer", "main.");
  ASSERT_FALSE(example.empty());
  EXPECT_THAT(CheckPublicOnly(example, {}), IsEmpty());
}

TEST(PublicHeaderTest, PlantedInternalIncludeIsFound) {
  const std::vector<SourceFile> planted = {
      {"engine/include/lowmem/engine.h",
       "#include \"lowmem/options.h\"\n#include \"storage/file.h\"\n"}};
  EXPECT_THAT(CheckPublicOnly(planted, {}),
              ElementsAre(HasSubstr(":2: includes storage/file.h")));
}

}  // namespace
}  // namespace lowmem::habits
