// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/trace.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::GoldenTensors;
using ::lowmem::testing::IsOk;

constexpr char kTiny[] = LOWMEM_TESTDATA_DIR "/tiny/";
// The first prompt of llama's golden.json.
const std::vector<int32_t> kPrompt = {267, 220, 297, 315, 266,
                                      311, 82,  258, 277};

std::unique_ptr<EngineState> OpenTiny(
    uint32_t chunk_tokens, std::optional<uint64_t> budget_bytes = {}) {
  EngineOptions options;
  options.model_path = absl::StrCat(kTiny, "llama");
  options.num_threads = 1;
  options.mode = Mode::kMmap;
  options.prefill_chunk_tokens = chunk_tokens;
  options.ram_budget_bytes = budget_bytes;
  absl::StatusOr<std::unique_ptr<EngineState>> engine =
      EngineState::Open(options);
  EXPECT_THAT(engine, IsOk());
  return engine.ok() ? *std::move(engine) : nullptr;
}

// Hidden states within 5e-5 of the root mean square, logits within 2e-4: what
// the golden values' own rounding leaves.
void ExpectClose(const std::vector<float>& actual,
                 const std::vector<float>& expected, double tolerance,
                 const std::string& name) {
  ASSERT_FALSE(expected.empty()) << name;
  ASSERT_EQ(actual.size(), expected.size()) << name;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance) << name << " " << i;
  }
}

double RootMeanSquare(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(TraceTest, TensorsAreTheReferences) {
  const std::unique_ptr<EngineState> engine = OpenTiny(0);
  ASSERT_NE(engine, nullptr);
  testing::TemporaryFolder folder;
  const std::string path = folder / "trace.safetensors";
  ASSERT_THAT(WriteTrace(*engine, kPrompt, path, nullptr), IsOk());
  const GoldenTensors golden(absl::StrCat(kTiny, "llama/golden.safetensors"));
  const GoldenTensors actual(path);
  for (const char* name : {"hidden.0", "hidden.1", "hidden.2", "hidden.norm"}) {
    const std::vector<float> expected =
        golden.Floats(absl::StrCat("p0.", name));
    ExpectClose(actual.Floats(name), expected, 5e-5 * RootMeanSquare(expected),
                name);
  }
  ExpectClose(actual.Floats("logits"), golden.Floats("p0.logits"), 2e-4,
              "logits");
}

TEST(TraceTest, ShapesAreInTheHeader) {
  const std::unique_ptr<EngineState> engine = OpenTiny(0);
  ASSERT_NE(engine, nullptr);
  testing::TemporaryFolder folder;
  const std::string path = folder / "trace.safetensors";
  ASSERT_THAT(WriteTrace(*engine, kPrompt, path, nullptr), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Checkpoint> file,
                       Checkpoint::Open(path));
  std::vector<std::string> entries;
  for (const TensorInfo& tensor : file->tensors()) {
    entries.push_back(absl::StrCat(tensor.name, " ",
                                   TraitsOf(tensor.dtype).name, " ",
                                   tensor.shape[0], "x", tensor.shape[1]));
  }
  EXPECT_THAT(entries,
              ::testing::UnorderedElementsAre(
                  "hidden.0 F32 9x96", "hidden.1 F32 9x96", "hidden.2 F32 9x96",
                  "hidden.norm F32 9x96", "logits F32 9x320"));
}

TEST(TraceTest, TheFileIsTheSameHoweverThePromptIsCut) {
  testing::TemporaryFolder folder;
  const auto trace = [&](uint32_t chunk_tokens, std::optional<uint64_t> budget,
                         uint64_t expected_passes) {
    const std::unique_ptr<EngineState> engine = OpenTiny(chunk_tokens, budget);
    if (engine == nullptr) return std::string();
    const std::string path = folder / "trace.safetensors";
    EXPECT_THAT(WriteTrace(*engine, kPrompt, path, nullptr), IsOk());
    EXPECT_EQ(engine->transformer().num_weight_passes(), expected_passes);
    return testing::ReadFileBytes(path);
  };
  const std::string whole = trace(0, std::nullopt, 1);
  ASSERT_FALSE(whole.empty());
  EXPECT_EQ(trace(4, std::nullopt, 3), whole);
  EXPECT_EQ(trace(1, std::nullopt, 9), whole);
  EXPECT_EQ(trace(4, uint64_t{16} << 20, 3), whole);
}

TEST(TraceTest, WrongIdsAreRefusedAndLeaveNoFile) {
  const std::unique_ptr<EngineState> engine = OpenTiny(0);
  ASSERT_NE(engine, nullptr);
  testing::TemporaryFolder folder;
  const std::string path = folder / "trace.safetensors";
  EXPECT_THAT(WriteTrace(*engine, {}, path, nullptr),
              Fails(absl::StatusCode::kInvalidArgument, "prompt is empty"));
  EXPECT_THAT(WriteTrace(*engine, {1, 320}, path, nullptr),
              Fails(absl::StatusCode::kInvalidArgument, "got 320"));
  EXPECT_THAT(WriteTrace(*engine, std::vector<int32_t>(513, 1), path, nullptr),
              Fails(absl::StatusCode::kOutOfRange, "got 513"));
  EXPECT_THAT(testing::ListFolder(folder.path()), ::testing::IsEmpty());
}

TEST(TraceTest, TheModelInUseIsSpared) {
  testing::TemporaryFolder folder;
  std::filesystem::copy(absl::StrCat(kTiny, "llama"), folder.path(),
                        std::filesystem::copy_options::recursive);
  EngineOptions options;
  options.model_path = folder.path();
  ASSERT_OK_AND_ASSIGN(const auto engine, EngineState::Open(options));
  const std::string before =
      testing::ReadFileBytes(folder / "model.safetensors");
  for (const char* name : {"model.safetensors", "config.json"}) {
    EXPECT_THAT(WriteTrace(*engine, kPrompt, folder / name, nullptr),
                Fails(absl::StatusCode::kInvalidArgument, "model in use"));
  }
  EXPECT_EQ(testing::ReadFileBytes(folder / "model.safetensors"), before);
}

TEST(TraceTest, CancellationLeavesNoFile) {
  const std::unique_ptr<EngineState> engine = OpenTiny(4);
  ASSERT_NE(engine, nullptr);
  testing::TemporaryFolder folder;
  const std::atomic<bool> cancel{true};
  EXPECT_THAT(
      WriteTrace(*engine, kPrompt, folder / "trace.safetensors", &cancel),
      Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_THAT(testing::ListFolder(folder.path()), ::testing::IsEmpty());
}

TEST(TraceTest, AFolderThatIsAbsentIsNamed) {
  const std::unique_ptr<EngineState> engine = OpenTiny(0);
  ASSERT_NE(engine, nullptr);
  EXPECT_THAT(
      WriteTrace(*engine, kPrompt, "/absent/trace.safetensors", nullptr),
      Fails(absl::StatusCode::kNotFound, "/absent"));
}

}  // namespace
}  // namespace lowmem
