// SPDX-License-Identifier: Apache-2.0
// RaggedGather: rows of a ragged tensor by their numbers. RaggedTensorToTensor:
// as a tensor, filled up with a default. RaggedFillEmptyRows: rows of nothing get
// one default value.
#include <algorithm>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/ragged/ragged.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using Splits = std::vector<int64_t>;

// Elements of one row of the first dimension.
int64_t RowSize(const Tensor& t) { return t.shape().Product(1, t.rank()); }

absl::Status RaggedGather(KernelContext& c) {
  const int levels = c.num_inputs() - 2;
  const Tensor& values = c.input(levels);
  const Tensor& indices = c.input(levels + 1);
  const int out_levels = c.num_outputs() - 1;
  if (values.rank() < 1) return InvalidArgument("params.dense_values must be at least a vector: ", values.shape());
  if (out_levels != levels + indices.rank() - 1) {
    return InvalidArgument("OUTPUT_RAGGED_RANK is ", out_levels, ", but rows of rank ", levels, " by indices of shape ",
                           indices.shape(), " have ", levels + indices.rank() - 1);
  }
  std::vector<Splits> in(levels);
  int64_t length = values.dim(0);
  for (int i = levels - 1; i >= 0; --i) {
    ASSIGN_OR_RETURN(in[i], ReadSplits(c.input(i), length));
    length = static_cast<int64_t>(in[i].size()) - 1;
  }
  // Levels of the indices, of equal rows, and then those of the rows.
  std::vector<Splits> out(out_levels, Splits{0});
  for (int d = 0; d + 1 < indices.rank(); ++d) {
    const int64_t rows = indices.shape().Product(0, d + 1);
    for (int64_t r = 1; r <= rows; ++r) out[d].push_back(r * indices.dim(d + 1));
  }
  std::vector<std::pair<int64_t, int64_t>> pieces;
  int64_t total = 0, rows = 0;
  constexpr int64_t kMost = int64_t{1} << 26;
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t row = ReadInteger(indices, i);
    if (row < 0 || row >= length) return InvalidArgument("indices[", i, "] = ", row, " is not in [0, ", length, ")");
    int64_t start = row, limit = row + 1;
    for (int d = 0; d < levels; ++d) {
      total += limit - start;  // on every level, because empty rows take memory too
      if (total > kMost) return ResourceExhausted("more than ", kMost, " rows");
      if (const int to = indices.rank() - 1 + d; to >= 0) {
        for (int64_t k = start; k < limit; ++k) out[to].push_back(out[to].back() + in[d][k + 1] - in[d][k]);
      }
      start = in[d][start];
      limit = in[d][limit];
    }
    pieces.push_back({start, limit});
    rows += limit - start;
  }
  for (int d = 0; d < out_levels; ++d) {
    ASSIGN_OR_RETURN(Tensor* const splits, c.Allocate(d, Shape({static_cast<int64_t>(out[d].size())})));
    RETURN_IF_ERROR(WriteSplits(out[d], splits));
  }
  Dims dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = rows;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const result, c.Allocate(out_levels, shape));
  const int64_t inner = RowSize(values);
  return DispatchBySize(values.dtype(), [&]<typename T>() {
    T* to = MutableElementData<T>(result);
    for (const auto& [start, limit] : pieces) {
      CopyElements(ElementData<T>(values) + start * inner, (limit - start) * inner, to);
      to += (limit - start) * inner;
    }
    return absl::OkStatus();
  });
}

// ---- RaggedTensorToTensor ----

// For each row of a level, its row on the level above.
absl::StatusOr<Splits> Parents(const Tensor& partition, const std::string& type, int64_t rows_above) {
  if (partition.rank() != 1) {
    return InvalidArgument("a row partition of type ", type, " must be a vector, got shape ", partition.shape());
  }
  const int64_t n = partition.num_elements();
  Splits parents;
  if (type == "VALUE_ROWIDS") {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = ReadInteger(partition, i);
      if (row < 0 || row >= rows_above || (i > 0 && row < parents.back())) {
        return InvalidArgument("value_rowids must not fall and lie in [0, ", rows_above, "): at ", i, " is ", row);
      }
      parents.push_back(row);
    }
    return parents;
  }
  if (type != "ROW_SPLITS") return InvalidArgument("Unsupported partition type: ", type);
  if (n != rows_above + 1) {
    return InvalidArgument("row_splits of ", rows_above, " rows must have one element more, got ", n);
  }
  const int64_t end = ReadInteger(partition, n - 1);
  constexpr int64_t kMost = int64_t{1} << 26;
  if (end > kMost) return InvalidArgument("row_splits end at ", end, ", beyond the values");
  ASSIGN_OR_RETURN(const Splits splits, ReadSplits(partition, end));
  for (int64_t r = 0; r < rows_above; ++r) parents.insert(parents.end(), splits[r + 1] - splits[r], r);
  return parents;
}

class ToTensorKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<std::string>>("row_partition_types"));
    ASSIGN_OR_RETURN(const int64_t count, init.Attr<int64_t>("num_row_partition_tensors"));
    if (static_cast<int64_t>(types_.size()) != count) {
      return InvalidArgument("There are ", count, " row partitions, but ", types_.size(), " types of them");
    }
    if (types_[0] != "FIRST_DIM_SIZE" && types_[0] != "ROW_SPLITS") {
      return InvalidArgument("Cannot handle type ", types_[0], " of the first row partition");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(1);
    const Tensor& fallback = c.input(2);
    if (values.rank() < 1) return InvalidArgument("values must be at least a vector");
    std::vector<Splits> parents;
    ASSIGN_OR_RETURN(const int64_t rows, ReadPartitions(c, &parents));
    if (static_cast<int64_t>(parents.empty() ? rows : parents.back().size()) != values.dim(0)) {
      return InvalidArgument("the row partitions are of ", parents.empty() ? rows : parents.back().size(),
                             " values, but there are ", values.dim(0));
    }
    ASSIGN_OR_RETURN(const Shape shape, ResultShape(c.input(0), values, rows, parents));
    const int levels = static_cast<int>(parents.size());
    const Shape row_shape(shape.dims().subspan(levels + 1));
    const int64_t inner = row_shape.num_elements();
    RETURN_IF_ERROR(CheckFallback(fallback, row_shape));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (out->num_elements() == 0) return absl::OkStatus();  // a row may be of any size then
    ASSIGN_OR_RETURN(const Tensor defaults, BroadcastIndices(c, fallback, row_shape));
    // For each row, its position in the result; -1 if it is cut off.
    Splits places(rows);
    for (int64_t r = 0; r < rows; ++r) places[r] = r < shape.dim(0) ? r : -1;
    for (int l = 0; l < levels; ++l) {
      Splits next(parents[l].size());
      int64_t column = 0;
      for (size_t i = 0; i < next.size(); ++i) {
        column = i > 0 && parents[l][i] == parents[l][i - 1] ? column + 1 : 0;
        const int64_t above = places[parents[l][i]];
        next[i] = above >= 0 && column < shape.dim(l + 1) ? above * shape.dim(l + 1) + column : -1;
      }
      places = std::move(next);
    }
    return DispatchBySize(values.dtype(), [&]<typename T>() {
      T* const to = MutableElementData<T>(out);
      for (int64_t i = 0; i < out->num_elements(); ++i) {
        to[i] = ElementData<T>(fallback)[defaults.data<int64_t>()[i % inner]];
      }
      for (size_t i = 0; i < places.size(); ++i) {
        if (places[i] >= 0) CopyElements(ElementData<T>(values) + i * inner, inner, to + places[i] * inner);
      }
      return absl::OkStatus();
    });
  }

 private:
  // The rows of the first level.
  absl::StatusOr<int64_t> ReadPartitions(KernelContext& c, std::vector<Splits>* parents) const {
    const Tensor& first = c.input(3);
    int64_t rows;
    size_t next = 0;
    if (types_[0] == "FIRST_DIM_SIZE") {
      ASSIGN_OR_RETURN(rows, ReadScalar(first, "FIRST_DIM_SIZE"));
      next = 1;
    } else {
      if (first.rank() != 1 || first.num_elements() == 0) return InvalidArgument("row_splits may not be empty");
      rows = first.num_elements() - 1;
    }
    constexpr int64_t kMost = int64_t{1} << 26;
    if (rows < 0 || rows > kMost) return InvalidArgument("a ragged tensor of ", rows, " rows");
    int64_t above = rows;
    for (; next < types_.size(); ++next) {
      ASSIGN_OR_RETURN(Splits level, Parents(c.input(3 + static_cast<int>(next)), types_[next], above));
      above = static_cast<int64_t>(level.size());
      parents->push_back(std::move(level));
    }
    return rows;
  }

  // The requested shape; unknown dimensions (-1) come from the values.
  static absl::StatusOr<Shape> ResultShape(const Tensor& wanted, const Tensor& values, int64_t rows,
                                           const std::vector<Splits>& parents) {
    Dims dims{rows};
    for (const Splits& level : parents) {
      int64_t longest = 0, run = 0;
      for (size_t i = 0; i < level.size(); ++i) {
        run = i > 0 && level[i] == level[i - 1] ? run + 1 : 1;
        longest = std::max(longest, run);
      }
      dims.push_back(longest);
    }
    const size_t ragged = dims.size();
    for (int d = 1; d < values.rank(); ++d) dims.push_back(values.dim(d));
    if (wanted.rank() == 0) {
      if (ReadInteger(wanted) != -1) {
        return InvalidArgument("The only valid scalar shape tensor is the fully unknown shape specified as -1.");
      }
      return Shape::Make(dims);
    }
    if (wanted.rank() != 1 || wanted.num_elements() != static_cast<int64_t>(dims.size())) {
      return InvalidArgument("the shape of a ragged tensor of rank ", dims.size(), " cannot be ", wanted.ToString(9));
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t size = ReadInteger(wanted, static_cast<int64_t>(d));
      if (size < -1) return InvalidArgument("dimension ", d, " of shape is ", size);
      if (size >= 0 && d >= ragged && size != dims[d]) {
        return InvalidArgument("dimension ", d, " of shape is ", size, ", but that of the values is ", dims[d]);
      }
      if (size >= 0) dims[d] = size;
    }
    return Shape::Make(dims);
  }

  static absl::Status CheckFallback(const Tensor& t, const Shape& shape) {
    if (t.rank() > shape.rank()) {
      return InvalidArgument("default_value.shape=", t.shape(), " has more dimensions than a value, ", shape);
    }
    const int skip = shape.rank() - t.rank();
    for (int d = 0; d < t.rank(); ++d) {
      if (t.dim(d) != 1 && t.dim(d) != shape.dim(skip + d)) {
        return InvalidArgument("default_value.shape=", t.shape(), " cannot be repeated to that of a value, ", shape);
      }
    }
    return absl::OkStatus();
  }
  // Which element of `t` stands at each place of `shape`.
  static absl::StatusOr<Tensor> BroadcastIndices(KernelContext& c, const Tensor& t, const Shape& shape) {
    ASSIGN_OR_RETURN(Tensor result, c.AllocateTemporary(kInt64, shape));
    int64_t* const indices = result.mutable_data<int64_t>();
    std::fill_n(indices, shape.num_elements(), int64_t{0});
    const int skip = shape.rank() - t.rank();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      int64_t rest = i, stride = 1;
      for (int d = t.rank() - 1; d >= 0; --d) {
        const int64_t at = rest % shape.dim(skip + d);
        rest /= shape.dim(skip + d);
        if (t.dim(d) != 1) indices[i] += at * stride;
        stride *= t.dim(d);
      }
    }
    return result;
  }

  std::vector<std::string> types_;
};

