// SPDX-License-Identifier: Apache-2.0
// Conversion of the small golden models: weights bit for bit, configuration and
// tokenizer. What becomes of the output folder is in convert_output_test.cc.
#include "engine/generate/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/text/tokenizer.h"
#include "quant/decode.h"
#include "storage/base/json.h"
#include "storage/checkpoint.h"
#include "storage/safetensors_writer.h"
#include "tests/engine/generate/convert_inputs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Fails;
using testing::Gguf;
using testing::IsOk;
using testing::ListFolder;
using testing::Options;
using testing::ReadFileBytes;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::Tiny;

std::string TensorText(const Checkpoint& checkpoint, TensorId id) {
  const TensorInfo& tensor = checkpoint.tensors()[id];
  std::string bytes(tensor.size_bytes, '\0');
  EXPECT_THAT(checkpoint.files()[tensor.file_idx]->Read(
                  tensor.file_ofs,
                  absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()),
                                 bytes.size())),
              IsOk());
  return bytes;
}

// Every tensor of `expected`, and no other, with the same dtype, shape and
// bytes.
void ExpectSameTensors(const std::string& actual_path,
                       const std::string& expected_path) {
  ASSERT_OK_AND_ASSIGN(const auto actual, Checkpoint::Open(actual_path));
  ASSERT_OK_AND_ASSIGN(const auto expected, Checkpoint::Open(expected_path));
  EXPECT_EQ(actual->tensors().size(), expected->tensors().size());
  for (TensorId id = 0; id < expected->tensors().size(); ++id) {
    const TensorInfo& tensor = expected->tensors()[id];
    ASSERT_TRUE(actual->Find(tensor.name).has_value()) << tensor.name;
    const TensorId actual_id = *actual->Find(tensor.name);
    EXPECT_EQ(actual->tensors()[actual_id].dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(actual->tensors()[actual_id].shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(TensorText(*actual, actual_id) == TensorText(*expected, id))
        << tensor.name;
  }
}

JsonValue ReadJson(const std::string& path) {
  absl::StatusOr<JsonValue> value = JsonValue::Parse(ReadFileBytes(path));
  EXPECT_TRUE(value.ok()) << path << ": " << value.status();
  return value.ok() ? *value : JsonValue();
}

// Numbers by value, the rest by kind and text.
bool SameJson(const JsonValue& a, const JsonValue& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_number()) return a.AsDouble() == b.AsDouble();
  if (a.AsBool() != b.AsBool() || a.string() != b.string()) return false;
  if (a.items().size() != b.items().size()) return false;
  for (size_t i = 0; i < a.items().size(); ++i) {
    if (!SameJson(a.items()[i], b.items()[i])) return false;
  }
  if (a.members().size() != b.members().size()) return false;
  for (const auto& [key, value] : a.members()) {
    if (b.Find(key) == nullptr || !SameJson(value, *b.Find(key))) return false;
  }
  return true;
}

TEST(ConvertTest, WeightsOfFloatGgufAreThePublishedOnesBitForBit) {
  const std::pair<std::string, std::string> kSameWeights[] = {
      {"llama3-bf16", "llama3"}, {"qwen2-f32", "qwen2"}};
  for (const auto& [gguf, published] : kSameWeights) {
    SCOPED_TRACE(gguf);
    const TemporaryFolder folder;
    ASSERT_THAT(ConvertCheckpoint(Options(Gguf(gguf), folder / "out")), IsOk());
    ExpectSameTensors(folder / "out", Tiny(published));
  }
}

TEST(ConvertTest, WeightsOfF16GgufAreThePublishedOnesUpToItsDenormals) {
  const TemporaryFolder folder;
  ASSERT_THAT(ConvertCheckpoint(Options(Gguf("llama-f16"), folder / "out")),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const auto actual, Checkpoint::Open(folder / "out"));
  ASSERT_OK_AND_ASSIGN(const auto expected, Checkpoint::Open(Tiny("llama")));
  ASSERT_EQ(actual->tensors().size(), expected->tensors().size());
  for (TensorId id = 0; id < expected->tensors().size(); ++id) {
    const std::string& name = expected->tensors()[id].name;
    ASSERT_TRUE(actual->Find(name).has_value()) << name;
    const std::string a = TensorText(*actual, *actual->Find(name));
    const std::string e = TensorText(*expected, id);
    ASSERT_EQ(a.size(), e.size()) << name;
    std::vector<float> values(a.size() / 2);
    std::vector<float> published(a.size() / 2);
    DecodeRow(DType::kBF16, reinterpret_cast<const uint8_t*>(a.data()),
              values.size(), values.data());
    DecodeRow(DType::kBF16, reinterpret_cast<const uint8_t*>(e.data()),
              values.size(), published.data());
    for (size_t i = 0; i < values.size(); ++i) {
      // Below 2^-14 F16 is a multiple of 2^-24.
      const float tolerance =
          std::abs(published[i]) < 0x1p-14f ? 0x1p-25f : 0.0f;
      ASSERT_LE(std::abs(values[i] - published[i]), tolerance)
          << name << " " << i;
    }
  }
}

TEST(ConvertTest, EveryDtypeIsDecodedAndRounded) {
  for (const std::string gguf :
       {"llama-f16", "llama-q4_0", "llama-mixed", "qwen2-q8_0"}) {
    SCOPED_TRACE(gguf);
    const TemporaryFolder folder;
    ASSERT_THAT(ConvertCheckpoint(Options(Gguf(gguf), folder / "out")), IsOk());
    ASSERT_OK_AND_ASSIGN(const auto source, Checkpoint::Open(Gguf(gguf)));
    ASSERT_OK_AND_ASSIGN(const auto target, Checkpoint::Open(folder / "out"));
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, ReadModelConfig(*source));
    const std::pair<std::string, std::string> kNames[] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
        {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
        {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"},
        {"blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight"},
        {"blk.1.attn_k.weight", "model.layers.1.self_attn.k_proj.weight"}};
    for (const auto& [from, to] : kNames) {
      SCOPED_TRACE(from);
      const TensorId source_id = *source->Find(from);
      const TensorInfo& tensor = source->tensors()[source_id];
      ASSERT_TRUE(target->Find(to).has_value());
      const std::string stored = TensorText(*source, source_id);
      const uint64_t num_cols = tensor.num_cols();
      std::vector<float> values(tensor.num_rows() * num_cols);
      DecodeRow(tensor.dtype, reinterpret_cast<const uint8_t*>(stored.data()),
                values.size(), values.data());
      const bool is_permuted =
          config.rope.neighbour_pairs &&
          (from == "blk.1.attn_q.weight" || from == "blk.1.attn_k.weight");
      std::string expected(values.size() * 2, '\0');
      for (uint64_t row = 0; row < tensor.num_rows(); ++row) {
        // Row head * d + 2 * j + s of GGUF is row head * d + s * d / 2 + j.
        const uint64_t d = config.head_dim;
        const uint64_t j = row % d / 2;
        const uint64_t to_row =
            is_permuted ? row - row % d + row % 2 * (d / 2) + j : row;
        for (uint64_t col = 0; col < num_cols; ++col) {
          const uint32_t bits =
              std::bit_cast<uint32_t>(values[row * num_cols + col]);
          uint32_t high = bits >> 16;
          const uint32_t rest = bits & 0xffff;
          if (rest > 0x8000 || (rest == 0x8000 && (high & 1) != 0)) ++high;
          expected[(to_row * num_cols + col) * 2] = static_cast<char>(high);
          expected[(to_row * num_cols + col) * 2 + 1] =
              static_cast<char>(high >> 8);
        }
      }
      EXPECT_TRUE(TensorText(*target, *target->Find(to)) == expected);
    }
  }
}

TEST(ConvertTest, ConfigHasThePublishedKeysAndValues) {
  const std::pair<std::string, std::string> kModels[] = {
      {"llama3-bf16", "llama3"}, {"qwen2-f32", "qwen2"}};
  // What GGUF does not hold, or holds in another way.
  const std::vector<std::string> kLeftOut = {
      "initializer_range", "pretraining_tp", "transformers_version",
      "sliding_window", "max_window_layers"};
  for (const auto& [gguf, published] : kModels) {
    SCOPED_TRACE(gguf);
    const TemporaryFolder folder;
    ASSERT_THAT(ConvertCheckpoint(Options(Gguf(gguf), folder / "out")), IsOk());
    const JsonValue actual = ReadJson(folder / "out/config.json");
    const JsonValue expected = ReadJson(Tiny(published) + "/config.json");
    for (const auto& [key, value] : expected.members()) {
      if (std::find(kLeftOut.begin(), kLeftOut.end(), key) != kLeftOut.end())
        continue;
      ASSERT_NE(actual.Find(key), nullptr) << key;
      EXPECT_TRUE(SameJson(*actual.Find(key), value)) << key;
    }
  }
}

TEST(ConvertTest, GenerationConfigHoldsEndIdsOnly) {
  const TemporaryFolder folder;
  ASSERT_THAT(ConvertCheckpoint(Options(Gguf("llama3-bf16"), folder / "gguf")),
              IsOk());
  const JsonValue from_gguf = ReadJson(folder / "gguf/generation_config.json");
  ASSERT_THAT(from_gguf.members(), SizeIs(1));
  ASSERT_NE(from_gguf.Find("eos_token_id"), nullptr);
  ASSERT_THAT(from_gguf.Find("eos_token_id")->items(), SizeIs(2));
  EXPECT_EQ(from_gguf.Find("eos_token_id")->items()[0].AsInt64(), 319);
  EXPECT_EQ(from_gguf.Find("eos_token_id")->items()[1].AsInt64(), 317);

  ASSERT_THAT(ConvertCheckpoint(Options(Tiny("llama"), folder / "folder")),
              IsOk());
  const JsonValue from_folder =
      ReadJson(folder / "folder/generation_config.json");
  EXPECT_TRUE(SameJson(from_folder, from_gguf));
}

TEST(ConvertTest, TokenizerGivesTheSameIds) {
  const TemporaryFolder folder;
  ASSERT_THAT(ConvertCheckpoint(Options(Gguf("llama3-bf16"), folder / "out")),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const auto source,
                       Checkpoint::Open(Gguf("llama3-bf16")));
  ASSERT_OK_AND_ASSIGN(const auto expected, LoadTokenizer(*source));
  ASSERT_OK_AND_ASSIGN(const auto actual,
                       LoadTokenizerFromFolder(folder / "out"));
  ASSERT_OK_AND_ASSIGN(const auto published,
                       LoadTokenizerFromFolder(Tiny("llama3")));
  EXPECT_EQ(actual->bos_id(), expected->bos_id());
  EXPECT_EQ(actual->eos_ids().at(0), expected->eos_ids().at(0));
  const std::string kTexts[] = {"",
                                " ",
                                "The keeper reads the b",
                                "30 ships\n\n\tin the harbour's 1234567",
                                "<|im_start|>user\nHi<|im_end|>",
                                "\xC3\xA9\xF0\x9F\x98\x80"};
  for (const std::string& text : kTexts) {
    for (const bool parse_special : {false, true}) {
      const Tokenizer::EncodeOptions options = {.parse_special = parse_special};
      ASSERT_OK_AND_ASSIGN(const auto ids, actual->Encode(text, options));
      ASSERT_OK_AND_ASSIGN(const auto from_gguf,
                           expected->Encode(text, options));
      ASSERT_OK_AND_ASSIGN(const auto from_folder,
                           published->Encode(text, options));
      EXPECT_EQ(ids, from_gguf) << text;
      EXPECT_EQ(ids, from_folder) << text;
    }
  }
}

TEST(ConvertTest, TokenizerConfigNamesClassTokensAndTemplate) {
  const TemporaryFolder folder;
  ASSERT_THAT(ConvertCheckpoint(Options(Gguf("qwen2-f32"), folder / "out")),
              IsOk());
  const JsonValue actual = ReadJson(folder / "out/tokenizer_config.json");
  const JsonValue published =
      ReadJson(Tiny("qwen2") + "/tokenizer_config.json");
  for (const std::string key :
       {"tokenizer_class", "bos_token", "eos_token", "pad_token", "unk_token",
        "chat_template", "model_max_length", "clean_up_tokenization_spaces"}) {
    ASSERT_NE(actual.Find(key), nullptr) << key;
    EXPECT_TRUE(SameJson(*actual.Find(key), *published.Find(key))) << key;
  }
}

TEST(ConvertTest, FolderIsCarriedOverWithItsFiles) {
  const TemporaryFolder folder;
  ASSERT_THAT(ConvertCheckpoint(Options(Tiny("qwen2"), folder / "out")),
              IsOk());
  EXPECT_THAT(
      ListFolder(folder / "out"),
      ElementsAre("config.json", "generation_config.json", "model.safetensors",
                  "tokenizer.json", "tokenizer_config.json"));
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(ReadFileBytes(folder / "out/" + name),
              ReadFileBytes(Tiny("qwen2") + "/" + name));
  }
  EXPECT_TRUE(SameJson(ReadJson(folder / "out/config.json"),
                       ReadJson(Tiny("qwen2") + "/config.json")));
  ExpectSameTensors(folder / "out", Tiny("qwen2"));
}

