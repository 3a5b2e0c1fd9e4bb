// Datasets that call a function on the elements of another.
//
//   Map(x): f(x). Filter(x): x where predicate(x)
//   FlatMap(x): the elements of the dataset f(x), one dataset after the other
//   Interleave(x): of several f(x) at a time, a block of elements of each in turn
//
// The forms called Parallel give the same elements in the same order.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/dataset/dataset.h"

namespace thalweg {
namespace {

using DatasetPtr = std::shared_ptr<const Dataset>;
using FunctionPtr = std::shared_ptr<const CarriedFunction>;

// What each of these ops has: a dataset, a function, and what the function takes
// besides an element.
struct Source {
  DatasetPtr input;
  FunctionPtr function;
  Element captured;
};

struct Running {
  Next next;
  CarriedFunction::Instance call;
  Element captured;

  // f(x, captured), for the next x. None if there is no more.
  NextElement Apply(Iteration& it, std::optional<Element>* argument = nullptr) {
    ASSIGN_OR_RETURN(std::optional<Element> x, next(it));
    if (!x) return std::nullopt;
    RETURN_IF_ERROR(it.step.cancellation->status());
    if (argument != nullptr) *argument = x;
    x->insert(x->end(), captured.begin(), captured.end());
    return call(it, *std::move(x));
  }
  // The same for a function that gives a dataset.
  absl::StatusOr<std::optional<Next>> Open(Iteration& it) {
    ASSIGN_OR_RETURN(const std::optional<Element> result, Apply(it));
    if (!result) return std::nullopt;
    if (result->size() != 1)
      return InvalidArgument("`f` must return a single dataset, got ", result->size(), " values");
    ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(result->front()));
    ASSIGN_OR_RETURN(Next elements, dataset->Iterate(it));
    return elements;
  }
};

absl::StatusOr<Running> Start(const Source& source, Iteration& it) {
  Running running{.next = nullptr, .call = nullptr, .captured = source.captured};
  ASSIGN_OR_RETURN(running.next, source.input->Iterate(it));
  ASSIGN_OR_RETURN(running.call, CarriedFunction::Instantiate(source.function, it.device));
  return running;
}

class FunctionDatasetKernel : public Kernel {
 public:
  explicit FunctionDatasetKernel(const char* attr) : attr_(attr) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(function_, CarriedFunction::Read(init.node().def(), attr_));
    ASSIGN_OR_RETURN(const std::vector<DType> captured, init.Attr<std::vector<DType>>("Targuments"));
    captured_ = static_cast<int>(captured.size());
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<Source> Read(KernelContext& c) const {
    Source source{.input = nullptr, .function = function_, .captured = {}};
    ASSIGN_OR_RETURN(source.input, DatasetIn(c.input(0)));
    for (int i = 0; i < captured_; ++i) source.captured.push_back(c.input(1 + i));
    return source;
  }

  const char* const attr_;
  FunctionPtr function_;
  int captured_ = 0;  // inputs 1, 2, ...
};

class MapKernel final : public FunctionDatasetKernel {
 public:
  MapKernel() : FunctionDatasetKernel("f") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Source source, Read(c));
    const int64_t cardinality = source.input->cardinality();
    return SetDataset(c, cardinality, [source = std::move(source)](Iteration& start) -> absl::StatusOr<Next> {
      ASSIGN_OR_RETURN(Running running, Start(source, start));
      return [running = std::move(running)](Iteration& it) mutable -> NextElement {
        NextElement element = running.Apply(it);
        // The end of a sequence is not an error; an error of the function is no end.
        if (absl::IsOutOfRange(element.status())) {
          return InvalidArgument("Function invocation produced OutOfRangeError: ", element.status().message());
        }
        return element;
      };
    });
  }
};

class FilterKernel final : public FunctionDatasetKernel {
 public:
  FilterKernel() : FunctionDatasetKernel("predicate") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Source source, Read(c));
    return SetDataset(c, Dataset::kUnknown, [source = std::move(source)](Iteration& start) -> absl::StatusOr<Next> {
      ASSIGN_OR_RETURN(Running running, Start(source, start));
      return [running = std::move(running)](Iteration& it) mutable -> NextElement {
        while (true) {
          std::optional<Element> x;
          ASSIGN_OR_RETURN(const std::optional<Element> kept, running.Apply(it, &x));
          if (!kept) return std::nullopt;
          if (kept->size() != 1 || kept->front().dtype() != kBool || kept->front().num_elements() != 1) {
            return InvalidArgument("Filter predicate `predicate` must return a scalar bool.");
          }
          if (kept->front().scalar<bool>()) return x;
        }
      };
    });
  }
};

