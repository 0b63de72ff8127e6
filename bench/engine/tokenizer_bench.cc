// SPDX-License-Identifier: Apache-2.0
// Loading, encoding and decoding with published vocabularies. Those that are
// not under models/vocab are skipped. "english" is the licence's text, "mixed"
// the strings of the golden tests (scripts, emoji, code, broken spacing).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/tokenizer.h"
#include "storage/base/json.h"
#include "storage/file.h"

namespace lowmem {
namespace {

constexpr const char* kVocabularies[] = {"smollm2", "qwen3", "llama3_1",
                                         "gptoss", "deepseek_v3"};

std::string FolderOf(int64_t vocabulary_idx) {
  return absl::StrCat(LOWMEM_SOURCE_DIR "/models/vocab/",
                      kVocabularies[vocabulary_idx]);
}

std::string ReadFile(const char* path) {
  return ReadWholeFile(absl::StrCat(LOWMEM_SOURCE_DIR "/", path), 16u << 20)
      .value_or("");
}

std::string EnglishText() { return ReadFile("LICENSE"); }

std::string MixedText() {
  const auto json =
      JsonValue::Parse(ReadFile("tests/testdata/tokenizers/strings.json"));
  std::string text;
  if (!json.ok() || json->Find("strings") == nullptr) return text;
  for (const JsonValue& entry : json->Find("strings")->items()) {
    absl::StrAppend(&text, entry.Find("text")->string(), "\n");
  }
  return text;
}

// nullptr, and the benchmark marked as skipped, when the vocabulary is absent.
std::unique_ptr<Tokenizer> LoadOrSkip(benchmark::State& state) {
  auto tokenizer = LoadTokenizerFromFolder(FolderOf(state.range(0)));
  state.SetLabel(kVocabularies[state.range(0)]);
  if (!tokenizer.ok()) {
    state.SkipWithError(absl::StrCat(tokenizer.status().message(),
                                     " (./dev fetch vocabularies)")
                            .c_str());
    return nullptr;
  }
  return *std::move(tokenizer);
}

void BM_Load(benchmark::State& state) {
  if (LoadOrSkip(state) == nullptr) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(LoadTokenizerFromFolder(FolderOf(state.range(0))));
  }
}

void Encode(benchmark::State& state, const std::string& text) {
  const auto tokenizer = LoadOrSkip(state);
  if (tokenizer == nullptr) return;
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Encode(text, {}));
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * text.size()));
}

void BM_EncodeEnglish(benchmark::State& state) { Encode(state, EnglishText()); }
void BM_EncodeMixed(benchmark::State& state) { Encode(state, MixedText()); }
void BM_EncodeShort(benchmark::State& state) {
  Encode(state, "What is the capital of France?");
}
// No two words are equal, so that none comes out of the cache of recent pieces.
void BM_EncodeDistinctWords(benchmark::State& state) {
  std::string text;
  for (uint32_t i = 0; i < 20'000; ++i) {
    text.push_back(' ');
    for (uint32_t rest = i * 2654435761u; rest != 0; rest /= 26) {
      text.push_back(static_cast<char>('a' + rest % 26));
    }
  }
  Encode(state, text);
}

void BM_Decode(benchmark::State& state) {
  const auto tokenizer = LoadOrSkip(state);
  if (tokenizer == nullptr) return;
  const auto ids = tokenizer->Encode(EnglishText(), {});
  if (!ids.ok()) return state.SkipWithError("cannot encode");
  for (auto _ : state) {
    benchmark::DoNotOptimize(tokenizer->Decode(*ids, false));
  }
  state.SetItemsProcessed(
      static_cast<int64_t>(state.iterations() * ids->size()));
}

void BM_Stream(benchmark::State& state) {
  const auto tokenizer = LoadOrSkip(state);
  if (tokenizer == nullptr) return;
  const auto ids = tokenizer->Encode(EnglishText(), {});
  if (!ids.ok()) return state.SkipWithError("cannot encode");
  for (auto _ : state) {
    StreamingDetokenizer detokenizer(*tokenizer, false);
    for (const int32_t id : *ids) benchmark::DoNotOptimize(detokenizer.Add(id));
  }
  state.SetItemsProcessed(
      static_cast<int64_t>(state.iterations() * ids->size()));
}

void AllVocabularies(benchmark::internal::Benchmark* bench) {
  bench->DenseRange(0, std::size(kVocabularies) - 1);
}

BENCHMARK(BM_Load)->Apply(AllVocabularies)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodeEnglish)->Apply(AllVocabularies);
BENCHMARK(BM_EncodeMixed)->Apply(AllVocabularies);
BENCHMARK(BM_EncodeDistinctWords)->Apply(AllVocabularies);
BENCHMARK(BM_EncodeShort)->Apply(AllVocabularies);
BENCHMARK(BM_Decode)->Apply(AllVocabularies);
BENCHMARK(BM_Stream)->Apply(AllVocabularies);

}  // namespace
}  // namespace lowmem
