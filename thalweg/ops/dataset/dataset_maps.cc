// SPDX-License-Identifier: Apache-2.0
// Datasets that call a function on the elements of another.
//
//   Map(x): f(x). Filter(x): x where predicate(x)
//   FlatMap(x): the elements of the dataset f(x), one dataset after the other
//   Interleave(x): of several f(x) at a time, a block of elements of each in turn
//   MapAndBatch(x, n): Batch(Map(x), n)
//   TakeWhile(x): x up to the first where predicate(x) is false
//
// The forms called Parallel give the same elements in the same order.
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/parallel_elements.h"

namespace thalweg {
namespace {

// One function, whose captured arguments come after the dataset.
class FunctionDatasetKernel : public Kernel {
 public:
  explicit FunctionDatasetKernel(const char* attr) : attr_(attr) {}
  absl::Status Init(const KernelInit& init) override { return function_.Read(init, attr_, "Targuments"); }

 protected:
  // An input and the function to call on its elements.
  struct Source {
    DatasetPtr input;
    CapturedFunction function;
    int next_input;  // index of the first input after the captured ones

    // `calls`: how many are made at a time. 0: one for each element that is wanted.
    absl::StatusOr<Next> Start(Iteration& it, int64_t calls) {
      RETURN_IF_ERROR(function.Prepare(it.context));
      it.counts_input = calls != 0 || it.counted;
      return input->Iterate(it);
    }
  };
  absl::StatusOr<Source> Read(KernelContext& c) const {
    Source source{.next_input = 1};
    ASSIGN_OR_RETURN(source.input, DatasetIn(c.input(0)));
    source.function = function_.Capture(c, &source.next_input);
    return source;
  }

 private:
  const char* const attr_;
  FunctionAttr function_;
};

NextElement CallOnNext(Next& input, const CapturedFunction& function, ResultRule rule, Iteration& it) {
  ASSIGN_OR_RETURN(std::optional<Element> x, input(it));
  if (!x) return std::nullopt;
  RETURN_IF_ERROR(it.Check());
  return rule(function(it, *std::move(x)));
}

// A map that keeps the number of elements does not let its function end it.
absl::StatusOr<bool> PreservesCardinality(KernelContext& c) {
  return GetAttr<bool>(c.node().def(), "preserve_cardinality");
}

// The results for all elements; `calls` at a time, unless that is 0.
absl::StatusOr<Next> Mapped(Next input, CapturedFunction function, int64_t calls, ResultRule rule, Iteration& start) {
  if (calls == 0) {
    return [input = std::move(input), function, rule](Iteration& it) mutable {
      return CallOnNext(input, function, rule, it);
    };
  }
  auto parallel = std::make_shared<ParallelCalls>(start.context, std::move(input), std::move(function), calls, rule);
  return [parallel](Iteration& it) { return parallel->Take(it); };
}

class MapKernel final : public FunctionDatasetKernel {
 public:
  explicit MapKernel(bool parallel) : FunctionDatasetKernel("f"), parallel_(parallel) {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Source source, Read(c));
    int64_t calls = 0;
    if (parallel_) {
      ASSIGN_OR_RETURN(calls, ParallelismArgument(c, source.next_input));
    }
    ASSIGN_OR_RETURN(const bool preserve, PreservesCardinality(c));
    return SetDataset(c, preserve ? source.input->cardinality() : DatasetValue::kUnknown,
                      [source, calls, preserve](Iteration& start) -> absl::StatusOr<Next> {
                        Source mine = source;
                        ASSIGN_OR_RETURN(Next input, mine.Start(start, calls));
                        return Mapped(std::move(input), mine.function, calls, preserve ? NotAnEnd : MayEnd, start);
                      });
  }

