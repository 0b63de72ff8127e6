// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer_json.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/text/added_token_json.h"
#include "engine/text/early_merges.h"
#include "engine/text/json_settings.h"
#include "engine/text/json_subset_reader.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

class TokenizerJsonReader : public JsonSubsetReader {
 public:
  // After the document has ended.
  absl::StatusOr<TokenizerParts> Finish();

 protected:
  absl::StatusOr<Take> Begin(bool is_object) override;
  absl::Status Key(absl::string_view key) override;
  absl::Status Leave() override;
  absl::Status Value(JsonValue value) override;
  absl::Status Text(absl::string_view value) override;
  absl::Status Number(absl::string_view text) override;

 private:
  // The object or array that was entered last.
  enum class Place {
    kDocument,
    kTop,
    kAddedTokens,
    kModel,
    kVocab,
    kMerges,
    kPair
  };

  absl::StatusOr<Take> BeginInTop(bool is_object);
  absl::StatusOr<Take> BeginInModel(bool is_object);
  JsonValue* TopSetting();
  absl::Status AddAddedToken(const JsonValue& entry);
  absl::Status AddPair(absl::string_view left, absl::string_view right);
  absl::Status AddLine(absl::string_view line);

  TokenizerParts parts_;
  std::vector<AddedToken> added_tokens_;
  std::vector<JsonValue::Member> model_;
  EarlyMerges early_merges_;
  Place place_ = Place::kDocument;
  std::string key_;
  std::vector<std::string> seen_in_top_;
  std::vector<std::string> seen_in_model_;
  bool has_vocab_ = false;        // a BPE vocabulary, complete
  bool has_other_vocab_ = false;  // a list, as Unigram has it
  bool merges_are_pairs_ = false;
  size_t num_merges_ = 0;
  std::vector<std::string> pair_;
};

absl::Status Malformed(absl::string_view what, absl::string_view expected) {
  return absl::DataLossError(
      absl::StrCat(what, ": is of another kind; expected ", expected));
}

absl::Status NoteKey(std::vector<std::string>& seen, absl::string_view key) {
  // Far more than the format has; the search below is quadratic.
  constexpr size_t kMaxKeys = 256;
  for (const std::string& known : seen) {
    if (known == key) {
      return absl::DataLossError(
          absl::StrCat("duplicate key \"", Printable(key), "\""));
    }
  }
  if (seen.size() == kMaxKeys) {
    return absl::DataLossError(
        absl::StrCat("too many keys; expected at most ", kMaxKeys));
  }
  seen.emplace_back(key);
  return absl::OkStatus();
}

absl::StatusOr<JsonSubsetReader::Take> TokenizerJsonReader::Begin(
    bool is_object) {
  switch (place_) {
    case Place::kDocument:
      if (!is_object) return Malformed("document", "an object");
      place_ = Place::kTop;
      return Take::kEnter;
    case Place::kTop:
      return BeginInTop(is_object);
    case Place::kModel:
      return BeginInModel(is_object);
    case Place::kAddedTokens:
      if (!is_object) return Malformed("added_tokens", "a list of objects");
      return Take::kTree;
    case Place::kMerges:
      if (is_object || (num_merges_ > 0 && !merges_are_pairs_)) break;
      merges_are_pairs_ = true;
      place_ = Place::kPair;
      return Take::kEnter;
    case Place::kVocab:
      return Malformed("model.vocab", "integers");
    case Place::kPair:
      break;
  }
  return Malformed("model.merges", "strings, or pairs of strings");
}

absl::StatusOr<JsonSubsetReader::Take> TokenizerJsonReader::BeginInTop(
    bool is_object) {
  if (key_ == "model") {
    if (!is_object) return Malformed("model", "an object");
    place_ = Place::kModel;
    return Take::kEnter;
  }
  if (key_ == "added_tokens") {
    if (is_object) return Malformed("added_tokens", "a list");
    place_ = Place::kAddedTokens;
    return Take::kEnter;
  }
  return TopSetting() == nullptr ? Take::kSkip : Take::kTree;
}

absl::StatusOr<JsonSubsetReader::Take> TokenizerJsonReader::BeginInModel(
    bool is_object) {
  if (key_ == "vocab") {
    if (!is_object) {
      has_other_vocab_ = true;
      return Take::kSkip;
    }
    place_ = Place::kVocab;
    return Take::kEnter;
  }
  if (key_ == "merges") {
    if (is_object) return Malformed("model.merges", "a list");
    place_ = Place::kMerges;
    return Take::kEnter;
  }
  return Take::kTree;
}

JsonValue* TokenizerJsonReader::TopSetting() {
  if (key_ == "normalizer") return &parts_.normalizer;
  if (key_ == "pre_tokenizer") return &parts_.pre_tokenizer;
  if (key_ == "post_processor") return &parts_.post_processor;
  if (key_ == "decoder") return &parts_.decoder;
  return nullptr;
}

