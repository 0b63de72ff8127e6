// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/cli_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_join.h"

namespace lowmem::testing {

namespace fs = std::filesystem;

std::string Cli() { return LOWMEM_BINARY_DIR "/lowmem-run"; }

SubprocessResult RunCli(const std::vector<std::string>& args,
                        const std::string& stdin_text) {
  SubprocessOptions options;
  options.program = Cli();
  options.args = args;
  options.stdin_text = stdin_text;
  return RunSubprocess(options);
}

SubprocessResult RunCliLimited(const std::string& limit,
                               const std::vector<std::string>& args) {
  SubprocessOptions options;
  options.program = "/bin/sh";
  options.args = {"-c", limit + " && exec \"$0\" \"$@\"", Cli()};
  options.args.insert(options.args.end(), args.begin(), args.end());
  return RunSubprocess(options);
}

std::string Tiny(const std::string& name) {
  return LOWMEM_TESTDATA_DIR "/tiny/" + name;
}

std::string TinyGguf(const std::string& name) {
  return LOWMEM_TESTDATA_DIR "/tiny-gguf/" + name + ".gguf";
}

TempFolder::TempFolder() {
  std::string name = ::testing::TempDir() + "lowmem-e2e-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TempFolder::Names() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string CopyTiny(const std::string& name, const TempFolder& folder) {
  const std::string copy = folder.Path("model");
  fs::copy(Tiny(name), copy);
  for (const fs::directory_entry& entry : fs::directory_iterator(copy)) {
    fs::permissions(entry.path(), fs::perms::owner_write,
                    fs::perm_options::add);
  }
  return copy;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  EXPECT_TRUE(out.good()) << path;
}

void ReplaceInFile(const std::string& path, const std::string& from,
                   const std::string& to) {
  std::string text = ReadFile(path);
  const size_t pos = text.find(from);
  ASSERT_NE(pos, std::string::npos) << from << " in " << path;
  ASSERT_EQ(text.find(from, pos + 1), std::string::npos) << from << " twice";
  WriteFile(path, text.replace(pos, from.size(), to));
}

JsonValue ParseJsonText(const std::string& text) {
  absl::StatusOr<JsonValue> value = JsonValue::Parse(text);
  EXPECT_TRUE(value.ok()) << value.status() << "\n" << text;
  return value.ok() ? *std::move(value) : JsonValue();
}

JsonValue ReadJsonFile(const std::string& path) {
  return ParseJsonText(ReadFile(path));
}

const JsonValue& At(const JsonValue& object, const std::string& key) {
  static const JsonValue* const null = new JsonValue();
  const JsonValue* value = object.Find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? *null : *value;
}

std::vector<int64_t> Integers(const JsonValue& list) {
  EXPECT_TRUE(list.is_array());
  std::vector<int64_t> values;
  for (const JsonValue& item : list.items()) {
    EXPECT_TRUE(item.AsInt64().has_value());
    values.push_back(item.AsInt64().value_or(-1));
  }
  return values;
}

std::string CommaSeparated(const std::vector<int64_t>& values) {
  return absl::StrJoin(values, ",");
}

::testing::AssertionResult IsRefusal(const SubprocessResult& result,
                                     int exit_code, const std::string& part) {
  const std::string& err = result.err;
  const bool one_line = !err.empty() && err.find('\n') == err.size() - 1;
  if (result.exit_code == exit_code && one_line && result.out.empty() &&
      err.rfind("lowmem-run: ", 0) == 0 &&
      err.find(part) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "expected exit code " << exit_code << " and one line with '" << part
         << "', got " << result.exit_code << " (signal " << result.signal
         << ")\nstdout: " << result.out << "\nstderr: " << err;
}

}  // namespace lowmem::testing
