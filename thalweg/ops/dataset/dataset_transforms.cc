// SPDX-License-Identifier: Apache-2.0
// Datasets that hand on the elements of others: fewer, more often, several at
// once, ahead of time.
//
//   Repeat(x, n), Take(x, n), Skip(x, n): -1 is without end, everything
//   Shard(x, n, i): elements i, i + n, i + 2n, ...
//   Concatenate(x, y): x, then y. Zip(xs): element k of each as one
//   Batch(x, n): n elements as one, with a new first dimension
//   Prefetch(x, n): a thread keeps up to n elements ready
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/parallel_elements.h"

namespace thalweg {
namespace {

absl::Status ComputeRepeat(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t count, IntArgument(c, 1, "count"));
  const int64_t n = input->cardinality();
  const int64_t cardinality = count == 0 || n == 0                                       ? 0
                              : count < 0                                                ? DatasetValue::kInfinite
                              : n < 0 || n > std::numeric_limits<int64_t>::max() / count ? n
                                                                                         : n * count;
  return SetDataset(c, cardinality, [input, count](Iteration& start) -> absl::StatusOr<Next> {
    if (count == 0) return [](Iteration&) -> NextElement { return std::nullopt; };
    const bool fuses = start.fuses_shuffle_and_repeat && start.files.postponed == nullptr;
    if (fuses && input->start_rounds()) return input->start_rounds()(start, count);
    const bool counted = start.counts_input = start.counted;
    ASSIGN_OR_RETURN(Next first, input->Iterate(start));
    return [input, left = count, next = std::move(first), any = false, counted,
            files = start.files](Iteration& it) mutable -> NextElement {
      while (left != 0) {
        if (!next) {
          it.files = files;
          it.counts_input = counted;
          ASSIGN_OR_RETURN(next, input->Iterate(it));
          it.files = {};
          any = false;
        }
        ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
        RETURN_IF_ERROR(it.Check());
        if (element) {
          any = true;
          return element;
        }
        next = nullptr;
        if (left > 0) --left;
        if (!any) left = 0;  // an empty input stays empty, however often it is repeated
      }
      return std::nullopt;
    };
  });
}

absl::Status ComputeTake(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t count, IntArgument(c, 1, "count"));
  const int64_t n = input->cardinality();
  const int64_t cardinality = count < 0 ? n : n == DatasetValue::kInfinite ? count : n < 0 ? n : std::min(n, count);
  return SetDataset(c, cardinality, [input, count](Iteration& start) -> absl::StatusOr<Next> {
    start.counts_input = start.counted;
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), left = count](Iteration& it) mutable -> NextElement {
      if (left == 0) return std::nullopt;
      const int64_t outer = it.wanted;
      if (left > 0) it.wanted = std::min(outer, left--);
      NextElement element = next(it);
      it.wanted = outer;
      return element;
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
        RETURN_IF_ERROR(it.Check());
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
  return SetDataset(c, n < 0 ? n : n / shards + (index < n % shards ? 1 : 0), [=](Iteration& it) {
    return ShardOf(*input, Shard{shards, index}, require, it);
  });
}

absl::Status ComputeConcatenate(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr first, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const DatasetPtr second, DatasetIn(c.input(1)));
  const int64_t n = first->cardinality(), m = second->cardinality();
  const int64_t cardinality = n == DatasetValue::kInfinite || m == DatasetValue::kInfinite ? DatasetValue::kInfinite
                              : n < 0 || m < 0                                             ? DatasetValue::kUnknown
                                                                                           : n + m;
  return SetDataset(c, cardinality, [first, second](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, first->Iterate(start));
    return
        [next = std::move(next), second, at_second = false, files = start.files](Iteration& it) mutable -> NextElement {
          ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
          if (element || at_second) return element;
          at_second = true;
          it.files = files;
          ASSIGN_OR_RETURN(next, second->Iterate(it));
          it.files = {};
          return next(it);
        };
  });
}

