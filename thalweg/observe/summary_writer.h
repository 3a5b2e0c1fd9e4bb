// SummaryWriter: event files, which TensorBoard shows.
//
//   ASSIGN_OR_RETURN(auto writer, SummaryWriter::Open("logs", {.suffix = ".worker_1"}));
//   RETURN_IF_ERROR(writer->AddScalar("loss", loss, step));
//
// Every writer has a file of its own, data/event_file.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/data/event_file.h"
#include "thalweg/graph/graph.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

using SummaryWriterOptions = data::EventFileOptions;

// Thread-safe. A failure to write is given by every later call.
class SummaryWriter {
 public:
  // Makes the folder if it is not there.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& folder,
                                                             const SummaryWriterOptions& options = {});

  const std::string& path() const { return file_->path(); }

  absl::Status AddScalar(absl::string_view tag, float value, int64_t step);
  // How the values of a tensor of real numbers are spread. INVALID_ARGUMENT if
  // one is not finite.
  absl::Status AddHistogram(absl::string_view tag, const Tensor& values, int64_t step);
  absl::Status AddSummary(tensorflow::Summary summary, int64_t step);
  // What a summary operation gives. DATA_LOSS if it is nothing like that.
  absl::Status AddSummary(const Tensor& serialized, int64_t step);
  absl::Status AddGraph(const Graph& graph);
  absl::Status AddRunMetadata(absl::string_view tag, const tensorflow::RunMetadata& metadata, int64_t step);
  absl::Status AddSessionLog(tensorflow::SessionLog::SessionStatus status, int64_t step,
                             const std::string& checkpoint_path = "");

  // Readers see what was added.
  absl::Status Flush() { return file_->Flush(); }
  // Flushes. Nothing can be added afterwards.
  absl::Status Close() { return file_->Close(); }

 private:
  explicit SummaryWriter(std::unique_ptr<data::EventFile> file) : file_(std::move(file)) {}
  absl::Status Add(tensorflow::Event event, int64_t step);

  const std::unique_ptr<data::EventFile> file_;
};

// The graph as text, for people and TensorBoard: "graph.pbtxt" of a folder.
absl::Status WriteGraphText(const Graph& graph, const std::string& folder, FileSystem& files = PosixFileSystem());

}  // namespace thalweg
