// SPDX-License-Identifier: Apache-2.0
// What sound GGUF files give; the broken ones are in gguf_attack_test.cc.
#include "storage/gguf_reader.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FaultyFile;
using testing::GgufBuilder;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::Raw;
using testing::RawString;

GgufBuilder TwoTensors() {
  GgufBuilder gguf;
  gguf.Text("general.architecture", "llama");
  gguf.Tensor("matrix", {32, 3}, GgufBuilder::kTensorQ4_0, 54);
  gguf.Tensor("vector", {5}, GgufBuilder::kTensorF32, 20);
  return gguf;
}

TEST(GgufReaderTest, TensorsHaveTheirShapeTurnedAndTheirPlaceInTheFile) {
  const std::string bytes = TwoTensors().Build();
  const FaultyFile file(bytes);
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_EQ(head.version, 3u);
  ASSERT_EQ(head.tensors.size(), 2u);
  const TensorInfo& matrix = head.tensors[0];
  EXPECT_EQ(matrix.name, "matrix");
  EXPECT_EQ(matrix.dtype, DType::kQ4_0);
  EXPECT_THAT(matrix.shape, ElementsAre(3u, 32u));
  EXPECT_EQ(matrix.size_bytes, 54u);
  EXPECT_EQ(matrix.row_bytes(), 18u);
  EXPECT_EQ(bytes.find('\x11'), matrix.file_ofs);
  const TensorInfo& vector = head.tensors[1];
  EXPECT_THAT(vector.shape, ElementsAre(5u));
  EXPECT_EQ(vector.file_ofs, matrix.file_ofs + 64);
  EXPECT_EQ(vector.file_ofs + vector.size_bytes, bytes.size());
}