 private:
  const bool parallel_;
};

class MapAndBatchKernel final : public FunctionDatasetKernel {
 public:
  MapAndBatchKernel() : FunctionDatasetKernel("f") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Source source, Read(c));
    ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, source.next_input, "batch_size"));
    if (size <= 0) return InvalidArgument("batch_size must be greater than zero.");
    ASSIGN_OR_RETURN(const int64_t calls, ParallelismArgument(c, source.next_input + 1));
    ASSIGN_OR_RETURN(const bool drop, BoolArgument(c, source.next_input + 2, "drop_remainder"));
    ASSIGN_OR_RETURN(const bool preserve, PreservesCardinality(c));
    return SetDataset(c, preserve ? BatchCardinality(source.input->cardinality(), size, drop) : DatasetValue::kUnknown,
                      [source, size, calls, drop, preserve](Iteration& start) -> absl::StatusOr<Next> {
                        Source mine = source;
                        start.counted = true;
                        ASSIGN_OR_RETURN(Next input, mine.Start(start, calls));
                        ASSIGN_OR_RETURN(Next mapped, Mapped(std::move(input), mine.function, calls,
                                                             preserve ? NotAnEnd : MayEnd, start));
                        return [mapped = std::move(mapped), size, drop](Iteration& it) mutable -> NextElement {
                          std::vector<Element> rows;
                          RETURN_IF_ERROR(Collect(mapped, size, it, &rows));
                          if (rows.empty() || (drop && static_cast<int64_t>(rows.size()) < size)) return std::nullopt;
                          return MakeBatch(rows);
                        };
                      });
  }
};

class FilterKernel final : public FunctionDatasetKernel {
 public:
  explicit FilterKernel(bool parallel) : FunctionDatasetKernel("predicate"), parallel_(parallel) {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Source source, Read(c));
    if (parallel_) {
      ASSIGN_OR_RETURN(const int64_t calls, ParallelismArgument(c, source.next_input));
      return SetDataset(c, DatasetValue::kUnknown, [source, calls](Iteration& start) -> absl::StatusOr<Next> {
        Source mine = source;
        ASSIGN_OR_RETURN(Next input, mine.Start(start, calls));
        auto parallel = std::make_shared<ParallelCalls>(start.context, std::move(input), mine.function, calls);
        return [parallel](Iteration& it) -> NextElement {
          return FirstKept(it, [&](Element* x) { return parallel->Take(it, x); });
        };
      });
    }
    return SetDataset(c, DatasetValue::kUnknown, [source](Iteration& start) -> absl::StatusOr<Next> {
      Source mine = source;
      ASSIGN_OR_RETURN(Next input, mine.Start(start, /*calls=*/0));
      return [input = std::move(input), function = mine.function](Iteration& it) mutable -> NextElement {
        return FirstKept(it, [&](Element* x) -> NextElement {
          ASSIGN_OR_RETURN(std::optional<Element> element, input(it));
          if (!element) return std::nullopt;
          *x = *std::move(element);
          return function(it, *x);
        });
      };
    });
  }

 private:
  // `call` gives the predicate's results for one element after the other.
  template <typename F>
  static NextElement FirstKept(Iteration& it, F&& call) {
    while (true) {
      Element x;
      ASSIGN_OR_RETURN(const std::optional<Element> result, call(&x));
      if (!result) return std::nullopt;
      RETURN_IF_ERROR(it.Check());
      ASSIGN_OR_RETURN(const bool kept, BoolResult(*result, "Filter predicate `predicate`"));
      if (kept) return x;
    }
  }

  const bool parallel_;
};

class TakeWhileKernel final : public FunctionDatasetKernel {
 public:
  TakeWhileKernel() : FunctionDatasetKernel("predicate") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Source source, Read(c));
    return SetDataset(c, DatasetValue::kUnknown, [source](Iteration& start) -> absl::StatusOr<Next> {
      Source mine = source;
      start.counted = false;  // the first element may be the last
      ASSIGN_OR_RETURN(Next input, mine.Start(start, /*calls=*/0));
      return [input = std::move(input), function = mine.function, ended = false](Iteration& it) mutable -> NextElement {
        if (ended) return std::nullopt;
        ASSIGN_OR_RETURN(std::optional<Element> x, input(it));
        if (!x) return std::nullopt;
        ASSIGN_OR_RETURN(const Element result, function(it, *x));
        ASSIGN_OR_RETURN(const bool more, BoolResult(result, "`predicate`"));
        ended = !more;
        if (ended) return std::nullopt;
        return x;
      };
    });
  }
};

