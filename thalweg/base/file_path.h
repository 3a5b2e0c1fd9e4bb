// SPDX-License-Identifier: Apache-2.0
// Paths as users write them: local ("/data/x"), or with the scheme of a file system
// ("file:///data/x", "s3://bucket/x").
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// "s3" for "s3://bucket/x"; empty if the path has no scheme.
absl::string_view SchemeOf(absl::string_view path);

// The length of the prefix "file://host" of a path; 0 if the path does not have one.
// The host is ignored, as in TensorFlow.
size_t FileSchemeLength(absl::string_view path);

// The path on this machine: "/data/x" for "file:///data/x", the path itself if it has
// no scheme. Returns UNIMPLEMENTED, naming the scheme, for other file systems, and
// INVALID_ARGUMENT for a path with a zero byte, at which system calls would cut it off.
// `operation` ("open") is for the error message.
absl::StatusOr<std::string> LocalPath(absl::string_view operation, const std::string& path);

}  // namespace thalweg
