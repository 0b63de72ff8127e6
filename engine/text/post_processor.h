// SPDX-License-Identifier: Apache-2.0
// The ids that go around every text, as the "post_processor" of tokenizer.json
// states it: ByteLevel (none), TemplateProcessing, BertProcessing,
// RobertaProcessing, and sequences of them. Pairs of texts are left out.

#ifndef LOWMEM_ENGINE_TEXT_POST_PROCESSOR_H_
#define LOWMEM_ENGINE_TEXT_POST_PROCESSOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace lowmem {

struct PostProcessor {
  // `spec` is the value of "post_processor"; null adds nothing.
  // Errors: kUnimplemented naming a kind that is not supported; kDataLoss, also
  // for an id that is no int32.
  static absl::StatusOr<PostProcessor> FromJson(const JsonValue& spec);

  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_POST_PROCESSOR_H_
