// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/grown_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/status_macros.h"
#include "storage/safetensors_writer.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

constexpr uint64_t kDim = 512, kFfDim = 1536, kKvDim = 128, kVocab = 320;
constexpr int kNumLayers = 6;

std::vector<TensorSpec> Tensors() {
  std::vector<TensorSpec> tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors.push_back({name, DType::kBF16, std::move(shape)});
  };
  add("model.embed_tokens.weight", {kVocab, kDim});
  for (int i = 0; i < kNumLayers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    add(layer + "input_layernorm.weight", {kDim});
    add(layer + "self_attn.q_proj.weight", {kDim, kDim});
    add(layer + "self_attn.k_proj.weight", {kKvDim, kDim});
    add(layer + "self_attn.v_proj.weight", {kKvDim, kDim});
    add(layer + "self_attn.o_proj.weight", {kDim, kDim});
    add(layer + "post_attention_layernorm.weight", {kDim});
    add(layer + "mlp.gate_proj.weight", {kFfDim, kDim});
    add(layer + "mlp.up_proj.weight", {kFfDim, kDim});
    add(layer + "mlp.down_proj.weight", {kDim, kFfDim});
  }
  add("model.norm.weight", {kDim});
  add("lm_head.weight", {kVocab, kDim});
  return tensors;
}

// Both signs, magnitudes from 2^-8 to 2^-4: in bf16 any mantissa will do.
std::vector<uint8_t> Weights(uint64_t num_bytes, std::mt19937& random) {
  std::vector<uint8_t> bytes(num_bytes);
  for (uint64_t i = 0; i + 1 < num_bytes; i += 2) {
    const uint32_t bits = random();
    const uint32_t exponent = 127 - 8 + (bits >> 8) % 4;
    const uint32_t value =
        (bits & 0x8000) | exponent << 7 | ((bits >> 16) & 0x7f);
    bytes[i] = value & 0xff;
    bytes[i + 1] = value >> 8;
  }
  return bytes;
}

absl::Status WriteTensors(const std::string& path, uint64_t* weight_bytes) {
  const std::vector<TensorSpec> tensors = Tensors();
  LOWMEM_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(path, tensors,
                                SafetensorsWriter::TransformersMetadata()));
  std::mt19937 random(1);
  for (const TensorSpec& tensor : tensors) {
    const uint64_t num_bytes = TensorBytes(tensor).value_or(0);
    LOWMEM_RETURN_IF_ERROR(writer->Append(Weights(num_bytes, random)));
    *weight_bytes += num_bytes;
  }
  return writer->Commit();
}

}  // namespace

GrownModel::GrownModel()
    : folder_(LOWMEM_BINARY_DIR), path_(folder_ / "model") {
  std::filesystem::copy(Tiny("llama"), path_);
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    std::filesystem::permissions(entry.path(),
                                 std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  const std::string config = path_ + "/config.json";
  ReplaceInFile(config, "\"hidden_size\": 96", "\"hidden_size\": 512");
  ReplaceInFile(config, "\"intermediate_size\": 160",
                "\"intermediate_size\": 1536");
  ReplaceInFile(config, "\"num_attention_heads\": 6",
                "\"num_attention_heads\": 8");
  ReplaceInFile(config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 6");
  ReplaceInFile(config, "\"max_position_embeddings\": 512",
                "\"max_position_embeddings\": 100000");
  const absl::Status status = WriteTensors(weights_path(), &weight_bytes_);
  EXPECT_TRUE(status.ok()) << status;
}

void ForgetPages(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0) << file;
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

void CachePages(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0) << file;
  std::vector<char> block(1 << 20);
  while (read(fd, block.data(), block.size()) > 0) {
  }
  close(fd);
}

}  // namespace lowmem::testing
