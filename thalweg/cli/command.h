// SPDX-License-Identifier: Apache-2.0
// A subcommand of `thalweg`: its name, its help text, its flags and the function
// that runs it. Each subcommand is one file of this folder; program.cc lists them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace thalweg::cli {

struct Command {
  std::string name;
  std::string summary;             // one line, for the list of subcommands
  std::string details;             // further paragraphs for its own --help; may be empty
  std::string usage;               // the arguments after its name: "--graph FILE [--runs N]"
  std::vector<std::string> flags;  // names of the absl flags that it accepts
  // Its own flags end at the first one-letter flag ("-u"), which begins `rest`.
  bool short_flags_are_rest = false;

  // Exactly one of the following three functions is set. They write their results
  // to `out`. On an error the program exits with code 1 or, if a retry may succeed,
  // with 128 + the error's code.

  // For a command that takes flags only.
  absl::Status (*run)(std::ostream& out) = nullptr;
  // For a command that takes arguments. Its flags end at the first argument that
  // is not a flag, or at "--". `rest` holds everything after them.
  absl::Status (*run_with_rest)(std::ostream& out, const std::vector<std::string>& rest) = nullptr;
  // Like run_with_rest, but the returned number becomes the exit code.
  absl::StatusOr<int> (*run_for_code)(std::ostream& out, const std::vector<std::string>& rest) = nullptr;
};

Command CheckpointCommand();
Command EvalCommand();
Command OpsCommand();
Command PythonCommand();
Command RunCommand();
Command ServerCommand();
Command StatusCommand();
Command TopCommand();
Command TraceCommand();
Command VersionCommand();
Command WhyCommand();

}  // namespace thalweg::cli
