// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer_config.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/text/added_token_json.h"
#include "engine/text/json_settings.h"
#include "engine/text/json_subset_reader.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// A token is written as its text, or as an object with "content".
absl::StatusOr<std::optional<std::string>> ParseTokenName(
    absl::string_view key, const JsonValue& value) {
  if (value.is_null()) return std::optional<std::string>();
  if (value.is_string()) return std::optional<std::string>(value.string());
  const JsonValue* content = value.Find("content");
  if (content == nullptr || !content->is_string()) {
    return absl::DataLossError(absl::StrCat(
        "\"", key,
        "\" is of another kind; expected a string or an added token"));
  }
  return std::optional<std::string>(content->string());
}

class TokenizerConfigReader : public JsonSubsetReader {
 public:
  TokenizerConfig Finish() {
    std::sort(
        config_.added_tokens.begin(), config_.added_tokens.end(),
        [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    return std::move(config_);
  }

 protected:
  absl::StatusOr<Take> Begin(bool is_object) override {
    switch (place_) {
      case Place::kDocument:
        if (!is_object) return absl::DataLossError("expected an object");
        place_ = Place::kTop;
        return Take::kEnter;
      case Place::kTop:
        if (key_ == "added_tokens_decoder") {
          if (!is_object) break;
          place_ = Place::kAddedTokens;
          return Take::kEnter;
        }
        return IsTokenName() ? Take::kTree : Take::kSkip;
      case Place::kAddedTokens:
        if (!is_object) break;
        return Take::kTree;
    }
    return absl::DataLossError(
        "\"added_tokens_decoder\" is malformed; expected objects by id");
  }

  absl::Status Key(absl::string_view key) override {
    if (!seen_[place_ == Place::kTop ? 0 : 1].emplace(key).second) {
      return absl::DataLossError(
          absl::StrCat("duplicate key \"", Printable(key), "\""));
    }
    key_.assign(key.data(), key.size());
    return absl::OkStatus();
  }

  absl::Status Leave() override {
    place_ = place_ == Place::kAddedTokens ? Place::kTop : Place::kDocument;
    return absl::OkStatus();
  }

  absl::Status Value(JsonValue value) override {
    if (place_ == Place::kAddedTokens) return AddToken(value);
    if (place_ == Place::kDocument)
      return absl::DataLossError("expected an object");
    if (!IsTokenName()) return absl::OkStatus();
    LOWMEM_ASSIGN_OR_RETURN(std::optional<std::string> name,
                            ParseTokenName(key_, value));
    (key_ == "bos_token" ? config_.bos_token : config_.eos_token) =
        std::move(name);
    return absl::OkStatus();
  }

 private:
  enum class Place { kDocument, kTop, kAddedTokens };

  bool IsTokenName() const {
    return key_ == "bos_token" || key_ == "eos_token";
  }

  absl::Status AddToken(const JsonValue& entry) {
    const std::optional<uint64_t> id = ParseJsonUint64(key_);
    if (!id.has_value() || *id >= limits::kVocabSize) {
      return absl::DataLossError(
          absl::StrCat("\"added_tokens_decoder\": id is \"", Printable(key_),
                       "\"; expected an integer below ", limits::kVocabSize));
    }
    if (config_.added_tokens.size() == limits::kNumAddedTokens) {
      return absl::DataLossError(
          absl::StrCat("\"added_tokens_decoder\": too many; expected at most ",
                       limits::kNumAddedTokens));
    }
    absl::StatusOr<AddedToken> token = ParseAddedToken(entry);
    if (!token.ok())
      return InContext(token.status(), "\"added_tokens_decoder\"");
    token->id = static_cast<int32_t>(*id);
    config_.added_tokens.push_back(*std::move(token));
    return absl::OkStatus();
  }

  TokenizerConfig config_;
  Place place_ = Place::kDocument;
  std::string key_;
  absl::flat_hash_set<std::string> seen_[2];  // of the top, of the added tokens
};

}  // namespace

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(ByteStream& stream) {
  TokenizerConfigReader reader;
  LOWMEM_RETURN_IF_ERROR(ParseJson(stream, reader));
  return reader.Finish();
}

}  // namespace lowmem
