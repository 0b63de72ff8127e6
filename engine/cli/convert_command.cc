// SPDX-License-Identifier: Apache-2.0
// lowmem-run convert: any checkpoint as a Hugging Face folder in bf16.
#include "absl/strings/str_cat.h"
#include "engine/cli/command.h"
#include "engine/cli/progress.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/generate/convert.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {

absl::Status RunConvert(const Flags& flags, Console& console) {
  ConvertOptions options;
  options.in_path = flags.convert.in_path;
  options.out_path = flags.convert.out_path;
  options.force = flags.convert.force;
  options.cancel = &InterruptedFlag();
  {
    Progress progress("converting", console.quiet());
    options.progress = [&progress](uint64_t done_bytes, uint64_t total_bytes) {
      progress.Update(done_bytes, total_bytes);
    };
    LOWMEM_RETURN_IF_ERROR(ConvertCheckpoint(options));
  }
  const Meter meter = ProcessMeter();
  if (flags.global.json) {
    JsonWriter json;
    json.BeginObject().Key("out").String(options.out_path).Key("stats");
    AppendMeter(meter, json);
    json.EndObject();
    LOWMEM_RETURN_IF_ERROR(console.Write(absl::StrCat(json.text(), "\n")));
  }
  if (flags.global.stats) console.Note(StatsText(meter, ""));
  return absl::OkStatus();
}

}  // namespace lowmem::cli
