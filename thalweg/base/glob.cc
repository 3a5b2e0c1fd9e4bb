// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/glob.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_split.h"
#include "thalweg/base/file_path.h"
#include "thalweg/base/status.h"

namespace thalweg {

absl::StatusOr<std::vector<std::string>> MatchingPaths(FileSystem& files, const std::string& pattern) {
  RETURN_IF_ERROR(LocalPath("match", pattern).status());
  if (pattern.find_first_of("*?[\\") == std::string::npos) {
    const absl::Status exists = files.FileExists(pattern);
    if (absl::IsNotFound(exists) || absl::IsFailedPrecondition(exists)) return std::vector<std::string>();
    RETURN_IF_ERROR(exists);
    return std::vector<std::string>{pattern};
  }
  // One component after the other: `found` are the paths that match so far, each
  // with the '/' after it.
  const size_t scheme = FileSchemeLength(pattern);
  std::vector<std::string> found = {pattern.substr(0, scheme)};
  const std::vector<std::string> components = absl::StrSplit(absl::string_view(pattern).substr(scheme), '/');
  for (size_t i = 0; i < components.size(); ++i) {
    const std::string& component = components[i];
    const std::string tail = i + 1 < components.size() ? "/" : "";
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      if (component.find_first_of("*?[\\") == std::string::npos) {
        const std::string path = folder + component;
        if (path.size() == scheme || files.FileExists(path).ok()) next.push_back(path + tail);
        continue;
      }
      const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(folder.empty() ? "." : folder);
      if (!names.ok()) continue;
      for (const std::string& name : *names) {
        if (fnmatch(component.c_str(), name.c_str(), FNM_PATHNAME) == 0) next.push_back(folder + name + tail);
      }
    }
    found = std::move(next);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace thalweg
