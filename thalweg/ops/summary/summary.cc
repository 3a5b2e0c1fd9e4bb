// SPDX-License-Identifier: Apache-2.0
// Ops that report values: each gives a serialized Summary, which the client
// writes into a file for TensorBoard. ScalarSummary reports numbers,
// HistogramSummary how values are spread, TensorSummary any tensor;
// MergeSummary makes one of several.
#include "absl/container/flat_hash_set.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/summary_scalars.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/summary/emit_summary.h"
#include "thalweg/ops/support/histogram.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using tensorflow::Summary;

absl::Status ComputeScalar(KernelContext& c) {
  const Tensor& tags = c.input(0);
  const Tensor& values = c.input(1);
  if (tags.shape() != values.shape()) {
    const std::string tag = tags.num_elements() == 1 ? absl::StrCat(" (tag '", tags.scalar<std::string>(), "')") : "";
    return InvalidArgument("tags and values are not the same shape: ", tags.shape(), " != ", values.shape(), tag);
  }
  Summary summary;
  const std::shared_ptr<SummaryScalars> status = SummaryScalars::Of(c.device().resources());
  RETURN_IF_ERROR(Dispatch(RealTypes(), values.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      Summary::Value* const value = summary.add_value();
      value->set_tag(tags.data<std::string>()[i]);
      value->set_simple_value(static_cast<float>(values.data<T>()[i]));
      status->Set(value->tag(), value->simple_value());
    }
    return absl::OkStatus();
  }));
  return EmitSummary(c, summary);
}

absl::Status ComputeHistogram(KernelContext& c) {
  const Tensor& tag = c.input(0);
  const Tensor& values = c.input(1);
  if (tag.rank() != 0) return InvalidArgument("tags must be scalar");
  Summary summary;
  Summary::Value* const value = summary.add_value();
  value->set_tag(tag.scalar<std::string>());
  RETURN_IF_ERROR(FillHistogram(values, c.node().name(), value->mutable_histo()));
  return EmitSummary(c, summary);
}

absl::Status SetTensor(const Tensor& tensor, Summary::Value* value) {
  RETURN_IF_ERROR(CheckEncodable(tensor));
  TensorToProto(tensor, value->mutable_tensor());
  return absl::OkStatus();
}

absl::Status ComputeTensor(KernelContext& c) {
  Summary summary;
  Summary::Value* const value = summary.add_value();
  value->set_node_name(c.node().name());
  RETURN_IF_ERROR(SetTensor(c.input(0), value));
  return EmitSummary(c, summary);
}

absl::Status ComputeTensorV2(KernelContext& c) {
  if (c.input(0).rank() != 0) return InvalidArgument("tag must be scalar");
  if (c.input(2).rank() != 0) return InvalidArgument("serialized_summary_metadata must be scalar");
  Summary summary;
  Summary::Value* const value = summary.add_value();
  value->set_tag(c.input(0).scalar<std::string>());
  RETURN_IF_ERROR(SetTensor(c.input(1), value));
  if (!value->mutable_metadata()->ParseFromString(c.input(2).scalar<std::string>())) {
    return InvalidArgument("serialized_summary_metadata is not a valid SummaryMetadata");
  }
  return EmitSummary(c, summary);
}

absl::Status ComputeMerge(KernelContext& c) {
  Summary merged;
  absl::flat_hash_set<std::string> tags;
  for (int i = 0; i < c.num_inputs(); ++i) {
    for (const std::string& text : c.input(i).flat<std::string>()) {
      Summary summary;
      if (!summary.ParseFromString(text)) return InvalidArgument("Could not parse one of the summary inputs");
      for (Summary::Value& value : *summary.mutable_value()) {
        if (!value.tag().empty() && !tags.insert(value.tag()).second) {
          return InvalidArgument("Duplicate tag ", value.tag(), " found in summary inputs");
        }
        *merged.add_value() = std::move(value);
      }
    }
  }
  return EmitSummary(c, merged);
}

const OpRegistration kSummaryOps[] = {
    Op("ScalarSummary")
        .Input("tags: string")
        .Input("values: T")
        .Output("summary: string")
        .Attr("T: realnumbertype")
        .Shape(shapes::Scalar)
        .Compute(ComputeScalar)
        .NotDifferentiable(),
    Op("HistogramSummary")
        .Input("tag: string")
        .Input("values: T")
        .Output("summary: string")
        .Attr("T: realnumbertype = DT_FLOAT")
        .Shape(shapes::Scalar)
        .Compute(ComputeHistogram)
        .NotDifferentiable(),
    Op("TensorSummary")
        .Input("tensor: T")
        .Output("summary: string")
        .Attr("T: type")
        .Attr("description: string = ''")
        .Attr("labels: list(string) = []")
        .Attr("display_name: string = ''")
        .Shape(shapes::Scalar)
        .Compute(ComputeTensor)
        .NotDifferentiable(),
    Op("TensorSummaryV2")
        .Input("tag: string")
        .Input("tensor: T")
        .Input("serialized_summary_metadata: string")
        .Output("summary: string")
        .Attr("T: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeTensorV2)
        .NotDifferentiable(),
    Op("MergeSummary")
        .Input("inputs: N * string")
        .Output("summary: string")
        .Attr("N: int >= 1")
        .Shape(shapes::Scalar)
        .Compute(ComputeMerge)
        .NotDifferentiable(),
};

}  // namespace

Output ScalarSummary(const Scope& s, Output tags, Output values) { return s.Add("ScalarSummary", {tags, values}); }
Output HistogramSummary(const Scope& s, Output tag, Output values) { return s.Add("HistogramSummary", {tag, values}); }
Output TensorSummary(const Scope& s, Output tag, Output tensor, Output serialized_summary_metadata) {
  return s.Add("TensorSummaryV2", {tag, tensor, serialized_summary_metadata});
}
Output MergeSummary(const Scope& s, const std::vector<Output>& inputs) { return s.Add("MergeSummary", {inputs}); }

}  // namespace thalweg
