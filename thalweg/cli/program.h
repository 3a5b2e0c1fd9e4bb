// SPDX-License-Identifier: Apache-2.0
// The program `thalweg` as a function, so that tests can call it in their process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace thalweg::cli {

// Runs the subcommand args[0]. `args` does not contain the program's name. Returns
// the exit code:
//   0    success
//   1    the subcommand failed; `err` got "CODE: message"
//   2    wrong arguments
//   128+ the subcommand failed and a retry may succeed, see ExitCode()
// `run` returns the exit code of its job instead. Sets global flags, so call it once.
int RunProgram(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

}  // namespace thalweg::cli
