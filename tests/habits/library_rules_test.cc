// SPDX-License-Identifier: Apache-2.0
// What the library never does: print, end the process, throw, read the
// environment, depend on the locale, or call the mathematics library where
// results must be the same on every target.

#include <algorithm>
#include <initializer_list>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/habits/source_tree.h"

namespace lowmem::habits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::initializer_list<absl::string_view>;

bool IsOneOf(absl::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Complains about every identifier that `is_forbidden` says yes to.
template <typename Predicate>
Complaints FindIdentifiers(const std::vector<SourceFile>& files,
                           Predicate is_forbidden, absl::string_view why) {
  Complaints complaints;
  for (const SourceFile& file : files) {
    for (const Identifier& id : IdentifiersOf(CodeOnly(file.text))) {
      if (!is_forbidden(id)) continue;
      complaints.push_back(
          absl::StrCat(file.path, ":", id.line, ": ", id.name, ": ", why));
    }
  }
  return complaints;
}

// A call of a function of the C or C++ library, not of a member of that name.
bool CallsOneOf(const Identifier& id, Names names) {
  return id.is_called && IsOneOf(id.name, names) && !id.is_member &&
         IsOneOf(id.scope, {"", "std", "absl"});
}

Complaints CheckPrints(const std::vector<SourceFile>& files) {
  return FindIdentifiers(
      files,
      [](const Identifier& id) {
        return CallsOneOf(id, {"printf", "fprintf", "vprintf", "vfprintf",
                               "dprintf", "puts", "fputs", "putchar", "fputc",
                               "putc", "perror", "PrintF", "FPrintF"}) ||
               IsOneOf(id.name, {"cout", "cerr", "clog", "stdout", "stderr"});
      },
      "the library prints nothing");
}

Complaints CheckEndsTheProcess(const std::vector<SourceFile>& files) {
  return FindIdentifiers(
      files,
      [](const Identifier& id) {
        return CallsOneOf(id, {"abort", "exit", "_exit", "_Exit", "quick_exit",
                               "terminate", "assert", "__builtin_trap"}) ||
               IsOneOf(id.name, {"HWY_ASSERT", "HWY_ABORT", "HWY_CHECK",
                                 "ABSL_ASSERT", "ABSL_HARDENING_ASSERT",
                                 "ABSL_RAW_CHECK", "ABSL_RAW_LOG"});
      },
      "the library never ends the process");
}

Complaints CheckThrows(const std::vector<SourceFile>& files) {
  return FindIdentifiers(
      files,
      [](const Identifier& id) {
        return id.name == "throw" ||
               // Of optional and StatusOr, and of the containers: they throw.
               (id.is_called && id.is_member &&
                IsOneOf(id.name, {"value", "at"}));
      },
      "the library throws nothing");
}

Complaints CheckEnvironment(const std::vector<SourceFile>& files) {
  return FindIdentifiers(
      files,
      [](const Identifier& id) {
        return CallsOneOf(id, {"getenv", "secure_getenv", "setenv", "putenv",
                               "system", "popen", "setlocale"}) ||
               id.name == "environ";
      },
      "the library reads no environment");
}

// They throw, skip white space, take what follows the number, or ask the
// locale.
Complaints CheckConversions(const std::vector<SourceFile>& files) {
  return FindIdentifiers(
      files,
      [](const Identifier& id) {
        return CallsOneOf(
            id,
            {"stoi",   "stol",    "stoll",    "stoul",    "stoull", "stof",
             "stod",   "stold",   "atoi",     "atol",     "atoll",  "atof",
             "strtol", "strtoll", "strtoul",  "strtoull", "strtof", "strtod",
             "sscanf", "sprintf", "snprintf", "to_string"});
      },
      "numbers are converted by from_chars and to_chars");
}

// sqrt, fma and the roundings are exact everywhere and stay allowed.
Complaints CheckLibm(const std::vector<SourceFile>& files) {
  return FindIdentifiers(
      files,
      [](const Identifier& id) {
        if (!id.is_called) return false;
        absl::string_view name = id.name;
        const bool is_float_form = absl::EndsWith(name, "f") && name != "erf";
        if (is_float_form) name.remove_suffix(1);
        return !id.is_member && IsOneOf(id.scope, {"", "std"}) &&
               IsOneOf(name, {"exp",   "exp2",  "expm1", "log",   "log2",
                              "log10", "log1p", "pow",   "sin",   "cos",
                              "tan",   "tanh",  "sinh",  "cosh",  "erf",
                              "erfc",  "atan",  "cbrt",  "hypot", "tgamma"});
      },
      "results must not depend on the system's mathematics library");
}

std::vector<SourceFile> ReadQuantSources() { return ReadSources({"quant"}); }

TEST(LibraryRulesTest, PrintsNothing) {
  EXPECT_THAT(CheckPrints(ReadLibrarySources()), IsEmpty());
}

TEST(LibraryRulesTest, NeverEndsTheProcess) {
  EXPECT_THAT(CheckEndsTheProcess(ReadLibrarySources()), IsEmpty());
}

TEST(LibraryRulesTest, ThrowsNothing) {
  EXPECT_THAT(CheckThrows(ReadLibrarySources()), IsEmpty());
}

TEST(LibraryRulesTest, ReadsNoEnvironment) {
  EXPECT_THAT(CheckEnvironment(ReadLibrarySources()), IsEmpty());
}

TEST(LibraryRulesTest, ConvertsNumbersWithoutLocaleOrException) {
  EXPECT_THAT(CheckConversions(ReadLibrarySources()), IsEmpty());
}

TEST(LibraryRulesTest, KernelsCallNoLibm) {
  EXPECT_THAT(CheckLibm(ReadQuantSources()), IsEmpty());
}

using Rule = Complaints (*)(const std::vector<SourceFile>&);

TEST(LibraryRulesTest, PlantedViolationsAreFound) {
  const struct {
    Rule rule;
    const char* code;
  } kCases[] = {
      {CheckPrints, "std::printf(\"x\");"},
      {CheckPrints, "fprintf (stdfile, \"x\");"},
      {CheckPrints, "std::cerr << 1;"},
      {CheckPrints, "absl::PrintF(\"x\");"},
      {CheckPrints, "fwrite(p, 1, 1, stderr);"},
      {CheckEndsTheProcess, "abort();"},
      {CheckEndsTheProcess, "std::exit(1);"},
      {CheckEndsTheProcess, "::_exit(1);"},
      {CheckEndsTheProcess, "assert(n > 0);"},
      {CheckEndsTheProcess, "HWY_ASSERT(n > 0);"},
      {CheckThrows, "throw 1;"},
      {CheckThrows, "Use(size.value());"},
      {CheckThrows, "Use(map->at(1));"},
      {CheckEnvironment, "getenv(\"HOME\");"},
      {CheckConversions, "std::stoi(text);"},
      {CheckConversions, "strtod(text, nullptr);"},
      {CheckConversions, "std::to_string(1.5);"},
      {CheckLibm, "std::exp(x);"},
      {CheckLibm, "expf(x);"},
      {CheckLibm, "erff(x);"},
      {CheckLibm, "tanh(x);"},
  };
  for (const auto& c : kCases) {
    const std::string text =
        absl::StrCat("// A comment.\nvoid F() {\n  ", c.code, "\n}\n");
    EXPECT_THAT(c.rule({{"storage/planted.cc", text}}),
                ElementsAre(HasSubstr("storage/planted.cc:3: ")))
        << c.code;
  }
}

TEST(LibraryRulesTest, ALookAlikeIsNoViolation) {
  const char kText[] =
      "// throw, abort() and printf( in a comment\n"
      "static_assert(sizeof(int) == 4);\n"
      "const char* s = \"abort() throw std::cerr getenv(\";\n"
      "void rethrow(); int exit_code(); reader.exit(); table.value_or(1);\n"
      "json.Value(x); lease.value_bytes(); hn::Exp(d, x); Math::exp(x);\n"
      "absl::StrFormat(\"%d\", 1); std::sqrt(x); std::fma(x, y, z);\n";
  for (const Rule rule : {CheckPrints, CheckEndsTheProcess, CheckThrows,
                          CheckEnvironment, CheckConversions, CheckLibm}) {
    EXPECT_THAT(rule({{"storage/planted.cc", kText}}), IsEmpty());
  }
}

}  // namespace
}  // namespace lowmem::habits
