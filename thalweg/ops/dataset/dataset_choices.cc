// SPDX-License-Identifier: Apache-2.0
// Datasets that choose among others, or a part of one.
//
//   DirectedInterleave(selector, xs): for every number k of the selector, the next
//     element of xs[k]
//   ChooseFastest(xs): one of several that give the same elements
//   ChooseFastestBranch(x, arguments): one of several functions of x that give the
//     same elements
//   AutoShard(x, n, i): the part of task i of n: of the files that x reads or, if
//     it reads none, of its elements
//   List(tensors): elements that are given one by one
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"

namespace thalweg {
namespace {

absl::StatusOr<std::vector<DatasetPtr>> DatasetInputs(KernelContext& c, int first) {
  std::vector<DatasetPtr> inputs;
  for (int i = first; i < c.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(DatasetPtr input, DatasetIn(c.input(i)));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// The sequences that a selector chooses from; ended ones are empty.
class Directed {
 public:
  Directed(Next selector, std::vector<Next> inputs, bool stop_on_empty)
      : selector_(std::move(selector)),
        inputs_(std::move(inputs)),
        open_(static_cast<int>(inputs_.size())),
        stop_on_empty_(stop_on_empty) {}

  NextElement Take(Iteration& it) {
    while (open_ > 0) {
      RETURN_IF_ERROR(it.Check());
      ASSIGN_OR_RETURN(const std::optional<Element> chosen, selector_(it));
      if (!chosen) return std::nullopt;
      ASSIGN_OR_RETURN(const int64_t k, IntResult(*chosen, "the selector"));
      if (k < 0 || k >= static_cast<int64_t>(inputs_.size())) {
        return InvalidArgument("Selector index out of range: ", k, " >= ", inputs_.size());
      }
      if (inputs_[k]) {
        ASSIGN_OR_RETURN(std::optional<Element> element, inputs_[k](it));
        if (element) return element;
        inputs_[k] = nullptr;
        --open_;
        if (stop_on_empty_) open_ = 0;
      }
    }
    return std::nullopt;
  }

 private:
  Next selector_;
  std::vector<Next> inputs_;
  int open_;
  const bool stop_on_empty_;
};

absl::Status ComputeDirectedInterleave(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr selector, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::vector<DatasetPtr> inputs, DatasetInputs(c, 1));
  bool stop = false;
  if (HasAttr(c.node().def(), "stop_on_empty_dataset")) {
    ASSIGN_OR_RETURN(stop, GetAttr<bool>(c.node().def(), "stop_on_empty_dataset"));
  }
  return SetDataset(c, DatasetValue::kUnknown, [selector, inputs, stop](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next choices, selector->Iterate(start));
    std::vector<Next> nexts;
    for (const DatasetPtr& input : inputs) {
      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
      nexts.push_back(std::move(next));
    }
    auto directed = std::make_shared<Directed>(std::move(choices), std::move(nexts), stop);
    return [directed](Iteration& it) { return directed->Take(it); };
  });
}

// All give the same elements, in the same order: the first is as good as any.
absl::Status ComputeChooseFastest(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::vector<DatasetPtr> inputs, DatasetInputs(c, 0));
  for (const DatasetPtr& input : inputs) {
    if (input->cardinality() != inputs[0]->cardinality()) {
      return InvalidArgument("All input datasets must have the same cardinality, got ", inputs[0]->cardinality(),
                             " and ", input->cardinality(), ".");
    }
  }
  return SetDataset(c, inputs[0]->cardinality(), [first = inputs[0]](Iteration& it) { return first->Iterate(it); });
}

// All branches give the same elements for the same input: the first is as good as any.
class ChooseFastestBranchKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(branch_, CarriedFunction::Read(init.node().def(), "branches"));
    ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, init.Attr<std::vector<int64_t>>("other_arguments_lengths"));
    if (lengths.empty()) return InvalidArgument("other_arguments_lengths must have a length for every branch");
    captured_ = lengths[0];
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    ASSIGN_OR_RETURN(const int64_t numerator, IntArgument(c, 1, "ratio_numerator"));
    ASSIGN_OR_RETURN(const int64_t denominator, IntArgument(c, 2, "ratio_denominator"));
    if (numerator <= 0) return InvalidArgument("`ratio_numerator` must be greater than zero, got ", numerator, ".");
    if (denominator <= 0) {
      return InvalidArgument("`ratio_denominator` must be greater than zero, got ", denominator, ".");
    }
    constexpr int kFirst = 3;
    if (captured_ < 0 || captured_ > c.num_inputs() - kFirst) {
      return InvalidArgument("other_arguments_lengths[0] is ", captured_, ", but there are ", c.num_inputs() - kFirst,
                             " other arguments");
    }
    Element captured;
    for (int i = kFirst; i < kFirst + captured_; ++i) captured.push_back(c.input(i));
    const CapturedFunction branch(branch_, std::move(captured));
    return SetDataset(c, DatasetValue::kUnknown, [input, branch](Iteration& it) -> absl::StatusOr<Next> {
      CapturedFunction compiled = branch;
      RETURN_IF_ERROR(compiled.Prepare(it.context));
      return compiled.Open(it, {TensorOf(input)});
    });
  }

 private:
  std::shared_ptr<const CarriedFunction> branch_;
  int64_t captured_ = 0;
};

