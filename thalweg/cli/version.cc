// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/command.h"

namespace thalweg::cli {
namespace {

absl::Status RunVersion(std::ostream& out) {
  out << "thalweg " << THALWEG_VERSION << "\n";
  return absl::OkStatus();
}

}  // namespace

Command VersionCommand() { return {.name = "version", .summary = "Prints the version.", .run = RunVersion}; }

}  // namespace thalweg::cli
