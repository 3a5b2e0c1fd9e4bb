// Paths as programs give them: of this machine, or with the scheme of a file
// system ("file:///data/x", "s3://bucket/x").
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// "s3" for "s3://bucket/x"; empty if the path has no scheme.
absl::string_view SchemeOf(absl::string_view path);

// How many characters "file://host" has at the front of a path; 0 if it has no
// such front. The host is not looked at, as in TensorFlow.
size_t FileSchemeLength(absl::string_view path);

// The path on this machine: "/data/x" for "file:///data/x". Without a scheme it is
// the path itself. UNIMPLEMENTED, naming the scheme, if it is of another file
// system; INVALID_ARGUMENT if it has a zero byte, where the system's calls would
// take it for ended. `operation` is for the message: "open".
absl::StatusOr<std::string> LocalPath(absl::string_view operation, const std::string& path);

}  // namespace thalweg
