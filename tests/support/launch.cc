// SPDX-License-Identifier: Apache-2.0
#include "tests/support/launch.h"

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lowmem::testing {
namespace {

SubprocessOptions WithLauncher(const LaunchOptions& options,
                               const std::string& report) {
  SubprocessOptions launched = options.command;
  launched.program = LOWMEM_TEST_LAUNCHER;
  launched.args.clear();
  for (const std::string& group : options.groups) {
    launched.args.insert(launched.args.end(), {"--join", group});
  }
  if (options.forbid_io_uring) launched.args.push_back("--forbid-io-uring");
  if (!report.empty()) {
    launched.args.insert(launched.args.end(), {"--report", report});
  }
  launched.args.insert(launched.args.end(), {"--", options.command.program});
  launched.args.insert(launched.args.end(), options.command.args.begin(),
                       options.command.args.end());
  return launched;
}

}  // namespace

SubprocessOptions Launched(const LaunchOptions& options) {
  return WithLauncher(options, "");
}

LaunchResult RunLaunched(const LaunchOptions& options) {
  const TemporaryFolder folder;
  const std::string report = folder / "report";
  LaunchResult result{RunSubprocess(WithLauncher(options, report))};
  std::ifstream(report) >> result.peak_bytes >> result.storage_read_bytes;
  return result;
}

}  // namespace lowmem::testing
