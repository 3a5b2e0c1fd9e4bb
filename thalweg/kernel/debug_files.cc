// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/debug_files.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"
#include "thalweg/proto/event.pb.h"

namespace thalweg {
namespace {

constexpr absl::string_view kFileScheme = "file://";

// A name that no earlier file of the same microsecond has.
std::string UnusedPath(const std::string& path) {
  std::string unused = path;
  for (int i = 1; PosixFileSystem().FileExists(unused).ok() && i < 1000; ++i) unused = absl::StrCat(path, "-", i);
  return unused;
}

}  // namespace

std::string DebugFolder(absl::string_view device) {
  return absl::StrCat("_tfdbg_device_", absl::StrReplaceAll(device, {{":", "_"}, {"/", ","}}));
}

absl::Status CheckDebugUrls(absl::Span<const std::string> urls) {
  for (const std::string& url : urls) {
    if (!absl::StartsWithIgnoreCase(url, kFileScheme)) {
      return Unimplemented("Debug target URL ", url, " is not supported. Use file://FOLDER.");
    }
  }
  return absl::OkStatus();
}

absl::Status WriteDebugFiles(absl::Span<const std::string> urls, absl::string_view path,
                             const tensorflow::Event& event) {
  RETURN_IF_ERROR(CheckDebugUrls(urls));
  if (event.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return ResourceExhausted("a file for the debugger may have 2 GB, got ", event.ByteSizeLong(), " bytes for ", path);
  }
  const std::string bytes = event.SerializeAsString();
  for (const std::string& url : urls) {
    const std::string file =
        absl::StrCat(url.substr(kFileScheme.size()), "/", path, "_", static_cast<int64_t>(event.wall_time()));
    RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(file.substr(0, file.rfind('/'))));
    RETURN_IF_ERROR(PosixFileSystem().WriteStringToFile(UnusedPath(file), bytes));
  }
  return absl::OkStatus();
}

}  // namespace thalweg
