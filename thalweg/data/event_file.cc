// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/event_file.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

// The path of a new file with a unique name.
absl::StatusOr<std::string> NewPath(const std::string& folder, const EventFileOptions& options) {
  // System calls would cut the name at the zero byte.
  if (absl::StrContains(folder, '\0') || absl::StrContains(options.suffix, '\0')) {
    return InvalidArgument("a byte 0 in the name of an event file: ",
                           absl::CHexEscape(absl::StrCat(folder, "/...", options.suffix)));
  }
  static std::atomic<int64_t> next{0};
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    std::string path =
        absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d.%d%s", folder, options.clock->WallMicros() / 1'000'000,
                        HostName(), getpid(), next.fetch_add(1), options.suffix);
    const absl::Status exists = options.files->FileExists(path);
    if (absl::IsNotFound(exists)) return path;
    RETURN_IF_ERROR(exists);
  }
  return AlreadyExists("no name for an event file in ", folder, " that was not taken, in ", kTries, " tries");
}

}  // namespace

EventFile::EventFile(std::string path, const EventFileOptions& options, std::unique_ptr<RecordWriter> records)
    : path_(std::move(path)),
      options_(options),
      records_(std::move(records)),
      flushed_nanos_(options.clock->MonotonicNanos()) {}

EventFile::~EventFile() {
  if (const absl::Status status = Close(); !status.ok()) LOG(WARNING) << "Could not write all events: " << status;
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Open(const std::string& folder, const EventFileOptions& options) {
  ASSIGN_OR_RETURN(std::string path, NewPath(folder, options));
  RETURN_IF_ERROR(options.files->CreateDirectories(folder));
  ASSIGN_OR_RETURN(auto records, RecordWriter::Open(path, Compression::kNone, *options.files));
  std::unique_ptr<EventFile> file(new EventFile(std::move(path), options, std::move(records)));
  tensorflow::Event version;
  version.set_file_version(kFileVersion);
  RETURN_IF_ERROR(file->Add(std::move(version)));
  RETURN_IF_ERROR(file->Flush());
  return file;
}

absl::Status EventFile::Add(tensorflow::Event event) {
  if (event.wall_time() == 0) event.set_wall_time(1e-6 * static_cast<double>(options_.clock->WallMicros()));
  std::string bytes;
  if (!event.SerializeToString(&bytes)) {
    return ResourceExhausted("an event of ", event.ByteSizeLong(), " bytes is too large for a message");
  }
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(status_);
  if (records_ == nullptr) return FailedPrecondition("the event file ", path_, " is closed");
  status_ = records_->Write(bytes);
  const int64_t now = options_.clock->MonotonicNanos();
  if (status_.ok() && now - flushed_nanos_ >= absl::ToInt64Nanoseconds(options_.flush_every)) {
    flushed_nanos_ = now;
    status_ = records_->Flush();
  }
  return status_;
}

absl::Status EventFile::Flush() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(status_);
  if (records_ == nullptr) return absl::OkStatus();
  flushed_nanos_ = options_.clock->MonotonicNanos();
  return status_ = records_->Flush();
}

absl::Status EventFile::Close() {
  MutexLock lock(&mutex_);
  if (records_ == nullptr) return absl::OkStatus();
  const absl::Status closed = records_->Close();
  records_ = nullptr;
  return status_.ok() ? closed : status_;
}

}  // namespace thalweg::data
