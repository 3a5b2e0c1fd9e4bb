// A subcommand of the program: a name, the flags that it takes, and what it
// does. Each is one file of this folder; program.cc lists them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace thalweg::cli {

struct Command {
  std::string name;
  std::string summary;             // one line, for the list of subcommands
  std::string usage;               // what follows the name: "--graph FILE [--runs N]"
  std::vector<std::string> flags;  // names of the absl flags that it takes
  // What it has to say goes to `out`. An error ends the program with code 1.
  absl::Status (*run)(std::ostream& out) = nullptr;
  // Instead of `run`, for a command whose flags end at the first argument that
  // is none: the rest is somebody else's.
  absl::Status (*run_with_rest)(std::ostream& out, const std::vector<std::string>& rest) = nullptr;
};

Command CheckpointCommand();
Command EvalCommand();
Command OpsCommand();
Command PythonCommand();
Command ServerCommand();
Command VersionCommand();

}  // namespace thalweg::cli
