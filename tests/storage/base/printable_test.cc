// SPDX-License-Identifier: Apache-2.0
#include "storage/base/printable.h"

#include <string>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

TEST(PrintableTest, OrdinaryTextIsKept) {
  EXPECT_EQ(Printable("model.layers.0.weight"), "model.layers.0.weight");
  EXPECT_EQ(Printable("caf\xC3\xA9 \xE6\x97\xA5 \xF0\x9F\x98\x80"),
            "caf\xC3\xA9 \xE6\x97\xA5 \xF0\x9F\x98\x80");
  EXPECT_EQ(Printable(""), "");
}

TEST(PrintableTest, WhatMovesTheTerminalIsWrittenOut) {
  const struct {
    const char* name;
    std::string text;
    const char* shown;
  } kCases[] = {
      {"Newline", "a\nb", "a\\x0ab"},
      {"Escape", "\x1b[2J", "\\x1b[2J"},
      {"Nul", std::string("a\0b", 3), "a\\x00b"},
      {"Delete", "\x7f", "\\x7f"},
      {"C1Control", "\xC2\x9B", "\\u{009b}"},
      {"LineSeparator", "\xE2\x80\xA8", "\\u{2028}"},
      {"ParagraphSeparator", "\xE2\x80\xA9", "\\u{2029}"},
      {"RightToLeftOverride", "\xE2\x80\xAE", "\\u{202e}"},
      {"Isolate", "\xE2\x81\xA6", "\\u{2066}"},
      {"DirectionMark", "\xE2\x80\x8F", "\\u{200f}"},
      {"StrayByte", "a\xFF", "a\\xff"},
      {"Overlong", "\xC0\xAF", "\\xc0\\xaf"},
      {"Surrogate", "\xED\xA0\x80", "\\xed\\xa0\\x80"},
      {"Truncated", "\xE2\x82", "\\xe2\\x82"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Printable(c.text), c.shown) << c.name;
}

TEST(PrintableTest, CutsAtCodePoints) {
  EXPECT_EQ(Printable("abc", 3), "abc");
  EXPECT_EQ(Printable("abcd", 3), "abc...");
  EXPECT_EQ(Printable("\xC3\xA9\xC3\xA9\xC3\xA9", 2), "\xC3\xA9\xC3\xA9...");
  EXPECT_EQ(Printable("abc", 0), "...");
}

TEST(PrintableTest, DefaultCutBoundsTheMessage) {
  EXPECT_EQ(Printable(std::string(1'000'000, 'x')),
            std::string(limits::kMessageTextChars, 'x') + "...");
}

}  // namespace
}  // namespace lowmem
