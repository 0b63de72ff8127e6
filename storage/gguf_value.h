// SPDX-License-Identifier: Apache-2.0
// Reads one value of GGUF metadata. Arrays are walked and proved, element by
// element, but not kept.

#ifndef LOWMEM_STORAGE_GGUF_VALUE_H_
#define LOWMEM_STORAGE_GGUF_VALUE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/gguf_cursor.h"
#include "storage/gguf_metadata.h"

namespace lowmem {

// "uint32", as the format's description writes it.
absl::string_view GgufTypeName(GgufType type);

// The type id and the value behind it, at the cursor.
// Errors: kDataLoss; kUnimplemented for an array of arrays; kUnavailable.
absl::StatusOr<GgufValue> ReadGgufValue(GgufCursor& cursor);

// One number or bool of `type` into `value->integer` or `value->real`.
// REQUIRES: type is neither kString nor kArray.
// Errors: kDataLoss for a bool that is neither 0 nor 1, and as the cursor.
absl::Status ReadGgufScalar(GgufCursor& cursor, GgufType type,
                            GgufValue* value);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_GGUF_VALUE_H_
