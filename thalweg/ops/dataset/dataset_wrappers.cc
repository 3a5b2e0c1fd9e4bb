// SPDX-License-Identifier: Apache-2.0
// Datasets that pass on the elements of their input unchanged. TensorFlow's clients wrap pipelines in most of them
// automatically; they carry options for how elements are produced.
//
//   Options, Optimize, Model, Rewrite, Finalize: rewrites and tuning of the
//     pipeline. They do not change its elements, and nothing is rewritten here
//   MaxIntraOpParallelism, PrivateThreadPool, ThreadPool: whose threads are used
//   NonSerializable, AssertNext, AssertPrev: for tests of those rewrites
//   AssertCardinality(x, n): fails unless x has n elements
//   IgnoreErrors(x): without the elements that cannot be made
//   Sleep(x, t): each comes t microseconds later
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

absl::Status ComputeSame(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  return SetDataset(c, input->cardinality(), [input](Iteration& it) {
    it.counts_input = it.counted;
    return input->Iterate(it);
  });
}

// A dataset that copy_to_device passes to another device: there is only host memory.
absl::Status ComputeWrapped(KernelContext& c) {
  RETURN_IF_ERROR(DatasetIn(c.input(0)).status());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// The same, after checking that a number is not negative.
absl::Status ComputeLimited(KernelContext& c) {
  const std::string& name = c.node().schema()->def.input_arg(1).name();
  ASSIGN_OR_RETURN(const int64_t limit, IntArgument(c, 1, name));
  if (limit < 0) return InvalidArgument("`", name, "` must be >= 0, got ", limit);
  return ComputeSame(c);
}

// Names of rewrites, which are vectors of strings.
absl::Status ComputeOptimize(KernelContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.input(i).rank() != 1) {
      return InvalidArgument("the names of optimizations must be a vector, got shape ", c.input(i).shape());
    }
  }
  bool fuse = false;
  if (c.node().op() == "OptimizeDataset") {
    const auto names = c.input(1).flat<std::string>();
    fuse = std::find(names.begin(), names.end(), "shuffle_and_repeat_fusion") != names.end();
  }
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  return SetDataset(c, input->cardinality(), [input, fuse](Iteration& it) {
    const bool outer = std::exchange(it.fuses_shuffle_and_repeat, fuse);
    it.counts_input = it.counted;
    absl::StatusOr<Next> next = input->Iterate(it);
    it.fuses_shuffle_and_repeat = outer;
    return next;
  });
}

absl::Status ComputeAssertCardinality(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t expected, IntArgument(c, 1, "cardinality"));
  return SetDataset(c, expected, [input, expected](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), expected, k = int64_t{0}](Iteration& it) mutable -> NextElement {
      ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
      k += element ? 1 : 0;
      const bool infinite = expected == DatasetValue::kInfinite;
      if (!element && (infinite || k != expected)) {
        return FailedPrecondition("Input dataset was expected to contain ",
                                  infinite ? "an infinite number of" : absl::StrCat(expected),
                                  " elements but contained only ", k, " elements.");
      }
      if (element && !infinite && k > expected) {
        return FailedPrecondition("Input dataset was expected to contain ", expected,
                                  " elements but contained at least ", k, " elements.");
      }
      return element;
    };
  });
}

absl::Status ComputeIgnoreErrors(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  bool warn = false;
  if (HasAttr(c.node().def(), "log_warning")) {
    ASSIGN_OR_RETURN(warn, GetAttr<bool>(c.node().def(), "log_warning"));
  }
  return SetDataset(c, DatasetValue::kUnknown, [input, warn](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), warn](Iteration& it) mutable -> NextElement {
      while (true) {
        NextElement element = next(it);
        if (element.ok()) return element;
        // A cancelled step is not an element that cannot be made.
        RETURN_IF_ERROR(it.Check());
        if (warn) LOG(WARNING) << "Skipping an element of a dataset: " << element.status().ToString();
      }
    };
  });
}

