// SPDX-License-Identifier: Apache-2.0
// Datasets that cut elements into rows, or put rows together in another way.
//
//   Unbatch(x): the rows of every element
//   Rebatch(x, n): every element in n parts. RebatchV2(x, sizes): the rows of all
//     elements in batches of these sizes, round and round
//   DenseToSparseBatch(x, n, shape): n elements, of any size up to `shape`, as
//     one sparse tensor
//   SlidingWindow(x, size, shift, stride): like Window, as batches
//   SparseTensorSlice(t): the rows of a sparse tensor
#include <deque>

#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/support/tensor_variant.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

// The number of rows, which must be equal in all components.
absl::StatusOr<int64_t> NumRows(const Element& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].rank() == 0) return InvalidArgument("Input element must have a non-scalar value in each component.");
    if (batch[i].dim(0) != batch[0].dim(0)) {
      return InvalidArgument("Input element must have the same batch size in each component. Component 0 had size ",
                             batch[0].dim(0), " but component ", i, " had size, ", batch[i].dim(0), ".");
    }
  }
  return batch.empty() ? 0 : batch[0].dim(0);
}

absl::Status ComputeUnbatch(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  const int64_t n = input->cardinality();
  return SetDataset(c, n == DatasetValue::kInfinite || n == 0 ? n : DatasetValue::kUnknown,
                    [input](Iteration& start) -> absl::StatusOr<Next> {
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [next = std::move(next), batch = Element(), row = int64_t{0},
                              rows = int64_t{0}](Iteration& it) mutable -> NextElement {
                        while (row >= rows) {
                          ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
                          if (!element) return std::nullopt;
                          RETURN_IF_ERROR(it.Check());
                          ASSIGN_OR_RETURN(rows, NumRows(*element));
                          batch = *std::move(element);
                          row = 0;
                        }
                        return CopyRow(batch, row++);
                      };
                    });
}

// Rows [begin, end) of a batch.
absl::StatusOr<Element> RowsOf(const Element& batch, int64_t begin, int64_t end) {
  std::vector<Element> rows;
  for (int64_t row = begin; row < end; ++row) rows.push_back(ShareRow(batch, row));
  if (!rows.empty()) return MakeBatch(rows);
  Element none;
  for (const Tensor& t : batch) {
    std::vector<int64_t> dims(t.shape().dims().begin(), t.shape().dims().end());
    dims[0] = 0;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor empty, Tensor::Allocate(t.dtype(), shape));
    none.push_back(std::move(empty));
  }
  return none;
}

absl::Status ComputeRebatch(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t replicas, IntArgument(c, 1, "num_replicas"));
  if (replicas <= 0) return InvalidArgument("num_replicas must be greater than zero, got ", replicas, ".");
  return SetDataset(c, DatasetValue::kUnknown, [input, replicas](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [next = std::move(next), replicas, batch = Element(), row = int64_t{0}, rows = int64_t{0},
            size = int64_t{0}](Iteration& it) mutable -> NextElement {
      while (row >= rows) {
        ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
        if (!element) return std::nullopt;
        RETURN_IF_ERROR(it.Check());
        ASSIGN_OR_RETURN(rows, NumRows(*element));
        size = rows / replicas + (rows % replicas > 0 ? 1 : 0);
        batch = *std::move(element);
        row = 0;
      }
      const int64_t begin = row;
      row = std::min(row + size, rows);
      return RowsOf(batch, begin, row);
    };
  });
}

// The rows of all elements, to be taken in batches of other sizes.
class RowStream {
 public:
  explicit RowStream(Next next) : next_(std::move(next)) {}

  // Takes up to `count` rows.
  absl::Status Take(int64_t count, Iteration& it, std::vector<Element>* rows) {
    while (static_cast<int64_t>(rows->size()) < count) {
      if (row_ < num_rows_) {
        rows->push_back(ShareRow(batch_, row_++));
        continue;
      }
      ASSIGN_OR_RETURN(std::optional<Element> element, next_(it));
      if (!element) return absl::OkStatus();
      RETURN_IF_ERROR(it.Check());
      ASSIGN_OR_RETURN(num_rows_, NumRows(*element));
      batch_ = *std::move(element);
      row_ = 0;
    }
    return absl::OkStatus();
  }
  // No rows, of the last batch's shapes.
  absl::StatusOr<Element> None() const { return RowsOf(batch_, 0, 0); }

 private:
  Next next_;
  Element batch_;
  int64_t row_ = 0, num_rows_ = 0;
};

