// A program that this process starts, and that does not outlive it.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace thalweg {

struct ChildProcess {
  pid_t pid = -1;
  int out = -1, err = -1;  // where its output can be read, without blocking; the caller closes them
};

// The file that `program` names, as a shell finds it. NOT_FOUND or
// PERMISSION_DENIED if it cannot be run.
absl::StatusOr<std::string> FindProgram(const std::string& program);

// Starts `args`, whose first is a path, in a process group of its own, with
// /dev/null as its input and `variables` added to this environment. It is killed
// when the thread that called this ends.
absl::StatusOr<ChildProcess> StartChild(const std::vector<std::string>& args,
                                        const std::map<std::string, std::string>& variables);

}  // namespace thalweg
