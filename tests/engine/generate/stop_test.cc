// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/stop.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;

struct Scan {
  std::vector<std::string> released;  // a piece each, then what Finish gave
  bool stopped = false;

  std::string text() const {
    std::string joined;
    for (const std::string& piece : released) joined += piece;
    return joined;
  }
};

Scan ScanPieces(const std::vector<std::string>& stop_texts,
                const std::vector<std::string>& pieces) {
  StopTextScanner scanner(stop_texts);
  Scan scan;
  for (const std::string& piece : pieces) {
    if (scanner.stopped()) break;
    scan.released.push_back(scanner.Add(piece));
  }
  scan.released.push_back(scanner.Finish());
  scan.stopped = scanner.stopped();
  return scan;
}

TEST(StopTextScannerTest, TextIsTheSameHoweverItIsCut) {
  struct Case {
    const char* name;
    std::vector<std::string> stop_texts;
    std::string text;
    std::string printed;
    bool stopped;
  };
  const Case cases[] = {
      {"no stop text", {}, "any text", "any text", false},
      {"absent", {"END"}, "no eNd, no EN D", "no eNd, no EN D", false},
      {"in the middle", {"END"}, "one END two", "one ", true},
      {"at the very start", {"END"}, "END", "", true},
      {"unfinished at the end", {"END"}, "one EN", "one EN", false},
      {"false start before the real one", {"aab"}, "aaab rest", "a", true},
      {"start overlaps itself", {"abab"}, "abaabab", "aba", true},
      {"first complete wins", {"three", "two"}, "one two three", "one ", true},
      {"longest of those complete together", {"c", "abc"}, "xabc", "x", true},
      {"one is a prefix of the other", {"ab", "abc"}, "xabc", "x", true},
      {"newlines", {"\n\n"}, "a\nb\n\nc", "a\nb", true},
      {"several bytes a character",
       {"\u00e9t\u00e9"},
       "un \u00e9t\u00e9.",
       "un ",
       true},
      {"held character is released",
       {"\u00e9t\u00e9"},
       "caf\u00e9 noir",
       "caf\u00e9 noir",
       false},
      {"NUL byte",
       {std::string("\0x", 2)},
       std::string("a\0\0x", 4),
       std::string("a\0", 2),
       true},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    for (size_t piece_bytes :
         {size_t{1}, size_t{2}, size_t{3}, test.text.size()}) {
      std::vector<std::string> pieces;
      for (size_t i = 0; i < test.text.size(); i += piece_bytes) {
        pieces.push_back(test.text.substr(i, piece_bytes));
      }
      const Scan scan = ScanPieces(test.stop_texts, pieces);
      EXPECT_EQ(scan.text(), test.printed) << piece_bytes;
      EXPECT_EQ(scan.stopped, test.stopped) << piece_bytes;
    }
  }
}

TEST(StopTextScannerTest, HoldsBackNoMoreThanWhatMayBecomeAStopText) {
  const Scan scan = ScanPieces({"<end>"}, {"ab<", "e", "x", "<en"});
  EXPECT_THAT(scan.released,
              ::testing::ElementsAre("ab", "", "<ex", "", "<en"));
}

TEST(StopTextScannerTest, WhatFollowsAStopTextIsDropped) {
  const Scan scan = ScanPieces({"."}, {"one. two"});
  EXPECT_THAT(scan.released, ::testing::ElementsAre("one", ""));
}

// A scan that went back over held text for each byte would take minutes here.
TEST(StopTextScannerTest, LongStopTextsAndRunsAreLinear) {
  const std::string stop = std::string(4095, 'a') + "b";
  const std::vector<std::string> stop_texts = {stop};
  StopTextScanner scanner(stop_texts);
  std::string printed;
  for (int i = 0; i < 200; ++i) printed += scanner.Add(std::string(4096, 'a'));
  printed += scanner.Finish();
  EXPECT_EQ(printed.size(), 200u * 4096);
}

TEST(StopTextsTest, ListsOutOfRangeAreRefused) {
  struct Case {
    std::vector<std::string> stop_texts;
    const char* message;
  };
  const Case cases[] = {
      {{""}, "length out of range"},
      {{std::string(4097, 'x')}, "length out of range"},
      {std::vector<std::string>(65, "x"), "too many"},
      {{"\xa9 begins inside a character"}, "no valid UTF-8"},
      {{"ends inside one \xc3"}, "no valid UTF-8"},
  };
  for (const Case& test : cases) {
    EXPECT_THAT(ValidateStopTexts(test.stop_texts),
                Fails(absl::StatusCode::kInvalidArgument, test.message));
  }
  EXPECT_THAT(ValidateStopTexts(std::vector<std::string>(64, "x")), IsOk());
  EXPECT_THAT(ValidateStopTexts({std::string(4096, 'x')}), IsOk());
}

}  // namespace
}  // namespace lowmem
