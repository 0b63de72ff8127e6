// SPDX-License-Identifier: Apache-2.0
// Small tokenizers written down in tests: the piece of byte b has id b, more
// pieces follow from 256 on.

#ifndef LOWMEM_TESTS_ENGINE_TEXT_SYNTHETIC_TOKENIZER_H_
#define LOWMEM_TESTS_ENGINE_TEXT_SYNTHETIC_TOKENIZER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/text/tokenizer.h"
#include "storage/base/json_sax.h"

namespace lowmem::testing {

class StringStream : public ByteStream {
 public:
  explicit StringStream(absl::string_view text) : rest_(text) {}
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t num_bytes = std::min(out.size(), rest_.size());
    std::copy_n(rest_.data(), num_bytes, out.data());
    rest_.remove_prefix(num_bytes);
    return num_bytes;
  }

 private:
  absl::string_view rest_;
};

// Members of tokenizer.json as JSON text; pieces and merges in the byte
// alphabet
// ("Ġ" is a space).
struct SyntheticTokenizer {
  std::vector<std::string> pieces;
  std::vector<std::string> merges;
  std::string added_tokens = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  std::string post_processor = "null";
  std::string decoder = R"({"type":"ByteLevel"})";
  // More members of the model, each with a comma in front.
  std::string model_settings;
  // Bytes that have no piece.
  std::string missing_bytes;

  std::string Json() const;
  absl::StatusOr<std::unique_ptr<Tokenizer>> Build() const;
};

// One entry of "added_tokens"; `flags` are more members with a comma in front,
// such as R"(,"lstrip":true)".
std::string AddedTokenJson(int id, absl::string_view content,
                           absl::string_view flags = "");

// Ids without what goes around a text. Records a failure and gives nothing on
// error.
std::vector<int32_t> Ids(const Tokenizer& tokenizer, absl::string_view text,
                         bool parse_special = true);

// The bytes' own ids.
std::vector<int32_t> Bytes(absl::string_view text);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_TEXT_SYNTHETIC_TOKENIZER_H_
