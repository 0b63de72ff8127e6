// SPDX-License-Identifier: Apache-2.0
// lowmem-run tokenize: JSON lines in, JSON lines out. A bad line gives an error
// line and the next one goes on.
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/cli/command.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/cli/text_input.h"
#include "engine/text/tokenizer.h"
#include "storage/base/json.h"
#include "storage/base/json_writer.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/checkpoint.h"
#include "storage/file.h"

namespace lowmem::cli {
namespace {

// As JSON text; longer than any text whose tokens could be used.
constexpr uint64_t kMaxLineBytes = limits::kPromptBytes;

// A folder that holds a tokenizer is enough: no weights are needed.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerOf(
    const std::string& model_path) {
  if (OpenFile(absl::StrCat(model_path, "/tokenizer.json")).ok()) {
    return LoadTokenizerFromFolder(model_path);
  }
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(model_path));
  return LoadTokenizer(*checkpoint);
}

// `fallback` where the key is absent.
absl::StatusOr<bool> BoolOf(const JsonValue& line, absl::string_view key,
                            bool fallback) {
  const JsonValue* value = line.Find(key);
  if (value == nullptr) return fallback;
  const std::optional<bool> flag = value->AsBool();
  if (!flag.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": expected a boolean"));
  }
  return *flag;
}

absl::StatusOr<std::vector<int32_t>> IdsOf(const JsonValue& line,
                                           uint32_t vocab_size) {
  const JsonValue* value = line.Find("ids");
  if (value == nullptr || !value->is_array()) {
    return absl::InvalidArgumentError("ids: expected a list of token ids");
  }
  std::vector<int32_t> ids;
  ids.reserve(value->items().size());
  for (const JsonValue& item : value->items()) {
    const std::optional<uint64_t> id = item.AsUint64();
    if (!id.has_value() || *id >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ids: expected integers from 0 to ", vocab_size - 1, ", got ",
          item.is_number() ? Printable(item.number_text()) : "another kind",
          " at index ", ids.size()));
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

absl::Status AppendEncoded(const Tokenizer& tokenizer, const JsonValue& line,
                           JsonWriter& json) {
  const JsonValue* text = line.Find("text");
  if (text == nullptr || !text->is_string()) {
    return absl::InvalidArgumentError("text: expected a string");
  }
  Tokenizer::EncodeOptions options;
  options.cancel = &InterruptedFlag();
  LOWMEM_ASSIGN_OR_RETURN(options.add_special,
                          BoolOf(line, "add_special", true));
  LOWMEM_ASSIGN_OR_RETURN(options.parse_special,
                          BoolOf(line, "parse_special", true));
  LOWMEM_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          tokenizer.Encode(text->string(), options));
  json.Key("ids").BeginArray();
  for (const int32_t id : ids) json.Int(id);
  json.EndArray();
  return absl::OkStatus();
}

absl::Status AppendDecoded(const Tokenizer& tokenizer, const JsonValue& line,
                           JsonWriter& json) {
  LOWMEM_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          IdsOf(line, tokenizer.vocab_size()));
  LOWMEM_ASSIGN_OR_RETURN(const bool skip_special,
                          BoolOf(line, "skip_special", false));
  LOWMEM_ASSIGN_OR_RETURN(const std::string text,
                          tokenizer.Decode(ids, skip_special));
  StreamingDetokenizer stream(tokenizer, skip_special);
  std::vector<std::string> pieces;
  for (const int32_t id : ids) {
    LOWMEM_ASSIGN_OR_RETURN(std::string piece, stream.Add(id));
    pieces.push_back(std::move(piece));
  }
  pieces.push_back(stream.Finish());
  json.Key("text").String(text).Key("pieces").BeginArray();
  for (const std::string& piece : pieces) json.String(piece);
  json.EndArray();
  return absl::OkStatus();
}

std::string ErrorJson(const absl::Status& status) {
  JsonWriter json;
  json.BeginObject().Key("error").String(status.message()).EndObject();
  return absl::StrCat(json.text(), "\n");
}

std::string Answer(const Tokenizer& tokenizer, absl::string_view text,
                   bool decode) {
  const absl::StatusOr<JsonValue> line = JsonValue::Parse(text);
  if (!line.ok()) return ErrorJson(line.status());
  if (!line->is_object()) {
    return ErrorJson(absl::InvalidArgumentError("expected a JSON object"));
  }
  JsonWriter json;
  json.BeginObject();
  const absl::Status status = decode ? AppendDecoded(tokenizer, *line, json)
                                     : AppendEncoded(tokenizer, *line, json);
  if (!status.ok()) return ErrorJson(status);
  json.EndObject();
  return absl::StrCat(json.text(), "\n");
}

}  // namespace

absl::Status RunTokenize(const Flags& flags, Console& console) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                          LoadTokenizerOf(flags.global.model_path));
  LineReader lines(kMaxLineBytes);
  std::string line;
  for (;;) {
    LOWMEM_ASSIGN_OR_RETURN(const LineReader::Result read, lines.Next(&line));
    if (read == LineReader::Result::kEnd) break;
    const std::string answer =
        read == LineReader::Result::kTooLong
            ? ErrorJson(absl::InvalidArgumentError(absl::StrCat(
                  "line too long; expected at most ", kMaxLineBytes, " bytes")))
            : Answer(*tokenizer, line, flags.tokenize.decode);
    LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
    LOWMEM_RETURN_IF_ERROR(console.Write(answer));
  }
  if (flags.global.stats) console.Note(StatsText(ProcessMeter(), ""));
  return absl::OkStatus();
}

}  // namespace lowmem::cli