// Opens the sequences f(x), for one x after the other. If the function reads the files that the elements name, a
// shard of the files is read by calling it on a shard of the elements. If these are shuffled, each shard is: shards of
// names in random order would share files. `counted`: the sequences are taken one after the other, and the consumer
// tells how much of them it wants.
absl::StatusOr<InterleavedStreams::Open> Sequences(const DatasetValue& input, CapturedFunction function,
                                                   Iteration& start, bool counted = false) {
  RETURN_IF_ERROR(function.Prepare(start.context));
  Next next;
  if (start.files.shard.has_value() && function.function().reads_files()) {
    const auto postponed = std::make_shared<PostponedShuffle>();
    const FileSharding files = std::exchange(start.files, {.shard = std::nullopt, .postponed = postponed});
    ASSIGN_OR_RETURN(next, ShardOf(input, *files.shard, /*require=*/true, start));
    if (postponed->shuffle) next = postponed->shuffle(std::move(next));
    start.files = files;
    start.files_found = true;
  } else {
    ASSIGN_OR_RETURN(next, input.Iterate(start));
  }
  return [next = std::move(next), function, counted](Iteration& it) mutable -> absl::StatusOr<std::optional<Next>> {
    ASSIGN_OR_RETURN(std::optional<Element> x, next(it));
    if (!x) return std::nullopt;
    RETURN_IF_ERROR(it.Check());
    it.counts_input = counted;
    ASSIGN_OR_RETURN(Next sequence, function.Open(it, *std::move(x)));
    return sequence;
  };
}

