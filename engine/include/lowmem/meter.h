// SPDX-License-Identifier: Apache-2.0
// What a run cost: one struct, printed the same everywhere. Figures that the
// system does not give are absent.

#ifndef LOWMEM_METER_H_
#define LOWMEM_METER_H_

#include <cstdint>
#include <optional>
#include <string>

namespace lowmem {

struct Meter {
  std::string mode;
  uint32_t threads = 0;
  std::optional<uint64_t> ram_budget_bytes;
  uint64_t model_bytes = 0;            // of the tensors that are used
  uint64_t resident_weight_bytes = 0;  // weights in heap
  uint64_t arena_bytes = 0;
  uint64_t kv_bytes = 0;
  std::optional<uint64_t> vm_hwm_bytes;
  std::optional<uint64_t> rss_anon_bytes;
  std::optional<uint64_t> rss_file_bytes;
  std::optional<uint64_t> cgroup_peak_bytes;
  std::optional<uint64_t> page_cache_bytes;  // of the model's files
  std::optional<uint64_t> major_faults;
  std::optional<uint64_t> storage_read_bytes;
  uint64_t weight_bytes_read = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  std::optional<double> prefill_weight_passes;
  std::optional<double> decode_weight_passes;
  std::optional<double> load_s;
  std::optional<double> time_to_first_token_s;
  std::optional<double> prefill_tokens_per_s;
  std::optional<double> decode_tokens_per_s;
  // How kStream reads, for people: "io_uring, direct, 16 x 256 KiB". Empty in
  // other modes.
  std::string io;
  // Of the disk by that method, while it was what was waited for.
  std::optional<double> io_bytes_per_s;
};

}  // namespace lowmem

#endif  // LOWMEM_METER_H_
