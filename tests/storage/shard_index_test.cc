// SPDX-License-Identifier: Apache-2.0
#include "storage/shard_index.h"

#include <string>

#include "tests/support/faulty_file.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FaultyFile;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

absl::StatusOr<ShardIndex> ReadText(const std::string& text) {
  const FaultyFile file(text);
  return ReadShardIndex(file);
}

TEST(ShardIndexTest, ReadsShardsInTheOrderOfTheirNames) {
  ASSERT_OK_AND_ASSIGN(
      const ShardIndex index,
      ReadText(
          R"({"metadata":{"total_size":12,"weight_map":{"x":1},"n":[1,{"a":null}]},
                   "weight_map":{"c":"2.safetensors","a":"1.safetensors","b":"2.safetensors"},
                   "other":["weight_map",true]})"));
  EXPECT_THAT(index.shard_names, ElementsAre("1.safetensors", "2.safetensors"));
  EXPECT_THAT(index.shard_by_tensor,
              UnorderedElementsAre(Pair("a", 0), Pair("b", 1), Pair("c", 1)));
}

struct IndexCase {
  const char* name;
  std::string text;
  std::string message_part;
};
void PrintTo(const IndexCase& c, std::ostream* out) { *out << c.name; }

class MalformedIndex : public ::testing::TestWithParam<IndexCase> {};

TEST_P(MalformedIndex, IsRefused) {
  EXPECT_THAT(ReadText(GetParam().text),
              Fails(absl::StatusCode::kDataLoss, GetParam().message_part));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    All, MalformedIndex,
    ::testing::Values(
        IndexCase{"Empty", "", "malformed JSON"},
        IndexCase{"List", "[]", "the document is malformed; expected an object, got a list"},
        IndexCase{"String", "\"x\"", "the document is malformed"},
        IndexCase{"NoMap", "{}", "weight_map is absent"},
        IndexCase{"MapOnlyNested", R"({"metadata":{"weight_map":{"a":"1.safetensors"}}})", "weight_map is absent"},
        IndexCase{"EmptyMap", R"({"weight_map":{}})", "weight_map is empty"},
        IndexCase{"MapTwice", R"({"weight_map":{"a":"1.safetensors"},"weight_map":{"b":"1.safetensors"}})", "weight_map stands there twice"},
        IndexCase{"MapIsList", R"({"weight_map":["1.safetensors"]})", "weight_map is malformed; expected an object, got a list"},
        IndexCase{"MapIsString", R"({"weight_map":"1.safetensors"})", "weight_map is malformed; expected an object, got a string"},
        IndexCase{"MapIsNull", R"({"weight_map":null})", "weight_map is malformed; expected an object, got null"},
        IndexCase{"TensorTwice", R"({"weight_map":{"a":"1.safetensors","a":"1.safetensors"}})", "tensor a: the name stands there twice"},
        IndexCase{"FileIsNumber", R"({"weight_map":{"a":1}})", "tensor a: malformed; expected a file name, got a number"},
        IndexCase{"FileIsNull", R"({"weight_map":{"a":null}})", "expected a file name, got null"},
        IndexCase{"FileIsTrue", R"({"weight_map":{"a":true}})", "expected a file name, got a truth value"},
        IndexCase{"FileIsList", R"({"weight_map":{"a":["1.safetensors"]}})", "expected a file name, got a list"},
        IndexCase{"FileIsObject", R"({"weight_map":{"a":{}}})", "expected a file name, got an object"},
        IndexCase{"TrailingText", R"({"weight_map":{"a":"1.safetensors"}}x)", "malformed JSON"},
        IndexCase{"ParentFolder", R"({"weight_map":{"a":"../1.safetensors"}})", "the file name ../1.safetensors is not safe"},
        IndexCase{"AbsolutePath", R"({"weight_map":{"a":"/etc/x.safetensors"}})", "is not safe"},
        IndexCase{"EscapedNul", R"({"weight_map":{"a":"1.safetensors\u0000.safetensors"}})", "is not safe"}),
    [](const ::testing::TestParamInfo<IndexCase>& row) { return row.param.name; });
// clang-format on

TEST(ShardIndexTest, TooManyShardsAreRefused) {
  std::string text = "{\"weight_map\":{";
  for (int i = 0; i <= 4096; ++i) {
    const std::string number = std::to_string(i);
    text +=
        (i == 0 ? "\"" : ",\"") + number + "\":\"" + number + ".safetensors\"";
  }
  EXPECT_THAT(ReadText(text + "}}"),
              Fails(absl::StatusCode::kDataLoss,
                    "too many shards; expected at most 4096"));
}

TEST(ShardIndexTest, TooLongAFileIsRefusedUnread) {
  const FaultyFile file(std::string((64u << 20) + 1, ' '), 0);
  EXPECT_THAT(ReadShardIndex(file),
              Fails(absl::StatusCode::kDataLoss, "the index is too long"));
  EXPECT_EQ(file.num_reads(), 0);
}

TEST(ShardIndexTest, EveryFailingReadIsReported) {
  std::string text = "{\"weight_map\":{\"a\":\"1.safetensors\"";
  for (int i = 0; i < 5000; ++i) {
    text += ",\"layer." + std::to_string(i) + "\":\"2.safetensors\"";
  }
  text += "}}";
  int failing_read = 0;
  for (;; ++failing_read) {
    const FaultyFile file(text, failing_read);
    const auto index = ReadShardIndex(file);
    if (index.ok()) {
      EXPECT_EQ(index->shard_by_tensor.size(), 5001u);
      break;
    }
    EXPECT_THAT(index, Fails(absl::StatusCode::kUnavailable, "injected fault"));
  }
  EXPECT_GE(failing_read, 3);
}

TEST(ShardIndexTest, SafeNamesStayBeneathTheFolder) {
  const std::string kSafe[] = {
      "a.safetensors",     "model-00001-of-00003.safetensors",
      "sub/a.safetensors", "..a.safetensors",
      "a..safetensors",    ".safetensors",
      "...safetensors",    "\xC3\xA9.safetensors"};
  for (const std::string& name : kSafe)
    EXPECT_TRUE(IsSafeShardName(name)) << name;
  const std::string kUnsafe[] = {"",
                                 "a",
                                 "a.bin",
                                 "a.safetensors.bin",
                                 "a.SAFETENSORS",
                                 "/a.safetensors",
                                 "//a.safetensors",
                                 "../a.safetensors",
                                 "sub/../../a.safetensors",
                                 "sub/../a.safetensors",
                                 "./a.safetensors",
                                 "sub//a.safetensors",
                                 "sub/./a.safetensors",
                                 "a.safetensors/",
                                 "..\\a.safetensors",
                                 "C:\\a.safetensors",
                                 std::string("a\0.safetensors", 14),
                                 std::string(256, 'a') + ".safetensors"};
  for (const std::string& name : kUnsafe)
    EXPECT_FALSE(IsSafeShardName(name)) << name;
}

}  // namespace
}  // namespace lowmem
