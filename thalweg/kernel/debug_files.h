// SPDX-License-Identifier: Apache-2.0
// The files in which TensorFlow's debugger (tfdbg) looks for a step that it watches.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorflow {
class Event;
}

namespace thalweg {

// "_tfdbg_device_,job_worker,replica_0,...": the folder of a device.
std::string DebugFolder(absl::string_view device);

// UNIMPLEMENTED for URLs other than file://FOLDER.
absl::Status CheckDebugUrls(absl::Span<const std::string> urls);

// Writes `event` below the folder of every URL, to `path` and the time of the event. Creates
// missing folders, and keeps files of the same microsecond apart.
absl::Status WriteDebugFiles(absl::Span<const std::string> urls, absl::string_view path,
                             const tensorflow::Event& event);

}  // namespace thalweg