absl::Status ToTensorShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape wanted, c.ConstantAsShape(0));
  if (c.input(0).has_rank() && c.input(0).rank() == 1) c.set_output(0, wanted);
  return absl::OkStatus();
}

// ---- RaggedFillEmptyRows ----

absl::Status RaggedFillEmptyRows(KernelContext& c) {
  const Tensor &ids = c.input(0), &values = c.input(1), &count = c.input(2), &fallback = c.input(3);
  if (ids.rank() != 1) return InvalidArgument("value_rowids must be a vector, saw: ", ids.shape());
  if (values.rank() < 1) return InvalidArgument("values must be at least a vector");
  if (ids.dim(0) != values.dim(0)) {
    return InvalidArgument("The length of `values` (", values.dim(0), ") must match the length of `value_rowids` (",
                           ids.dim(0), ").");
  }
  if (fallback.rank() != 0) return InvalidArgument("default_value must be a scalar, saw: ", fallback.shape());
  ASSIGN_OR_RETURN(const int64_t rows, ReadScalar(count, "nrows"));
  constexpr int64_t kMost = int64_t{1} << 26;
  if (rows < 0 || rows > kMost) return InvalidArgument("nrows must be in [0, ", kMost, "], got ", rows);
  const int64_t n = ids.dim(0), inner = RowSize(values);
  std::vector<int64_t> next(rows + 1);  // where the values of each row begin
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = ids.data<int64_t>()[i];
    if (row < 0 || row >= rows)
      return InvalidArgument("value_rowids[", i, "] invalid: ", row, " is not in [0, ", rows, ")");
    ++next[row + 1];
  }
  ASSIGN_OR_RETURN(Tensor* const empty, c.Allocate(2, Shape({rows})));
  for (int64_t r = 0; r < rows; ++r) {
    empty->mutable_data<bool>()[r] = next[r + 1] == 0;
    next[r + 1] = next[r] + std::max<int64_t>(next[r + 1], 1);
  }
  const int64_t total = next[rows];
  Dims dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = total;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out_ids, c.Allocate(0, Shape({total})));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(1, shape));
  ASSIGN_OR_RETURN(Tensor* const reverse, c.Allocate(3, Shape({n})));
  for (int64_t r = 0; r < rows; ++r) {
    std::fill(out_ids->mutable_data<int64_t>() + next[r], out_ids->mutable_data<int64_t>() + next[r + 1], r);
  }
  return DispatchBySize(values.dtype(), [&]<typename T>() {
    T* const to = MutableElementData<T>(out);
    for (int64_t r = 0; r < rows; ++r) {
      if (empty->data<bool>()[r]) std::fill_n(to + next[r] * inner, inner, ElementData<T>(fallback)[0]);
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = next[ids.data<int64_t>()[i]]++;
      reverse->mutable_data<int64_t>()[i] = at;
      CopyElements(ElementData<T>(values) + i * inner, inner, to + at * inner);
    }
    return absl::OkStatus();
  });
}