// Whether `kind` is `expected` or another version of it: "Map" matches "MapV2".
bool IsVersionOf(absl::string_view expected, absl::string_view kind) {
  if (!absl::ConsumePrefix(&kind, expected)) return false;
  if (kind.empty()) return true;
  return absl::ConsumePrefix(&kind, "V") && !kind.empty() &&
         std::all_of(kind.begin(), kind.end(), [](char d) { return d >= '0' && d <= '9'; });
}

// `kinds`: the datasets that follow, the nearest first.
absl::Status CheckKinds(const Tensor& expected, const std::vector<std::string>& kinds) {
  const int64_t count = expected.num_elements();
  if (count > static_cast<int64_t>(kinds.size())) {
    return InvalidArgument("Asserted next ", count, " transformations but encountered only ", kinds.size(), ".");
  }
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = expected.data<std::string>()[i];
    if (!IsVersionOf(name, kinds[i])) {
      return InvalidArgument("Asserted transformation matching ", name, " at offset ", i, " but encountered ", kinds[i],
                             " transformation instead.");
    }
  }
  return absl::OkStatus();
}

absl::Status ComputeAssertNext(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  const Tensor expected = c.input(1);
  if (expected.rank() != 1) return InvalidArgument("`transformations` must be a vector.");
  return SetDataset(c, input->cardinality(), [input, expected](Iteration& it) -> absl::StatusOr<Next> {
    // The last in the list is this dataset.
    RETURN_IF_ERROR(CheckKinds(expected, std::vector<std::string>(it.path.rbegin() + 1, it.path.rend())));
    return input->Iterate(it);
  });
}

// A wait that the end of the step cuts short.
absl::Status SleepFor(absl::Duration time, Cancellation& cancellation) {
  Notification cancelled;
  const auto id = cancellation.Register([&](const absl::Status&) { cancelled.Notify(); });
  if (!id) return cancellation.status();
  (void)cancelled.WaitForNotificationWithTimeout(time);
  return cancellation.Deregister(*id) ? absl::OkStatus() : cancellation.status();
}

absl::Status ComputeSleep(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t micros, IntArgument(c, 1, "sleep_microseconds"));
  if (micros < 0) return InvalidArgument("sleep_microseconds must be >= 0, got ", micros);
  return SetDataset(c, input->cardinality(), [input, micros](Iteration& start) -> absl::StatusOr<Next> {
    start.context.set_may_wait();
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), micros](Iteration& it) mutable -> NextElement {
      RETURN_IF_ERROR(SleepFor(absl::Microseconds(micros), it.cancellation));
      return next(it);
    };
  });
}

// Threads that a program asked for. Datasets of the iterator share theirs.
class RequestedThreads final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data12_GLOBAL__N_118ThreadPoolResourceE";
  std::string Describe() const override { return "a thread pool of datasets"; }
};

class ThreadPoolHandleKernel final : public ResourceKernel<RequestedThreads> {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const int64_t threads, init.Attr<int64_t>("num_threads"));
    if (threads <= 0) return InvalidArgument("`num_threads` must be greater than zero.");
    return ResourceKernel::Init(init);
  }

 private:
  absl::StatusOr<std::shared_ptr<RequestedThreads>> Make(const std::string&) override {
    return std::make_shared<RequestedThreads>();
  }
};

absl::Status ComputeThreadPool(KernelContext& c) {
  RETURN_IF_ERROR(FindResource<RequestedThreads>(c, 1).status());
  return ComputeSame(c);
}

Op ThreadPoolHandle(absl::string_view name) {
  return SpecifiedOp(name, "", "handle: resource",
                     "num_threads: int, max_intra_op_parallelism: int = 1, display_name: string, "
                     "container: string = '', shared_name: string = ''")
      .Stateful()
      .Shape(shapes::Scalar)
      .Kernel<ThreadPoolHandleKernel>();
}

