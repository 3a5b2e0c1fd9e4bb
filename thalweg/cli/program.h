// The program `thalweg`, but for its process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace thalweg::cli {

// Runs the subcommand that args[0] names; args are without the program's name.
// Returns the exit code: 0; 1 if the subcommand failed ("CODE: message" is on
// `err`), or as ExitCode() has it if another try may succeed; 2 if the arguments
// are wrong; or what the subcommand passes on. Sets flags, so that it is meant to
// be called once.
int RunProgram(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

}  // namespace thalweg::cli
