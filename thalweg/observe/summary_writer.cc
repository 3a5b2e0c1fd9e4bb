// SPDX-License-Identifier: Apache-2.0
#include "thalweg/observe/summary_writer.h"

#include "google/protobuf/text_format.h"
#include "thalweg/base/status.h"
#include "thalweg/data/event_file.h"
#include "thalweg/ops/support/histogram.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

tensorflow::SessionLog::SessionStatus StatusOf(SessionEvent event) {
  switch (event) {
    case SessionEvent::kStart:
      return tensorflow::SessionLog::START;
    case SessionEvent::kStop:
      return tensorflow::SessionLog::STOP;
    case SessionEvent::kCheckpoint:
      return tensorflow::SessionLog::CHECKPOINT;
  }
  return tensorflow::SessionLog::STATUS_UNSPECIFIED;
}

absl::Status Write(tensorflow::Event event, int64_t step, data::EventFile& file) {
  event.set_step(step);
  return file.Add(std::move(event));
}

absl::Status WriteSummary(tensorflow::Summary summary, int64_t step, data::EventFile& file) {
  tensorflow::Event event;
  *event.mutable_summary() = std::move(summary);
  return Write(std::move(event), step, file);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Open(const std::string& folder,
                                                                   const SummaryWriterOptions& options) {
  ASSIGN_OR_RETURN(auto file, data::EventFile::Open(folder, {.suffix = options.suffix,
                                                             .flush_every = options.flush_every,
                                                             .files = options.files,
                                                             .clock = options.clock}));
  return std::unique_ptr<SummaryWriter>(new SummaryWriter(std::move(file)));
}

SummaryWriter::SummaryWriter(std::unique_ptr<data::EventFile> file) : file_(std::move(file)) {}
SummaryWriter::~SummaryWriter() = default;

const std::string& SummaryWriter::path() const { return file_->path(); }
absl::Status SummaryWriter::Flush() { return file_->Flush(); }
absl::Status SummaryWriter::Close() { return file_->Close(); }

absl::Status SummaryWriter::AddSummary(const Tensor& serialized, int64_t step) {
  tensorflow::Summary summary;
  if (serialized.dtype() != kString || serialized.num_elements() != 1 ||
      !summary.ParseFromString(serialized.scalar<std::string>())) {
    return DataLoss("a tensor that is not a serialized summary, for step ", step, ": ", serialized.ToString(1));
  }
  return WriteSummary(std::move(summary), step, *file_);
}

absl::Status SummaryWriter::AddScalar(absl::string_view tag, float value, int64_t step) {
  tensorflow::Summary summary;
  tensorflow::Summary::Value* const v = summary.add_value();
  v->set_tag(std::string(tag));
  v->set_simple_value(value);
  return WriteSummary(std::move(summary), step, *file_);
}

absl::Status SummaryWriter::AddHistogram(absl::string_view tag, const Tensor& values, int64_t step) {
  tensorflow::Summary summary;
  tensorflow::Summary::Value* const v = summary.add_value();
  v->set_tag(std::string(tag));
  RETURN_IF_ERROR(FillHistogram(values, tag, v->mutable_histo()));
  return WriteSummary(std::move(summary), step, *file_);
}

absl::Status SummaryWriter::AddGraph(const Graph& graph) {
  tensorflow::Event event;
  event.set_graph_def(graph.Export().SerializeAsString());
  return Write(std::move(event), 0, *file_);
}

absl::Status SummaryWriter::AddRunMetadata(absl::string_view tag, const RunMetadata& metadata, int64_t step) {
  tensorflow::Event event;
  event.mutable_tagged_run_metadata()->set_tag(std::string(tag));
  event.mutable_tagged_run_metadata()->set_run_metadata(metadata.SerializeAsString());
  return Write(std::move(event), step, *file_);
}

absl::Status SummaryWriter::AddSessionEvent(SessionEvent event, int64_t step, const std::string& checkpoint_path) {
  tensorflow::Event entry;
  entry.mutable_session_log()->set_status(StatusOf(event));
  entry.mutable_session_log()->set_checkpoint_path(checkpoint_path);
  return Write(std::move(entry), step, *file_);
}

absl::Status WriteGraphText(const Graph& graph, const std::string& folder, FileSystem& files) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(graph.Export(), &text)) {
    return ResourceExhausted("the graph is too large to be written as text");
  }
  RETURN_IF_ERROR(files.CreateDirectories(folder));
  return files.WriteStringToFile(absl::StrCat(folder, "/graph.pbtxt"), text);
}

}  // namespace thalweg
