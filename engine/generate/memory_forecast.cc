// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/memory_forecast.h"

#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

constexpr uint64_t kTooMuch = std::numeric_limits<uint64_t>::max();

constexpr size_t kNumItems = 7;

struct Item {
  const char* name;
  uint64_t num_bytes;
};

const char* WeightItemName(Mode mode) {
  switch (mode) {
    case Mode::kStream:
      return "norms and read buffers";
    case Mode::kMmap:
      return "norms and the mapped window";
    default:
      return "weights";
  }
}

// Everything that must be had.
void ListItems(const MemoryForecast& forecast, Item (&items)[kNumItems]) {
  const ModelFootprint& footprint = forecast.footprint;
  items[0] = {WeightItemName(forecast.mode), forecast.least_weight_bytes};
  items[1] = {"activations", footprint.arena_bytes};
  items[2] = {"keys and values", forecast.kv_bytes()};
  items[3] = {"tokenizer", footprint.tokenizer_bytes};
  items[4] = {"sampler", footprint.sampler_bytes};
  items[5] = {"program", footprint.program_bytes};
  items[6] = {"text", footprint.text_bytes};
}

}  // namespace

uint64_t MemoryForecast::kv_bytes() const {
  const uint64_t num_tokens = footprint.context_tokens;
  const uint64_t num_pages = num_tokens / footprint.kv_page_tokens +
                             (num_tokens % footprint.kv_page_tokens != 0);
  return CheckedMul(num_pages, footprint.kv_page_bytes).value_or(kTooMuch);
}

uint64_t MemoryForecast::required_bytes() const {
  Item items[kNumItems];
  ListItems(*this, items);
  uint64_t sum = 0;
  for (const Item& item : items) {
    sum = CheckedAdd(sum, item.num_bytes).value_or(kTooMuch);
  }
  return sum;
}

MemoryForecast ForecastMemory(Mode mode, const ModelFootprint& footprint) {
  MemoryForecast forecast;
  forecast.mode = mode;
  forecast.footprint = footprint;
  if (mode == Mode::kCopy) {
    forecast.heap_weight_bytes = footprint.copied_weight_bytes;
    forecast.least_weight_bytes = footprint.copied_weight_bytes;
  } else if (mode == Mode::kStream) {
    forecast.heap_weight_bytes = footprint.least_stream_bytes;
    forecast.least_weight_bytes = footprint.least_stream_bytes;
  } else {
    forecast.mapped_weight_bytes = footprint.weight_bytes;
    forecast.least_weight_bytes = footprint.least_mapped_bytes;
  }
  return forecast;
}

absl::Status CheckFits(const MemoryForecast& forecast, uint64_t budget_bytes) {
  const uint64_t required = forecast.required_bytes();
  if (required <= budget_bytes) return absl::OkStatus();
  Item items[kNumItems];
  ListItems(forecast, items);
  const Item* largest = &items[0];
  for (const Item& item : items) {
    if (item.num_bytes > largest->num_bytes) largest = &item;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "mode ", ModeName(forecast.mode),
      " does not fit the memory budget with a context of ",
      forecast.footprint.context_tokens, " tokens; needed ",
      FormatBytes(required), " (", required, "), allowed ",
      FormatBytes(budget_bytes), " (", budget_bytes, "), largest item: ",
      largest->name, " ", FormatBytes(largest->num_bytes)));
}

}  // namespace lowmem