class FlatMapKernel final : public FunctionDatasetKernel {
 public:
  FlatMapKernel() : FunctionDatasetKernel("f") {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Source source, Read(c));
    return SetDataset(c, DatasetValue::kUnknown, [source](Iteration& start) -> absl::StatusOr<Next> {
      ASSIGN_OR_RETURN(InterleavedStreams::Open open, Sequences(*source.input, source.function, start, start.counted));
      return [open = std::move(open), inner = std::optional<Next>()](Iteration& it) mutable -> NextElement {
        while (true) {
          if (!inner) {
            ASSIGN_OR_RETURN(inner, open(it));
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
  // `parallelism`: the place of num_parallel_calls after block_length; 0 if it is
  // always parallel, -1 if it never is.
  explicit InterleaveKernel(int parallelism) : FunctionDatasetKernel("f"), parallelism_(parallelism) {}
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const Source source, Read(c));
    ASSIGN_OR_RETURN(int64_t cycle, IntArgument(c, source.next_input, "cycle_length"));
    ASSIGN_OR_RETURN(const int64_t block, IntArgument(c, source.next_input + 1, "block_length"));
    if (parallelism_ > 0) RETURN_IF_ERROR(ParallelismArgument(c, source.next_input + 1 + parallelism_).status());
    if (cycle == kAutotune) cycle = AvailableCores();
    if (cycle <= 0 || cycle > 1 << 20) return InvalidArgument("cycle_length must be greater than zero.");
    if (block <= 0) return InvalidArgument("block_length must be greater than zero.");
    const bool parallel = parallelism_ >= 0;
    return SetDataset(c, DatasetValue::kUnknown, [=](Iteration& start) -> absl::StatusOr<Next> {
      ASSIGN_OR_RETURN(InterleavedStreams::Open open, Sequences(*source.input, source.function, start));
      auto streams = std::make_shared<InterleavedStreams>(start.context, std::move(open), cycle, block, parallel);
      return [streams](Iteration& it) { return streams->Take(it); };
    });
  }

 private:
  const int parallelism_;
};

constexpr char kMapInputs[] = "input_dataset: variant, other_arguments: Targuments";
constexpr char kMapAttrs[] = "f: func, ARGUMENTS, TYPES, use_inter_op_parallelism: bool = true, ";

Op With(absl::string_view name, absl::string_view more_inputs, absl::string_view attrs) {
  return DatasetOp(name, absl::StrCat(kMapInputs, more_inputs), attrs);
}

const OpRegistration kDatasetMapsOps[] = {
    With("MapDataset", "", absl::StrCat(kMapAttrs, "preserve_cardinality: bool = false, METADATA"))
        .Kernel<MapKernel>(false),
    With("ParallelMapDataset", ", num_parallel_calls: int32",
         absl::StrCat(kMapAttrs, "sloppy: bool = false, preserve_cardinality: bool = false, METADATA"))
        .Kernel<MapKernel>(true),
    With("ParallelMapDatasetV2", ", num_parallel_calls: int64",
         absl::StrCat(kMapAttrs, "deterministic: string = 'default', preserve_cardinality: bool = false, METADATA"))
        .Kernel<MapKernel>(true),
    With("MapAndBatchDataset", ", batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
         "f: func, ARGUMENTS, TYPES, preserve_cardinality: bool = false, METADATA")
        .Kernel<MapAndBatchKernel>(),
    With("ExperimentalMapAndBatchDataset", ", batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
         "f: func, ARGUMENTS, TYPES, preserve_cardinality: bool = false")
        .Kernel<MapAndBatchKernel>(),
    With("FilterDataset", "", "predicate: func, ARGUMENTS, TYPES, METADATA").Kernel<FilterKernel>(false),
    With("ParallelFilterDataset", ", num_parallel_calls: int64",
         "predicate: func, deterministic: string = 'default', ARGUMENTS, TYPES, METADATA")
        .Kernel<FilterKernel>(true),
    With("TakeWhileDataset", "", "predicate: func, ARGUMENTS, TYPES, METADATA").Kernel<TakeWhileKernel>(),
    With("ExperimentalTakeWhileDataset", "", "predicate: func, ARGUMENTS, TYPES").Kernel<TakeWhileKernel>(),
    With("FlatMapDataset", "", "f: func, ARGUMENTS, TYPES, METADATA").Kernel<FlatMapKernel>(),
    With("InterleaveDataset", ", cycle_length: int64, block_length: int64", "f: func, ARGUMENTS, TYPES, METADATA")
        .Kernel<InterleaveKernel>(-1),
    With("ParallelInterleaveDataset",
         ", cycle_length: int64, block_length: int64, sloppy: bool, buffer_output_elements: int64, "
         "prefetch_input_elements: int64",
         "f: func, ARGUMENTS, TYPES, METADATA")
        .Kernel<InterleaveKernel>(0),
    With("ExperimentalParallelInterleaveDataset",
         ", cycle_length: int64, block_length: int64, sloppy: bool, buffer_output_elements: int64, "
         "prefetch_input_elements: int64",
         "f: func, ARGUMENTS, TYPES")
        .Kernel<InterleaveKernel>(0),
    With("LegacyParallelInterleaveDatasetV2",
         ", cycle_length: int64, block_length: int64, buffer_output_elements: int64, prefetch_input_elements: int64",
         "f: func, deterministic: string = 'default', ARGUMENTS, TYPES, METADATA")
        .Kernel<InterleaveKernel>(0),
    With("ParallelInterleaveDatasetV2", ", cycle_length: int64, block_length: int64, num_parallel_calls: int64",
         "f: func, ARGUMENTS, TYPES, sloppy: bool = false, METADATA")
        .Kernel<InterleaveKernel>(1),
    With("ParallelInterleaveDatasetV3", ", cycle_length: int64, block_length: int64, num_parallel_calls: int64",
         "f: func, deterministic: string = 'default', ARGUMENTS, TYPES, METADATA")
        .Kernel<InterleaveKernel>(1),
    With("ParallelInterleaveDatasetV4",
         ", cycle_length: int64, block_length: int64, buffer_output_elements: int64, prefetch_input_elements: int64, "
         "num_parallel_calls: int64",
         "f: func, deterministic: string = 'default', ARGUMENTS, TYPES, METADATA")
        .Kernel<InterleaveKernel>(3),
};

}  // namespace
}  // namespace thalweg
