// SPDX-License-Identifier: Apache-2.0
// Flags of subcommands. All are absl flags; each subcommand accepts a subset.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace thalweg::cli {

// Sets the flags in `args`: "--name value" or "--name=value", with one dash or two;
// "--name" and "--noname" for bools. A flag that holds a list accepts "a,b" and may
// be given several times. Returns INVALID_ARGUMENT for a flag that is not among
// `allowed`, a value that does not parse, and an argument that is not a flag.
absl::Status SetFlags(absl::Span<const std::string> args, const std::vector<std::string>& allowed);

// Help for the named flags, one line each: "  --runs  number of times ... (1)".
// REQUIRES: the flags exist.
std::string DescribeFlags(const std::vector<std::string>& names);

}  // namespace thalweg::cli
