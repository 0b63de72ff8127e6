// SPDX-License-Identifier: Apache-2.0
// lowmem in a program of one's own: opens a model, continues a text piece by
// piece, stops on Ctrl-C, and says what it cost. Built against the installed
// library by the tests.
//
//   lowmem_example MODEL TEXT [TOKENS]

#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "lowmem/engine.h"
#include "lowmem/options.h"
#include "lowmem/session.h"

namespace {

// Cancel may be called from a signal handler; generation ends within a token.
lowmem::Session* running_session = nullptr;
void CancelGeneration(int) { running_session->Cancel(); }

absl::Status Continue(absl::string_view model_path, absl::string_view text,
                      int64_t max_new_tokens) {
  lowmem::EngineOptions engine_options;
  engine_options.model_path = std::string(model_path);
  engine_options.ram_budget_bytes = uint64_t{1} << 30;
  absl::StatusOr<std::unique_ptr<lowmem::Engine>> engine =
      lowmem::Engine::Open(engine_options);
  if (!engine.ok()) return engine.status();

  absl::StatusOr<std::unique_ptr<lowmem::Session>> session =
      (*engine)->NewSession();
  if (!session.ok()) return session.status();
  absl::Status appended = (*session)->AppendText(text);
  if (!appended.ok()) return appended;

  running_session = session->get();
  std::signal(SIGINT, CancelGeneration);
  lowmem::GenerateOptions options;
  options.max_new_tokens = max_new_tokens;
  absl::StatusOr<lowmem::GenerateResult> result =
      (*session)->Generate(options, [](absl::string_view piece) {
        std::cout << piece << std::flush;
        return true;  // false would end the generation
      });
  std::signal(SIGINT, SIG_DFL);
  if (!result.ok()) return result.status();

  const lowmem::Meter& meter = result->meter;
  std::cerr << "\n[" << meter.generated_tokens << " tokens, "
            << lowmem::StopReasonName(result->stop_reason) << "; mode "
            << meter.mode << ", " << (*engine)->mode_reason() << "; "
            << meter.arena_bytes + meter.kv_bytes
            << " bytes of working memory, " << meter.vm_hwm_bytes.value_or(0)
            << " at the peak of the process]\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  int64_t max_new_tokens = 64;
  if (argc < 3 || argc > 4 ||
      (argc == 4 && !absl::SimpleAtoi(argv[3], &max_new_tokens))) {
    std::cerr << "usage: lowmem_example MODEL TEXT [TOKENS]\n";
    return 2;
  }
  const absl::Status status = Continue(argv[1], argv[2], max_new_tokens);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