const OpRegistration kDatasetWrappersOps[] = {
    SpecifiedOp("WrapDatasetVariant", "input_handle: variant", "output_handle: variant", "")
        .Shape(shapes::Scalar)
        .Compute(ComputeWrapped),
    SpecifiedOp("UnwrapDatasetVariant", "input_handle: variant", "output_handle: variant", "")
        .Shape(shapes::Scalar)
        .Compute(ComputeWrapped),
    DatasetOp("OptionsDataset", "input_dataset: variant", "serialized_options: string, TYPES, METADATA")
        .Compute(ComputeSame),
    DatasetOp("ModelDataset", "input_dataset: variant",
              "algorithm: int = 0, cpu_budget: int = 0, ram_budget: int = 0, TYPES")
        .Compute(ComputeSame),
    DatasetOp("OptimizeDataset", "input_dataset: variant, optimizations: string",
              "TYPES, optimization_configs: list(string) = []")
        .Compute(ComputeOptimize),
    DatasetOp("OptimizeDatasetV2",
              "input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string, "
              "optimizations_default: string",
              "TYPES, optimization_configs: list(string) = []")
        .Compute(ComputeOptimize),
    DatasetOp("RewriteDataset", "input_dataset: variant, rewrite_name: string", "TYPES").Compute(ComputeSame),
    DatasetOp("FinalizeDataset", "input_dataset: variant", "has_captured_ref: bool = false, TYPES")
        .Compute(ComputeSame),
    DatasetOp("MaxIntraOpParallelismDataset", "input_dataset: variant, max_intra_op_parallelism: int64", "TYPES")
        .Compute(ComputeLimited),
    DatasetOp("ExperimentalMaxIntraOpParallelismDataset", "input_dataset: variant, max_intra_op_parallelism: int64",
              "TYPES")
        .Compute(ComputeLimited),
    DatasetOp("PrivateThreadPoolDataset", "input_dataset: variant, num_threads: int64", "TYPES")
        .Compute(ComputeLimited),
    DatasetOp("ExperimentalPrivateThreadPoolDataset", "input_dataset: variant, num_threads: int64", "TYPES")
        .Compute(ComputeLimited),
    DatasetOp("ThreadPoolDataset", "input_dataset: variant, thread_pool: resource", "TYPES")
        .Stateful()
        .Compute(ComputeThreadPool),
    DatasetOp("ExperimentalThreadPoolDataset", "input_dataset: variant, thread_pool: resource", "TYPES")
        .Stateful()
        .Compute(ComputeThreadPool),
    ThreadPoolHandle("ThreadPoolHandle"),
    ThreadPoolHandle("ExperimentalThreadPoolHandle"),
    DatasetOp("NonSerializableDataset", "input_dataset: variant", "TYPES").Compute(ComputeSame),
    DatasetOp("ExperimentalNonSerializableDataset", "input_dataset: variant", "TYPES").Compute(ComputeSame),
    DatasetOp("AssertNextDataset", "input_dataset: variant, transformations: string", "TYPES")
        .Compute(ComputeAssertNext),
    DatasetOp("ExperimentalAssertNextDataset", "input_dataset: variant, transformations: string", "TYPES")
        .Compute(ComputeAssertNext),
    DatasetOp("AssertCardinalityDataset", "input_dataset: variant, cardinality: int64", "TYPES")
        .Compute(ComputeAssertCardinality),
    DatasetOp("IgnoreErrorsDataset", "input_dataset: variant", "TYPES, log_warning: bool = false")
        .Compute(ComputeIgnoreErrors),
    DatasetOp("ExperimentalIgnoreErrorsDataset", "input_dataset: variant", "TYPES, log_warning: bool = false")
        .Compute(ComputeIgnoreErrors),
    DatasetOp("SleepDataset", "input_dataset: variant, sleep_microseconds: int64", "TYPES").Compute(ComputeSleep),
    DatasetOp("ExperimentalSleepDataset", "input_dataset: variant, sleep_microseconds: int64", "TYPES")
        .Compute(ComputeSleep),
};

}  // namespace
}  // namespace thalweg
