// SPDX-License-Identifier: Apache-2.0
// Keeps a process alive whose mapped model file is truncated, or fails to be
// read, while it is in use. Offered, never installed silently: signal handlers
// belong to the program.

#ifndef LOWMEM_SIGBUS_GUARD_H_
#define LOWMEM_SIGBUS_GUARD_H_

#include "absl/status/status.h"
#include "lowmem/export.h"

namespace lowmem {

// Installs a handler of SIGBUS for the whole process. A fault inside a model
// that an Engine has mapped puts zero pages in the place of what is gone, and
// the running Generate or Score ends with kUnavailable; every other fault goes
// to the handler that was there before. Calling it again does nothing. Applies
// to engines opened before and after. Errors: kInternal when the system refuses
// the handler.
LOWMEM_EXPORT absl::Status InstallSigbusGuard();

}  // namespace lowmem

#endif  // LOWMEM_SIGBUS_GUARD_H_
