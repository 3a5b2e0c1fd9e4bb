// SPDX-License-Identifier: Apache-2.0
// Ops that write event files themselves, instead of giving summaries to the
// client. SummaryWriter is the handle of a writer, which CreateSummaryFileWriter
// opens; the Write...Summary ops add an event each, CloseSummaryWriter ends it.
#include <atomic>
#include <memory>
#include <string>

#include "thalweg/data/event_file.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/summary_scalars.h"
#include "thalweg/ops/summary/media_summary.h"
#include "thalweg/ops/support/histogram.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using tensorflow::Event;
using tensorflow::Summary;

// An event file that flushes after a given number of events. Thread-safe.
class EventWriter final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow22SummaryWriterInterfaceE";

  EventWriter(std::unique_ptr<data::EventFile> file, int max_queue) : file_(std::move(file)), max_queue_(max_queue) {}

  absl::Status Add(Event event) {
    RETURN_IF_ERROR(file_->Add(std::move(event)));
    return pending_.fetch_add(1) >= max_queue_ ? Flush() : absl::OkStatus();
  }
  absl::Status Flush() {
    pending_ = 0;
    return file_->Flush();
  }
  std::string Describe() const override { return absl::StrCat("a writer of ", file_->path()); }

 private:
  const std::unique_ptr<data::EventFile> file_;
  const int max_queue_;
  std::atomic<int> pending_ = 0;
};

template <typename T>
absl::StatusOr<T> ScalarInput(KernelContext& c, int i, absl::string_view what) {
  if (c.input(i).rank() != 0) return InvalidArgument(what, " must be a scalar, got shape ", c.input(i).shape());
  return c.input(i).scalar<T>();
}

absl::Status CreateFile(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, EventWriter::kTypeName));
  ASSIGN_OR_RETURN(const std::string folder, ScalarInput<std::string>(c, 1, "logdir"));
  ASSIGN_OR_RETURN(const int32_t max_queue, ScalarInput<int32_t>(c, 2, "max_queue"));
  ASSIGN_OR_RETURN(const int32_t flush_millis, ScalarInput<int32_t>(c, 3, "flush_millis"));
  ASSIGN_OR_RETURN(const std::string suffix, ScalarInput<std::string>(c, 4, "filename_suffix"));
  ResourceManager& resources = c.device().resources();
  if (resources.Find<EventWriter>(name.container, name.name).ok()) return absl::OkStatus();
  // Not under the manager's lock: disks may be slow.
  ASSIGN_OR_RETURN(std::unique_ptr<data::EventFile> file,
                   data::EventFile::Open(folder, {.suffix = suffix, .flush_every = absl::Milliseconds(flush_millis)}));
  const absl::Status created =
      resources.Create(name.container, name.name, std::make_shared<EventWriter>(std::move(file), max_queue));
  return absl::IsAlreadyExists(created) ? absl::OkStatus() : created;
}

// The writer of input 0 and the step of input 1.
struct Place {
  std::shared_ptr<EventWriter> writer;
  Event event;

  absl::Status Write() { return writer->Add(std::move(event)); }
};
absl::StatusOr<Place> PlaceOf(KernelContext& c) {
  Place place;
  ASSIGN_OR_RETURN(place.writer, FindResource<EventWriter>(c, 0));
  ASSIGN_OR_RETURN(const int64_t step, ScalarInput<int64_t>(c, 1, "step"));
  place.event.set_step(step);
  return place;
}

absl::Status WriteTensor(KernelContext& c) {
  ASSIGN_OR_RETURN(Place place, PlaceOf(c));
  ASSIGN_OR_RETURN(const std::string tag, ScalarInput<std::string>(c, 3, "tag"));
  ASSIGN_OR_RETURN(const std::string metadata, ScalarInput<std::string>(c, 4, "summary_metadata"));
  Summary::Value* const value = place.event.mutable_summary()->add_value();
  value->set_tag(tag);
  RETURN_IF_ERROR(CheckEncodable(c.input(2)));
  TensorToProto(c.input(2), value->mutable_tensor());
  if (!metadata.empty() && !value->mutable_metadata()->ParseFromString(metadata)) {
    return InvalidArgument("summary_metadata is not a valid SummaryMetadata");
  }
  return place.Write();
}

absl::Status WriteScalar(KernelContext& c) {
  ASSIGN_OR_RETURN(Place place, PlaceOf(c));
  ASSIGN_OR_RETURN(const std::string tag, ScalarInput<std::string>(c, 2, "tag"));
  const Tensor& number = c.input(3);
  if (number.rank() != 0) return InvalidArgument("value must be a scalar, got shape ", number.shape());
  Summary::Value* const value = place.event.mutable_summary()->add_value();
  value->set_tag(tag);
  RETURN_IF_ERROR(Dispatch(RealTypes(), number.dtype(), [&]<typename T>() {
    value->set_simple_value(static_cast<float>(number.scalar<T>()));
    SummaryScalars::Of(c.device().resources())->Set(tag, value->simple_value());
    return absl::OkStatus();
  }));
  return place.Write();
}

absl::Status WriteHistogram(KernelContext& c) {
  ASSIGN_OR_RETURN(Place place, PlaceOf(c));
  ASSIGN_OR_RETURN(const std::string tag, ScalarInput<std::string>(c, 2, "tag"));
  Summary::Value* const value = place.event.mutable_summary()->add_value();
  value->set_tag(tag);
  const Tensor values = c.input(3).dtype() == kBool ? c.input(3).Bitcast(kUint8) : c.input(3);
  RETURN_IF_ERROR(FillHistogram(values, c.node().name(), value->mutable_histo()));
  return place.Write();
}

class WriteImageKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(max_images_, init.Attr<int64_t>("max_images"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Place place, PlaceOf(c));
    ASSIGN_OR_RETURN(const std::string tag, ScalarInput<std::string>(c, 2, "tag"));
    if (c.input(4).rank() != 1) return InvalidArgument("bad_color must be a vector, got shape ", c.input(4).shape());
    RETURN_IF_ERROR(AddImages(tag, c.input(3), c.input(4), max_images_, place.event.mutable_summary()));
    return place.Write();
  }

 private:
  int64_t max_images_ = 3;
};

class WriteAudioKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(max_outputs_, init.Attr<int64_t>("max_outputs"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Place place, PlaceOf(c));
    ASSIGN_OR_RETURN(const std::string tag, ScalarInput<std::string>(c, 2, "tag"));
    RETURN_IF_ERROR(AddSounds(tag, c.input(3), c.input(4), max_outputs_, place.event.mutable_summary()));
    return place.Write();
  }

 private:
  int64_t max_outputs_ = 3;
};

absl::Status WriteGraph(KernelContext& c) {
  ASSIGN_OR_RETURN(Place place, PlaceOf(c));
  ASSIGN_OR_RETURN(const std::string graph, ScalarInput<std::string>(c, 2, "tensor"));
  if (!tensorflow::GraphDef().ParseFromString(graph)) return DataLoss("Bad tf.GraphDef binary proto tensor string");
  place.event.set_graph_def(graph);
  return place.Write();
}

absl::Status WriteRawProto(KernelContext& c) {
  ASSIGN_OR_RETURN(Place place, PlaceOf(c));
  const absl::Span<const std::string> summaries = c.input(2).flat<std::string>();
  for (size_t i = 0; i < summaries.size(); ++i) {
    Summary summary;
    if (!summary.ParseFromString(summaries[i])) {
      return DataLoss("Bad tf.compat.v1.Summary binary proto tensor string at index ", i);
    }
    place.event.mutable_summary()->MergeFrom(summary);
  }
  return place.Write();
}

absl::Status ImportEvent(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<EventWriter> writer, FindResource<EventWriter>(c, 0));
  ASSIGN_OR_RETURN(const std::string text, ScalarInput<std::string>(c, 1, "event"));
  Event event;
  if (!event.ParseFromString(text)) return DataLoss("Bad tf.Event binary proto tensor string");
  return writer->Add(std::move(event));
}

absl::Status Flush(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<EventWriter> writer, FindResource<EventWriter>(c, 0));
  return writer->Flush();
}

absl::Status Close(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, EventWriter::kTypeName));
  ASSIGN_OR_RETURN(const std::shared_ptr<EventWriter> writer, FindResource<EventWriter>(c, 0));
  RETURN_IF_ERROR(c.device().resources().Delete<EventWriter>(name.container, name.name));
  return writer->Flush();
}

Op Writes(absl::string_view name) {
  Op op(name);
  return op.Input("writer: resource").Stateful().Shape(shapes::NoOutputs).NotDifferentiable();
}

const OpRegistration kWriteSummaryOps[] = {
    Op("SummaryWriter")
        .Output("writer: resource")
        .Attr("shared_name: string = ''")
        .Attr("container: string = ''")
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<HandleKernel>(EventWriter::kTypeName)
        .NotDifferentiable(),
    Writes("CreateSummaryFileWriter")
        .Input("logdir: string")
        .Input("max_queue: int32")
        .Input("flush_millis: int32")
        .Input("filename_suffix: string")
        .Compute(CreateFile),
    Writes("FlushSummaryWriter").Compute(Flush),
    Writes("CloseSummaryWriter").Compute(Close),
    Writes("WriteSummary")
        .Input("step: int64")
        .Input("tensor: T")
        .Input("tag: string")
        .Input("summary_metadata: string")
        .Attr("T: type")
        .Compute(WriteTensor),
    Writes("WriteScalarSummary")
        .Input("step: int64")
        .Input("tag: string")
        .Input("value: T")
        .Attr("T: realnumbertype")
        .Compute(WriteScalar),
    Writes("WriteHistogramSummary")
        .Input("step: int64")
        .Input("tag: string")
        .Input("values: T")
        .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, bool} = "
              "DT_FLOAT")
        .Compute(WriteHistogram),
    Writes("WriteImageSummary")
        .Input("step: int64")
        .Input("tag: string")
        .Input("tensor: T")
        .Input("bad_color: uint8")
        .Attr("max_images: int >= 1 = 3")
        .Attr("T: {uint8, double, float, half} = DT_FLOAT")
        .Kernel<WriteImageKernel>(),
    Writes("WriteAudioSummary")
        .Input("step: int64")
        .Input("tag: string")
        .Input("tensor: float")
        .Input("sample_rate: float")
        .Attr("max_outputs: int >= 1 = 3")
        .Kernel<WriteAudioKernel>(),
    Writes("WriteGraphSummary").Input("step: int64").Input("tensor: string").Compute(WriteGraph),
    Writes("WriteRawProtoSummary").Input("step: int64").Input("tensor: string").Compute(WriteRawProto),
    Writes("ImportEvent").Input("event: string").Compute(ImportEvent),
};

}  // namespace
}  // namespace thalweg
