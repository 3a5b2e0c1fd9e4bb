// SPDX-License-Identifier: Apache-2.0
// SummaryWriter: event files, which TensorBoard shows.
//
//   ASSIGN_OR_RETURN(auto writer, SummaryWriter::Open("logs", {.suffix = ".worker_1"}));
//   RETURN_IF_ERROR(writer->AddScalar("loss", loss, step));
//
// Every writer has a file of its own: events.out.tfevents.<seconds>.<host>.<process>.<number><suffix>.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/file_system.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/run_metadata.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

namespace data {
class EventFile;
}

// The name of an event file, and how often it is written.
struct SummaryWriterOptions {
  std::string suffix;                              // ends the file's name, to tell tasks apart
  absl::Duration flush_every = absl::Seconds(10);  // readers see events at most this late
  FileSystem* files = &PosixFileSystem();          // where the file is written
  Clock* clock = &RealClock();                     // the time of the events
};

// An event in the life of a training, as TensorBoard shows it.
enum class SessionEvent {
  kStart,       // a session began
  kStop,        // a session ended
  kCheckpoint,  // a checkpoint was written
};

// Writes one event file. Thread-safe. After a failure to write, every later call returns
// that error.
class SummaryWriter {
 public:
  // Makes the folder if it does not exist.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& folder,
                                                             const SummaryWriterOptions& options = {});

  ~SummaryWriter();

  // The file.
  const std::string& path() const;

  // One point of the curve `tag`.
  absl::Status AddScalar(absl::string_view tag, float value, int64_t step);
  // The distribution of the values of a tensor of real numbers. INVALID_ARGUMENT if one
  // is not finite.
  absl::Status AddHistogram(absl::string_view tag, const Tensor& values, int64_t step);
  // The value of a summary operation (summary::Scalar, summary::MergeAll). DATA_LOSS
  // if it is not a summary.
  absl::Status AddSummary(const Tensor& serialized, int64_t step);
  // The graph, for TensorBoard's graph page.
  absl::Status AddGraph(const Graph& graph);
  // The trace of a step under a name.
  absl::Status AddRunMetadata(absl::string_view tag, const RunMetadata& metadata, int64_t step);
  // `checkpoint_path` is the checkpoint's prefix, for kCheckpoint.
  absl::Status AddSessionEvent(SessionEvent event, int64_t step, const std::string& checkpoint_path = "");

  // Makes everything that was added visible to readers.
  absl::Status Flush();
  // Flushes. Nothing can be added afterwards.
  absl::Status Close();

 private:
  explicit SummaryWriter(std::unique_ptr<data::EventFile> file);

  const std::unique_ptr<data::EventFile> file_;
};

// Writes the graph as text, for people and TensorBoard, to `folder`/graph.pbtxt.
absl::Status WriteGraphText(const Graph& graph, const std::string& folder, FileSystem& files = PosixFileSystem());

}  // namespace thalweg
