// SPDX-License-Identifier: Apache-2.0
// Starts a program that does not outlive this process.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace thalweg {

struct ChildProcess {
  pid_t pid = -1;
  int out = -1, err = -1;  // non-blocking pipes with its output; the caller closes them
};

// Finds the file of `program` as a shell does. NOT_FOUND or PERMISSION_DENIED if it cannot be
// run.
absl::StatusOr<std::string> FindProgram(const std::string& program);

// Starts the program args[0], a path, in its own process group. Its input is /dev/null, and
// `variables` are added to the environment. It is killed when the thread that called this
// ends.
absl::StatusOr<ChildProcess> StartChild(const std::vector<std::string>& args,
                                        const std::map<std::string, std::string>& variables);

}  // namespace thalweg
