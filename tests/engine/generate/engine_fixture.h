// SPDX-License-Identifier: Apache-2.0
// What the tests of Engine and Session share: the tiny models and their golden
// texts, and an opened engine with one session.

#ifndef LOWMEM_TESTS_ENGINE_GENERATE_ENGINE_FIXTURE_H_
#define LOWMEM_TESTS_ENGINE_GENERATE_ENGINE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "storage/base/json.h"
#include "storage/file.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {

inline constexpr char kTiny[] = LOWMEM_TESTDATA_DIR "/tiny/";

inline bool Continue(absl::string_view) { return true; }

struct GoldenText {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  std::string greedy_text;
};

inline std::vector<int32_t> IdsOf(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& item : list.items()) {
    ids.push_back(static_cast<int32_t>(*item.AsInt64()));
  }
  return ids;
}

inline std::vector<GoldenText> GoldenTexts(const std::string& family) {
  std::vector<GoldenText> golden;
  const absl::StatusOr<std::string> text =
      ReadWholeFile(absl::StrCat(kTiny, family, "/golden.json"), 1u << 20);
  if (!text.ok()) return golden;
  const absl::StatusOr<JsonValue> json = JsonValue::Parse(*text);
  if (!json.ok()) return golden;
  for (const JsonValue& prompt : json->Find("prompts")->items()) {
    golden.push_back({prompt.Find("text")->string(), IdsOf(*prompt.Find("ids")),
                      IdsOf(*prompt.Find("greedy")),
                      prompt.Find("greedy_text")->string()});
  }
  return golden;
}

inline EngineOptions OptionsFor(const std::string& family) {
  EngineOptions options;
  options.model_path = absl::StrCat(kTiny, family);
  options.num_threads = 1;
  return options;
}

inline std::unique_ptr<Engine> OpenOrFail(const EngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(options);
  EXPECT_THAT(engine, IsOk());
  return engine.ok() ? *std::move(engine) : nullptr;
}

// The tiny llama, opened, with an empty session.
class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = OpenOrFail(OptionsFor("llama"));
    ASSERT_NE(engine_, nullptr);
    ASSERT_OK_AND_ASSIGN(session_, engine_->NewSession());
    golden_ = GoldenTexts("llama");
    ASSERT_EQ(golden_.size(), 2);
  }

  GenerateOptions Tokens(int64_t max_new_tokens) {
    GenerateOptions options;
    options.max_new_tokens = max_new_tokens;
    return options;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<GoldenText> golden_;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_GENERATE_ENGINE_FIXTURE_H_
