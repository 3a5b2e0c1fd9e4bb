// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/file_path.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "thalweg/base/status.h"

namespace thalweg {

absl::string_view SchemeOf(absl::string_view path) {
  const size_t end = path.find("://");
  if (end == path.npos || end == 0 || !absl::ascii_isalpha(path[0])) return "";
  const absl::string_view scheme = path.substr(0, end);
  const auto may_follow = [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("+-._", c); };
  return std::all_of(scheme.begin(), scheme.end(), may_follow) ? scheme : "";
}

size_t FileSchemeLength(absl::string_view path) {
  constexpr absl::string_view kFile = "file://";
  if (!absl::StartsWith(path, kFile)) return 0;
  return std::min(path.find('/', kFile.size()), path.size());
}

absl::StatusOr<std::string> LocalPath(absl::string_view operation, const std::string& path) {
  if (const size_t zero = path.find('\0'); zero != path.npos) {
    return InvalidArgument(operation, " ", path.substr(0, zero), ": got a path with a zero byte at position ", zero,
                           ", expected none");
  }
  const absl::string_view scheme = SchemeOf(path);
  if (scheme.empty()) return path;
  if (scheme == "file") return path.substr(FileSchemeLength(path));
  return Unimplemented(operation, " ", path, ": the file system scheme '", scheme,
                       "' is not supported; expected a path of this machine or file://");
}

}  // namespace thalweg
