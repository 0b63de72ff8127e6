// SPDX-License-Identifier: Apache-2.0
// Caps on what is accepted from outside, in one place. Each one is named in the
// error that it causes. They are far above any published model and far below
// what would exhaust a small device.

#ifndef LOWMEM_STORAGE_BASE_LIMITS_H_
#define LOWMEM_STORAGE_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace lowmem::limits {

inline constexpr int kJsonDepth = 64;
// RapidJSON counts the digits of a fraction in an int and takes ten times that
// number; below this many bytes the product fits.
inline constexpr uint64_t kJsonBytes = 200u << 20;
inline constexpr uint64_t kSafetensorsHeaderBytes = 100'000'000;
inline constexpr uint64_t kConfigJsonBytes = 1u << 20;
inline constexpr uint64_t kTokenizerConfigBytes = 16u << 20;
inline constexpr uint64_t kTokenizerJsonBytes = kJsonBytes;
inline constexpr uint64_t kShardIndexBytes = 64u << 20;
inline constexpr uint64_t kNumTensors = 1'000'000;
inline constexpr size_t kTensorNameBytes = 1024;
inline constexpr size_t kTensorRank = 8;
inline constexpr uint64_t kNumShards = 4096;
inline constexpr uint64_t kNumLayers = 4096;
inline constexpr uint64_t kNumHeads = 4096;
inline constexpr uint64_t kDim = 1u << 20;
inline constexpr uint64_t kVocabSize = 1u << 24;
inline constexpr uint64_t kContextTokens = 1u << 31;
inline constexpr uint64_t kNumAddedTokens = 65'536;
inline constexpr uint64_t kNumMerges = 1u << 24;
inline constexpr uint64_t kGgufNumKeys = 65'536;
inline constexpr uint64_t kGgufArrayElements = 1u << 24;
inline constexpr uint64_t kGgufStringBytes = 16u << 20;
// Keys and string values of one file together.
inline constexpr uint64_t kGgufHeldBytes = 64u << 20;
inline constexpr uint64_t kGgufMinAlignment = 8;
inline constexpr uint64_t kGgufMaxAlignment = 64u << 10;
inline constexpr uint64_t kPromptBytes = 64u << 20;
inline constexpr size_t kRegexBytes = 64u << 10;
inline constexpr size_t kMessageTextChars = 100;

}  // namespace lowmem::limits

#endif  // LOWMEM_STORAGE_BASE_LIMITS_H_