absl::Status ComputeRebatchBySizes(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  if (c.input(1).rank() > 1) return InvalidArgument("`batch_sizes` must be a scalar or a vector.");
  const std::vector<int64_t> sizes(c.input(1).flat<int64_t>().begin(), c.input(1).flat<int64_t>().end());
  if (sizes.empty()) return InvalidArgument("`batch_sizes` must not be empty.");
  for (const int64_t size : sizes) {
    if (size < 0) return InvalidArgument("`batch_sizes` must not be negative, got ", size, ".");
  }
  if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 0; })) {
    return InvalidArgument("`batch_sizes` must have a size greater than zero.");
  }
  ASSIGN_OR_RETURN(const bool drop, BoolArgument(c, 2, "drop_remainder"));
  return SetDataset(c, DatasetValue::kUnknown, [input, sizes, drop](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [rows = RowStream(std::move(next)), sizes, drop, at = size_t{0},
            ended = false](Iteration& it) mutable -> NextElement {
      if (ended) return std::nullopt;
      const int64_t size = sizes[at++ % sizes.size()];
      std::vector<Element> batch;
      RETURN_IF_ERROR(rows.Take(size, it, &batch));
      ended = static_cast<int64_t>(batch.size()) < size;
      if (ended && (drop || batch.empty())) return std::nullopt;
      if (batch.empty()) return rows.None();
      return MakeBatch(batch);
    };
  });
}

// A sparse tensor as one element of a dataset has it.
Tensor SparseVariant(Tensor indices, Tensor values, Tensor shape) {
  Tensor all(kVariant, {3});
  Variant* const parts = all.mutable_data<Variant>();
  parts[0] = Variant(std::make_shared<TensorVariant>(std::move(indices)));
  parts[1] = Variant(std::make_shared<TensorVariant>(std::move(values)));
  parts[2] = Variant(std::make_shared<TensorVariant>(std::move(shape)));
  return all;
}

// One dense component of a size up to `limits` (-1: any).
absl::Status CheckRow(const Element& row, DType type, const std::vector<int64_t>& limits) {
  if (row.size() != 1 || row[0].dtype() != type)
    return InvalidArgument("elements must have one component of type ", type);
  const Tensor& t = row[0];
  if (t.rank() != static_cast<int>(limits.size())) {
    return InvalidArgument("Input element had shape (", t.shape(), ") that is incompatible with the row shape of rank ",
                           limits.size(), ".");
  }
  for (int d = 0; d < t.rank(); ++d) {
    if (limits[d] >= 0 && t.dim(d) > limits[d]) {
      return DataLoss("Input element had shape (", t.shape(), ") that is larger than the row shape in dimension ", d,
                      ": ", limits[d], ".");
    }
  }
  return absl::OkStatus();
}

// REQUIRES: `rows` were checked, and there are some.
absl::StatusOr<Element> SparseBatch(const std::vector<Element>& rows, const std::vector<int64_t>& limits) {
  std::vector<int64_t> dims{static_cast<int64_t>(rows.size())};
  for (const int64_t limit : limits) dims.push_back(std::max<int64_t>(limit, 0));
  int64_t count = 0;
  const DType type = rows[0][0].dtype();
  for (const Element& row : rows) {
    for (int d = 0; d < row[0].rank(); ++d) dims[d + 1] = std::max(dims[d + 1], row[0].dim(d));
    count += row[0].num_elements();
  }
  const int64_t rank = static_cast<int64_t>(dims.size());
  ASSIGN_OR_RETURN(const Shape index_shape, Shape::Make({count, rank}));
  ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(kInt64, index_shape));
  ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(type, Shape({count})));
  int64_t* index = indices.mutable_data<int64_t>();
  int64_t at = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    const Tensor& t = rows[row][0];
    for (int64_t i = 0; i < t.num_elements(); ++i, index += rank) {
      index[0] = static_cast<int64_t>(row);
      int64_t rest = i;
      for (int d = t.rank(); d-- > 0; rest /= t.dim(d)) index[d + 1] = rest % t.dim(d);
    }
    if (type == kString) {
      for (int64_t i = 0; i < t.num_elements(); ++i) {
        values.mutable_data<std::string>()[at + i] = t.data<std::string>()[i];
      }
    } else if (t.num_elements() > 0) {
      memcpy(static_cast<char*>(values.raw()) + at * ElementSize(type), t.raw(), t.num_elements() * ElementSize(type));
    }
    at += t.num_elements();
  }
  Tensor shape(kInt64, {rank});
  std::copy(dims.begin(), dims.end(), shape.mutable_data<int64_t>());
  return Element{SparseVariant(std::move(indices), std::move(values), std::move(shape))};
}