TEST(GgufReaderTest, VersionTwoIsRead) {
  GgufBuilder gguf = TwoTensors();
  gguf.version = 2;
  const FaultyFile file(gguf.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_EQ(head.version, 2u);
}

TEST(GgufReaderTest, AFileOfKeysAloneIsRead) {
  GgufBuilder gguf;
  gguf.Text("general.name", "only a vocabulary");
  const FaultyFile file(gguf.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_THAT(head.tensors, IsEmpty());
  EXPECT_EQ(*head.metadata.GetString("general.name"), "only a vocabulary");
}

TEST(GgufReaderTest, AFileOfNothingIsRead) {
  const FaultyFile file(GgufBuilder().Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_THAT(head.metadata.values(), IsEmpty());
}

TEST(GgufReaderTest, AScalarHasNoDimension) {
  GgufBuilder gguf;
  gguf.Tensor("scalar", {}, GgufBuilder::kTensorF32, 4);
  const FaultyFile file(gguf.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_THAT(head.tensors[0].shape, IsEmpty());
  EXPECT_EQ(head.tensors[0].size_bytes, 4u);
}

TEST(GgufReaderTest, TypesWithoutADecoderAreInTheTable) {
  constexpr uint32_t kQ8_K = 15;
  GgufBuilder gguf;
  gguf.Tensor("odd", {256}, kQ8_K, 292);
  const FaultyFile file(gguf.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_EQ(head.tensors[0].dtype, DType::kQ8_K);
}

TEST(GgufReaderTest, TensorsMayLieInAnotherOrderThanTheTable) {
  GgufBuilder gguf;
  gguf.TensorAt("second", {8}, GgufBuilder::kTensorF32, 32)
      .TensorAt("first", {8}, GgufBuilder::kTensorF32, 0)
      .Bytes(64);
  const FaultyFile file(gguf.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  EXPECT_EQ(head.tensors[0].name, "second");
  EXPECT_EQ(head.tensors[0].file_ofs, head.tensors[1].file_ofs + 32);
}

TEST(GgufReaderTest, PaddingBehindTheLastTensorIsAccepted) {
  for (const size_t padding : {size_t{0}, size_t{1}, size_t{12}}) {
    GgufBuilder gguf = TwoTensors();  // ends 20 bytes behind a multiple of 32
    const FaultyFile file(gguf.Tail(std::string(padding, '\0')).Build());
    EXPECT_THAT(ReadGgufHead(file), IsOk()) << padding;
  }
}

TEST(GgufReaderTest, EveryAlignmentWithinLimits) {
  for (uint64_t alignment = 8; alignment <= 65536; alignment *= 2) {
    GgufBuilder gguf;
    gguf.alignment = alignment;
    gguf.Uint32("general.alignment", static_cast<uint32_t>(alignment));
    gguf.Tensor("a", {2}, GgufBuilder::kTensorF32, 8);
    gguf.Tensor("b", {2}, GgufBuilder::kTensorF32, 8);
    const FaultyFile file(gguf.Build());
    ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
    EXPECT_EQ(head.tensors[0].file_ofs % alignment, 0u);
    EXPECT_EQ(head.tensors[1].file_ofs - head.tensors[0].file_ofs, alignment);
  }
}

TEST(GgufReaderTest, EveryFailingReadIsReportedAndChangesNothingElse) {
  // A vocabulary longer than the buffer, so that there are several reads.
  std::string texts;
  for (int i = 0; i < 20000; ++i) texts += RawString("token");
  const std::string bytes =
      TwoTensors().Array("tokens", GgufBuilder::kString, 20000, texts).Build();
  for (int failing = 0;; ++failing) {
    ASSERT_LT(failing, 100);
    const FaultyFile file(bytes, failing);
    const absl::StatusOr<GgufHead> head = ReadGgufHead(file);
    if (head.ok()) {
      EXPECT_GT(failing, 3);
      EXPECT_EQ(head->tensors.size(), 2u);
      break;
    }
    EXPECT_THAT(head, Fails(absl::StatusCode::kUnavailable, "injected fault"));
  }
}

TEST(GgufReaderTest, TheHeadIsReadOnceAndTheWeightsAreNot) {
  GgufBuilder gguf = TwoTensors();
  gguf.Tensor("large", {1u << 20}, GgufBuilder::kTensorF32, 4u << 20);
  const FaultyFile file(gguf.Build());
  ASSERT_THAT(ReadGgufHead(file), IsOk());
  EXPECT_EQ(file.num_reads(), 1);
}

// The tiny models, written by the gguf package.
struct TinyFile {
  const char* name;
  const char* architecture;
  size_t num_tensors;
  size_t num_keys;
  const char* matrix;
  DType matrix_dtype;
};

TEST(GgufReaderTest, TheTinyModelsParse) {
  const TinyFile kFiles[] = {
      {"llama-f16", "llama", 21, 25, "blk.0.attn_q.weight", DType::kF16},
      {"llama-mixed", "llama", 21, 25, "blk.0.attn_q.weight", DType::kQ4_K},
      {"llama-q4_0", "llama", 21, 25, "blk.0.attn_q.weight", DType::kQ4_0},
      {"llama3-bf16", "llama", 21, 27, "blk.0.attn_q.weight", DType::kBF16},
      {"qwen2-f32", "qwen2", 26, 23, "blk.0.attn_q.weight", DType::kF32},
      {"qwen2-q8_0", "qwen2", 26, 23, "blk.0.attn_q.weight", DType::kQ8_0},
  };
  for (const TinyFile& tiny : kFiles) {
    SCOPED_TRACE(tiny.name);
    const std::string path =
        std::string(LOWMEM_TESTDATA_DIR) + "/tiny-gguf/" + tiny.name + ".gguf";
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RandomAccessFile> file,
                         OpenFile(path));
    ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(*file));
    EXPECT_EQ(head.tensors.size(), tiny.num_tensors);
    EXPECT_EQ(head.metadata.values().size(), tiny.num_keys);
    EXPECT_EQ(*head.metadata.GetString("general.architecture"),
              tiny.architecture);
    uint64_t vocab_size = 0;
    EXPECT_THAT(
        head.metadata.ForEachString("tokenizer.ggml.tokens",
                                    [&](uint64_t idx, absl::string_view text) {
                                      EXPECT_EQ(idx, vocab_size);
                                      EXPECT_FALSE(text.empty());
                                      ++vocab_size;
                                      return absl::OkStatus();
                                    }),
        IsOk());
    bool found = false;
    for (const TensorInfo& tensor : head.tensors) {
      if (tensor.name == "token_embd.weight") {
        EXPECT_EQ(tensor.num_rows(), vocab_size);
      }
      if (tensor.name != tiny.matrix) continue;
      found = true;
      EXPECT_EQ(tensor.dtype, tiny.matrix_dtype);
      EXPECT_EQ(tensor.size_bytes,
                tensor.num_rows() * *RowBytes(tensor.dtype, tensor.num_cols()));
    }
    EXPECT_TRUE(found);
  }
}

}  // namespace
}  // namespace lowmem
