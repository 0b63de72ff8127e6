// SPDX-License-Identifier: Apache-2.0
// lowmem-run tokenize: JSON lines in, JSON lines out. A bad line gives an error
// line and the next one goes on.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/cli/command.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/cli/text_input.h"
#include "engine/generate/model_footprint.h"
#include "engine/text/tokenizer.h"
#include "storage/base/json.h"
#include "storage/base/json_writer.h"
#include "storage/base/limits.h"
#include "storage/base/memory_account.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/checkpoint.h"
#include "storage/file.h"

namespace lowmem::cli {
namespace {

// As JSON text; longer than any text whose tokens could be used.
constexpr uint64_t kMaxLineBytes = limits::kPromptBytes;

// While a line is parsed: it, and the text of its values, which is there twice
// while it grows.
constexpr uint64_t kLineCopies = 3;

// What is read of stdin at once, and what is written, with room to move.
constexpr uint64_t kBufferBytes = 256 * kKiB;

// A folder that holds a tokenizer is enough: no weights are needed. Adds to
// `charge` what the program and the tokenizer take.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerOf(
    const std::string& model_path, MemoryAccount& account,
    MemoryCharge& charge) {
  LOWMEM_ASSIGN_OR_RETURN(charge,
                          account.Reserve(kProgramBytes + kBufferBytes));
  const auto charge_tokenizer = [&](uint64_t num_bytes) -> absl::Status {
    LOWMEM_ASSIGN_OR_RETURN(MemoryCharge more, account.Reserve(num_bytes));
    charge.Add(std::move(more));
    return absl::OkStatus();
  };
  if (const auto file = OpenFile(absl::StrCat(model_path, "/tokenizer.json"));
      file.ok()) {
    LOWMEM_RETURN_IF_ERROR(charge_tokenizer((*file)->size_bytes()));
    return LoadTokenizerFromFolder(model_path);
  }
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(model_path));
  LOWMEM_RETURN_IF_ERROR(charge_tokenizer(EstimateTokenizerBytes(*checkpoint)));
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

// A value of a line's JSON, and as much twice while a list of them grows.
constexpr uint64_t kBytesPerValue = 3 * sizeof(JsonValue::Member);

// What the values of a line take, but for their text: each stands behind one of
// these.
uint64_t ValueBytes(absl::string_view line) {
  const auto begins_value = [](char c) {
    return c == ',' || c == '[' || c == '{';
  };
  return static_cast<uint64_t>(absl::c_count_if(line, begins_value)) *
         kBytesPerValue;
}

// JSON on its way out; little of it is held.
class AnswerWriter {
 public:
  explicit AnswerWriter(Console& console) : console_(console) {}
  absl::Status Add(absl::string_view json) {
    absl::StrAppend(&text_, json);
    return text_.size() < kBlockBytes ? absl::OkStatus() : Flush();
  }
  // As part of a string.
  absl::Status AddWithinString(absl::string_view piece) {
    const std::string quoted = Quoted(piece);
    return Add(absl::string_view(quoted).substr(1, quoted.size() - 2));
  }
  static std::string Quoted(absl::string_view piece) {
    JsonWriter json;
    json.String(piece);
    return json.TakeText();
  }
  absl::Status Flush() {
    LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
    const absl::Status status = console_.Write(text_);
    text_.clear();
    return status;
  }