absl::Status ComputeDenseToSparse(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "batch_size"));
  if (size <= 0) return InvalidArgument("Batch size must be greater than zero.");
  if (c.input(2).rank() != 1) return InvalidArgument("row_shape must be a vector");
  const std::vector<int64_t> limits(c.input(2).flat<int64_t>().begin(), c.input(2).flat<int64_t>().end());
  for (const int64_t limit : limits) {
    if (limit < -1) return InvalidArgument("row_shape has dimension ", limit);
  }
  return SetDataset(c, BatchCardinality(input->cardinality(), size, false),
                    [input, size, limits](Iteration& start) -> absl::StatusOr<Next> {
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [next = std::move(next), size, limits](Iteration& it) mutable -> NextElement {
                        std::vector<Element> rows;
                        while (static_cast<int64_t>(rows.size()) < size) {
                          ASSIGN_OR_RETURN(std::optional<Element> row, next(it));
                          if (!row) break;
                          RETURN_IF_ERROR(it.Check());
                          const Element& first = rows.empty() ? *row : rows.front();
                          RETURN_IF_ERROR(CheckRow(*row, first.empty() ? kInvalid : first[0].dtype(), limits));
                          rows.push_back(*std::move(row));
                        }
                        if (rows.empty()) return std::nullopt;
                        return SparseBatch(rows, limits);
                      };
                    });
}

absl::Status ComputeSlidingWindow(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t size, IntArgument(c, 1, "window_size"));
  ASSIGN_OR_RETURN(const int64_t shift, IntArgument(c, 2, "window_shift"));
  ASSIGN_OR_RETURN(const int64_t stride, IntArgument(c, 3, "window_stride"));
  if (size <= 0) return InvalidArgument("Window size must be greater than zero.");
  if (shift <= 0) return InvalidArgument("Window shift must be greater than zero.");
  if (stride <= 0) return InvalidArgument("Window stride must be greater than zero.");
  bool drop = true;
  if (HasAttr(c.node().def(), "drop_remainder")) {
    ASSIGN_OR_RETURN(drop, GetAttr<bool>(c.node().def(), "drop_remainder"));
  }
  int64_t reach;
  if (__builtin_mul_overflow(size - 1, stride, &reach) || reach > int64_t{1} << 60) {
    return InvalidArgument("a window of ", size, " elements with stride ", stride, " is too large");
  }
  reach += 1;
  const int64_t n = input->cardinality();
  return SetDataset(c,
                    n < 0  ? n
                    : drop ? (n < reach ? 0 : (n - reach) / shift + 1)
                           : n / shift + (n % shift > 0 ? 1 : 0),
                    [=](Iteration& start) -> absl::StatusOr<Next> {
                      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
                      return [=, next = std::move(next), ahead = std::deque<Element>(),
                              to_skip = int64_t{0}](Iteration& it) mutable -> NextElement {
                        for (; to_skip > 0 && !ahead.empty(); --to_skip) ahead.pop_front();
                        for (; to_skip > 0; --to_skip) {
                          ASSIGN_OR_RETURN(const std::optional<Element> skipped, next(it));
                          if (!skipped) return std::nullopt;
                          RETURN_IF_ERROR(it.Check());
                        }
                        std::vector<Element> more;
                        RETURN_IF_ERROR(Collect(next, reach - static_cast<int64_t>(ahead.size()), it, &more));
                        for (Element& element : more) ahead.push_back(std::move(element));
                        if (ahead.empty() || (drop && static_cast<int64_t>(ahead.size()) < reach)) return std::nullopt;
                        std::vector<Element> rows;
                        for (int64_t i = 0; i < static_cast<int64_t>(ahead.size()); i += stride)
                          rows.push_back(ahead[i]);
                        to_skip = shift;
                        return MakeBatch(rows);
                      };
                    });
}

// A sparse tensor whose indices are sorted by row.
struct SparseRows {
  Tensor indices, values, shape;