// A copy of tiny/llama in F32 whose values are no BF16 numbers: above, below
// and exactly between two of them.
void WriteF32Folder(const std::string& path) {
  ASSERT_OK_AND_ASSIGN(const auto source, Checkpoint::Open(Tiny("llama")));
  fs::create_directories(path);
  std::vector<TensorSpec> specs;
  for (const TensorInfo& tensor : source->tensors()) {
    specs.push_back({tensor.name, DType::kF32, tensor.shape});
  }
  ASSERT_OK_AND_ASSIGN(
      const auto writer,
      SafetensorsWriter::Create(path + "/model.safetensors", specs, {}));
  const uint32_t kRests[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  for (TensorId id = 0; id < source->tensors().size(); ++id) {
    const std::string stored = TensorText(*source, id);
    std::vector<uint32_t> bits(stored.size() / 2);
    for (size_t i = 0; i < bits.size(); ++i) {
      bits[i] =
          static_cast<uint32_t>(static_cast<uint8_t>(stored[2 * i])) << 16 |
          static_cast<uint32_t>(static_cast<uint8_t>(stored[2 * i + 1])) << 24 |
          kRests[i % 6];
    }
    ASSERT_THAT(writer->Append({reinterpret_cast<const uint8_t*>(bits.data()),
                                bits.size() * 4}),
                IsOk());
  }
  ASSERT_THAT(writer->Commit(), IsOk());
  std::string config = ReadFileBytes(Tiny("llama") + "/config.json");
  config.replace(config.find("bfloat16"), 8, "float32");
  std::ofstream(path + "/config.json") << config;
}

TEST(ConvertTest, F32IsRoundedToNearestTiesToEven) {
  const TemporaryFolder folder;
  WriteF32Folder(folder / "in");
  ASSERT_THAT(ConvertCheckpoint(Options(folder / "in", folder / "out")),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const auto source, Checkpoint::Open(Tiny("llama")));
  ASSERT_OK_AND_ASSIGN(const auto target, Checkpoint::Open(folder / "out"));
  for (TensorId id = 0; id < source->tensors().size(); ++id) {
    const std::string before = TensorText(*source, id);
    const std::string after =
        TensorText(*target, *target->Find(source->tensors()[id].name));
    ASSERT_EQ(before.size(), after.size());
    size_t num_wrong = 0;
    for (size_t i = 0; i < before.size() / 2; ++i) {
      const auto word = [&](const std::string& bytes) {
        return static_cast<uint8_t>(bytes[2 * i]) |
               static_cast<uint8_t>(bytes[2 * i + 1]) << 8;
      };
      const bool up[] = {false, false, false, (word(before) & 1) != 0,
                         true,  true};
      if (word(after) != word(before) + (up[i % 6] ? 1 : 0)) ++num_wrong;
    }
    EXPECT_EQ(num_wrong, 0u) << source->tensors()[id].name;
  }
  const JsonValue config = ReadJson(folder / "out/config.json");
  EXPECT_EQ(config.Find("torch_dtype")->string(), "bfloat16");
}

TEST(ConvertTest, LargeModelsAreSplitIntoShards) {
  const TemporaryFolder folder;
  ConvertOptions options = Options(Gguf("qwen2-f32"), folder / "out");
  options.max_shard_bytes = 50000;
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());
  EXPECT_FALSE(fs::exists(folder / "out/model.safetensors"));
  ExpectSameTensors(folder / "out", Tiny("qwen2"));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder / "out"));
  EXPECT_GT(checkpoint->files().size(), 2u);
  for (const auto& file : checkpoint->files()) {
    EXPECT_LT(file->size_bytes(), 50000u + 4096) << "data and a header";
  }
  EXPECT_NE(checkpoint->files()[0]->path().find("model-00001-of-0000"),
            std::string::npos);
  const JsonValue index = ReadJson(folder / "out/model.safetensors.index.json");
  EXPECT_EQ(index.Find("metadata")->Find("total_size")->AsUint64(),
            checkpoint->total_tensor_bytes());
}

