// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/checkpoint_check.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_reader.h"

namespace thalweg {
namespace {

// Reading competes with the training for disk and processor.
constexpr int64_t kReadEveryNanos = 30'000'000'000;
// Larger checkpoints are not read back: they would push other files out of the page cache.
constexpr double kMaxBytesRead = 1 << 30;

}  // namespace

double CheckpointBytes(FileSystem& files, const std::string& prefix) {
  const size_t slash = prefix.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : prefix.substr(0, slash);
  const std::string base = slash == std::string::npos ? prefix : prefix.substr(slash + 1);
  double bytes = 0;
  for (const std::string& name : files.ListDirectory(folder).value_or(std::vector<std::string>())) {
    if (name != base + ".index" && !absl::StartsWith(name, base + ".data-")) continue;
    bytes += static_cast<double>(files.FileSize(absl::StrCat(folder, "/", name)).value_or(0));
  }
  return bytes;
}

void CheckpointCheck::Look() {
  const std::string latest = monitor_->checkpoint();
  if (latest.empty()) return;
  double bytes = 0;
  if (latest != measured_) {
    bytes = CheckpointBytes(*files_, latest);
    monitor_->SetCheckpointBytes(latest, bytes);
    measured_ = latest;
  }
  if (latest == read_ || reading_ || (read_nanos_ != 0 && NowNanos() - read_nanos_ < kReadEveryNanos)) return;
  if (bytes == 0) bytes = CheckpointBytes(*files_, latest);
  if (bytes == 0 || bytes > kMaxBytesRead) return;  // 0: it is in a folder that this task cannot see
  read_ = latest;
  read_nanos_ = NowNanos();
  reading_ = true;
  reader_ = std::make_unique<Thread>("checkpoint", [this, latest] {
    Read(latest);
    reading_ = false;
  });
}

void CheckpointCheck::Read(const std::string& prefix) {
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(*files_, prefix));
    for (const std::string& name : reader->Names()) {
      if (closing_) return Cancelled("the server ends");
      RETURN_IF_ERROR(reader->Read(name).status());
    }
    return absl::OkStatus();
  };
  const absl::Status status = read();
  // The program may have deleted it meanwhile, as one of its old checkpoints.
  if (absl::IsCancelled(status) || !files_->FileExists(IndexPath(prefix)).ok()) return;
  if (!status.ok()) monitor_->AddFault("checkpoint damaged", absl::StrCat(prefix, ": ", status.message()));
  monitor_->SetCheckpointVerified(prefix, status.ok() ? "" : absl::StrCat(prefix, ": ", status.message()));
}

}  // namespace thalweg
