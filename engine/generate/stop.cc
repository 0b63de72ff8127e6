// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/stop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

constexpr size_t kMaxStopTexts = 64;
constexpr size_t kMaxStopTextBytes = 4096;

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = DecodeUtf8(text);
    if (!step.ok) return false;
    text.remove_prefix(step.num_bytes);
  }
  return true;
}

}  // namespace

absl::Status ValidateStopTexts(absl::Span<const std::string> stop_texts) {
  if (stop_texts.size() > kMaxStopTexts) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop_texts: too many; expected at most ", kMaxStopTexts,
                     ", got ", stop_texts.size()));
  }
  for (const std::string& text : stop_texts) {
    if (text.empty() || text.size() > kMaxStopTextBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("stop_texts: length out of range; expected 1 to ",
                       kMaxStopTextBytes, " bytes, got ", text.size()));
    }
    // What is printed ends where a stop text begins, so that must be the border
    // of a character.
    if (!IsUtf8(text)) {
      return absl::InvalidArgumentError("stop_texts: is no valid UTF-8");
    }
  }
  return absl::OkStatus();
}

StopTextScanner::StopTextScanner(absl::Span<const std::string> stop_texts) {
  static_assert(kMaxStopTextBytes <= UINT16_MAX);
  patterns_.reserve(stop_texts.size());
  for (const std::string& text : stop_texts) {
    Pattern pattern{text, {}, 0};
    pattern.border.resize(pattern.text.size());
    uint16_t length = 0;
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      while (length > 0 && pattern.text[i] != pattern.text[length]) {
        length = pattern.border[length - 1];
      }
      if (pattern.text[i] == pattern.text[length]) ++length;
      pattern.border[i] = length;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::string StopTextScanner::Add(absl::string_view piece) {
  for (char byte : piece) {
    held_.push_back(byte);
    size_t num_complete = 0;
    for (Pattern& pattern : patterns_) {
      size_t& num_matched = pattern.num_matched;
      while (num_matched > 0 && pattern.text[num_matched] != byte) {
        num_matched = pattern.border[num_matched - 1];
      }
      if (pattern.text[num_matched] == byte) ++num_matched;
      if (num_matched == pattern.text.size()) {
        num_complete = std::max(num_complete, num_matched);
        num_matched = 0;
      }
    }
    if (num_complete > 0) {
      stopped_ = true;
      held_.resize(held_.size() - num_complete);
      return std::exchange(held_, std::string());
    }
  }
  size_t num_held = 0;
  for (const Pattern& pattern : patterns_) {
    num_held = std::max(num_held, pattern.num_matched);
  }
  std::string released = held_.substr(0, held_.size() - num_held);
  held_.erase(0, released.size());
  return released;
}

std::string StopTextScanner::Finish() {
  return std::exchange(held_, std::string());
}

}  // namespace lowmem