  absl::Status Check() const {
    if (indices.rank() != 2) return InvalidArgument("Input indices must be a matrix. Got: ", indices.shape());
    if (values.rank() != 1) return InvalidArgument("Input values must be a vector. Got: ", values.shape());
    if (shape.rank() != 1) return InvalidArgument("Input shape must be a vector. Got: ", shape.shape());
    if (values.dim(0) != indices.dim(0)) {
      return InvalidArgument("Number of values must match first dimension of indices. Got ", values.dim(0),
                             " values, indices shape: ", indices.shape());
    }
    if (shape.dim(0) != indices.dim(1)) {
      return InvalidArgument("Number of dimensions must match second dimension of indices. Got ", shape.dim(0),
                             " dimensions, indices shape: ", indices.shape());
    }
    if (shape.dim(0) == 0) return InvalidArgument("The shape argument requires at least one element.");
    int64_t last = 0;
    for (int64_t i = 0; i < indices.dim(0); ++i) {
      const int64_t row = indices.data<int64_t>()[i * indices.dim(1)];
      if (row < last)
        return Unimplemented(
            "The SparseTensor must be ordered in the batch dimension; handling "
            "arbitrarily ordered input is not currently supported.");
      last = row;
    }
    return absl::OkStatus();
  }
  int64_t num_rows() const { return shape.data<int64_t>()[0]; }

  // The entries of row `row`, which begin at `*at`.
  absl::StatusOr<Element> Row(int64_t row, int64_t* at) const {
    const int64_t rank = indices.dim(1);
    int64_t end = *at;
    while (end < indices.dim(0) && indices.data<int64_t>()[end * rank] == row) ++end;
    ASSIGN_OR_RETURN(const Shape index_shape, Shape::Make({end - *at, rank - 1}));
    ASSIGN_OR_RETURN(Tensor row_indices, Tensor::Allocate(kInt64, index_shape));
    std::vector<Element> entries;
    for (int64_t i = *at; i < end; ++i) {
      std::copy_n(indices.data<int64_t>() + i * rank + 1, rank - 1,
                  row_indices.mutable_data<int64_t>() + (i - *at) * (rank - 1));
      entries.push_back({ShareRow(values, i)});
    }
    Element row_values{Tensor(values.dtype(), {0})};
    if (!entries.empty()) {
      ASSIGN_OR_RETURN(row_values, MakeBatch(entries));
    }
    Tensor row_shape(kInt64, {rank - 1});
    std::copy_n(shape.data<int64_t>() + 1, rank - 1, row_shape.mutable_data<int64_t>());
    *at = end;
    return Element{std::move(row_indices), std::move(row_values[0]), std::move(row_shape)};
  }
};

absl::Status ComputeSparseSlices(KernelContext& c) {
  SparseRows rows{c.input(0), c.input(1), c.input(2)};
  RETURN_IF_ERROR(rows.Check());
  return SetDataset(c, std::max<int64_t>(0, rows.num_rows()), [rows](Iteration&) -> absl::StatusOr<Next> {
    return [rows, row = int64_t{0}, at = int64_t{0}](Iteration&) mutable -> NextElement {
      if (row >= rows.num_rows()) return std::nullopt;
      return rows.Row(row++, &at);
    };
  });
}

const OpRegistration kDatasetBatchesOps[] = {
    DatasetOp("UnbatchDataset", "input_dataset: variant", "TYPES, METADATA").Compute(ComputeUnbatch),
    DatasetOp("ExperimentalUnbatchDataset", "input_dataset: variant", "TYPES").Compute(ComputeUnbatch),
    DatasetOp("RebatchDataset", "input_dataset: variant, num_replicas: int64", "TYPES, use_fallback: bool = true")
        .Compute(ComputeRebatch),
    DatasetOp("ExperimentalRebatchDataset", "input_dataset: variant, num_replicas: int64",
              "TYPES, use_fallback: bool = true")
        .Compute(ComputeRebatch),
    DatasetOp("RebatchDatasetV2", "input_dataset: variant, batch_sizes: int64, drop_remainder: bool", "TYPES")
        .Compute(ComputeRebatchBySizes),
    DatasetOp("DenseToSparseBatchDataset", "input_dataset: variant, batch_size: int64, row_shape: int64", "TYPES")
        .Compute(ComputeDenseToSparse),
    DatasetOp("ExperimentalDenseToSparseBatchDataset", "input_dataset: variant, batch_size: int64, row_shape: int64",
              "TYPES")
        .Compute(ComputeDenseToSparse),
    DatasetOp("SlidingWindowDataset",
              "input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64",
              "drop_remainder: bool = true, TYPES")
        .Compute(ComputeSlidingWindow),
    DatasetOp("ExperimentalSlidingWindowDataset",
              "input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64", "TYPES")
        .Compute(ComputeSlidingWindow),
    DatasetOp("SparseTensorSliceDataset", "indices: int64, values: Tvalues, dense_shape: int64", "Tvalues: type")
        .Stateful()
        .Compute(ComputeSparseSlices),
};

}  // namespace
}  // namespace thalweg
