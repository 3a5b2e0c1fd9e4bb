// Datasets that hand on the elements of others: in another order, fewer, more
// often, several at once.
//
//   Repeat(x, n), Take(x, n), Skip(x, n): -1 is without end, everything
//   Shard(x, n, i): elements i, i + n, i + 2n, ...
//   Concatenate(x, y): x, then y. Zip(xs): element k of each as one
//   Batch(x, n): n elements as one, with a new first dimension
//   Shuffle(x, n): each time a random one of the next n
//   Prefetch, Options: as they come; elements are made when they are asked for
#include <deque>
#include <random>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

using DatasetPtr = std::shared_ptr<const Dataset>;

absl::Status ComputeSame(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  return SetDataset(c, input->cardinality(), [input](Iteration& it) { return input->Iterate(it); });
}

absl::Status ComputePrefetch(KernelContext& c) {
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "buffer_size"));
  if (size < -1) return InvalidArgument("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning");
  return ComputeSame(c);
}

absl::Status ComputeRepeat(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t count, IntArgument(c, 1, "count"));
  const int64_t n = input->cardinality();
  const int64_t cardinality = count == 0 || n == 0                                       ? 0
                              : count < 0                                                ? Dataset::kInfinite
                              : n < 0 || n > std::numeric_limits<int64_t>::max() / count ? n
                                                                                         : n * count;
  return SetDataset(c, cardinality, [input, count](Iteration&) -> absl::StatusOr<Next> {
    return [input, left = count, next = Next(), any = false](Iteration& it) mutable -> NextElement {
      while (left != 0 || next) {
        if (!next) {
          if (left > 0) --left;
          ASSIGN_OR_RETURN(next, input->Iterate(it));
          any = false;
        }
        ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
        if (element) {
          any = true;
          return element;
        }
        next = nullptr;
        if (!any) left = 0;  // nothing will come however often
      }
      return std::nullopt;
    };
  });
}

absl::Status ComputeTake(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t count, IntArgument(c, 1, "count"));
  const int64_t n = input->cardinality();
  const int64_t cardinality = count < 0 ? n : n == Dataset::kInfinite ? count : n < 0 ? n : std::min(n, count);
  return SetDataset(c, cardinality, [input, count](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), left = count](Iteration& it) mutable -> NextElement {
      if (left == 0) return std::nullopt;
      if (left > 0) --left;
      return next(it);
    };
  });
}

absl::Status ComputeSkip(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t count, IntArgument(c, 1, "count"));
  const int64_t n = input->cardinality();
  const int64_t cardinality = count < 0 ? 0 : n < 0 ? n : std::max<int64_t>(0, n - count);
  return SetDataset(c, cardinality, [input, count](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), left = count](Iteration& it) mutable -> NextElement {
      if (left < 0) return std::nullopt;
      for (; left > 0; --left) {
        ASSIGN_OR_RETURN(const std::optional<Element> skipped, next(it));
        if (!skipped) return std::nullopt;
        RETURN_IF_ERROR(it.step.cancellation->status());
      }
      return next(it);
    };
  });
}

absl::Status ComputeShard(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t shards, IntArgument(c, 1, "num_shards"));
  ASSIGN_OR_RETURN(const int64_t index, IntArgument(c, 2, "index"));
  ASSIGN_OR_RETURN(const bool require, GetAttr<bool>(c.node().def(), "require_non_empty"));
  if (shards < 1)
    return InvalidArgument("Number of shards must be greater than zero (currently num_shards = ", shards, ").");
  if (index < 0 || index >= shards) {
    return InvalidArgument("Index must be between 0 and ", shards - 1, " (currently index = ", index, ").");
  }
  const int64_t n = input->cardinality();
  return SetDataset(c, n < 0 ? n : n / shards + (index < n % shards ? 1 : 0),
                    [=](Iteration& start) -> absl::StatusOr<Next> {
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [=, next = std::move(next), k = int64_t{0}](Iteration& it) mutable -> NextElement {
                        while (true) {
                          ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
                          if (!element) {
                            if (require && k < shards && k > 0) {
                              return InvalidArgument(
                                  "Dataset does not have enough data for each shard to have at "
                                  "least one element (# elems = ",
                                  k, ", # shards = ", shards, ").");
                            }
                            return std::nullopt;
                          }
                          if (k++ % shards == index) return element;
                        }
                      };
                    });
}

absl::Status ComputeConcatenate(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr first, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const DatasetPtr second, DatasetIn(c.input(1)));
  const int64_t n = first->cardinality(), m = second->cardinality();
  const int64_t cardinality = n == Dataset::kInfinite || m == Dataset::kInfinite ? Dataset::kInfinite
                              : n < 0 || m < 0                                   ? Dataset::kUnknown
                                                                                 : n + m;
  return SetDataset(c, cardinality, [first, second](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, first->Iterate(start));
    return [next = std::move(next), second, at_second = false](Iteration& it) mutable -> NextElement {
      ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
      if (element || at_second) return element;
      at_second = true;
      ASSIGN_OR_RETURN(next, second->Iterate(it));
      return next(it);
    };
  });
}