enum ShardPolicy : int64_t { kOff = -1, kAuto = 0, kFile = 1, kData = 2, kHint = 3 };

// A sequence of the files of one shard. NOT_FOUND if nothing reads files.
absl::StatusOr<Next> IterateFiles(const DatasetValue& input, const Shard& shard, Iteration& it) {
  if (it.files.shard.has_value()) return Unimplemented("a part of a dataset that is part of another");
  it.files = {.shard = shard, .postponed = nullptr};
  it.files_found = false;
  absl::StatusOr<Next> next = input.Iterate(it);
  it.files = {};
  if (next.ok() && !it.files_found) {
    return NotFound("Found an unshardable source dataset: no part of the dataset reads files");
  }
  return next;
}

absl::Status ComputeAutoShard(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  Shard shard;
  ASSIGN_OR_RETURN(shard.count, IntArgument(c, 1, "num_workers"));
  ASSIGN_OR_RETURN(shard.index, IntArgument(c, 2, "index"));
  if (shard.count < 1) return InvalidArgument("num_workers must be greater than zero, got ", shard.count, ".");
  if (shard.index < 0 || shard.index >= shard.count) {
    return InvalidArgument("index must be between 0 and ", shard.count - 1, ", got ", shard.index, ".");
  }
  int64_t policy = kAuto;
  if (HasAttr(c.node().def(), "auto_shard_policy")) {
    ASSIGN_OR_RETURN(policy, GetAttr<int64_t>(c.node().def(), "auto_shard_policy"));
  }
  return SetDataset(c, DatasetValue::kUnknown, [=](Iteration& it) -> absl::StatusOr<Next> {
    if (policy == kOff || policy == kHint) return input->Iterate(it);
    if (policy == kData) return ShardOf(*input, shard, /*require=*/false, it);
    absl::StatusOr<Next> next = IterateFiles(*input, shard, it);
    if (policy == kFile || !absl::IsNotFound(next.status())) return next;
    return ShardOf(*input, shard, /*require=*/false, it);
  });
}

absl::Status ComputeList(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  const int width = static_cast<int>(types.size());
  if (width == 0 || c.num_inputs() % width != 0) {
    return InvalidArgument(c.num_inputs(), " tensors cannot be elements of ", width, " components");
  }
  std::vector<Element> elements;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i % width == 0) elements.emplace_back();
    elements.back().push_back(c.input(i));
  }
  c.set_output(0, TensorOf(ListedDataset("ListDataset", std::move(elements))));
  return absl::OkStatus();
}

Op AutoShard(absl::string_view name, absl::string_view more) {
  return DatasetOp(name, "input_dataset: variant, num_workers: int64, index: int64",
                   absl::StrCat("auto_shard_policy: int = 0, TYPES", more))
      .Compute(ComputeAutoShard);
}

const OpRegistration kDatasetChoicesOps[] = {
    DatasetOp("DirectedInterleaveDataset", "selector_input_dataset: variant, data_input_datasets: N * variant",
              "TYPES, N: int >= 1, stop_on_empty_dataset: bool = false")
        .Compute(ComputeDirectedInterleave),
    DatasetOp("ExperimentalDirectedInterleaveDataset",
              "selector_input_dataset: variant, data_input_datasets: N * variant", "TYPES, N: int >= 1")
        .Compute(ComputeDirectedInterleave),
    DatasetOp("ChooseFastestDataset", "input_datasets: N * variant", "N: int >= 2, num_experiments: int, TYPES")
        .Compute(ComputeChooseFastest),
    DatasetOp("ExperimentalChooseFastestDataset", "input_datasets: N * variant",
              "N: int >= 2, num_experiments: int, TYPES")
        .Compute(ComputeChooseFastest),
    DatasetOp("ChooseFastestBranchDataset",
              "input_dataset: variant, ratio_numerator: int64, ratio_denominator: int64, other_arguments: Targuments",
              "ARGUMENTS, num_elements_per_branch: int >= 1, branches: list(func) >= 1, "
              "other_arguments_lengths: list(int) >= 1, TYPES")
        .Kernel<ChooseFastestBranchKernel>(),
    AutoShard("AutoShardDataset", ", num_replicas: int = 0"),
    AutoShard("ExperimentalAutoShardDataset", ""),
    DatasetOp("ListDataset", "tensors: Tinput_types", "Tinput_types: list(type) >= 1, TYPES, METADATA")
        .Stateful()
        .Compute(ComputeList),
};

}  // namespace
}  // namespace thalweg
