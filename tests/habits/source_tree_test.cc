// SPDX-License-Identifier: Apache-2.0
#include "tests/habits/source_tree.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lowmem::habits {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SourceTreeTest, FindsTheProject) {
  const std::vector<SourceFile> files = ReadProductSources();
  EXPECT_GT(files.size(), 50u);
  bool found = false;
  for (const SourceFile& file : files) {
    found |= file.path == "storage/base/json_sax.cc" &&
             file.text.find("ParseJson") != std::string::npos;
  }
  EXPECT_TRUE(found);
  for (const SourceFile& file : ReadLibrarySources()) {
    EXPECT_THAT(file.path, Not(HasSubstr("engine/cli/")));
  }
}

TEST(CodeOnlyTest, BlanksCommentsAndLiterals) {
  EXPECT_EQ(CodeOnly("a // throw\nb"), "a         \nb");
  EXPECT_EQ(CodeOnly("a /* x\ny */ b"), "a     \n     b");
  EXPECT_EQ(CodeOnly("f(\"throw\", 't')"), "f(\"     \", ' ')");
  EXPECT_EQ(CodeOnly("f(\"a\\\"b\") + g"), "f(\"    \") + g");
  EXPECT_EQ(CodeOnly("f(\"// no comment\"); g"), "f(\"             \"); g");
  EXPECT_EQ(CodeOnly("R\"x(a\"b)x\" c"), "R\"       \" c");
  EXPECT_EQ(CodeOnly("1'000 + throw_it"), "1'000 + throw_it");
  EXPECT_EQ(CodeOnly("'\\'' + x"), "'  ' + x");
}

TEST(IncludesOfTest, BothFormsWithTheirLines) {
  const std::vector<Include> includes = IncludesOf(
      {"a.cc",
       "// #include \"not.h\"\n#include <vector>\n\n"
       "#  include \"skipped.h\"\n#include \"storage/file.h\"  // x\n"});
  ASSERT_EQ(includes.size(), 2u);
  EXPECT_EQ(includes[0].path, "vector");
  EXPECT_EQ(includes[0].line, 2);
  EXPECT_FALSE(includes[0].is_quoted);
  EXPECT_EQ(includes[1].path, "storage/file.h");
  EXPECT_EQ(includes[1].line, 5);
  EXPECT_TRUE(includes[1].is_quoted);
}

TEST(IdentifiersOfTest, WhatSurroundsAName) {
  const std::vector<Identifier> identifiers =
      IdentifiersOf("std::abort();\nx.exit (1e3f) + y->z");
  ASSERT_EQ(identifiers.size(), 6u);
  EXPECT_EQ(identifiers[1].name, "abort");
  EXPECT_EQ(identifiers[1].scope, "std");
  EXPECT_TRUE(identifiers[1].is_called);
  EXPECT_EQ(identifiers[3].name, "exit");
  EXPECT_EQ(identifiers[3].line, 2);
  EXPECT_TRUE(identifiers[3].is_called);
  EXPECT_TRUE(identifiers[3].is_member);
  EXPECT_EQ(identifiers[3].scope, "");
  EXPECT_EQ(identifiers[5].name, "z");
  EXPECT_TRUE(identifiers[5].is_member);
}

}  // namespace
}  // namespace lowmem::habits
