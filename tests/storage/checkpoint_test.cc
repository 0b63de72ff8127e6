// SPDX-License-Identifier: Apache-2.0
#include "storage/checkpoint.h"

#include <filesystem>
#include <string>

#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::SafetensorsBytes;
using ::testing::SizeIs;
using testing::TemporaryFolder;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

const std::string kTestdata = LOWMEM_TESTDATA_DIR;

// A file with tensors of four bytes each.
std::string ShardOf(std::initializer_list<std::string> names) {
  std::string header = "{";
  size_t ofs = 0;
  for (const std::string& name : names) {
    header += (ofs == 0 ? "\"" : ",\"") + name +
              "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(ofs) + "," + std::to_string(ofs + 4) + "]}";
    ofs += 4;
  }
  return SafetensorsBytes(header + "}", std::string(ofs, 'x'));
}

constexpr char kIndexName[] = "model.safetensors.index.json";

TEST(CheckpointTest, OpensAFolderWithOneFile) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  EXPECT_EQ(checkpoint->format(), Checkpoint::Format::kSafetensors);
  EXPECT_EQ(checkpoint->gguf_metadata(), nullptr);
  EXPECT_THAT(checkpoint->files(), SizeIs(1));
  EXPECT_TRUE(checkpoint->Find("model.embed_tokens.weight").has_value());
  EXPECT_FALSE(checkpoint->Find("model.embed_tokens").has_value());
  EXPECT_EQ(checkpoint->SidecarPath("config.json"),
            kTestdata + "/tiny/llama/config.json");
  uint64_t total = 0;
  for (const TensorInfo& tensor : checkpoint->tensors())
    total += tensor.size_bytes;
  EXPECT_EQ(checkpoint->total_tensor_bytes(), total);
}

TEST(CheckpointTest, OpensShardsFromTheFolderAndFromTheIndex) {
  for (const std::string model : {"qwen2_sharded", "qwen2_sharded_scattered"}) {
    SCOPED_TRACE(model);
    const std::string folder = kTestdata + "/tiny/" + model;
    ASSERT_OK_AND_ASSIGN(const auto whole,
                         Checkpoint::Open(kTestdata + "/tiny/qwen2"));
    for (const std::string& path : {folder, folder + "/" + kIndexName}) {
      ASSERT_OK_AND_ASSIGN(const auto sharded, Checkpoint::Open(path));
      EXPECT_THAT(sharded->files(), SizeIs(3));
      EXPECT_EQ(sharded->tensors().size(), whole->tensors().size());
      for (const TensorInfo& tensor : whole->tensors()) {
        ASSERT_TRUE(sharded->Find(tensor.name).has_value()) << tensor.name;
        EXPECT_EQ(sharded->tensors()[*sharded->Find(tensor.name)].shape,
                  tensor.shape);
      }
      EXPECT_EQ(sharded->SidecarPath("config.json"), folder + "/config.json");
    }
  }
}

TEST(CheckpointTest, OpensOneFileAndLooksBesideItForOthers) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("any name.safetensors", ShardOf({"a"}));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  EXPECT_EQ(checkpoint->SidecarPath("config.json"), folder / "config.json");
}

TEST(CheckpointTest, OpensGgufByNameAndByMagic) {
  const std::string path = kTestdata + "/tiny-gguf/llama-f16.gguf";
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  EXPECT_EQ(checkpoint->format(), Checkpoint::Format::kGguf);
  ASSERT_NE(checkpoint->gguf_metadata(), nullptr);
  ASSERT_NE(checkpoint->gguf_metadata()->GetString("general.architecture"),
            nullptr);
  EXPECT_EQ(checkpoint->SidecarPath("config.json"), "");

  const TemporaryFolder folder;
  fs::copy_file(path, folder / "0123abcd");
  ASSERT_OK_AND_ASSIGN(const auto blob, Checkpoint::Open(folder / "0123abcd"));
  EXPECT_EQ(blob->format(), Checkpoint::Format::kGguf);
  EXPECT_EQ(blob->tensors().size(), checkpoint->tensors().size());
}

TEST(CheckpointTest, CacheSnapshotOfLinksWorks) {
  const TemporaryFolder cache;
  cache.Write("blobs/aaa", ShardOf({"a"}));
  cache.Write("blobs/bbb", ShardOf({"b"}));
  cache.Write("blobs/ccc",
              R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  cache.Write("snapshots/rev/README.md", "");
  fs::create_symlink("../../blobs/aaa", cache / "snapshots/rev/1.safetensors");
  fs::create_symlink("../../blobs/bbb", cache / "snapshots/rev/2.safetensors");
  const std::string index = cache / "snapshots/rev/" + kIndexName;
  fs::create_symlink("../../blobs/ccc", index);
  for (const std::string& path : {cache / "snapshots/rev", index}) {
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
    EXPECT_THAT(checkpoint->tensors(), SizeIs(2));
    EXPECT_EQ(checkpoint->SidecarPath("config.json"),
              cache / "snapshots/rev/config.json");
  }
  fs::remove(cache / "blobs/bbb");
  EXPECT_THAT(Checkpoint::Open(index), Fails(kNotFound, "2.safetensors"));
}

TEST(CheckpointTest, FolderWithoutWeightsSaysWhatWasLookedFor) {
  const TemporaryFolder folder;
  folder.Write("config.json", "{}");
  const auto result = Checkpoint::Open(folder.path());
  EXPECT_THAT(result, Fails(kNotFound, "model.safetensors"));
  EXPECT_THAT(result, Fails(kNotFound, kIndexName));
}

TEST(CheckpointTest, PickledWeightsAreNamedAsNotRead) {
  const TemporaryFolder folder;
  folder.Write("pytorch_model.bin", "x");
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              Fails(kUnimplemented, "pytorch_model.bin"));
  EXPECT_THAT(Checkpoint::Open(folder / "pytorch_model.bin"),
              Fails(kUnimplemented, "not a kind of checkpoint"));
}

