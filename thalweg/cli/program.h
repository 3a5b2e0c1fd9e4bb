// The program `thalweg`, but for its process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace thalweg::cli {

// Runs the subcommand that args[0] names; args are without the program's name.
// Returns the exit code: 0, 1 if the subcommand failed ("CODE: message" is on
// `err`), or 2 if the arguments are wrong. Sets flags, so that it is meant to be
// called once.
int RunProgram(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

}  // namespace thalweg::cli