 private:
  static constexpr size_t kBlockBytes = 64 * kKiB;
  Console& console_;
  std::string text_;
};

absl::StatusOr<std::vector<int32_t>> EncodeLine(const Tokenizer& tokenizer,
                                                const JsonValue& line,
                                                MemoryAccount& account) {
  const JsonValue* text = line.Find("text");
  if (text == nullptr || !text->is_string()) {
    return absl::InvalidArgumentError("text: expected a string");
  }
  Tokenizer::EncodeOptions options;
  options.cancel = &InterruptedFlag();
  options.account = &account;
  LOWMEM_ASSIGN_OR_RETURN(options.add_special,
                          BoolOf(line, "add_special", true));
  LOWMEM_ASSIGN_OR_RETURN(options.parse_special,
                          BoolOf(line, "parse_special", true));
  return tokenizer.Encode(text->string(), options);
}

absl::Status WriteIds(const std::vector<int32_t>& ids, AnswerWriter& writer) {
  absl::string_view separator = "{\"ids\":[";
  for (const int32_t id : ids) {
    LOWMEM_RETURN_IF_ERROR(writer.Add(absl::StrCat(separator, id)));
    separator = ",";
  }
  if (ids.empty()) LOWMEM_RETURN_IF_ERROR(writer.Add(separator));
  return writer.Add("]}\n");
}

// Calls `on_piece` with what each id adds, and last with the rest.
absl::Status ForEachPiece(
    const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
    bool skip_special,
    absl::FunctionRef<absl::Status(absl::string_view)> on_piece) {
  StreamingDetokenizer stream(tokenizer, skip_special);
  for (const int32_t id : ids) {
    LOWMEM_ASSIGN_OR_RETURN(const std::string piece, stream.Add(id));
    LOWMEM_RETURN_IF_ERROR(on_piece(piece));
  }
  return on_piece(stream.Finish());
}

absl::Status WriteText(const Tokenizer& tokenizer,
                       const std::vector<int32_t>& ids, bool skip_special,
                       AnswerWriter& writer) {
  LOWMEM_RETURN_IF_ERROR(writer.Add("{\"text\":\""));
  LOWMEM_RETURN_IF_ERROR(ForEachPiece(
      tokenizer, ids, skip_special,
      [&](absl::string_view piece) { return writer.AddWithinString(piece); }));
  LOWMEM_RETURN_IF_ERROR(writer.Add("\",\"pieces\":"));
  absl::string_view separator = "[";
  LOWMEM_RETURN_IF_ERROR(
      ForEachPiece(tokenizer, ids, skip_special, [&](absl::string_view piece) {
        const absl::string_view before = std::exchange(separator, ",");
        return writer.Add(absl::StrCat(before, AnswerWriter::Quoted(piece)));
      }));
  return writer.Add("]}\n");
}

std::string ErrorJson(const absl::Status& status) {
  JsonWriter json;
  json.BeginObject().Key("error").String(status.message()).EndObject();
  return absl::StrCat(json.text(), "\n");
}

// Ids in or out, and what of the line is needed to write them.
struct Answer {
  std::vector<int32_t> ids;
  bool skip_special = false;
};

// Takes the line, whose memory is free once it is parsed.
absl::StatusOr<Answer> AnswerTo(const Tokenizer& tokenizer, std::string line,
                                bool decode, MemoryAccount& account) {
  const uint64_t value_bytes = ValueBytes(line);
  const uint64_t text_bytes = line.size();
  // The line and its values' text, which is there twice while it grows.
  LOWMEM_ASSIGN_OR_RETURN(
      MemoryCharge charge,
      account.Reserve(kLineCopies * text_bytes + value_bytes));
  LOWMEM_ASSIGN_OR_RETURN(const JsonValue json, JsonValue::Parse(line));
  std::string().swap(line);  // assigning would keep the memory
  charge = MemoryCharge();
  LOWMEM_ASSIGN_OR_RETURN(charge, account.Reserve(text_bytes + value_bytes));
  if (!json.is_object()) {
    return absl::InvalidArgumentError("expected a JSON object");
  }
  Answer answer;
  if (!decode) {
    LOWMEM_ASSIGN_OR_RETURN(answer.ids, EncodeLine(tokenizer, json, account));
    return answer;
  }
  LOWMEM_ASSIGN_OR_RETURN(answer.ids, IdsOf(json, tokenizer.vocab_size()));
  LOWMEM_ASSIGN_OR_RETURN(answer.skip_special,
                          BoolOf(json, "skip_special", false));
  return answer;
}

absl::Status WriteAnswer(const Tokenizer& tokenizer,
                         const absl::StatusOr<Answer>& answer, bool decode,
                         AnswerWriter& writer) {
  LOWMEM_RETURN_IF_ERROR(
      !answer.ok() ? writer.Add(ErrorJson(answer.status()))
      : decode ? WriteText(tokenizer, answer->ids, answer->skip_special, writer)
               : WriteIds(answer->ids, writer));
  return writer.Flush();
}

absl::Status LineTooLong(uint64_t max_line_bytes) {
  return absl::InvalidArgumentError(absl::StrCat(
      "line too long",
      max_line_bytes < kMaxLineBytes ? " for the memory budget" : "",
      "; expected at most ", max_line_bytes, " bytes"));
}

}  // namespace

absl::Status RunTokenize(const Flags& flags, Console& console) {
  const std::optional<uint64_t>& budget = flags.global.ram_budget_bytes;
  MemoryAccount account("memory budget",
                        budget.value_or(MemoryAccount::kUnlimited), nullptr);
  MemoryAccount tokenizer_account("program and tokenizer",
                                  MemoryAccount::kUnlimited, &account);
  MemoryAccount text_account("text", MemoryAccount::kUnlimited, &account);
  MemoryCharge charge;
  LOWMEM_ASSIGN_OR_RETURN(
      const std::unique_ptr<Tokenizer> tokenizer,
      LoadTokenizerOf(flags.global.model_path, tokenizer_account, charge));
  const uint64_t max_line_bytes =
      std::min(kMaxLineBytes,
               (account.limit_bytes() - account.used_bytes()) / kLineCopies);
  LineReader lines(max_line_bytes);
  AnswerWriter writer(console);
  const bool decode = flags.tokenize.decode;
  for (;;) {
    std::string line;
    LOWMEM_ASSIGN_OR_RETURN(const LineReader::Result read, lines.Next(&line));
    if (read == LineReader::Result::kEnd) break;
    const absl::StatusOr<Answer> answer =
        read == LineReader::Result::kTooLong
            ? LineTooLong(max_line_bytes)
            : AnswerTo(*tokenizer, std::move(line), decode, text_account);
    LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
    LOWMEM_RETURN_IF_ERROR(WriteAnswer(*tokenizer, answer, decode, writer));
  }
  if (flags.global.stats) console.Note(StatsText(ProcessMeter(), ""));
  return absl::OkStatus();
}

}  // namespace lowmem::cli