TEST(CheckpointTest, AbsentPathIsNotFound) {
  EXPECT_THAT(Checkpoint::Open("/no/such/model"),
              Fails(kNotFound, "/no/such/model"));
  EXPECT_THAT(Checkpoint::Open(""), Fails(kNotFound, ""));
  EXPECT_THAT(Checkpoint::Open(std::string("/tmp\0x", 6)),
              Fails(kNotFound, "/tmp"));
}

TEST(CheckpointTest, FolderInPlaceOfTheFileIsRefused) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "model.safetensors");
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              Fails(kDataLoss, "not a regular file; it is a folder"));
}

struct ShardCase {
  const char* name;
  std::string index;
  absl::StatusCode code;
  std::string message_part;
};
void PrintTo(const ShardCase& c, std::ostream* out) { *out << c.name; }

// Over two shards: 1.safetensors holds a and b, 2.safetensors holds c.
class InconsistentShards : public ::testing::TestWithParam<ShardCase> {};

TEST_P(InconsistentShards, AreRefused) {
  const TemporaryFolder outer;
  outer.Write("secret.safetensors", ShardOf({"a", "b"}));
  outer.Write("m/1.safetensors", ShardOf({"a", "b"}));
  outer.Write("m/2.safetensors", ShardOf({"c"}));
  outer.Write("m/2b.safetensors", ShardOf({"a"}));
  outer.Write("m/short.safetensors", ShardOf({"c"}).substr(0, 60));
  outer.Write(std::string("m/") + kIndexName, GetParam().index);
  EXPECT_THAT(Checkpoint::Open(outer / "m"),
              Fails(GetParam().code, GetParam().message_part));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    All, InconsistentShards,
    ::testing::Values(
        ShardCase{"AbsentShard", R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"3.safetensors"}})", kNotFound, "3.safetensors: no such file"},
        ShardCase{"TensorAbsentFromItsShard", R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","x":"2.safetensors"}})", kDataLoss, "tensor x: listed but absent from its shard 2.safetensors"},
        ShardCase{"FirstOfSeveralAbsentTensorsIsNamed", R"({"weight_map":{"z":"1.safetensors","y":"1.safetensors","x":"2.safetensors"}})", kDataLoss, "tensor x: listed but absent from its shard 2.safetensors; 3 tensors in all"},
        ShardCase{"TensorInAnotherShard", R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}})", kDataLoss, "tensor b: in another shard than the index says; expected 2.safetensors"},
        ShardCase{"TensorInTwoShards", R"({"weight_map":{"a":"1.safetensors","b":"2b.safetensors"}})", kDataLoss, "in another shard than the index says"},
        ShardCase{"UnlistedTensorInTwoShards", R"({"weight_map":{"b":"1.safetensors","q":"2b.safetensors"}})", kDataLoss, "tensor a: stands in "},
        ShardCase{"TruncatedShard", R"({"weight_map":{"a":"1.safetensors","c":"short.safetensors"}})", kDataLoss, "short.safetensors: "},
        ShardCase{"ParentFolder", R"({"weight_map":{"a":"../secret.safetensors","b":"../secret.safetensors"}})", kDataLoss, "is not safe"},
        ShardCase{"AbsolutePath", R"({"weight_map":{"a":"/secret.safetensors"}})", kDataLoss, "is not safe"}),
    [](const ::testing::TestParamInfo<ShardCase>& row) { return row.param.name; });
// clang-format on

TEST(CheckpointTest, TensorsThatTheIndexDoesNotListAreTakenToo) {
  const TemporaryFolder folder;
  folder.Write("1.safetensors", ShardOf({"a", "rotary.inv_freq"}));
  folder.Write(kIndexName, R"({"weight_map":{"a":"1.safetensors"}})");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
  EXPECT_TRUE(checkpoint->Find("rotary.inv_freq").has_value());
}

TEST(CheckpointTest, SingleFileComesBeforeAnIndex) {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", ShardOf({"a"}));
  folder.Write(kIndexName, "not even JSON");
  EXPECT_THAT(Checkpoint::Open(folder.path()), IsOk());
}

}  // namespace
}  // namespace lowmem