TEST(ConvertTest, ATensorLargerThanAShardHasOneOfItsOwn) {
  const TemporaryFolder folder;
  ConvertOptions options = Options(Gguf("qwen2-f32"), folder / "out");
  options.max_shard_bytes = 1;
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder / "out"));
  EXPECT_EQ(checkpoint->files().size(), checkpoint->tensors().size());
}

TEST(ConvertTest, ProgressRisesToTheTotal) {
  const TemporaryFolder folder;
  ConvertOptions options = Options(Gguf("llama-q4_0"), folder / "out");
  uint64_t last = 0;
  uint64_t total = 0;
  options.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
    EXPECT_GT(done_bytes, last);
    last = done_bytes;
    total = total_bytes;
  };
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());
  EXPECT_EQ(last, total);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder / "out"));
  EXPECT_EQ(total, checkpoint->total_tensor_bytes());
}

// llama3-bf16.gguf with other bytes in its place for `from`.
std::string WritePatchedGguf(const TemporaryFolder& folder, size_t ofs,
                             const std::string& bytes) {
  std::string file = ReadFileBytes(Gguf("llama3-bf16"));
  file.replace(ofs, bytes.size(), bytes);
  return folder.Write("patched.gguf", file);
}

TEST(ConvertTest, DivisorsOfNoKnownScalingAreUnimplemented) {
  ASSERT_OK_AND_ASSIGN(const auto source,
                       Checkpoint::Open(Gguf("llama3-bf16")));
  const TensorInfo& divisors =
      source->tensors()[*source->Find("rope_freqs.weight")];
  const float kOther = 5.0f;  // the last is 8, as are those before it
  const TemporaryFolder folder;
  const std::string path =
      WritePatchedGguf(folder, divisors.file_ofs + divisors.size_bytes - 4,
                       std::string(reinterpret_cast<const char*>(&kOther), 4));
  EXPECT_THAT(ConvertCheckpoint(Options(path, folder / "out")),
              Fails(absl::StatusCode::kUnimplemented, "rope_freqs.weight"));
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("patched.gguf"));
}

TEST(ConvertTest, ATensorWithoutAPublishedNameIsUnimplemented) {
  const std::string name = "rope_freqs.weight";
  const size_t ofs = ReadFileBytes(Gguf("llama3-bf16")).find(name);
  ASSERT_NE(ofs, std::string::npos);
  const TemporaryFolder folder;
  const std::string path = WritePatchedGguf(folder, ofs, "rope_other.weight");
  EXPECT_THAT(
      ConvertCheckpoint(Options(path, folder / "out")),
      Fails(absl::StatusCode::kUnimplemented, "tensor rope_other.weight"));
}

}  // namespace
}  // namespace lowmem
