// SPDX-License-Identifier: Apache-2.0
// A folder of its own for a test, removed with everything in it.

#ifndef LOWMEM_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define LOWMEM_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

namespace lowmem::testing {

class TemporaryFolder {
 public:
  // Beneath `parent`; what is large goes beside the build, since the system's
  // temporary files may live in memory.
  explicit TemporaryFolder(const std::filesystem::path& parent =
                               std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "lowmem-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  // Path of an entry, whether it exists or not.
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

  // Writes a file, and the folders on the way to it. Returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::string path_;
};

inline std::string ReadFileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Names of all entries, hidden ones too, in order.
inline std::vector<std::string> ListFolder(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