absl::Status ComputeZip(KernelContext& c) {
  std::vector<DatasetPtr> inputs;
  int64_t cardinality = DatasetValue::kInfinite;
  for (int i = 0; i < c.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(DatasetPtr input, DatasetIn(c.input(i)));
    const int64_t n = input->cardinality();
    if (n == DatasetValue::kUnknown) cardinality = DatasetValue::kUnknown;
    if (n >= 0 && cardinality != DatasetValue::kUnknown) cardinality = cardinality < 0 ? n : std::min(cardinality, n);
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

absl::Status ComputeBatch(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "batch_size"));
  if (size <= 0) return InvalidArgument("Batch size must be greater than zero.");
  bool drop = false;
  if (const int last = c.num_inputs() - 1; last > 1) {
    ASSIGN_OR_RETURN(drop, BoolArgument(c, last, "drop_remainder"));
  }
  return SetDataset(c, BatchCardinality(input->cardinality(), size, drop),
                    [input, size, drop](Iteration& start) -> absl::StatusOr<Next> {
                      start.counts_input = true;
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [next = std::move(next), size, drop](Iteration& it) mutable -> NextElement {
                        std::vector<Element> rows;
                        RETURN_IF_ERROR(Collect(next, size, it, &rows));
                        if (rows.empty() || (drop && static_cast<int64_t>(rows.size()) < size)) return std::nullopt;
                        return MakeBatch(rows);
                      };
                    });
}

absl::Status ComputePrefetch(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "buffer_size"));
  if (size < 0 && size != kAutotune) {
    return InvalidArgument("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning");
  }
  return SetDataset(c, input->cardinality(), [input, size](Iteration& start) -> absl::StatusOr<Next> {
    start.counts_input = size != 0 || start.counted;
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    if (size == 0) return next;
    auto buffer = std::make_shared<PrefetchBuffer>(start.context, std::move(next), size);
    return Next([buffer](Iteration& it) { return buffer->Take(it); }, [buffer] { return buffer->ready(); });
  });
}

const OpRegistration kDatasetTransformsOps[] = {
    DatasetOp("RepeatDataset", "input_dataset: variant, count: int64", "TYPES, METADATA").Compute(ComputeRepeat),
    DatasetOp("TakeDataset", "input_dataset: variant, count: int64", "TYPES, METADATA").Compute(ComputeTake),
    DatasetOp("SkipDataset", "input_dataset: variant, count: int64", "TYPES, METADATA").Compute(ComputeSkip),
    DatasetOp("ConcatenateDataset", "input_dataset: variant, another_dataset: variant", "TYPES, METADATA")
        .Compute(ComputeConcatenate),
    DatasetOp("BatchDataset", "input_dataset: variant, batch_size: int64", "TYPES, METADATA").Compute(ComputeBatch),
    DatasetOp("BatchDatasetV2", "input_dataset: variant, batch_size: int64, drop_remainder: bool",
              "parallel_copy: bool = false, TYPES, METADATA")
        .Compute(ComputeBatch),
    DatasetOp("ParallelBatchDataset",
              "input_dataset: variant, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
              "parallel_copy: bool = false, TYPES, deterministic: string = 'default', METADATA")
        .Compute(ComputeBatch),
    DatasetOp("ZipDataset", "input_datasets: N * variant", "TYPES, N: int >= 1, METADATA").Compute(ComputeZip),
    DatasetOp("ShardDataset", "input_dataset: variant, num_shards: int64, index: int64",
              "require_non_empty: bool = false, TYPES, METADATA")
        .Compute(ComputeShard),
    DatasetOp("PrefetchDataset", "input_dataset: variant, buffer_size: int64",
              "TYPES, slack_period: int = 0, legacy_autotune: bool = true, buffer_size_min: int = 0, METADATA")
        .Compute(ComputePrefetch),
};

}  // namespace
}  // namespace thalweg
