// SPDX-License-Identifier: Apache-2.0
// What the tests of convert start from: small golden models, and options.

#ifndef LOWMEM_TESTS_ENGINE_GENERATE_CONVERT_INPUTS_H_
#define LOWMEM_TESTS_ENGINE_GENERATE_CONVERT_INPUTS_H_

#include <string>

#include "engine/generate/convert.h"

namespace lowmem::testing {

inline std::string Gguf(const std::string& name) {
  return std::string(LOWMEM_TESTDATA_DIR "/tiny-gguf/") + name + ".gguf";
}
inline std::string Tiny(const std::string& name) {
  return std::string(LOWMEM_TESTDATA_DIR "/tiny/") + name;
}

inline ConvertOptions Options(const std::string& in, const std::string& out) {
  ConvertOptions options;
  options.in_path = in;
  options.out_path = out;
  return options;
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_GENERATE_CONVERT_INPUTS_H_
