// SPDX-License-Identifier: Apache-2.0
// Conversion of published models: the same tensors, by SHA-256, as an
// independent conversion of the same files.
#include <filesystem>
#include <string>
#include <vector>

#include "engine/generate/convert.h"
#include "engine/text/tokenizer.h"
#include "storage/base/json.h"
#include "storage/checkpoint.h"
#include "tests/support/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using testing::IsOk;
using testing::ReadFileBytes;
using testing::Sha256;
using testing::TemporaryFolder;

struct PublishedModel {
  const char* name;
  const char* gguf;    // below models/
  const char* golden;  // below testdata/real
};
void PrintTo(const PublishedModel& model, std::ostream* out) {
  *out << model.name;
}

constexpr PublishedModel kModels[] = {
    {"SmolLM2", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m.json"},
    {"Qwen", "qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
     "qwen2.5-coder-0.5b.json"},
};

class ConvertModels : public ::testing::TestWithParam<PublishedModel> {};

TEST_P(ConvertModels, HaveTheGoldenTensorsAndPromptIds) {
  const std::string gguf =
      std::string(LOWMEM_SOURCE_DIR "/models/") + GetParam().gguf;
  if (!std::filesystem::exists(gguf)) {
    GTEST_SKIP() << gguf << " is absent; ./dev fetch gets it";
  }
  const TemporaryFolder folder(LOWMEM_BINARY_DIR);
  ConvertOptions options;
  options.in_path = gguf;
  options.out_path = folder / "out";
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());

  ASSERT_OK_AND_ASSIGN(
      const JsonValue golden,
      JsonValue::Parse(ReadFileBytes(std::string(LOWMEM_TESTDATA_DIR "/real/") +
                                     GetParam().golden)));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(options.out_path));
  const JsonValue& tensors = *golden.Find("bf16_tensors")->Find("tensors");
  EXPECT_EQ(checkpoint->tensors().size(), tensors.members().size());
  std::vector<uint8_t> piece(1 << 20);
  for (const auto& [name, expected] : tensors.members()) {
    ASSERT_TRUE(checkpoint->Find(name).has_value()) << name;
    const TensorInfo& tensor = checkpoint->tensors()[*checkpoint->Find(name)];
    EXPECT_EQ(tensor.dtype, DType::kBF16) << name;
    std::vector<uint64_t> shape;
    for (const JsonValue& dimension : expected.Find("shape")->items()) {
      shape.push_back(dimension.AsUint64().value_or(0));
    }
    EXPECT_EQ(tensor.shape, shape) << name;
    Sha256 hash;
    for (uint64_t ofs = 0; ofs < tensor.size_bytes; ofs += piece.size()) {
      const size_t count =
          std::min<uint64_t>(piece.size(), tensor.size_bytes - ofs);
      ASSERT_THAT(checkpoint->files()[tensor.file_idx]->Read(
                      tensor.file_ofs + ofs, {piece.data(), count}),
                  IsOk());
      hash.Update(piece.data(), count);
    }
    EXPECT_EQ(hash.Finish(), expected.Find("sha256")->string()) << name;
  }

  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       LoadTokenizerFromFolder(options.out_path));
  for (const JsonValue& prompt : golden.Find("prompts")->items()) {
    ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids,
                         tokenizer->Encode(prompt.Find("text")->string(), {}));
    std::vector<int32_t> expected;
    for (const JsonValue& id : prompt.Find("ids")->items()) {
      expected.push_back(static_cast<int32_t>(id.AsInt64().value_or(-1)));
    }
    EXPECT_EQ(ids, expected) << prompt.Find("name")->string();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ConvertModels, ::testing::ValuesIn(kModels),
    [](const ::testing::TestParamInfo<PublishedModel>& row) {
      return row.param.name;
    });

}  // namespace
}  // namespace lowmem
