// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors_writer.h"

#include <string>
#include <vector>

#include "storage/checkpoint.h"
#include "storage/safetensors_reader.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::ListFolder;
using testing::Pattern;
using testing::ReadFileBytes;
using ::testing::SizeIs;
using testing::TemporaryFolder;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(SafetensorsWriterTest, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::vector<TensorSpec> specs = {
      {"weight \"\n\xC3\xA9", DType::kBF16, {3, 5}},
      {"scalar", DType::kF32, {}},
      {"empty", DType::kI64, {0, 7}},
      {"bytes", DType::kU8, {3}}};
  ASSERT_OK_AND_ASSIGN(const auto writer,
                       SafetensorsWriter::Create(path, specs, {{"k", "v"}}));
  const std::string data = Pattern(30 + 4 + 3);
  ASSERT_THAT(writer->Append(Bytes(data.substr(0, 7))), IsOk());
  ASSERT_THAT(writer->Append(Bytes(data.substr(7))), IsOk());
  ASSERT_THAT(writer->Commit(), IsOk());

  ASSERT_OK_AND_ASSIGN(const auto file, OpenFile(path));
  ASSERT_OK_AND_ASSIGN(const auto tensors, ReadSafetensorsHeader(*file, 0));
  ASSERT_THAT(tensors, SizeIs(4));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  for (const TensorSpec& spec : specs) {
    ASSERT_TRUE(checkpoint->Find(spec.name).has_value()) << spec.name;
    const TensorInfo& tensor =
        checkpoint->tensors()[*checkpoint->Find(spec.name)];
    EXPECT_EQ(tensor.dtype, spec.dtype);
    EXPECT_EQ(tensor.shape, spec.shape);
  }
  EXPECT_EQ(tensors[0].file_ofs % 8, 0u);
  EXPECT_EQ(ReadFileBytes(path).substr(tensors[0].file_ofs), data);
}

TEST(SafetensorsWriterTest, BytesMayComeInAnyOrder) {
  const TemporaryFolder folder;
  const std::vector<TensorSpec> specs = {{"a", DType::kU8, {5}},
                                         {"b", DType::kF32, {2}}};
  const std::string data = Pattern(5 + 8);
  const auto create = [&](const std::string& name) {
    return SafetensorsWriter::Create(folder / name, specs, {});
  };
  ASSERT_OK_AND_ASSIGN(const auto in_order, create("in_order"));
  ASSERT_THAT(in_order->Append(Bytes(data)), IsOk());
  ASSERT_THAT(in_order->Commit(), IsOk());

  ASSERT_OK_AND_ASSIGN(const auto writer, create("any_order"));
  ASSERT_THAT(writer->WriteAt(1, 4, Bytes(data.substr(9, 4))), IsOk());
  ASSERT_THAT(writer->WriteAt(0, 0, Bytes(data.substr(0, 5))), IsOk());
  EXPECT_THAT(writer->Commit(), Fails(absl::StatusCode::kInternal, "4 bytes"));
  for (const auto& [tensor, ofs] : {std::pair{2, 0}, {1, 5}, {0, 4}}) {
    EXPECT_THAT(writer->WriteAt(tensor, ofs, Bytes("1234")),
                Fails(absl::StatusCode::kInternal, "does not have"));
  }
  ASSERT_THAT(writer->WriteAt(1, 0, Bytes(data.substr(5, 4))), IsOk());
  ASSERT_THAT(writer->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(folder / "any_order"),
            ReadFileBytes(folder / "in_order"));
}

TEST(SafetensorsWriterTest, NamesTheFrameworkForTransformers) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  ASSERT_OK_AND_ASSIGN(
      const auto writer,
      SafetensorsWriter::Create(path, {},
                                SafetensorsWriter::TransformersMetadata()));
  ASSERT_THAT(writer->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(path).substr(8),
            "{\"__metadata__\":{\"format\":\"pt\"}}");
}

TEST(SafetensorsWriterTest, HeaderIsPaddedWithSpaces) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  ASSERT_OK_AND_ASSIGN(const auto writer,
                       SafetensorsWriter::Create(path, {}, {}));
  ASSERT_THAT(writer->Commit(), IsOk());
  EXPECT_EQ(ReadFileBytes(path).substr(8), "{}      ");
}

TEST(SafetensorsWriterTest, TooManyBytesAreRefused) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto writer,
                       SafetensorsWriter::Create(folder / "a.safetensors",
                                                 {{"a", DType::kU8, {3}}}, {}));
  EXPECT_THAT(writer->Append(Bytes("1234")),
              Fails(absl::StatusCode::kInternal, "more bytes"));
}

TEST(SafetensorsWriterTest, TooFewBytesLeaveNothingBehind) {
  const TemporaryFolder folder;
  {
    ASSERT_OK_AND_ASSIGN(const auto writer, SafetensorsWriter::Create(
                                                folder / "a.safetensors",
                                                {{"a", DType::kU8, {3}}}, {}));
    ASSERT_THAT(writer->Append(Bytes("12")), IsOk());
    EXPECT_THAT(writer->Commit(),
                Fails(absl::StatusCode::kInternal, "1 bytes"));
  }
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
}

TEST(SafetensorsWriterTest, RefusesWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const struct {
    std::vector<TensorSpec> specs;
    const char* part;
  } kCases[] = {
      {{{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}},
       "tensor a: the name is taken"},
      {{{"__metadata__", DType::kU8, {1}}}, "the name is taken"},
      {{{"a", DType::kQ4_K, {256}}}, "safetensors has no dtype Q4_K"},
      {{{"a", DType::kU8, {uint64_t{1} << 33, uint64_t{1} << 33}}},
       "the size overflows"},
      {{{"a", DType::kU8, {~uint64_t{0}}}, {"b", DType::kU8, {1}}},
       "the size overflows"},
      {{{"a", DType::kF4, {3}}}, "the size overflows"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(
        SafetensorsWriter::Create(folder / "a.safetensors", c.specs, {}),
        Fails(absl::StatusCode::kInvalidArgument, c.part));
  }
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace lowmem
