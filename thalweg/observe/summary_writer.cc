#include "thalweg/observe/summary_writer.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/str_format.h"
#include "google/protobuf/text_format.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/histogram.h"

namespace thalweg {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

// Of a file that nobody else has.
absl::StatusOr<std::string> NewPath(const std::string& folder, const SummaryWriterOptions& options) {
  static std::atomic<int64_t> next{0};
  while (true) {
    std::string path =
        absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d.%d%s", folder, options.clock->WallMicros() / 1'000'000,
                        HostName(), getpid(), next.fetch_add(1), options.suffix);
    const absl::Status exists = options.files->FileExists(path);
    if (absl::IsNotFound(exists)) return path;
    RETURN_IF_ERROR(exists);
  }
}

}  // namespace

SummaryWriter::SummaryWriter(std::string path, const SummaryWriterOptions& options,
                             std::unique_ptr<data::RecordWriter> records)
    : path_(std::move(path)),
      options_(options),
      records_(std::move(records)),
      flushed_nanos_(options.clock->MonotonicNanos()) {}

SummaryWriter::~SummaryWriter() {
  if (const absl::Status status = Close(); !status.ok()) LOG(WARNING) << "Events are lost: " << status;
}

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Open(const std::string& folder,
                                                                   const SummaryWriterOptions& options) {
  RETURN_IF_ERROR(options.files->CreateDirectories(folder));
  ASSIGN_OR_RETURN(std::string path, NewPath(folder, options));
  ASSIGN_OR_RETURN(auto records, data::RecordWriter::Open(path, data::Compression::kNone, *options.files));
  std::unique_ptr<SummaryWriter> writer(new SummaryWriter(std::move(path), options, std::move(records)));
  tensorflow::Event version;
  version.set_file_version(kFileVersion);
  RETURN_IF_ERROR(writer->Add(std::move(version), 0));
  RETURN_IF_ERROR(writer->Flush());
  return writer;
}

absl::Status SummaryWriter::Add(tensorflow::Event event, int64_t step) {
  event.set_wall_time(1e-6 * static_cast<double>(options_.clock->WallMicros()));
  event.set_step(step);
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

absl::Status SummaryWriter::AddSummary(tensorflow::Summary summary, int64_t step) {
  tensorflow::Event event;
  *event.mutable_summary() = std::move(summary);
  return Add(std::move(event), step);
}

absl::Status SummaryWriter::AddSummary(const Tensor& serialized, int64_t step) {
  tensorflow::Summary summary;
  if (serialized.dtype() != kString || serialized.num_elements() != 1 ||
      !summary.ParseFromString(serialized.scalar<std::string>())) {
    return DataLoss("a tensor that is no summary, for step ", step, ": ", serialized.ToString(1));
  }
  return AddSummary(std::move(summary), step);
}

absl::Status SummaryWriter::AddScalar(absl::string_view tag, float value, int64_t step) {
  tensorflow::Summary summary;
  tensorflow::Summary::Value* const v = summary.add_value();
  v->set_tag(std::string(tag));
  v->set_simple_value(value);
  return AddSummary(std::move(summary), step);
}

absl::Status SummaryWriter::AddHistogram(absl::string_view tag, const Tensor& values, int64_t step) {
  tensorflow::Summary summary;
  tensorflow::Summary::Value* const v = summary.add_value();
  v->set_tag(std::string(tag));
  RETURN_IF_ERROR(FillHistogram(values, tag, v->mutable_histo()));
  return AddSummary(std::move(summary), step);
}

absl::Status SummaryWriter::AddGraph(const Graph& graph) {
  tensorflow::Event event;
  event.set_graph_def(graph.Export().SerializeAsString());
  return Add(std::move(event), 0);
}

absl::Status SummaryWriter::AddRunMetadata(absl::string_view tag, const tensorflow::RunMetadata& metadata,
                                           int64_t step) {
  tensorflow::Event event;
  event.mutable_tagged_run_metadata()->set_tag(std::string(tag));
  event.mutable_tagged_run_metadata()->set_run_metadata(metadata.SerializeAsString());
  return Add(std::move(event), step);
}

absl::Status SummaryWriter::AddSessionLog(tensorflow::SessionLog::SessionStatus status, int64_t step,
                                          const std::string& checkpoint_path) {
  tensorflow::Event event;
  event.mutable_session_log()->set_status(status);
  event.mutable_session_log()->set_checkpoint_path(checkpoint_path);
  return Add(std::move(event), step);
}

absl::Status SummaryWriter::Flush() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(status_);
  if (records_ == nullptr) return absl::OkStatus();
  flushed_nanos_ = options_.clock->MonotonicNanos();
  return status_ = records_->Flush();
}

absl::Status SummaryWriter::Close() {
  MutexLock lock(&mutex_);
  if (records_ == nullptr) return absl::OkStatus();
  const absl::Status closed = records_->Close();
  records_ = nullptr;
  return status_.ok() ? closed : status_;
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
