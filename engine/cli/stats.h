// SPDX-License-Identifier: Apache-2.0
// The meter on the command line: --stats and the "stats" of --json.

#ifndef LOWMEM_ENGINE_CLI_STATS_H_
#define LOWMEM_ENGINE_CLI_STATS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "lowmem/meter.h"
#include "storage/base/json_writer.h"

namespace lowmem::cli {

// Writes the meter as one object; absent figures are null.
void AppendMeter(const Meter& meter, JsonWriter& json);

// Lines for people, ended by a newline. `mode_reason` may be empty.
std::string StatsText(const Meter& meter, absl::string_view mode_reason);

// A meter of a run without a model in memory, of mode "none": what the process
// holds and has read, all else absent or zero.
Meter ProcessMeter();

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_STATS_H_
