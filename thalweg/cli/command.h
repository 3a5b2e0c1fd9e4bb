// A subcommand of the program: a name, the flags that it takes, and what it
// does. Each is one file of this folder; program.cc lists them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace thalweg::cli {

struct Command {
  std::string name;
  std::string summary;             // one line, for the list of subcommands
  std::string details;             // more of it, for its own help; may be empty
  std::string usage;               // what follows the name: "--graph FILE [--runs N]"
  std::vector<std::string> flags;  // names of the absl flags that it takes
  // Flags of one letter ("-u") are not its own: the rest begins with them.
  bool short_flags_are_rest = false;
  // What it has to say goes to `out`. An error ends the program with code 1 or,
  // if another try may succeed, 128 and the number of the error.
  absl::Status (*run)(std::ostream& out) = nullptr;
  // Instead of `run`, for a command whose flags end at the first argument that
  // is none: the rest is somebody else's.
  absl::Status (*run_with_rest)(std::ostream& out, const std::vector<std::string>& rest) = nullptr;
  // The same for a command that has an exit code to pass on.
  absl::StatusOr<int> (*run_for_code)(std::ostream& out, const std::vector<std::string>& rest) = nullptr;
};

Command CheckpointCommand();
Command EvalCommand();
Command OpsCommand();
Command PythonCommand();
Command RunCommand();
Command ServerCommand();
Command VersionCommand();

}  // namespace thalweg::cli
