// SPDX-License-Identifier: Apache-2.0
// Finds the job that `thalweg status`, `why`, `top` and `trace` ask.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/proto/monitor.pb.h"

namespace thalweg::cli {

// Takes the arguments "[ADDRESS] [flags]" and sets the flags, which must be among `flags`.
// Returns the address, "" if there is none.
absl::StatusOr<std::string> TakeAddress(const std::vector<std::string>& rest, const std::vector<std::string>& flags);

// The status of the job that the server at `address` belongs to; "" means the only job whose
// servers run on this machine. Sets `address` to the server that has answered.
absl::StatusOr<JobStatus> AskJobAt(std::string* address, const GetMonitorRequest& request);

}  // namespace thalweg::cli
