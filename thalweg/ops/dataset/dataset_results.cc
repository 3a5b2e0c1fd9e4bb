// SPDX-License-Identifier: Apache-2.0
// Ops that go through a dataset and keep something of it.
//
//   ReduceDataset(x, state): f(... f(f(state, x0), x1) ..., xn)
//   DatasetToSingleElement(x): the only element of x
//   GetElementAtIndex(x, i): element i
//   DatasetToTFRecord(x, file): writes elements, which are strings, as records
//   DatasetCardinality(x): how many elements there are; -1 without end, -2 if it
//     is not known
//   InitializeTableFromDataset(table, x): fills a lookup table with pairs of a key and a value
//   ComputeBatchSize(x): the size of the batches; -1 if it is not known
//   GetOptions(x): the tf.data.Options of the pipeline, serialized
#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/iterator.h"
#include "thalweg/ops/lookup/lookup_table.h"
#include "thalweg/ops/support/resource_kernel.h"

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

class InitializeTableKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<LookupTable>> table = FindLookupTable(c);
    if (!table.ok()) return done(table.status());
    if ((*table)->options().kind != LookupTableOptions::Kind::kFixed) {
      return done(InvalidArgument("the table is not initializable"));
    }
    absl::StatusOr<DatasetPtr> dataset = DatasetIn(c.input(1));
    if (!dataset.ok()) return done(dataset.status());
    IterateAsync(
        c, *std::move(dataset),
        [table = *std::move(table)](RunningSequence& sequence, Cancellation& cancellation) {
          return Fill(*table, sequence, cancellation);
        },
        std::move(done));
  }

 private:
  static absl::Status Fill(LookupTable& table, RunningSequence& sequence, Cancellation& cancellation) {
    const LookupTableOptions& o = table.options();
    std::vector<Element> pairs;
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Element> pair, sequence.Take(cancellation));
      if (!pair) break;
      if (pair->size() != 2) return InvalidArgument("Dataset should have two output types only");
      const Tensor &key = (*pair)[0], &value = (*pair)[1];
      if (key.dtype() != o.key_dtype || value.dtype() != o.value_dtype) {
        return InvalidArgument("Expected a key of type ", o.key_dtype, " and a value of type ", o.value_dtype,
                               ", but obtained ", key.dtype(), " and ", value.dtype(), " from the dataset");
      }
      if (key.rank() != 0 || value.rank() != 0) {
        return InvalidArgument("Expected scalars for key and value. Obtained: ", key.shape(), " and ", value.shape());
      }
      pairs.push_back(*std::move(pair));
      RETURN_IF_ERROR(cancellation.status());
    }
    Element columns{Tensor(o.key_dtype, {0}), Tensor(o.value_dtype, {0})};
    if (!pairs.empty()) {
      ASSIGN_OR_RETURN(columns, MakeBatch(pairs));
    }
    // A table that another step has filled is not an error.
    return table.filled() ? absl::OkStatus() : table.Import(columns[0], columns[1]);
  }
};

// Datasets that are not ops, and inputs that are not datasets, give none.
DatasetPtr InputDataset(const DatasetValue& dataset, size_t i) {
  if (!dataset.origin() || i >= dataset.origin()->inputs.size()) return nullptr;
  absl::StatusOr<DatasetPtr> input = DatasetIn(dataset.origin()->inputs[i]);
  return input.ok() ? *std::move(input) : nullptr;
}

// Follows the datasets that do not change the first dimension of elements.
int64_t BatchSizeOf(const DatasetValue& dataset) {
  if (!dataset.origin()) return -1;
  const std::string kind = dataset.ToString();
  const auto is = [&](absl::string_view name) {  // any version of the op
    return kind == name || (absl::StartsWith(kind, absl::StrCat(name, "V")) && kind.size() == name.size() + 2);
  };
  const std::vector<Tensor>& inputs = dataset.origin()->inputs;
  if (is("BatchDataset") || is("PaddedBatchDataset") || is("MapAndBatchDataset") ||
      is("ExperimentalMapAndBatchDataset")) {
    const size_t at = absl::StrContains(kind, "MapAndBatch") ? inputs.size() - 3 : 1;
    return inputs[at].rank() == 0 && inputs[at].dtype() == kInt64 ? inputs[at].scalar<int64_t>() : -1;
  }
  if (is("ConcatenateDataset") || is("ZipDataset")) {
    std::optional<int64_t> common;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DatasetPtr input = InputDataset(dataset, i);
      const int64_t size = input == nullptr ? -1 : BatchSizeOf(*input);
      if (common && *common != size) return -1;
      common = size;
    }
    return common.value_or(-1);
  }
  for (const char* passing :
       {"AssertCardinality", "Cache", "Filter", "Finalize", "Model", "Optimize", "Options", "ParseExample", "Prefetch",
        "Repeat", "Shard", "ShuffleAndRepeat", "Shuffle", "Skip", "Take"}) {
    if (!is(absl::StrCat(passing, "Dataset"))) continue;
    const DatasetPtr input = InputDataset(dataset, 0);
    return input == nullptr ? -1 : BatchSizeOf(*input);
  }
  return -1;
}

absl::Status ComputeBatchSize(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(c.input(0)));
  c.set_output(0, Tensor::Scalar<int64_t>(BatchSizeOf(*dataset)));
  return absl::OkStatus();
}

// A serialized message after another one is the two merged: the outer options win.
absl::StatusOr<std::string> OptionsOfPipeline(const DatasetValue& dataset) {
  std::string options;
  if (!dataset.origin()) return options;
  for (size_t i = 0; i < dataset.origin()->inputs.size(); ++i) {
    if (const DatasetPtr input = InputDataset(dataset, i)) {
      ASSIGN_OR_RETURN(const std::string inner, OptionsOfPipeline(*input));
      options += inner;
    }
  }
  if (dataset.ToString() == "OptionsDataset") {
    ASSIGN_OR_RETURN(const std::string own, GetAttr<std::string>(dataset.origin()->node, "serialized_options"));
    options += own;
  }
  return options;
}

absl::Status ComputeGetOptions(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(std::string options, OptionsOfPipeline(*dataset));
  c.set_output(0, Tensor::Scalar(std::move(options)));
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
    SpecifiedOp("InitializeTableFromDataset", "table_handle: resource, dataset: variant", "", "")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<InitializeTableKernel>(),
    SpecifiedOp("ComputeBatchSize", "input_dataset: variant", "batch_size: int64", "")
        .Shape(shapes::Scalar)
        .Compute(ComputeBatchSize),
    SpecifiedOp("GetOptions", "input_dataset: variant", "serialized_options: string", "")
        .Shape(shapes::Scalar)
        .Compute(ComputeGetOptions),
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