absl::Status TokenizerJsonReader::Key(absl::string_view key) {
  if (place_ == Place::kTop) LOWMEM_RETURN_IF_ERROR(NoteKey(seen_in_top_, key));
  if (place_ == Place::kModel) {
    LOWMEM_RETURN_IF_ERROR(NoteKey(seen_in_model_, key));
  }
  key_.assign(key.data(), key.size());
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::Leave() {
  switch (place_) {
    case Place::kDocument:
    case Place::kTop:
      place_ = Place::kDocument;
      break;
    case Place::kAddedTokens:
    case Place::kModel:
      place_ = Place::kTop;
      break;
    case Place::kVocab:
      LOWMEM_RETURN_IF_ERROR(
          InContext(parts_.vocabulary.Finish(), "model.vocab"));
      has_vocab_ = true;
      place_ = Place::kModel;
      break;
    case Place::kMerges:
      place_ = Place::kModel;
      break;
    case Place::kPair:
      if (pair_.size() != 2)
        return Malformed("model.merges", "pairs of strings");
      LOWMEM_RETURN_IF_ERROR(AddPair(pair_[0], pair_[1]));
      pair_.clear();
      place_ = Place::kMerges;
      break;
  }
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::Value(JsonValue value) {
  switch (place_) {
    case Place::kDocument:
      return Malformed("document", "an object");
    case Place::kTop:
      if (JsonValue* setting = TopSetting()) *setting = std::move(value);
      // null is what an absent list is.
      if ((key_ == "model" || key_ == "added_tokens") && !value.is_null()) {
        return Malformed(key_, key_ == "model" ? "an object" : "a list");
      }
      return absl::OkStatus();
    case Place::kAddedTokens:
      return InContext(AddAddedToken(value), "added_tokens");
    case Place::kModel:
      if (key_ == "vocab" || key_ == "merges") {
        return Malformed(absl::StrCat("model.", key_), "an object or a list");
      }
      model_.emplace_back(key_, std::move(value));
      return absl::OkStatus();
    case Place::kVocab:
      return Malformed("model.vocab", "integers");
    case Place::kMerges:
    case Place::kPair:
      break;
  }
  return Malformed("model.merges", "strings, or pairs of strings");
}

absl::Status TokenizerJsonReader::Text(absl::string_view value) {
  if (place_ == Place::kMerges) return AddLine(value);
  if (place_ == Place::kPair) {
    if (pair_.size() == 2) return Malformed("model.merges", "pairs of strings");
    pair_.emplace_back(value);
    return absl::OkStatus();
  }
  return Value(JsonValue::String(std::string(value)));
}

absl::Status TokenizerJsonReader::Number(absl::string_view text) {
  if (place_ != Place::kVocab)
    return Value(JsonValue::Number(std::string(text)));
  const std::optional<uint64_t> id = ParseJsonUint64(text);
  if (!id.has_value()) {
    return absl::DataLossError(absl::StrCat("model.vocab: \"", Printable(key_),
                                            "\": id is ", Printable(text),
                                            "; expected an integer from 0 on"));
  }
  return InContext(parts_.vocabulary.Add(key_, *id), "model.vocab");
}

absl::Status TokenizerJsonReader::AddAddedToken(const JsonValue& entry) {
  if (added_tokens_.size() == limits::kNumAddedTokens) {
    return absl::DataLossError(
        absl::StrCat("too many; expected at most ", limits::kNumAddedTokens));
  }
  LOWMEM_ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(entry));
  const JsonValue* id_value = entry.Find("id");
  const std::optional<uint64_t> id =
      id_value == nullptr ? std::nullopt : id_value->AsUint64();
  if (!id.has_value() || *id >= limits::kVocabSize) {
    return absl::DataLossError(absl::StrCat(
        "\"", Printable(token.content),
        "\": id is missing or out of range; expected an integer below ",
        limits::kVocabSize));
  }
  token.id = static_cast<int32_t>(*id);
  added_tokens_.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status TokenizerJsonReader::AddLine(absl::string_view line) {
  if (merges_are_pairs_) return Malformed("model.merges", "pairs of strings");
  // A line of merges.txt that found its way into published files.
  if (absl::StartsWith(line, "#version")) return absl::OkStatus();
  const auto pieces = SplitMergeLine(line);
  if (!pieces.ok()) return InContext(pieces.status(), "model.merges");
  return AddPair(pieces->first, pieces->second);
}

absl::Status TokenizerJsonReader::AddPair(absl::string_view left,
                                          absl::string_view right) {
  if (++num_merges_ >= limits::kNumMerges) {
    return absl::DataLossError(absl::StrCat(
        "model.merges: too many; expected fewer than ", limits::kNumMerges));
  }
  if (!has_vocab_) {
    early_merges_.Add(left, right);
    return absl::OkStatus();
  }
  return InContext(AddMerge(parts_.vocabulary, left, right, parts_.merges),
                   "model.merges");
}

absl::StatusOr<TokenizerParts> TokenizerJsonReader::Finish() {
  parts_.model = JsonValue::Object(std::move(model_));
  LOWMEM_ASSIGN_OR_RETURN(const std::string type,
                          GetString(parts_.model, "type", "BPE"));
  if (type != "BPE") {
    return absl::UnimplementedError(
        absl::StrCat("model: type \"", Printable(type), "\" is not supported"));
  }
  if (has_other_vocab_) return Malformed("model.vocab", "an object");
  if (!has_vocab_) return absl::DataLossError("model.vocab: is missing");
  LOWMEM_RETURN_IF_ERROR(InContext(
      early_merges_.MoveTo(parts_.vocabulary, parts_.merges), "model.merges"));
  parts_.merges.Finish();
  LOWMEM_RETURN_IF_ERROR(
      InContext(AddTokens(std::move(added_tokens_), parts_.vocabulary,
                          parts_.added_tokens),
                "added_tokens"));
  return std::move(parts_);
}

}  // namespace

absl::StatusOr<TokenizerParts> ReadTokenizerJson(ByteStream& stream) {
  TokenizerJsonReader reader;
  LOWMEM_RETURN_IF_ERROR(ParseJson(stream, reader));
  return reader.Finish();
}

}  // namespace lowmem
