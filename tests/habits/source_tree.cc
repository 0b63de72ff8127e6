// SPDX-License-Identifier: Apache-2.0
#include "tests/habits/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lowmem::habits {
namespace {

namespace fs = std::filesystem;

bool IsSource(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".cc" || extension == ".h" || extension == ".c";
}

bool IsWordChar(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Replaces `code[begin, end)` by spaces, except for line breaks.
void Blank(std::string& code, size_t begin, size_t end) {
  for (size_t i = begin; i < std::min(end, code.size()); ++i) {
    if (code[i] != '\n') code[i] = ' ';
  }
}

size_t FindOrEnd(absl::string_view text, absl::string_view what, size_t from) {
  const size_t found = text.find(what, from);
  return found == absl::string_view::npos ? text.size() : found;
}

// The position behind a literal whose opening quote is at `begin`.
size_t LiteralEnd(absl::string_view text, size_t begin) {
  const char quote = text[begin];
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

// The position behind a raw literal whose quote, behind the R, is at `begin`.
size_t RawLiteralEnd(absl::string_view text, size_t begin) {
  const size_t open = FindOrEnd(text, "(", begin);
  const std::string close =
      absl::StrCat(")", text.substr(begin + 1, open - begin - 1), "\"");
  return FindOrEnd(text, close, open) + close.size();
}

}  // namespace

std::vector<SourceFile> ReadSources(const std::vector<std::string>& folders) {
  const fs::path root = LOWMEM_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !IsSource(entry.path())) continue;
      std::ifstream stream(entry.path());
      files.push_back(
          {fs::relative(entry.path(), root).string(),
           std::string(std::istreambuf_iterator<char>(stream), {})});
    }
  }
  std::sort(
      files.begin(), files.end(),
      [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<SourceFile> ReadProductSources() {
  return ReadSources({"storage", "quant", "engine"});
}

std::vector<SourceFile> ReadLibrarySources() {
  std::vector<SourceFile> files = ReadProductSources();
  files.erase(std::remove_if(files.begin(), files.end(),
                             [](const SourceFile& file) {
                               return absl::StartsWith(file.path,
                                                       "engine/cli/");
                             }),
              files.end());
  return files;
}

std::string CodeOnly(absl::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    const bool follows_word = i > 0 && IsWordChar(text[i - 1]);
    if (absl::StartsWith(text.substr(i), "//")) {
      end = FindOrEnd(text, "\n", i);
      Blank(code, i, end);
    } else if (absl::StartsWith(text.substr(i), "/*")) {
      end = FindOrEnd(text, "*/", i + 2) + 2;
      Blank(code, i, end);
    } else if (absl::StartsWith(text.substr(i), "#include")) {
      end = FindOrEnd(text, "\n", i);
    } else if (text[i] == '"') {
      const bool is_raw = i > 0 && text[i - 1] == 'R';
      end = is_raw ? RawLiteralEnd(text, i) : LiteralEnd(text, i);
      Blank(code, i + 1, end - 1);
    } else if (text[i] == '\'' && !follows_word) {  // not as in 1'000
      end = LiteralEnd(text, i);
      Blank(code, i + 1, end - 1);
    }
    i = end;
  }
  return code;
}

std::vector<Include> IncludesOf(const SourceFile& file) {
  std::vector<Include> includes;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(CodeOnly(file.text), '\n')) {
    ++line_number;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "#include")) continue;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (line.empty()) continue;
    const char close = line[0] == '<' ? '>' : '"';
    const size_t end = line.find(close, 1);
    if (end == absl::string_view::npos) continue;
    includes.push_back(
        {line_number, std::string(line.substr(1, end - 1)), close == '"'});
  }
  return includes;
}

std::vector<Identifier> IdentifiersOf(absl::string_view code) {
  std::vector<Identifier> identifiers;
  int line = 1;
  for (size_t i = 0; i < code.size();) {
    if (code[i] == '\n') ++line;
    if (!IsWordChar(code[i]) || absl::ascii_isdigit(code[i])) {
      // A number takes its letters with it: 1e3f holds no identifier.
      const bool is_number = absl::ascii_isdigit(code[i]);
      ++i;
      while (is_number && i < code.size() && IsWordChar(code[i])) ++i;
      continue;
    }
    size_t end = i;
    while (end < code.size() && IsWordChar(code[end])) ++end;
    size_t next = end;
    while (next < code.size() && code[next] == ' ') ++next;
    const absl::string_view before = code.substr(0, i);
    Identifier identifier;
    identifier.line = line;
    identifier.name = std::string(code.substr(i, end - i));
    identifier.is_called = next < code.size() && code[next] == '(';
    identifier.is_member =
        absl::EndsWith(before, ".") || absl::EndsWith(before, "->");
    if (absl::EndsWith(before, "::")) {
      size_t begin = i - 2;
      while (begin > 0 && IsWordChar(code[begin - 1])) --begin;
      identifier.scope = std::string(code.substr(begin, i - 2 - begin));
    }
    identifiers.push_back(std::move(identifier));
    i = end;
  }
  return identifiers;
}

}  // namespace lowmem::habits
