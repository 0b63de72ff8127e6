// SPDX-License-Identifier: Apache-2.0
// What the tests of the command line share: running it, the tiny models, copies
// of them to damage, and JSON.

#ifndef LOWMEM_TESTS_E2E_CLI_FIXTURE_H_
#define LOWMEM_TESTS_E2E_CLI_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "tests/support/subprocess.h"

namespace lowmem::testing {

// Path of the program under test.
std::string Cli();

SubprocessResult RunCli(const std::vector<std::string>& args,
                        const std::string& stdin_text = "");

// After `limit`, as a shell takes it ("ulimit -f 100").
SubprocessResult RunCliLimited(const std::string& limit,
                               const std::vector<std::string>& args);

// "<testdata>/tiny/<name>" and "<testdata>/tiny-gguf/<name>.gguf".
std::string Tiny(const std::string& name);
std::string TinyGguf(const std::string& name);

// A folder of its own that goes away with the test.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // Names of what is in it, sorted.
  std::vector<std::string> Names() const;

 private:
  std::string path_;
};

// A writable copy of a tiny model as `folder`/model. Returns its path.
std::string CopyTiny(const std::string& name, const TempFolder& folder);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);
// Replaces the one place where `from` stands; fails the test when it is not
// there.
void ReplaceInFile(const std::string& path, const std::string& from,
                   const std::string& to);

// Fails the test, and gives null, when the text is no JSON.
JsonValue ParseJsonText(const std::string& text);
JsonValue ReadJsonFile(const std::string& path);
// The member, or a null value and a failed test.
const JsonValue& At(const JsonValue& object, const std::string& key);
std::vector<int64_t> Integers(const JsonValue& list);
std::string CommaSeparated(const std::vector<int64_t>& values);

// "lowmem-run: ...\n", one line of printable text that contains `part`; nothing
// on stdout; the exit code.
::testing::AssertionResult IsRefusal(const SubprocessResult& result,
                                     int exit_code, const std::string& part);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_E2E_CLI_FIXTURE_H_