absl::Status ComputeZip(KernelContext& c) {
  std::vector<DatasetPtr> inputs;
  int64_t cardinality = Dataset::kInfinite;
  for (int i = 0; i < c.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(DatasetPtr input, DatasetIn(c.input(i)));
    const int64_t n = input->cardinality();
    if (n == Dataset::kUnknown) cardinality = Dataset::kUnknown;
    if (n >= 0 && cardinality != Dataset::kUnknown) cardinality = cardinality < 0 ? n : std::min(cardinality, n);
    inputs.push_back(std::move(input));
  }
  return SetDataset(c, cardinality, [inputs](Iteration& start) -> absl::StatusOr<Next> {
    std::vector<Next> nexts;
    for (const DatasetPtr& input : inputs) {
      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
      nexts.push_back(std::move(next));
    }
    return [nexts = std::move(nexts), ended = false](Iteration& it) mutable -> NextElement {
      if (ended) return std::nullopt;
      Element all;
      for (Next& next : nexts) {
        ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
        if (!element) {
          ended = true;
          return std::nullopt;
        }
        for (Tensor& t : *element) all.push_back(std::move(t));
      }
      return all;
    };
  });
}

absl::StatusOr<Element> MakeBatch(const std::vector<Element>& rows) {
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
  for (size_t k = 0; k < rows[0].size(); ++k) {
    types.push_back(rows[0][k].dtype());
    shapes.push_back(rows[0][k].shape());
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i].size() == rows[0].size() && rows[i][k].dtype() == types[k] &&
          rows[i][k].shape() == rows[0][k].shape()) {
        continue;
      }
      return InvalidArgument("Cannot batch tensors with different shapes in component ", k,
                             ". First element had shape ", rows[0][k].shape(), " and element ", i, " had shape ",
                             k < rows[i].size() ? rows[i][k].shape() : Shape(), ".");
    }
  }
  return BatchTuples(rows, types, shapes);
}

absl::Status ComputeBatch(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "batch_size"));
  if (size <= 0) return InvalidArgument("Batch size must be greater than zero.");
  bool drop = false;
  if (const int last = c.num_inputs() - 1; last > 1) {
    if (c.input(last).num_elements() != 1) return InvalidArgument("drop_remainder must be a scalar");
    drop = c.input(last).scalar<bool>();
  }
  const int64_t n = input->cardinality();
  return SetDataset(c, n < 0 ? n : n / size + (n % size > 0 && !drop ? 1 : 0),
                    [input, size, drop](Iteration& start) -> absl::StatusOr<Next> {
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [next = std::move(next), size, drop](Iteration& it) mutable -> NextElement {
                        std::vector<Element> rows;
                        while (static_cast<int64_t>(rows.size()) < size) {
                          ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
                          if (!element) break;
                          rows.push_back(*std::move(element));
                          RETURN_IF_ERROR(it.step.cancellation->status());
                        }
                        if (rows.empty() || (drop && static_cast<int64_t>(rows.size()) < size)) return std::nullopt;
                        return MakeBatch(rows);
                      };
                    });
}

// Seeds for one sequence after the other: the same, or of a generator of their
// own, as TensorFlow draws them.
class Seeds {
 public:
  Seeds(int64_t seed, int64_t seed2, bool reshuffle) : seed_(seed), seed2_(seed2), reshuffle_(reshuffle) {
    if (seed == 0 && seed2 == 0) {
      std::random_device random;
      seed_ = random();
      seed2_ = random();
    }
    generator_ = PhiloxSingle(Philox(seed_, seed2_));
  }
  std::pair<int64_t, int64_t> Draw() {
    MutexLock lock(&mutex_);
    if (!reshuffle_) return {seed_, seed2_};
    const int64_t first = generator_(), second = generator_();
    return {first, second};
  }

 private:
  int64_t seed_, seed2_;
  const bool reshuffle_;
  Mutex mutex_;
  PhiloxSingle generator_{Philox(0)};
};

absl::Status ComputeShuffle(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "buffer_size"));
  const bool everything = size == Dataset::kUnknown;
  if (size <= 0 && !everything) {
    return InvalidArgument("buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
  }
  ASSIGN_OR_RETURN(const int64_t seed, IntArgument(c, 2, "seed"));
  ASSIGN_OR_RETURN(const int64_t seed2, IntArgument(c, 3, "seed2"));
  ASSIGN_OR_RETURN(const bool reshuffle, GetAttr<bool>(c.node().def(), "reshuffle_each_iteration"));
  const auto seeds = std::make_shared<Seeds>(seed, seed2, reshuffle);
  return SetDataset(c, input->cardinality(),
                    [input, size, everything, seeds](Iteration& start) -> absl::StatusOr<Next> {
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      const auto [first, second] = seeds->Draw();
                      return [next = std::move(next), size, everything, random = PhiloxSingle(Philox(first, second)),
                              buffer = std::deque<Element>(), ended = false](Iteration& it) mutable -> NextElement {
                        while (!ended && (everything || static_cast<int64_t>(buffer.size()) < size)) {
                          ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
                          ended = !element;
                          if (element) buffer.push_back(*std::move(element));
                          RETURN_IF_ERROR(it.step.cancellation->status());
                        }
                        if (buffer.empty()) return std::nullopt;
                        std::swap(buffer.front(), buffer[random() % buffer.size()]);
                        Element element = std::move(buffer.front());
                        buffer.pop_front();
                        return element;
                      };
                    });
}

