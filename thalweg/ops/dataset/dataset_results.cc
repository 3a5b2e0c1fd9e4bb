// SPDX-License-Identifier: Apache-2.0
// Ops that go through a dataset and keep something of it.
//
//   ReduceDataset(x, state): f(... f(f(state, x0), x1) ..., xn)
//   DatasetToSingleElement(x): the only element of x
//   GetElementAtIndex(x, i): element i
//   DatasetToTFRecord(x, file): writes elements, which are strings, as records
//   DatasetCardinality(x): how many elements there are; -1 without end, -2 if it
//     is not known
#include "thalweg/base/status.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/iterator.h"

namespace thalweg {
namespace {

using Done = AsyncKernel::Done;
using Work = absl::AnyInvocable<absl::Status(RunningSequence&, Cancellation&)>;

// Prepares the work on the elements of input 0.
using Plan = absl::StatusOr<Work> (*)(KernelContext& c, const DatasetValue& dataset);

class ThroughDatasetKernel final : public AsyncKernel {
 public:
  explicit ThroughDatasetKernel(Plan plan) : plan_(plan) {}
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<DatasetPtr> dataset = DatasetIn(c.input(0));
    if (!dataset.ok()) return done(dataset.status());
    absl::StatusOr<Work> work = plan_(c, **dataset);
    if (!work.ok()) return done(work.status());
    IterateAsync(c, *std::move(dataset), *std::move(work), std::move(done));
  }

 private:
  const Plan plan_;
};

absl::StatusOr<Work> PlanAtIndex(KernelContext& c, const DatasetValue& dataset) {
  ASSIGN_OR_RETURN(const int64_t index, IntArgument(c, 1, "index"));
  const int64_t n = dataset.cardinality();
  if (n == DatasetValue::kUnknown) return Unimplemented("Random access is not implemented for this dataset.");
  if (n == DatasetValue::kInfinite) {
    return FailedPrecondition("Dataset of type ", dataset.ToString(),
                              " has infinite cardinality, which does not support random access.");
  }
  if (index < 0 || index >= n) return OutOfRange("Index out of range [0, ", n, "):", index);
  return [&c, index](RunningSequence& sequence, Cancellation& cancellation) -> absl::Status {
    for (int64_t k = 0;; ++k) {
      ASSIGN_OR_RETURN(std::optional<Element> element, sequence.Take(cancellation));
      if (!element) return OutOfRange("Index out of range [0, ", k, "):", index);
      if (k == index) return ShowElement(c, *std::move(element));
      RETURN_IF_ERROR(cancellation.status());
    }
  };
}

absl::StatusOr<Work> PlanSingleElement(KernelContext& c, const DatasetValue&) {
  return [&c](RunningSequence& sequence, Cancellation& cancellation) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<Element> element, sequence.Take(cancellation));
    if (!element) return InvalidArgument("Dataset was empty.");
    ASSIGN_OR_RETURN(const std::optional<Element> more, sequence.Take(cancellation));
    if (more) return InvalidArgument("Dataset had more than one element.");
    return ShowElement(c, *std::move(element));
  };
}

absl::StatusOr<Work> PlanToTfRecord(KernelContext& c, const DatasetValue&) {
  ASSIGN_OR_RETURN(const std::string path, StringArgument(c, 1, "filename"));
  ASSIGN_OR_RETURN(const std::string name, StringArgument(c, 2, "compression_type"));
  ASSIGN_OR_RETURN(const data::Compression compression, data::CompressionFromName(name));
  return [path, compression](RunningSequence& sequence, Cancellation& cancellation) -> absl::Status {
    ASSIGN_OR_RETURN(const auto writer, data::RecordWriter::Open(path, compression));
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<Element> element, sequence.Take(cancellation));
      if (!element) return writer->Close();
      if (element->size() != 1 || element->front().dtype() != kString || element->front().rank() != 0) {
        return InvalidArgument("only datasets of single scalar strings can be written as records");
      }
      RETURN_IF_ERROR(writer->Write(element->front().scalar<std::string>()));
      RETURN_IF_ERROR(cancellation.status());
    }
  };
}

class ReduceKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(function_.Read(init, "f", "Targuments"));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("Tstate"));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<DatasetPtr> dataset = DatasetIn(c.input(0));
    if (!dataset.ok()) return done(dataset.status());
    Element state;
    int input = 1;
    for (size_t i = 0; i < types_.size(); ++i) state.push_back(c.input(input++));
    CapturedFunction function = function_.Capture(c, &input);
    IterateAsync(
        c, *std::move(dataset),
        [this, &c, state = std::move(state), function](RunningSequence& sequence, Cancellation& cancellation) mutable {
          return Reduce(c, sequence, cancellation, std::move(state), function);
        },
        std::move(done));
  }

 private:
  absl::Status Reduce(KernelContext& c, RunningSequence& sequence, Cancellation& cancellation, Element state,
                      CapturedFunction& function) const {
    RETURN_IF_ERROR(function.Prepare(sequence.context()));
    Iteration it{sequence.context(), cancellation};
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Element> x, sequence.Take(cancellation));
      if (!x) return ShowElement(c, std::move(state));
      RETURN_IF_ERROR(it.Check());
      state.insert(state.end(), x->begin(), x->end());
      absl::StatusOr<Element> reduced = function(it, std::move(state));
      if (absl::IsOutOfRange(reduced.status())) {
        return InvalidArgument("Function invocation produced OutOfRangeError: ", reduced.status().message());
      }
      RETURN_IF_ERROR(reduced.status());
      state = *std::move(reduced);
    }
  }

  FunctionAttr function_;
  std::vector<DType> types_;
};

absl::Status ComputeCardinality(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(c.input(0)));
  c.set_output(0, Tensor::Scalar<int64_t>(dataset->cardinality()));
  return absl::OkStatus();
}

Op ToTfRecord(absl::string_view name) {
  return SpecifiedOp(name, "input_dataset: variant, filename: string, compression_type: string", "", "")
      .Stateful()
      .Shape(shapes::NoOutputs)
      .Kernel<ThroughDatasetKernel>(PlanToTfRecord);
}

const OpRegistration kDatasetResultsOps[] = {
    SpecifiedOp("GetElementAtIndex", "dataset: variant, index: int64", "components: output_types", "TYPES")
        .Shape(ElementShapes)
        .Kernel<ThroughDatasetKernel>(PlanAtIndex),
    SpecifiedOp("DatasetToSingleElement", "dataset: variant", "components: output_types", "TYPES, METADATA")
        .Stateful()
        .Shape(ElementShapes)
        .Kernel<ThroughDatasetKernel>(PlanSingleElement),
    SpecifiedOp("ReduceDataset", "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments",
                "components: output_types",
                "f: func, Tstate: list(type) >= 1, ARGUMENTS, TYPES, use_inter_op_parallelism: bool = true, METADATA")
        .Stateful()
        .Shape(ElementShapes)
        .Kernel<ReduceKernel>(),
    ToTfRecord("DatasetToTFRecord"),
    ToTfRecord("ExperimentalDatasetToTFRecord"),
    SpecifiedOp("DatasetCardinality", "input_dataset: variant", "cardinality: int64",
                "cardinality_options: string = ''")
        .Shape(shapes::Scalar)
        .Compute(ComputeCardinality),
    SpecifiedOp("ExperimentalDatasetCardinality", "input_dataset: variant", "cardinality: int64", "")
        .Shape(shapes::Scalar)
        .Compute(ComputeCardinality),
};

}  // namespace
}  // namespace thalweg
