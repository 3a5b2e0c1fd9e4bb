// SPDX-License-Identifier: Apache-2.0
// How a program says that its part of a job is done.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace thalweg {

// Tells the server at `target` ("grpc://host:port"), usually that of this
// process, that the work of its task is done. The server tells all other tasks:
// parameter servers, and other tasks that only wait, return from Server::Join()
// when every worker has said so. MonitoredTrainingSession::Close() calls it.
//
// OK, with nothing done, for "" (a session in this process) and for a server of
// TensorFlow. Takes 10 s at most.
absl::Status AnnounceDone(const std::string& target);

// Tells the server at `target`, and through it all other tasks, that the program of its task
// ends with an error. Work that needs the task fails if it is not restarted within
// ServerOptions::failed_after. Otherwise like AnnounceDone().
absl::Status AnnounceFailed(const std::string& target);

}  // namespace thalweg
