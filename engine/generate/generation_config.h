// SPDX-License-Identifier: Apache-2.0
// generation_config.json: the end tokens and sampling defaults that a model is
// published with.

#ifndef LOWMEM_ENGINE_GENERATE_GENERATION_CONFIG_H_
#define LOWMEM_ENGINE_GENERATE_GENERATION_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowmem/options.h"
#include "storage/checkpoint.h"

namespace lowmem {

struct GenerationConfig {
  std::vector<int32_t> eos_ids;
  // Set where the file sets them. Temperature only with do_sample: a file
  // without it asks for the argmax.
  SamplingOptions sampling;
};

// Parses the text of a generation_config.json; `path` is for messages. Keys
// that are not known are passed over. Errors: kDataLoss for malformed JSON, and
// for a known key whose value is of the wrong kind or out of range.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(absl::string_view text,
                                                       const std::string& path);

// The file beside the weights; an absent file, and any GGUF, gives no end
// tokens and no defaults. Errors: as above; kUnavailable when it cannot be
// read.
absl::StatusOr<GenerationConfig> ReadGenerationConfig(
    const Checkpoint& checkpoint);

// All ids of the lists, in order, each once.
std::vector<int32_t> UnionOfIds(
    absl::Span<const absl::Span<const int32_t>> lists);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_GENERATION_CONFIG_H_
