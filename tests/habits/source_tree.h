// SPDX-License-Identifier: Apache-2.0
// The project's own sources as text, for tests that hold them to a rule. A rule
// is a function from files to complaints, so that the same function is run on
// the tree and on a planted file that breaks it.

#ifndef LOWMEM_TESTS_HABITS_SOURCE_TREE_H_
#define LOWMEM_TESTS_HABITS_SOURCE_TREE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lowmem::habits {

struct SourceFile {
  std::string path;  // from the root of the project, "storage/base/json.cc"
  std::string text;
};

// A line for people: "path:line: what is wrong".
using Complaints = std::vector<std::string>;

// Every C and C++ file below `folders` of the project, ordered by path.
std::vector<SourceFile> ReadSources(const std::vector<std::string>& folders);

// All of storage, quant and engine; and without engine/cli, which may print.
std::vector<SourceFile> ReadProductSources();
std::vector<SourceFile> ReadLibrarySources();

// `text` with comments and the contents of string and character literals
// replaced by spaces; line breaks stay, so that line numbers hold. Include
// lines are kept.
std::string CodeOnly(absl::string_view text);

struct Include {
  int line;
  std::string path;
  bool is_quoted;
};
std::vector<Include> IncludesOf(const SourceFile& file);

// Identifiers of `code`, as CodeOnly gives it, with the line each one is on.
struct Identifier {
  int line;
  std::string name;
  bool is_called;     // an opening parenthesis follows
  bool is_member;     // behind "." or "->"
  std::string scope;  // what stands before "::"; empty for the global one too
};
std::vector<Identifier> IdentifiersOf(absl::string_view code);

}  // namespace lowmem::habits

#endif  // LOWMEM_TESTS_HABITS_SOURCE_TREE_H_
