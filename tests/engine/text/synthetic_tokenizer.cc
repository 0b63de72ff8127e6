// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/text/synthetic_tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/tokenizer_builder.h"
#include "engine/text/tokenizer_json.h"
#include "storage/base/json_writer.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

std::string Quoted(absl::string_view text) {
  JsonWriter json;
  json.String(text);
  return json.TakeText();
}

}  // namespace

std::string SyntheticTokenizer::Json() const {
  std::vector<std::string> vocab;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (missing_bytes.find(c) != std::string::npos) continue;
    std::string piece;
    AppendInAlphabet(absl::string_view(&c, 1), piece);
    vocab.push_back(absl::StrCat(Quoted(piece), ":", byte));
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    vocab.push_back(absl::StrCat(Quoted(pieces[i]), ":", 256 + i));
  }
  std::vector<std::string> quoted_merges;
  for (const std::string& merge : merges)
    quoted_merges.push_back(Quoted(merge));
  return absl::StrCat(R"({"version":"1.0","added_tokens":)", added_tokens,
                      R"(,"normalizer":)", normalizer, R"(,"pre_tokenizer":)",
                      pre_tokenizer, R"(,"post_processor":)", post_processor,
                      R"(,"decoder":)", decoder, R"(,"model":{"type":"BPE")",
                      model_settings, R"(,"vocab":{)",
                      absl::StrJoin(vocab, ","), R"(},"merges":[)",
                      absl::StrJoin(quoted_merges, ","), "]}}");
}

absl::StatusOr<std::unique_ptr<Tokenizer>> SyntheticTokenizer::Build() const {
  const std::string json = Json();
  StringStream stream(json);
  absl::StatusOr<TokenizerParts> parts = ReadTokenizerJson(stream);
  if (!parts.ok()) return parts.status();
  return BuildTokenizer(*std::move(parts));
}

std::string AddedTokenJson(int id, absl::string_view content,
                           absl::string_view flags) {
  return absl::StrCat(R"({"id":)", id, R"(,"content":)", Quoted(content), flags,
                      "}");
}

std::vector<int32_t> Ids(const Tokenizer& tokenizer, absl::string_view text,
                         bool parse_special) {
  auto ids = tokenizer.Encode(
      text, {.add_special = false, .parse_special = parse_special});
  EXPECT_THAT(ids, IsOk());
  return ids.ok() ? *std::move(ids) : std::vector<int32_t>();
}

std::vector<int32_t> Bytes(absl::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

}  // namespace lowmem::testing