absl::Status FillShape(ShapeContext& c) {
  c.set_output(0, PartialShape::OfRank(1));
  const PartialShape& values = c.input(1);
  if (values.has_rank() && values.rank() > 0) {
    Dims dims(values.dims().begin(), values.dims().end());
    dims[0] = PartialShape::kUnknown;
    c.set_output(1, PartialShape(dims));
  }
  c.set_output(2, PartialShape::OfRank(1));
  c.set_output(3, PartialShape::OfRank(1));
  return absl::OkStatus();
}

const OpRegistration kRaggedLayoutOps[] = {
    Op("RaggedGather")
        .Input("params_nested_splits: PARAMS_RAGGED_RANK * Tsplits")
        .Input("params_dense_values: Tvalues")
        .Input("indices: Tindices")
        .Output("output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits")
        .Output("output_dense_values: Tvalues")
        .Attr("Tvalues: type")
        .Attr("Tindices: {int32, int64}")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Attr("PARAMS_RAGGED_RANK: int >= 1")
        .Attr("OUTPUT_RAGGED_RANK: int >= 0")
        .Shape(shapes::Unknown)
        .Compute(RaggedGather),
    Op("RaggedTensorToTensor")
        .Input("shape: Tshape")
        .Input("values: T")
        .Input("default_value: T")
        .Input("row_partition_tensors: num_row_partition_tensors * Tindex")
        .Output("result: T")
        .Attr("T: type")
        .Attr("Tindex: {int64, int32}")
        .Attr("Tshape: {int64, int32}")
        .Attr("num_row_partition_tensors: int >= 1")
        .Attr("row_partition_types: list(string)")
        .Shape(ToTensorShape)
        .Kernel<ToTensorKernel>(),
    Op("RaggedFillEmptyRows")
        .Input("value_rowids: int64")
        .Input("values: T")
        .Input("nrows: int64")
        .Input("default_value: T")
        .Output("output_value_rowids: int64")
        .Output("output_values: T")
        .Output("empty_row_indicator: bool")
        .Output("reverse_index_map: int64")
        .Attr("T: type")
        .Shape(FillShape)
        .Compute(RaggedFillEmptyRows),
};

}  // namespace
}  // namespace thalweg
