// SPDX-License-Identifier: Apache-2.0
// EventFile: the file in which TensorBoard finds what a training reports: a
// TFRecord of tensorflow.Event messages, named
// events.out.tfevents.<seconds>.<host>.<process>.<number><suffix>, so that no
// two have the same name. The first event tells the version of the format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/mutex.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/proto/event.pb.h"

namespace thalweg::data {

struct EventFileOptions {
  std::string suffix;                              // suffix of the file's name, to tell tasks apart
  absl::Duration flush_every = absl::Seconds(10);  // so late readers see it at most
  FileSystem* files = &PosixFileSystem();
  Clock* clock = &RealClock();
};

// Thread-safe. A failure to write is given by every later call.
class EventFile {
 public:
  // Makes the folder if it is not there.
  static absl::StatusOr<std::unique_ptr<EventFile>> Open(const std::string& folder,
                                                         const EventFileOptions& options = {});
  ~EventFile();

  const std::string& path() const { return path_; }

  // An event that has no time gets the present one.
  absl::Status Add(tensorflow::Event event);
  // Readers see what was added.
  absl::Status Flush();
  // Flushes. Nothing can be added afterwards.
  absl::Status Close();

 private:
  EventFile(std::string path, const EventFileOptions& options, std::unique_ptr<RecordWriter> records);

  const std::string path_;
  const EventFileOptions options_;
  Mutex mutex_;
  std::unique_ptr<RecordWriter> records_ ABSL_GUARDED_BY(mutex_);  // nullptr: closed
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t flushed_nanos_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg::data
