// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors_reader.h"

#include <string>
#include <vector>

#include "storage/base/limits.h"
#include "tests/support/faulty_file.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FaultyFile;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::LittleEndian64;
using testing::SafetensorsBytes;
using ::testing::SizeIs;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

absl::StatusOr<std::vector<TensorInfo>> ReadBytes(const std::string& bytes) {
  const FaultyFile file(bytes);
  return ReadSafetensorsHeader(file, 0);
}

absl::StatusOr<std::vector<TensorInfo>> ReadHeader(const std::string& header,
                                                   size_t data_bytes) {
  return ReadBytes(SafetensorsBytes(header, std::string(data_bytes, 'x')));
}

// An entry of a header: Entry("a", "U8", "[4]", "[0,4]").
std::string Entry(const std::string& name, const std::string& dtype,
                  const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string Repeat(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

struct HeaderCase {
  const char* name;
  std::string header;
  size_t data_bytes;
  absl::StatusCode code;
  std::string message_part;
};

void PrintTo(const HeaderCase& c, std::ostream* out) { *out << c.name; }

const std::string kA4 = Entry("a", "U8", "[4]", "[0,4]");

class MalformedHeader : public ::testing::TestWithParam<HeaderCase> {};

TEST_P(MalformedHeader, IsRefused) {
  const HeaderCase& c = GetParam();
  const auto result = ReadHeader(c.header, c.data_bytes);
  EXPECT_THAT(result, Fails(c.code, c.message_part));
  EXPECT_EQ(result.status().message().find('\n'), absl::string_view::npos);
  EXPECT_LT(result.status().message().size(), 600u);
  EXPECT_EQ(result.status().message().substr(0, 8), "memory: ");
}

std::string CaseName(const ::testing::TestParamInfo<HeaderCase>& row) {
  return row.param.name;
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    Json, MalformedHeader,
    ::testing::Values(
        HeaderCase{"EmptyHeader", "", 0, kDataLoss, "header: "},
        HeaderCase{"OnlySpaces", "    ", 0, kDataLoss, "header: "},
        HeaderCase{"ArrayAtTop", "[]", 0, kDataLoss, "expected an object of tensors, got a list"},
        HeaderCase{"StringAtTop", "\"a\"", 0, kDataLoss, "got the string a"},
        HeaderCase{"NumberAtTop", "1", 0, kDataLoss, "got the number 1"},
        HeaderCase{"NullAtTop", "null", 0, kDataLoss, "got null"},
        HeaderCase{"TrueAtTop", "true", 0, kDataLoss, "got a truth value"},
        HeaderCase{"Unclosed", "{" + kA4, 4, kDataLoss, "malformed JSON"},
        HeaderCase{"ClosedTwice", "{" + kA4 + "}}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"TrailingComma", "{" + kA4 + ",}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"SecondDocument", "{" + kA4 + "}{}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"TrailingText", "{" + kA4 + "} x", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"NulPadding", "{" + kA4 + "}" + std::string(3, '\0'), 4, kDataLoss, "NUL"},
        HeaderCase{"NulInsideName", "{" + Entry(std::string("a\0b", 3), "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"ByteOrderMark", "\xEF\xBB\xBF{" + kA4 + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"Comment", "{/*x*/" + kA4 + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"SingleQuotes", "{'a':1}", 0, kDataLoss, "malformed JSON"},
        HeaderCase{"NaN", "{\"a\":NaN}", 0, kDataLoss, "malformed JSON"},
        HeaderCase{"NumberBeyondDouble", "{\"a\":{\"x\":1e400}}", 0, kDataLoss, "malformed JSON"},
        HeaderCase{"Infinity", "{\"a\":Infinity}", 0, kDataLoss, "malformed JSON"},
        HeaderCase{"OverlongUtf8", "{" + Entry("\xC0\xAF", "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"Surrogate", "{" + Entry("\xED\xA0\x80", "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"StrayContinuationByte", "{" + Entry("\x80", "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"Latin1Name", "{" + Entry("\xE9t\xE9", "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"RawControlByte", "{" + Entry("a\x01", "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "malformed JSON"},
        HeaderCase{"DeepNestingInUnknownField", "{\"a\":{\"x\":" + Repeat("[", 100000) + Repeat("]", 100000) + "}}", 0, kDataLoss, "header: "},
        HeaderCase{"DeepNestingOfObjects", Repeat("{\"a\":", 100000), 0, kDataLoss, "header: "}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Entries, MalformedHeader,
    ::testing::Values(
        HeaderCase{"EntryIsNumber", "{\"a\":1}", 0, kDataLoss, "tensor a: the entry is malformed; expected an object, got the number 1"},
        HeaderCase{"EntryIsNull", "{\"a\":null}", 0, kDataLoss, "expected an object, got null"},
        HeaderCase{"EntryIsList", "{\"a\":[]}", 0, kDataLoss, "expected an object, got a list"},
        HeaderCase{"EntryIsString", "{\"a\":\"U8\"}", 0, kDataLoss, "expected an object, got the string U8"},
        HeaderCase{"EntryIsEmpty", "{\"a\":{}}", 0, kDataLoss, "tensor a: dtype is absent"},
        HeaderCase{"DtypeAbsent", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "tensor a: dtype is absent"},
        HeaderCase{"ShapeAbsent", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, kDataLoss, "tensor a: shape is absent"},
        HeaderCase{"OffsetsAbsent", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, kDataLoss, "tensor a: data_offsets is absent"},
        HeaderCase{"FieldsInSecondEntryAbsent", "{" + kA4 + ",\"b\":{\"dtype\":\"U8\"}}", 4, kDataLoss, "tensor b: shape is absent"},
        HeaderCase{"DtypeTwice", "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "the field dtype stands there twice"},
        HeaderCase{"ShapeTwice", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "the field shape stands there twice"},
        HeaderCase{"OffsetsTwice", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "the field data_offsets stands there twice"},
        HeaderCase{"UnknownFieldTwice", "{\"a\":{\"x\":1,\"x\":1,\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "the field x stands there twice"},
        HeaderCase{"FieldNamesAreExact", "{\"a\":{\"Dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "dtype is absent"},
        HeaderCase{"NameTwice", "{" + kA4 + "," + Entry("a", "U8", "[4]", "[4,8]") + "}", 8, kDataLoss, "tensor a: the name stands there twice"},
        HeaderCase{"NameTwiceWithTheSameRange", "{" + kA4 + "," + kA4 + "}", 4, kDataLoss, "tensor a: "},
        HeaderCase{"NameTwiceEmptyTensors", "{" + Entry("a", "U8", "[0]", "[0,0]") + "," + Entry("a", "U8", "[0]", "[0,0]") + "}", 0, kDataLoss, "tensor a: the name stands there twice"},
        HeaderCase{"NameTwiceOnceEscaped", "{" + kA4 + "," + Entry("\\u0061", "U8", "[4]", "[4,8]") + "}", 8, kDataLoss, "tensor a: the name stands there twice"},
        HeaderCase{"EscapesInNameAreShownSafely", "{" + Entry("\\u001b[31m\\n", "U9", "[4]", "[0,4]") + "}", 4, kUnimplemented, "tensor \\x1b[31m\\x0a: the dtype U9"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Metadata, MalformedHeader,
    ::testing::Values(
        HeaderCase{"NumberValue", "{\"__metadata__\":{\"n\":1}}", 0, kDataLoss, "__metadata__: a value is malformed; expected a string, got the number 1"},
        HeaderCase{"NullValue", "{\"__metadata__\":{\"n\":null}}", 0, kDataLoss, "expected a string, got null"},
        HeaderCase{"ObjectValue", "{\"__metadata__\":{\"n\":{}}}", 0, kDataLoss, "expected a string, got an object"},
        HeaderCase{"ListValue", "{\"__metadata__\":{\"n\":[]}}", 0, kDataLoss, "expected a string, got a list"},
        HeaderCase{"IsString", "{\"__metadata__\":\"pt\"}", 0, kDataLoss, "__metadata__ is malformed"},
        HeaderCase{"IsList", "{\"__metadata__\":[]}", 0, kDataLoss, "__metadata__ is malformed"},
        HeaderCase{"IsNumber", "{\"__metadata__\":1}", 0, kDataLoss, "__metadata__ is malformed"},
        HeaderCase{"Twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, kDataLoss, "__metadata__ stands there twice"},
        HeaderCase{"TwiceAsNull", "{\"__metadata__\":null,\"__metadata__\":null}", 0, kDataLoss, "__metadata__ stands there twice"},
        HeaderCase{"KeyTwice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, kDataLoss, "the key k stands there twice"}),
    CaseName);
// clang-format on

// What stands in place of a dtype.
// clang-format off
std::vector<HeaderCase> DtypeCases() {
  return {
      {"LowerCase", "{" + Entry("a", "u8", "[4]", "[0,4]") + "}", 4, kUnimplemented, "the dtype u8 is not known"},
      {"MixedCase", "{" + Entry("a", "Bf16", "[2]", "[0,4]") + "}", 4, kUnimplemented, "the dtype Bf16 is not known"},
      {"Empty", "{" + Entry("a", "", "[4]", "[0,4]") + "}", 4, kUnimplemented, "is not known"},
      {"TrailingSpace", "{" + Entry("a", "U8 ", "[4]", "[0,4]") + "}", 4, kUnimplemented, "is not known"},
      {"GgufName", "{" + Entry("a", "Q4_K", "[256]", "[0,144]") + "}", 144, kUnimplemented, "the dtype Q4_K is not known"},
      {"Future", "{" + Entry("a", "F128", "[1]", "[0,16]") + "}", 16, kUnimplemented, "the dtype F128 is not known"},
      {"Long", "{" + Entry("a", Repeat("F", 100000), "[4]", "[0,4]") + "}", 4, kUnimplemented, "..."},
      {"Number", "{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "dtype is malformed; expected a string, got the number 8"},
      {"Null", "{\"a\":{\"dtype\":null,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "dtype is malformed; expected a string, got null"},
      {"List", "{\"a\":{\"dtype\":[\"U8\"],\"shape\":[4],\"data_offsets\":[0,4]}}", 4, kDataLoss, "dtype is malformed; expected a string, got a list"},
  };
}
// clang-format on
INSTANTIATE_TEST_SUITE_P(Dtype, MalformedHeader,
                         ::testing::ValuesIn(DtypeCases()), CaseName);

// What stands in place of a list of unsigned integers, as shape and as offsets.
struct BadList {
  const char* name;
  const char* json;
};
constexpr BadList kBadLists[] = {
    {"Number", "4"},
    {"String", "\"4\""},
    {"Null", "null"},
    {"Object", "{}"},
    {"True", "true"},
    {"OfString", "[\"4\",\"4\"]"},
    {"OfNull", "[null,4]"},
    {"OfList", "[[0],4]"},
    {"OfObject", "[{},4]"},
    {"OfTrue", "[true,4]"},
    {"Negative", "[-1,4]"},
    {"NegativeZero", "[-0,4]"},
    {"Fraction", "[1.0,4]"},
    {"Exponent", "[1e0,4]"},
    {"TwoTo64", "[18446744073709551616,4]"},
    {"LargeExponent", "[1e300,4]"},
    {"TinyExponent", "[0.000000000000000000001e-2147483639,4]"},
    {"LongDigits", "[99999999999999999999999999999999999999999,4]"},
};

std::vector<HeaderCase> BadListCases(bool as_shape) {
  std::vector<HeaderCase> cases;
  for (const BadList& bad : kBadLists) {
    cases.push_back({bad.name,
                     "{" +
                         (as_shape ? Entry("a", "U8", bad.json, "[0,4]")
                                   : Entry("a", "U8", "[4]", bad.json)) +
                         "}",
                     4, kDataLoss,
                     as_shape ? "tensor a: shape is malformed"
                              : "tensor a: data_offsets is malformed"});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shape, MalformedHeader,
                         ::testing::ValuesIn(BadListCases(true)), CaseName);
INSTANTIATE_TEST_SUITE_P(Offsets, MalformedHeader,
                         ::testing::ValuesIn(BadListCases(false)), CaseName);

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    NumberOfOffsets, MalformedHeader,
    ::testing::Values(
        HeaderCase{"None", "{" + Entry("a", "U8", "[4]", "[]") + "}", 4, kDataLoss, "expected two unsigned integers, got the end of the list"},
        HeaderCase{"One", "{" + Entry("a", "U8", "[4]", "[0]") + "}", 4, kDataLoss, "expected two unsigned integers, got the end of the list"},
        HeaderCase{"Three", "{" + Entry("a", "U8", "[4]", "[0,4,8]") + "}", 4, kDataLoss, "expected two unsigned integers, got the number 8"}),
    CaseName);
// clang-format on

const std::string kMaxU64 = "18446744073709551615";

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    Proof, MalformedHeader,
    ::testing::Values(
        HeaderCase{"HoleBeforeFirstTensor", "{" + Entry("a", "U8", "[4]", "[1,5]") + "}", 5, kDataLoss, "tensor a: a hole lies before the data; expected data_offsets to begin at 0, got 1"},
        HeaderCase{"HoleBetweenTensors", "{" + kA4 + "," + Entry("b", "U8", "[4]", "[5,9]") + "}", 9, kDataLoss, "tensor b: a hole lies before the data"},
        HeaderCase{"OverlappingTensors", "{" + kA4 + "," + Entry("b", "U8", "[4]", "[3,7]") + "}", 7, kDataLoss, "tensor b: the data overlap"},
        HeaderCase{"SameRange", "{" + kA4 + "," + Entry("b", "U8", "[4]", "[0,4]") + "}", 4, kDataLoss, "tensor b: the data overlap"},
        HeaderCase{"RangeInsideAnother", "{" + kA4 + "," + Entry("b", "U8", "[1]", "[1,2]") + "}", 4, kDataLoss, "tensor b: the data overlap"},
        HeaderCase{"EmptyTensorInsideAnother", "{" + kA4 + "," + Entry("b", "U8", "[0]", "[2,2]") + "}", 4, kDataLoss, "tensor b: the data overlap"},
        HeaderCase{"EmptyTensorBehindTheFile", "{" + kA4 + "," + Entry("b", "U8", "[0]", "[9,9]") + "}", 4, kDataLoss, "tensor b: a hole lies before the data"},
        HeaderCase{"EndBeforeBegin", "{" + kA4 + "," + Entry("b", "U8", "[4]", "[4,0]") + "}", 4, kDataLoss, "tensor b: data_offsets end before they begin"},
        HeaderCase{"EndBeforeBeginWrapsToTheSize", "{" + Entry("a", "U8", "[4]", "[" + kMaxU64 + ",3]") + "}", 4, kDataLoss, "data_offsets end before they begin"},
        HeaderCase{"BeginAtMaximum", "{" + Entry("a", "U8", "[0]", "[" + kMaxU64 + "," + kMaxU64 + "]") + "}", 0, kDataLoss, "a hole lies before the data"},
        HeaderCase{"ShapeSmallerThanRange", "{" + Entry("a", "U8", "[3]", "[0,4]") + "}", 4, kDataLoss, "tensor a: data_offsets do not fit dtype and shape; expected 3 bytes, got 4"},
        HeaderCase{"ShapeLargerThanRange", "{" + Entry("a", "U8", "[5]", "[0,4]") + "}", 4, kDataLoss, "expected 5 bytes, got 4"},
        HeaderCase{"DtypeWiderThanRange", "{" + Entry("a", "F32", "[4]", "[0,4]") + "}", 4, kDataLoss, "expected 16 bytes, got 4"},
        HeaderCase{"ScalarOfNoBytes", "{" + Entry("a", "F32", "[]", "[0,0]") + "}", 0, kDataLoss, "expected 4 bytes, got 0"},
        HeaderCase{"ZeroDimensionWithBytes", "{" + Entry("a", "F32", "[2,0]", "[0,4]") + "}", 4, kDataLoss, "expected 0 bytes, got 4"},
        HeaderCase{"RangeLargerThanFile", "{" + Entry("a", "U8", "[1000]", "[0,1000]") + "}", 4, kDataLoss, "tensor a: the data end behind the file"},
        HeaderCase{"RangeOfAlmostAllMemory", "{" + Entry("a", "U8", "[" + kMaxU64 + "]", "[0," + kMaxU64 + "]") + "}", 4, kDataLoss, "tensor a: the size in bits overflows"},
        HeaderCase{"TwoTo61Bytes", "{" + Entry("a", "U8", "[2305843009213693951]", "[0,2305843009213693951]") + "}", 4, kDataLoss, "the data end behind the file"},
        HeaderCase{"TailBehindLastTensor", "{" + kA4 + "}", 5, kDataLoss, "bytes follow the last tensor; expected 4 after the header, got 5"},
        HeaderCase{"TailWithoutTensors", "{}", 1, kDataLoss, "bytes follow the last tensor; expected 0 after the header, got 1"},
        HeaderCase{"TruncatedByOne", "{" + kA4 + "}", 3, kDataLoss, "truncated; expected 4 bytes after the header, got 3"},
        HeaderCase{"TruncatedToNothing", "{" + kA4 + "}", 0, kDataLoss, "truncated"},
        HeaderCase{"ShapeProductOverflow", "{" + Entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0, kDataLoss, "tensor a: the product of the shape overflows"},
        HeaderCase{"ShapeProductOverflowBeforeZero", "{" + Entry("a", "U8", "[9223372036854775808,9223372036854775808,0]", "[0,0]") + "}", 0, kDataLoss, "the product of the shape overflows"},
        HeaderCase{"ShapeProductWrapsToTheSize", "{" + Entry("a", "U8", "[4294967297,4294967297]", "[0,4]") + "}", 4, kDataLoss, "the product of the shape overflows"},
        HeaderCase{"SizeInBitsWrapsToTheSize", "{" + Entry("a", "F32", "[4611686018427387905]", "[0,4]") + "}", 4, kDataLoss, "the size in bits overflows"},
        HeaderCase{"F4NoWholeByte", "{" + Entry("a", "F4", "[3]", "[0,1]") + "}", 1, kDataLoss, "tensor a: the size is no whole number of bytes"},
        HeaderCase{"F4NoWholeByteRoundedUp", "{" + Entry("a", "F4", "[3]", "[0,2]") + "}", 2, kDataLoss, "no whole number of bytes"},
        HeaderCase{"F6NoWholeByte", "{" + Entry("a", "F6_E2M3", "[2]", "[0,1]") + "}", 1, kDataLoss, "2 elements of 6 bits"}),
    CaseName);
// clang-format on

// What must be read. The expectation is the number of tensors.
struct ValidCase {
  const char* name;
  std::string header;
  size_t data_bytes;
  size_t num_tensors;
};
void PrintTo(const ValidCase& c, std::ostream* out) { *out << c.name; }

class ValidHeader : public ::testing::TestWithParam<ValidCase> {};

TEST_P(ValidHeader, IsRead) {
  ASSERT_OK_AND_ASSIGN(const auto tensors,
                       ReadHeader(GetParam().header, GetParam().data_bytes));
  EXPECT_THAT(tensors, SizeIs(GetParam().num_tensors));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    All, ValidHeader,
    ::testing::Values(
        ValidCase{"NoTensors", "{}", 0, 0},
        ValidCase{"OneTensor", "{" + kA4 + "}", 4, 1},
        ValidCase{"SpacesBehind", "{" + kA4 + "}     ", 4, 1},
        ValidCase{"AnyWhitespaceInFrontAndBehind", " \t\r\n{" + kA4 + "}\r\n\t ", 4, 1},
        ValidCase{"MetadataNull", "{\"__metadata__\":null," + kA4 + "}", 4, 1},
        ValidCase{"MetadataEmpty", "{\"__metadata__\":{}}", 0, 0},
        ValidCase{"MetadataOfStrings", "{\"__metadata__\":{\"format\":\"pt\",\"a\":\"\"}," + kA4 + "}", 4, 1},
        ValidCase{"MetadataLast", "{" + kA4 + ",\"__metadata__\":{\"format\":\"pt\"}}", 4, 1},
        ValidCase{"HeaderOrderIsFree", "{" + Entry("b", "U8", "[4]", "[4,8]") + "," + kA4 + "}", 8, 2},
        ValidCase{"FieldOrderIsFree", "{\"a\":{\"data_offsets\":[0,4],\"shape\":[4],\"dtype\":\"U8\"}}", 4, 1},
        ValidCase{"UnknownScalarField", "{\"a\":{\"x\":1.5e300,\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"y\":null}}", 4, 1},
        ValidCase{"UnknownNestedField", "{\"a\":{\"x\":[{\"dtype\":[]},[]],\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, 1},
        ValidCase{"Scalar", "{" + Entry("a", "F32", "[]", "[0,4]") + "}", 4, 1},
        ValidCase{"ZeroDimension", "{" + Entry("a", "F32", "[3,0,5]", "[0,0]") + "}", 0, 1},
        ValidCase{"ZeroDimensionBeforeOverflow", "{" + Entry("a", "F32", "[0,9223372036854775808,9223372036854775808]", "[0,0]") + "}", 0, 1},
        ValidCase{"EmptyTensorSharesAnOffset", "{" + kA4 + "," + Entry("b", "U8", "[0]", "[0,0]") + "}", 4, 2},
        ValidCase{"EmptyTensorAtTheEnd", "{" + kA4 + "," + Entry("b", "U8", "[0]", "[4,4]") + "}", 4, 2},
        ValidCase{"EmptyName", "{" + Entry("", "U8", "[4]", "[0,4]") + "}", 4, 1},
        ValidCase{"OddOffset", "{" + Entry("a", "U8", "[1]", "[0,1]") + "," + Entry("b", "F64", "[1]", "[1,9]") + "}", 9, 2},
        ValidCase{"F4Pair", "{" + Entry("a", "F4", "[2,1]", "[0,1]") + "}", 1, 1},
        ValidCase{"F6Quad", "{" + Entry("a", "F6_E3M2", "[4]", "[0,3]") + "}", 3, 1},
        ValidCase{"C64", "{" + Entry("a", "C64", "[2]", "[0,16]") + "}", 16, 1},
        ValidCase{"Rank1000", "{" + Entry("a", "U8", "[" + Repeat("1,", 999) + "4]", "[0,4]") + "}", 4, 1}),
    [](const ::testing::TestParamInfo<ValidCase>& row) { return row.param.name; });
// clang-format on

struct LengthCase {
  const char* name;
  std::string bytes;
  std::string message_part;
};
void PrintTo(const LengthCase& c, std::ostream* out) { *out << c.name; }

class MalformedLength : public ::testing::TestWithParam<LengthCase> {};

TEST_P(MalformedLength, IsRefused) {
  EXPECT_THAT(ReadBytes(GetParam().bytes),
              Fails(kDataLoss, GetParam().message_part));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    All, MalformedLength,
    ::testing::Values(
        LengthCase{"EmptyFile", "", "too short for a header; expected at least 8 bytes, got 0"},
        LengthCase{"SevenBytes", std::string(7, '\0'), "got 7"},
        LengthCase{"LengthOfAllOnes", std::string(8, '\xff'), "the header is too long"},
        LengthCase{"LengthOverTheCap", LittleEndian64(limits::kSafetensorsHeaderBytes + 1) + "{}", "the header is too long; expected at most 100000000"},
        LengthCase{"LengthAtTheCapInAShortFile", LittleEndian64(limits::kSafetensorsHeaderBytes) + "{}", "the header ends behind the file"},
        LengthCase{"LengthOneTooMany", LittleEndian64(3) + "{}", "the header ends behind the file"},
        LengthCase{"LengthBigEndian", std::string("\0\0\0\0\0\0\0\2{}", 10), "the header is too long"},
        LengthCase{"LengthWrapsWithThePrefix", LittleEndian64(~uint64_t{0} - 7) + "{}", "the header is too long"},
        LengthCase{"LengthZero", LittleEndian64(0) + "{}", "header: "},
        LengthCase{"LengthCutsTheHeader", LittleEndian64(1) + "{}", "malformed JSON"},
        LengthCase{"GgufMagic", "GGUF" + std::string("\3\0\0\0", 4) + "{}", "the header is too long"},
        LengthCase{"ZipMagic", "PK\3\4\x14" + std::string(3, '\0') + "{}", "the header"}),
    [](const ::testing::TestParamInfo<LengthCase>& row) { return row.param.name; });
// clang-format on

TEST(SafetensorsReaderTest, ReportsNameDtypeShapeAndPlaceInFileOrder) {
  const std::string header = "{" + Entry("b", "BF16", "[2,3]", "[4,16]") + "," +
                             Entry("a", "U8", "[4]", "[0,4]") + "}";
  const FaultyFile file(SafetensorsBytes(header, std::string(16, 'x')));
  ASSERT_OK_AND_ASSIGN(const auto tensors, ReadSafetensorsHeader(file, 7));
  ASSERT_THAT(tensors, SizeIs(2));
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].dtype, DType::kBF16);
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 3));
  EXPECT_FALSE(tensors[1].shape_is_folded);
  EXPECT_EQ(tensors[1].file_idx, 7u);
  EXPECT_EQ(tensors[1].file_ofs, 8 + header.size() + 4);
  EXPECT_EQ(tensors[1].size_bytes, 12u);
  EXPECT_EQ(tensors[1].row_bytes(), 6u);
}

TEST(SafetensorsReaderTest, EveryDtypeOfTheFormatHasItsSize) {
  const struct {
    const char* name;
    int bits;
  } kDtypes[] = {
      {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
      {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
      {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
      {"I64", 64},    {"U64", 64}};
  for (const auto& dtype : kDtypes) {
    SCOPED_TRACE(dtype.name);
    const std::string num_bytes = std::to_string(dtype.bits);
    const std::string header =
        "{" + Entry("a", dtype.name, "[8]", "[0," + num_bytes + "]") + "}";
    EXPECT_THAT(ReadHeader(header, dtype.bits), IsOk());
    EXPECT_THAT(ReadHeader(header, dtype.bits - 1),
                Fails(kDataLoss, "truncated"));
  }
}

TEST(SafetensorsReaderTest, DimensionsBeyondTheLimitAreFolded) {
  ASSERT_OK_AND_ASSIGN(
      const auto tensors,
      ReadHeader(
          "{" + Entry("a", "U8", "[1,2,1,1,1,1,1,2,3,1]", "[0,12]") + "}", 12));
  EXPECT_TRUE(tensors[0].shape_is_folded);
  EXPECT_THAT(tensors[0].shape, ElementsAre(1, 2, 1, 1, 1, 1, 1, 6));
}

TEST(SafetensorsReaderTest, MemoryOfAShapeDoesNotGrowWithTheHeader) {
  ASSERT_OK_AND_ASSIGN(
      const auto tensors,
      ReadHeader(
          "{" + Entry("a", "U8", "[" + Repeat("1,", 1000000) + "4]", "[0,4]") +
              "}",
          4));
  EXPECT_THAT(tensors[0].shape, SizeIs(limits::kTensorRank));
}

TEST(SafetensorsReaderTest, EveryFailingReadIsReported) {
  std::string header = "{";
  for (int i = 0; i < 3000; ++i) {
    header += Entry("layer." + std::to_string(i), "U8", "[0]", "[0,0]") + ",";
  }
  header += kA4 + "}";
  ASSERT_GT(header.size(), 2 * (64u << 10)) << "several chunks are meant";
  const std::string bytes = SafetensorsBytes(header, "xxxx");
  int failing_read = 0;
  while (true) {
    const FaultyFile file(bytes, failing_read);
    const auto result = ReadSafetensorsHeader(file, 0);
    if (result.ok()) {
      EXPECT_THAT(*result, SizeIs(3001));
      EXPECT_LE(file.num_reads(), failing_read);
      break;
    }
    EXPECT_THAT(result,
                Fails(absl::StatusCode::kUnavailable, "injected fault"));
    ++failing_read;
  }
  EXPECT_GE(failing_read, 4);
}

TEST(SafetensorsReaderTest, EveryTruncationOfAFileIsRefused) {
  const std::string bytes = SafetensorsBytes(
      "{" + kA4 + "," + Entry("b", "F32", "[2]", "[4,12]") + "}",
      std::string(12, 'x'));
  ASSERT_THAT(ReadBytes(bytes), IsOk());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(ReadBytes(bytes.substr(0, length)),
                Fails(kDataLoss, "memory: "))
        << length;
  }
}

TEST(SafetensorsReaderTest, EveryFlippedByteOfAHeaderIsReadOrRefused) {
  const std::string bytes =
      SafetensorsBytes("{\"__metadata__\":{\"format\":\"pt\"}," + kA4 + "," +
                           Entry("b", "F32", "[2]", "[4,12]") + "}",
                       std::string(12, 'x'));
  for (size_t i = 0; i < bytes.size() - 12; ++i) {
    for (int flip = 1; flip < 256; ++flip) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      const auto result = ReadBytes(changed);
      if (!result.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(result.status()) ||
                    absl::IsUnimplemented(result.status()))
            << result.status();
        continue;
      }
      uint64_t total = 0;
      for (const TensorInfo& tensor : *result) total += tensor.size_bytes;
      EXPECT_LE(total, 12u);
    }
  }
}

}  // namespace
}  // namespace lowmem