class FlatMapKernel final : public FunctionDatasetKernel {
 public:
  FlatMapKernel() : FunctionDatasetKernel("f") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Source source, Read(c));
    return SetDataset(c, Dataset::kUnknown, [source = std::move(source)](Iteration& start) -> absl::StatusOr<Next> {
      ASSIGN_OR_RETURN(Running running, Start(source, start));
      return [running = std::move(running), inner = std::optional<Next>()](Iteration& it) mutable -> NextElement {
        while (true) {
          if (!inner) {
            ASSIGN_OR_RETURN(inner, running.Open(it));
            if (!inner) return std::nullopt;
          }
          ASSIGN_OR_RETURN(std::optional<Element> element, (*inner)(it));
          if (element) return element;
          inner.reset();
        }
      };
    });
  }
};

class InterleaveKernel final : public FunctionDatasetKernel {
 public:
  InterleaveKernel() : FunctionDatasetKernel("f") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Source source, Read(c));
    ASSIGN_OR_RETURN(int64_t cycle, IntArgument(c, 1 + captured_, "cycle_length"));
    ASSIGN_OR_RETURN(const int64_t block, IntArgument(c, 2 + captured_, "block_length"));
    if (cycle == -1) cycle = 2;  // ours to choose
    if (cycle <= 0 || cycle > 1 << 20) return InvalidArgument("cycle_length must be greater than zero.");
    if (block <= 0) return InvalidArgument("block_length must be greater than zero.");
    return SetDataset(c, Dataset::kUnknown, [=, source = std::move(source)](Iteration& start) -> absl::StatusOr<Next> {
      ASSIGN_OR_RETURN(Running running, Start(source, start));
      std::vector<std::optional<Next>> open(cycle);
      return [running = std::move(running), open = std::move(open), block, at = size_t{0}, taken = int64_t{0},
              num_open = 0, ended = false](Iteration& it) mutable -> NextElement {
        const auto turn = [&] { at = (at + 1) % open.size(), taken = 0; };
        while (!ended || num_open > 0) {
          if (open[at]) {
            ASSIGN_OR_RETURN(std::optional<Element> element, (*open[at])(it));
            if (element) {
              if (++taken == block) turn();
              return element;
            }
            open[at].reset();
            --num_open;
            turn();
          } else if (!ended) {
            ASSIGN_OR_RETURN(open[at], running.Open(it));
            ended = !open[at];
            num_open += ended ? 0 : 1;
          } else {
            turn();
          }
        }
        return std::nullopt;
      };
    });
  }
};

Op Mapping(absl::string_view name, std::initializer_list<const char*> more_inputs = {}) {
  Op op(name);
  op.Input("input_dataset: variant").Input("other_arguments: Targuments");
  for (const char* input : more_inputs) op.Input(input);
  return op.Output("handle: variant").Shape(shapes::Scalar).NotDifferentiable();
}
// The attributes that all have.
Op& AddTypes(Op& op) {
  return op.Attr("Targuments: list(type) >= 0")
      .Attr("output_types: list(type) >= 1")
      .Attr("output_shapes: list(shape) >= 1");
}
Op Map(absl::string_view name, const char* input, const char* attr) {
  Op op = input == nullptr ? Mapping(name) : Mapping(name, {input});
  AddTypes(op.Attr("f: func")).Attr("use_inter_op_parallelism: bool = true");
  if (attr != nullptr) op.Attr(attr);
  return op.Attr("preserve_cardinality: bool = false").Attr("metadata: string = ''").Kernel<MapKernel>();
}
Op WithFunction(Op op, const char* function) {
  op.Attr(function);
  return AddTypes(op).Attr("metadata: string = ''");
}

const OpRegistration kOps[] = {
    Map("MapDataset", nullptr, nullptr),
    Map("ParallelMapDataset", "num_parallel_calls: int32", "sloppy: bool = false"),
    Map("ParallelMapDatasetV2", "num_parallel_calls: int64", "deterministic: string = 'default'"),
    WithFunction(Mapping("FilterDataset"), "predicate: func").Kernel<FilterKernel>(),
    WithFunction(Mapping("FlatMapDataset"), "f: func").Kernel<FlatMapKernel>(),
    WithFunction(Mapping("InterleaveDataset", {"cycle_length: int64", "block_length: int64"}), "f: func")
        .Kernel<InterleaveKernel>(),
    WithFunction(Mapping("ParallelInterleaveDatasetV4",
                         {"cycle_length: int64", "block_length: int64", "buffer_output_elements: int64",
                          "prefetch_input_elements: int64", "num_parallel_calls: int64"})
                     .Attr("f: func"),
                 "deterministic: string = 'default'")
        .Kernel<InterleaveKernel>(),
};

}  // namespace
}  // namespace thalweg
