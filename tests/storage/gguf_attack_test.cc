// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile GGUF files, one row for each attack: the code and the
// part of the message it must give. Ids behind the names are published cases of
// the kind.
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "storage/gguf_reader.h"
#include "tests/support/faulty_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::FaultyFile;
using testing::GgufBuilder;
using testing::IsOk;
using testing::Raw;
using testing::RawString;

constexpr uint32_t kF32 = GgufBuilder::kTensorF32;
constexpr uint32_t kQ4_0 = GgufBuilder::kTensorQ4_0;
constexpr uint64_t kHuge = ~uint64_t{0};
constexpr absl::StatusCode kDamaged = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

struct Attack {
  const char* name;
  std::function<void(GgufBuilder&)> build;
  absl::StatusCode code;
  const char* message;
};

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

// The file is sound but for what the row does; it has one key before that.
GgufBuilder Sound() {
  GgufBuilder gguf;
  gguf.Text("general.architecture", "llama");
  return gguf;
}

const std::vector<Attack>& Attacks() {
  using B = GgufBuilder;
  static const std::vector<Attack>* attacks = new std::vector<Attack>{
      // Header.
      {"MagicOfAnotherFormat", [](B& g) { g.magic = "PK\x03\x04"; }, kDamaged,
       "header: not a GGUF file; expected \"GGUF\", got \"PK\\x03\\x04\""},
      {"MagicOfAPointerFile", [](B& g) { g.magic = "vers"; }, kDamaged,
       "got \"vers\""},
      {"VersionZero", [](B& g) { g.version = 0; }, kUnsupported,
       "expected 2 or 3, got 0"},
      {"VersionOneHadShorterCounts", [](B& g) { g.version = 1; }, kUnsupported,
       "expected 2 or 3, got 1"},
      {"VersionOfTheFuture", [](B& g) { g.version = 4; }, kUnsupported,
       "expected 2 or 3, got 4"},
      {"BigEndianFile", [](B& g) { g.version = 0x03000000; }, kUnsupported,
       "a big-endian file is not read"},
      // CVE-2024-21802 and its siblings, CVE-2025-66960.
      {"TensorCountBeyondTheFile",
       [](B& g) { g.stated_num_tensors = kHuge; }, kDamaged,
       "number of tensors exceeds the file"},
      {"KeyCountBeyondTheFile", [](B& g) { g.stated_num_keys = kHuge; },
       kDamaged, "number of metadata keys exceeds the file"},
      {"TensorCountNegativeWhenSigned",
       [](B& g) { g.stated_num_tensors = uint64_t{1} << 63; }, kDamaged,
       "number of tensors exceeds the file"},
      {"TensorCountThatOnlyTheKeysHaveBytesFor",
       [](B& g) {
         g.Text("padding", std::string(1000, 'x'));
         g.stated_num_tensors = 30;
       },
       kDamaged, "number of tensors exceeds what is left of the file"},
      {"MoreKeysThanAnyModel",
       [](B& g) {
         g.stated_num_keys = 70000;
         g.Tail(std::string(70000 * 14, '\0'));
       },
       kDamaged, "too many metadata keys; expected at most 65536, got 70000"},
      {"MoreTensorsThanAnyModel",
       [](B& g) {
         g.stated_num_tensors = 1000001;
         g.Tail(std::string(1000001 * 25, '\0'));
       },
       kDamaged, "too many tensors; expected at most 1000000, got 1000001"},
      {"OneKeyMoreThanThereIs", [](B& g) { g.stated_num_keys = 2; }, kDamaged,
       "key 1: the file ends within it; expected 8 more bytes, got 0"},

      // Keys.
      {"KeyLengthBeyondTheFile",  // CVE-2024-23605
       [](B& g) { g.RawKey(RawString("key", kHuge)); }, kDamaged,
       "key 1: length of the key exceeds the file"},
      {"KeyLengthThatWrapsThePosition",
       [](B& g) { g.RawKey(RawString("key", kHuge - 40)); }, kDamaged,
       "key 1: length of the key exceeds the file"},
      {"KeyLongerThanAnyName",
       [](B& g) { g.Uint32(std::string(1025, 'k'), 1); }, kDamaged,
       "key 1: the key is too long; expected at most 1024 bytes, got 1025"},
      {"KeyOfNoBytes", [](B& g) { g.Uint32("", 1); }, kDamaged,
       "key 1: the key is empty"},
      {"KeyWithNul", [](B& g) { g.Uint32(std::string("a\0b", 3), 1); },
       kDamaged, "no UTF-8 text without NUL: \"a\\x00b\""},
      {"KeyNotUtf8", [](B& g) { g.Uint32("a\xff", 1); }, kDamaged,
       "no UTF-8 text without NUL: \"a\\xff\""},
      {"KeyWithASurrogate", [](B& g) { g.Uint32("\xed\xa0\x80", 1); },
       kDamaged, "no UTF-8 text without NUL"},
      {"KeyTwice", [](B& g) { g.Text("general.architecture", "gpt2"); },
       kDamaged, "key \"general.architecture\": occurs twice"},

      // Values.
      {"UnknownValueType", [](B& g) { g.Key("key", 13, Raw<uint64_t>(0)); },
       kDamaged, "key \"key\": unknown value type; expected at most 12, got 13"},
      {"ValueTypeThatIsNegativeWhenSigned",
       [](B& g) { g.Key("key", 0xFFFFFFFF, Raw<uint64_t>(0)); }, kDamaged,
       "unknown value type; expected at most 12, got 4294967295"},
      {"ValueCutOff", [](B& g) { g.Key("key", B::kU64, Raw<uint32_t>(0)); },
       kDamaged,
       "key \"key\": the file ends within it; expected 8 more bytes, got 4"},
      {"BoolOfTwo", [](B& g) { g.Key("key", B::kBool, "\x02"); }, kDamaged,
       "key \"key\": not a bool; expected 0 or 1, got 2"},
      {"StringLengthBeyondTheFile",
       [](B& g) { g.Key("key", B::kString, RawString("text", 5)); }, kDamaged,
       "key \"key\": length of the string exceeds the file; expected at most 4 "
       "bytes, got 5"},
      {"StringLengthMaximum",
       [](B& g) { g.Key("key", B::kString, RawString("text", kHuge)); },
       kDamaged, "length of the string exceeds the file"},
      {"StringLongerThanAnyTemplate",
       [](B& g) { g.Text("key", std::string((16u << 20) + 1, 'x')); }, kDamaged,
       "the string is too long; expected at most 16777216 bytes, got 16777217"},
      {"MuchTextInManyKeys",
       [](B& g) {
         for (int i = 0; i < 5; ++i) {
           g.Text("key" + std::to_string(i), std::string(15u << 20, 'x'));
         }
       },
       kDamaged, "metadata holds too much text; expected at most 67108864"},

      // Arrays.
      {"ArrayCountBeyondTheFile",
       [](B& g) { g.Array("key", B::kU32, 3, Raw<uint64_t>(0)); }, kDamaged,
       "array count exceeds the file; expected at most 2 elements, got 3"},
      {"ArrayCountTimesSizeWraps",
       [](B& g) {
         g.Array("key", B::kU64, (uint64_t{1} << 61) + 1, Raw<uint64_t>(0));
       },
       kDamaged, "array count exceeds the file"},
      {"ArrayOfStringsCountBeyondTheFile",
       [](B& g) { g.Array("key", B::kString, kHuge, RawString("a")); },
       kDamaged, "array count exceeds the file"},
      {"ArrayElementTypeUnknown",  // imp#532: it took no bytes, for ever
       [](B& g) { g.Array("key", 99, uint64_t{1} << 60, "x"); }, kDamaged,
       "unknown array element type; expected at most 12, got 99"},
      {"ArrayOfArrays",
       [](B& g) {
         g.Array("key", B::kArray, 1,
                 Raw<uint32_t>(B::kU8) + Raw<uint64_t>(1) + "x");
       },
       kUnsupported, "key \"key\": an array of arrays is not read"},
      {"ArrayStringLengthBeyondTheFile",
       [](B& g) {
         g.Array("key", B::kString, 2, RawString("a") + RawString("b", 2));
       },
       kDamaged, "length of a string of the array exceeds the file"},
      {"ArrayStringLengthMaximum",
       [](B& g) { g.Array("key", B::kString, 1, RawString("a", kHuge)); },
       kDamaged, "length of a string of the array exceeds the file"},
      {"ArrayWithMoreElementsThanAnyVocabulary",
       [](B& g) {
         g.Array("key", B::kU8, (1u << 24) + 1,
                 std::string((1u << 24) + 1, 'x'));
       },
       kDamaged, "array has too many elements; expected at most 16777216"},
      {"ArrayOfBoolsWithATwo",
       [](B& g) { g.Array("key", B::kBool, 2, "\x01\x02"); }, kDamaged,
       "not a bool; expected 0 or 1, got 2"},

      // Alignment (oss-sec 2026-05, ggml#1516).
      {"AlignmentZero", [](B& g) { g.Uint32("general.alignment", 0); },
       kDamaged, "bad alignment; expected a power of two from 8 to 65536, got 0"},
      {"AlignmentOne", [](B& g) { g.Uint32("general.alignment", 1); }, kDamaged,
       "bad alignment"},
      {"AlignmentNoPowerOfTwo",
       [](B& g) { g.Uint32("general.alignment", 48); }, kDamaged,
       "bad alignment"},
      {"AlignmentTwoToThe31",
       [](B& g) { g.Uint32("general.alignment", 0x80000000u); }, kDamaged,
       "bad alignment"},
      {"AlignmentTwoToThe63",
       [](B& g) {
         g.Key("general.alignment", B::kU64, Raw(uint64_t{1} << 63));
       },
       kDamaged, "bad alignment"},
      {"AlignmentNegative",
       [](B& g) { g.Key("general.alignment", B::kI32, Raw<int32_t>(-32)); },
       kDamaged, "key \"general.alignment\": not an unsigned integer"},
      {"AlignmentAsText", [](B& g) { g.Text("general.alignment", "32"); },
       kDamaged, "key \"general.alignment\": not an unsigned integer"},
      {"OneFileOfASplitModel",
       [](B& g) { g.Key("split.count", B::kU16, Raw<uint16_t>(3)); },
       kUnsupported, "one file of a split model is not read"},

      // Tensor entries.
      {"TensorNameLengthMaximum",
       [](B& g) { g.RawTensor(RawString("name", kHuge) + std::string(40, 'x')); },
       kDamaged, "tensor 0: length of the name exceeds the file"},
      {"TensorNameTooLong",
       [](B& g) { g.Tensor(std::string(1025, 'n'), {8}, kF32, 32); }, kDamaged,
       "tensor 0: the name is too long; expected at most 1024 bytes, got 1025"},
      {"TensorNameEmpty", [](B& g) { g.Tensor("", {8}, kF32, 32); }, kDamaged,
       "tensor 0: the name is empty"},
      {"TensorNameWithEscapes",
       [](B& g) { g.Tensor("\x1b[31m\xff", {8}, kF32, 32); }, kDamaged,
       "the name is no UTF-8 text without NUL: \"\\x1b[31m\\xff\""},
      {"TensorNameTwice",
       [](B& g) { g.Tensor("a", {8}, kF32, 32).Tensor("a", {8}, kF32, 32); },
       kDamaged, "tensor \"a\": occurs twice"},
      {"TensorNameTwiceAtOnePlace",
       [](B& g) {
         g.Tensor("a", {8}, kF32, 32).TensorAt("a", {8}, kF32, 0);
       },
       kDamaged, "tensor \"a\": occurs twice"},
      {"TensorRankBeyondTheEntry",  // gguf-tools#25
       [](B& g) { g.Tensor("a", std::vector<uint64_t>(9, 1), kF32, 4); },
       kDamaged, "too many dimensions; expected at most 8, got 9"},
      {"TensorRankMaximum",
       [](B& g) {
         g.RawTensor(RawString("a") + Raw(0xFFFFFFFFu) + std::string(40, 'x'));
       },
       kDamaged, "too many dimensions; expected at most 8, got 4294967295"},
      {"TensorDimensionZero",  // llama.cpp #24263: division by zero
       [](B& g) { g.Tensor("a", {8, 0}, kF32, 0).Bytes(1); }, kDamaged,
       "tensor \"a\": dimension 1 is zero"},
      {"TensorRowZero", [](B& g) { g.Tensor("a", {0}, kF32, 0).Bytes(1); },
       kDamaged, "tensor \"a\": dimension 0 is zero"},
      {"TensorDimensionNegativeWhenSigned",
       [](B& g) { g.Tensor("a", {8, uint64_t{1} << 63}, kF32, 32); }, kDamaged,
       "tensor \"a\": size overflows 64 bits"},
      // CVE-2026-33298: the product wraps to a small number.
      {"TensorDimensionsWrapToSmall",
       [](B& g) {
         g.Tensor("a", {uint64_t{1} << 32, (uint64_t{1} << 30) + 1}, kF32, 32);
       },
       kDamaged, "tensor \"a\": size overflows 64 bits"},
      {"TensorDimensionsWrapToZero",
       [](B& g) {
         g.Tensor("a", {uint64_t{1} << 32, uint64_t{1} << 32}, kF32, 32);
       },
       kDamaged, "size overflows 64 bits"},
      {"TensorRowTimesTypeSizeWraps",
       [](B& g) { g.Tensor("a", {uint64_t{1} << 62}, kF32, 32); }, kDamaged,
       "size overflows 64 bits"},
      {"TensorElementsWrapWhereBytesDoNot",  // four bits an element
       [](B& g) { g.Tensor("a", {uint64_t{1} << 33, uint64_t{1} << 31}, kQ4_0, 18); },
       kDamaged, "size overflows 64 bits"},
      {"TensorRowNoWholeBlocks",
       [](B& g) { g.Tensor("a", {33}, kQ4_0, 36); }, kDamaged,
       "row is no whole number of Q4_0 blocks; expected a multiple of 32, got "
       "33"},
      {"TensorTypeUnknown", [](B& g) { g.Tensor("a", {8}, 77, 32); },
       kUnsupported, "tensor \"a\": unknown tensor type; expected a ggml type id "
                     "that is supported, got 77"},
      {"TensorTypeRemoved",  // Q4_2
       [](B& g) { g.Tensor("a", {32}, 4, 32); }, kUnsupported, "got 4"},
      {"TensorTypeNegativeWhenSigned",
       [](B& g) { g.Tensor("a", {8}, 0xFFFFFFFF, 32); }, kUnsupported,
       "got 4294967295"},

      // Places (CVE-2026-7482: offset and size never compared with the file).
      {"TensorOffsetUnaligned",
       [](B& g) { g.TensorAt("a", {8}, kF32, 4).Bytes(64); }, kDamaged,
       "offset is not aligned; expected a multiple of 32, got 4"},
      {"TensorOffsetBeyondTheFile",
       [](B& g) { g.TensorAt("a", {8}, kF32, 64).Bytes(32); }, kDamaged,
       "lies beyond the end of the file; expected 32 bytes at 64 of the data "
       "section, got a section of 32"},
      {"TensorOffsetPlusSizeWraps",
       [](B& g) { g.TensorAt("a", {8}, kF32, kHuge - 31).Bytes(32); }, kDamaged,
       "lies beyond the end of the file"},
      {"TensorOffsetPlusDataStartWraps",
       [](B& g) { g.TensorAt("a", {8}, kF32, kHuge - 127).Bytes(64); },
       kDamaged, "lies beyond the end of the file"},
      {"TensorLongerThanTheFile",
       [](B& g) { g.TensorAt("a", {8, 2}, kF32, 0).Bytes(63); }, kDamaged,
       "expected 64 bytes at 0 of the data section, got a section of 63"},
      {"TensorSizeNearTwoToThe64",
       [](B& g) { g.TensorAt("a", {uint64_t{1} << 61}, kF32, 0).Bytes(32); },
       kDamaged, "lies beyond the end of the file"},
      {"TensorsWithoutADataSection",
       [](B& g) { g.TensorAt("a", {8}, kF32, 0); }, kDamaged,
       "got a section of 0"},
      {"OverlappingTensors",
       [](B& g) {
         g.TensorAt("a", {16}, kF32, 0).TensorAt("b", {8}, kF32, 32).Bytes(64);
       },
       kDamaged, "tensor \"b\": overlaps another tensor; expected an offset of "
                 "at least 64, got 32"},
      {"TwoTensorsAtOnePlace",
       [](B& g) {
         g.TensorAt("a", {8}, kF32, 0).TensorAt("b", {8}, kF32, 0).Bytes(32);
       },
       kDamaged, "overlaps another tensor"},
      {"HoleBeforeTheFirstTensor",
       [](B& g) { g.TensorAt("a", {8}, kF32, 32).Bytes(64); }, kDamaged,
       "a hole lies before it; expected at most 31 bytes of padding, got 32"},
      {"HoleBetweenTensors",
       [](B& g) {
         g.TensorAt("a", {8}, kF32, 0).TensorAt("b", {8}, kF32, 64).Bytes(96);
       },
       kDamaged, "tensor \"b\": a hole lies before it"},
      {"BytesBehindTheLastTensor",
       [](B& g) { g.Tensor("a", {8}, kF32, 32).Tail(std::string(32, 'x')); },
       kDamaged, "data section: bytes follow the last tensor; expected at most 31 "
                 "of padding, got 32"},
      {"BytesBehindAFileWithoutTensors",
       [](B& g) { g.Tail(std::string(100, 'x')); }, kDamaged,
       "bytes follow the last tensor"},
  };
  return *attacks;
}

