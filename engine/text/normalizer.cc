// SPDX-License-Identifier: Apache-2.0
#include "engine/text/normalizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/json_settings.h"
#include "engine/text/text_pattern.h"
#include "engine/text/unicode_form.h"
#include "engine/text/utf8_text.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

constexpr size_t kMaxGrowth = 4;
constexpr size_t kMaxExtraBytes = 1024;
// Of the room for a text that a step makes longer than expected.
constexpr size_t kGrowthFactor = 2;

absl::Status CheckGrowth(size_t from_bytes, size_t to_bytes) {
  if (to_bytes <= kMaxGrowth * from_bytes + kMaxExtraBytes) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("normalizer makes the text too long; expected at most ",
                   kMaxGrowth, " times its length, got more than ", to_bytes,
                   " bytes from ", from_bytes));
}

class FormStep : public NormalizerStep {
 public:
  explicit FormStep(UnicodeForm form) : form_(form) {}
  absl::Status Append(absl::string_view text, RegexScratch& scratch,
                      std::string& out) const override {
    LOWMEM_ASSIGN_OR_RETURN(
        const MemoryCharge charge,
        MemoryAccount::ReserveIn(scratch.account(),
                                 WorkBytesOfForm(text, form_)));
    AppendInForm(text, form_, out);
    return absl::OkStatus();
  }

 private:
  const UnicodeForm form_;
};

class LowercaseStep : public NormalizerStep {
 public:
  absl::Status Append(absl::string_view text, RegexScratch&,
                      std::string& out) const override {
    AppendLowerCase(text, out);
    return absl::OkStatus();
  }
};

class StripStep : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  absl::Status Append(absl::string_view text, RegexScratch&,
                      std::string& out) const override {
    while (left_ && !text.empty()) {
      const Utf8Step step = DecodeUtf8(text);
      if (!IsWhiteSpace(step.code_point)) break;
      text.remove_prefix(step.num_bytes);
    }
    while (right_ && !text.empty()) {
      const char32_t last = CodePointBefore(text, text.size());
      if (!IsWhiteSpace(last)) break;
      std::string encoded;
      AppendUtf8(last, encoded);
      text.remove_suffix(encoded.size());
    }
    absl::StrAppend(&out, text);
    return absl::OkStatus();
  }

 private:
  const bool left_;
  const bool right_;
};

// Before a text that is not empty.
class PrependStep : public NormalizerStep {
 public:
  explicit PrependStep(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Append(absl::string_view text, RegexScratch&,
                      std::string& out) const override {
    if (!text.empty()) absl::StrAppend(&out, prefix_, text);
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
};

class ReplaceStep : public NormalizerStep {
 public:
  ReplaceStep(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Append(absl::string_view text, RegexScratch& scratch,
                      std::string& out) const override {
    MemoryCharge growth;
    return pattern_.Cut(
        text, scratch, [&](const MatchedPart& part) -> absl::Status {
          const absl::string_view added =
              part.is_match ? absl::string_view(content_)
                            : text.substr(part.range.begin,
                                          part.range.end - part.range.begin);
          const size_t num_bytes = out.size() + added.size();
          LOWMEM_RETURN_IF_ERROR(CheckGrowth(text.size(), num_bytes));
          if (num_bytes > out.capacity()) {
            // While it moves both are there.
            LOWMEM_ASSIGN_OR_RETURN(
                growth, MemoryAccount::ReserveIn(scratch.account(),
                                                 kGrowthFactor * num_bytes));
            out.reserve(kGrowthFactor * num_bytes);
          }
          absl::StrAppend(&out, added);
          return absl::OkStatus();
        });
  }

 private:
  const TextPattern pattern_;
  const std::string content_;
};

absl::StatusOr<std::unique_ptr<const NormalizerStep>> MakeStep(
    absl::string_view type, const JsonValue& spec) {
  if (type == "NFC") return std::make_unique<FormStep>(UnicodeForm::kNfc);
  if (type == "NFD") return std::make_unique<FormStep>(UnicodeForm::kNfd);
  if (type == "NFKC") return std::make_unique<FormStep>(UnicodeForm::kNfkc);
  if (type == "NFKD") return std::make_unique<FormStep>(UnicodeForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseStep>();
  if (type == "Strip") {
    LOWMEM_ASSIGN_OR_RETURN(const bool left, GetBool(spec, "strip_left"));
    LOWMEM_ASSIGN_OR_RETURN(const bool right, GetBool(spec, "strip_right"));
    return std::make_unique<StripStep>(left, right);
  }
  if (type == "Prepend") {
    LOWMEM_ASSIGN_OR_RETURN(std::string prefix, GetString(spec, "prepend"));
    return std::make_unique<PrependStep>(std::move(prefix));
  }
  if (type == "Replace") {
    const JsonValue* pattern_spec = spec.Find("pattern");
    if (pattern_spec == nullptr) {
      return absl::DataLossError("\"pattern\" is missing");
    }
    LOWMEM_ASSIGN_OR_RETURN(TextPattern pattern,
                            TextPattern::FromJson(*pattern_spec));
    LOWMEM_ASSIGN_OR_RETURN(std::string content, GetString(spec, "content"));
    return std::make_unique<ReplaceStep>(std::move(pattern),
                                         std::move(content));
  }
  return absl::UnimplementedError(
      absl::StrCat("\"", Printable(type), "\" is not supported"));
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const JsonValue& spec) {
  Normalizer normalizer;
  const absl::Status status = normalizer.AddSteps(spec);
  if (!status.ok()) return InContext(status, "normalizer");
  return normalizer;
}

absl::Status Normalizer::AddSteps(const JsonValue& spec) {
  if (spec.is_null()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(const absl::string_view type, TypeOf(spec));
  if (type == "Sequence") {
    const JsonValue* list = spec.Find("normalizers");
    if (list == nullptr || !list->is_array()) {
      return absl::DataLossError("\"normalizers\" is missing; expected a list");
    }
    // Nesting is bounded by limits::kJsonDepth.
    for (const JsonValue& step : list->items()) {
      LOWMEM_RETURN_IF_ERROR(AddSteps(step));
    }
    return absl::OkStatus();
  }
  LOWMEM_ASSIGN_OR_RETURN(auto step, MakeStep(type, spec));
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::StatusOr<NormalizedText> Normalizer::Normalize(
    absl::string_view text, RegexScratch& scratch) const {
  NormalizedText current;
  if (is_identity()) current.text = std::string(text);
  absl::string_view from = text;
  for (const auto& step : steps_) {
    NormalizedText next;
    LOWMEM_ASSIGN_OR_RETURN(
        next.charge, MemoryAccount::ReserveIn(scratch.account(), from.size()));
    next.text.reserve(from.size());
    LOWMEM_RETURN_IF_ERROR(step->Append(from, scratch, next.text));
    LOWMEM_RETURN_IF_ERROR(CheckGrowth(text.size(), next.text.size()));
    if (next.text.size() > next.charge.num_bytes()) {
      LOWMEM_ASSIGN_OR_RETURN(
          MemoryCharge more,
          MemoryAccount::ReserveIn(scratch.account(),
                                   next.text.size() - from.size()));
      next.charge.Add(std::move(more));
    }
    current = std::move(next);
    from = current.text;
  }
  return current;
}

}  // namespace lowmem
