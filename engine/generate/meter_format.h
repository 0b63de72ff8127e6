// SPDX-License-Identifier: Apache-2.0
// A meter as JSON and as lines for people. Every command shows it through here,
// so names and units are the same everywhere.

#ifndef LOWMEM_ENGINE_GENERATE_METER_FORMAT_H_
#define LOWMEM_ENGINE_GENERATE_METER_FORMAT_H_

#include <string>

#include "lowmem/meter.h"
#include "storage/base/json_writer.h"

namespace lowmem {

// One object with the fields of Meter by their names, in their order; an absent
// figure is null.
void WriteMeter(const Meter& meter, JsonWriter& json);
std::string MeterToJson(const Meter& meter);

// Lines "name  value", each with a newline behind; absent figures are "-".
std::string MeterToText(const Meter& meter);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_METER_FORMAT_H_