class GgufAttackTest : public ::testing::TestWithParam<Attack> {};

TEST_P(GgufAttackTest, IsRefused) {
  GgufBuilder gguf = Sound();
  GetParam().build(gguf);
  const FaultyFile file(gguf.Build());
  const absl::StatusOr<GgufHead> head = ReadGgufHead(file);
  EXPECT_THAT(head, Fails(GetParam().code, GetParam().message));
  // One line that begins with the file.
  EXPECT_EQ(head.status().message().find('\n'), absl::string_view::npos);
  EXPECT_EQ(head.status().message().find("memory: "), 0u);
  EXPECT_LT(head.status().message().size(), 400u);
}

INSTANTIATE_TEST_SUITE_P(All, GgufAttackTest, ::testing::ValuesIn(Attacks()),
                         [](const ::testing::TestParamInfo<Attack>& param) {
                           return std::string(param.param.name);
                         });

TEST(GgufTruncationTest, EveryPrefixOfAFileIsRefused) {
  GgufBuilder gguf = Sound();
  gguf.Array("texts", GgufBuilder::kString, 2, RawString("a") + RawString("b"));
  gguf.Tensor("a", {8, 2}, kF32, 64).Tensor("b", {8}, kF32, 32);
  const std::string whole = gguf.Build();
  ASSERT_THAT(ReadGgufHead(FaultyFile(whole)), IsOk());
  for (size_t size = 0; size < whole.size(); ++size) {
    const FaultyFile file(whole.substr(0, size));
    EXPECT_THAT(ReadGgufHead(file), Fails(kDamaged, "")) << size << " bytes";
  }
}

}  // namespace
}  // namespace lowmem