// A place where version 3 of Shuffle could keep its seeds; it has them itself.
class SeedGenerator final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data20SeedGeneratorManagerE";
  std::string Describe() const override { return "a generator of seeds"; }
};

absl::Status ComputeSeedGenerator(KernelContext& c) {
  const ResourceName name{c.device().resources().default_container(),
                          absl::StrCat("seed_generator_", NextResourceNumber())};
  ResourceHandle handle;
  handle.device = c.device().name();
  handle.container = name.container;
  handle.name = name.name;
  handle.type_name = SeedGenerator::kTypeName;
  c.set_output(0, Tensor::Scalar(std::move(handle)));
  if (c.num_outputs() > 1) c.set_output(1, Tensor::Scalar(Variant()));
  return absl::OkStatus();
}

Op Of(absl::string_view name, std::initializer_list<const char*> inputs, absl::Status (*compute)(KernelContext&)) {
  Op op(name);
  for (const char* input : inputs) op.Input(input);
  return op.Output("handle: variant").Shape(shapes::Scalar).Compute(compute).NotDifferentiable();
}
// What elements are.
Op& AddTypes(Op& op) { return op.Attr("output_types: list(type) >= 1").Attr("output_shapes: list(shape) >= 1"); }
// An op with no attributes but those that nearly all have.
Op Simple(absl::string_view name, std::initializer_list<const char*> inputs, absl::Status (*compute)(KernelContext&)) {
  Op op = Of(name, inputs, compute);
  return AddTypes(op).Attr("metadata: string = ''");
}
// One with others before those.
Op With(Op op, std::initializer_list<const char*> attrs) {
  for (const char* attr : attrs) op.Attr(attr);
  return AddTypes(op);
}

const OpRegistration kOps[] = {
    Simple("RepeatDataset", {"input_dataset: variant", "count: int64"}, ComputeRepeat),
    Simple("TakeDataset", {"input_dataset: variant", "count: int64"}, ComputeTake),
    Simple("SkipDataset", {"input_dataset: variant", "count: int64"}, ComputeSkip),
    Simple("ConcatenateDataset", {"input_dataset: variant", "another_dataset: variant"}, ComputeConcatenate),
    Simple("BatchDataset", {"input_dataset: variant", "batch_size: int64"}, ComputeBatch),
    With(Of("BatchDatasetV2", {"input_dataset: variant", "batch_size: int64", "drop_remainder: bool"}, ComputeBatch),
         {"parallel_copy: bool = false"})
        .Attr("metadata: string = ''"),
    With(Of("ParallelBatchDataset",
            {"input_dataset: variant", "batch_size: int64", "num_parallel_calls: int64", "drop_remainder: bool"},
            ComputeBatch),
         {"parallel_copy: bool = false"})
        .Attr("deterministic: string = 'default'")
        .Attr("metadata: string = ''"),
    With(Of("ZipDataset", {"input_datasets: N * variant"}, ComputeZip), {})
        .Attr("N: int >= 1")
        .Attr("metadata: string = ''"),
    With(Of("ShardDataset", {"input_dataset: variant", "num_shards: int64", "index: int64"}, ComputeShard),
         {"require_non_empty: bool = false"})
        .Attr("metadata: string = ''"),
    With(Of("PrefetchDataset", {"input_dataset: variant", "buffer_size: int64"}, ComputePrefetch), {})
        .Attr("slack_period: int = 0")
        .Attr("legacy_autotune: bool = true")
        .Attr("buffer_size_min: int = 0")
        .Attr("metadata: string = ''"),
    With(Of("OptionsDataset", {"input_dataset: variant"}, ComputeSame), {"serialized_options: string"})
        .Attr("metadata: string = ''"),
    With(Of("ModelDataset", {"input_dataset: variant"}, ComputeSame),
         {"algorithm: int = 0", "cpu_budget: int = 0", "ram_budget: int = 0"}),
    With(Of("ShuffleDataset", {"input_dataset: variant", "buffer_size: int64", "seed: int64", "seed2: int64"},
            ComputeShuffle),
         {"reshuffle_each_iteration: bool = true"})
        .Attr("metadata: string = ''"),
    With(Of("ShuffleDatasetV3",
            {"input_dataset: variant", "buffer_size: int64", "seed: int64", "seed2: int64", "seed_generator: resource"},
            ComputeShuffle),
         {"reshuffle_each_iteration: bool = true"})
        .Attr("metadata: string = ''")
        .Stateful(),
    Op("AnonymousSeedGenerator")
        .Input("seed: int64")
        .Input("seed2: int64")
        .Input("reshuffle: bool")
        .Output("handle: resource")
        .Output("deleter: variant")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeSeedGenerator)
        .NotDifferentiable(),
    Op("DummySeedGenerator")
        .Output("handle: resource")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeSeedGenerator)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
