// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/partitioned_variable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/train/checkpoints/variable_slice.h"

namespace thalweg {
namespace {

struct Division {
  int axis = 0;
  int64_t parts = 1;
};

absl::StatusOr<Division> Divide(absl::string_view name, const Shape& shape, const PartitionedVarOptions& options) {
  const std::vector<int64_t> counts = options.partitioner(shape, options.dtype);
  const auto error = [&](const auto&... why) {
    return InvalidArgument("partitioned variable '", name, "' of ", shape, ": ", why...);
  };
  if (shape.rank() == 0) return error("a scalar has no parts");
  if (static_cast<int>(counts.size()) != shape.rank()) {
    return error("the partitioner gave ", counts.size(), " numbers of parts, expected one per dimension");
  }
  Division division;
  for (int i = 0; i < shape.rank(); ++i) {
    if (counts[i] < 1 || counts[i] > std::max<int64_t>(1, shape.dim(i))) {
      return error(counts[i], " parts along dimension ", i);
    }
    if (counts[i] == 1) continue;
    if (division.parts > 1) return error("parts along more than one dimension: ", absl::StrJoin(counts, " x "));
    division = {i, counts[i]};
  }
  return division;
}

Output IdConstant(const Scope& s, int64_t value, DType dtype) {
  return dtype == kInt64 ? Const(s, value) : Const(s, static_cast<int32_t>(value));
}

// The part that each id is in, and which of its rows.
struct Address {
  Output part, row;
};

// Row i of the table is row i / n of part i % n.
Address ModAddress(const Scope& s, Output ids, int64_t parts) {
  const Output n = IdConstant(s, parts, ids.dtype());
  return {FloorMod(s, ids, n), FloorDiv(s, ids, n)};
}

// The first `extra` parts have one row more than the others.
Address DivAddress(const Scope& s, Output ids, int64_t parts, int64_t rows) {
  const auto number = [&](int64_t value) { return IdConstant(s, value, ids.dtype()); };
  const int64_t size = rows / parts, extra = rows % parts;
  const Output after = Sub(s, ids, number(extra));
  const Output part = Maximum(s, FloorDiv(s, ids, number(size + 1)), FloorDiv(s, after, number(size)));
  const Output in_large = Less(s, part, number(extra));
  return {part, Select(s, in_large, FloorMod(s, ids, number(size + 1)), FloorMod(s, after, number(size)))};
}

absl::StatusOr<int64_t> CheckTable(const std::vector<Var>& parts, Output ids) {
  if (parts.empty()) return InvalidArgument("EmbeddingLookup: a table without parts");
  if (!ids || (ids.dtype() != kInt32 && ids.dtype() != kInt64)) {
    return InvalidArgument("EmbeddingLookup: ids must be int32 or int64");
  }
  int64_t rows = 0;
  for (const Var& part : parts) {
    if (!part) return InvalidArgument("EmbeddingLookup: a part of the table is missing");
    const PartialShape& shape = part.shape();
    if (shape.rank() < 1 || shape.dim(0) < 0) {
      return InvalidArgument("EmbeddingLookup: the number of rows of '", part.name(), "' is not known: ", shape);
    }
    rows += shape.dim(0);
  }
  return rows;
}

// Rows of one part, gathered where it is.
Output RowsOf(const Scope& s, const Var& part, Output rows) {
  return Gather(s.ColocateWith(part.ref), part.read, rows);
}

}  // namespace

Partitioner partitioners::FixedSize(int64_t parts, int axis) {
  return [=](const Shape& shape, DType) {
    std::vector<int64_t> counts(shape.rank(), 1);
    if (axis >= 0 && axis < shape.rank())
      counts[axis] = std::clamp<int64_t>(parts, 1, std::max<int64_t>(1, shape.dim(axis)));
    return counts;
  };
}

Partitioner partitioners::MaxBytes(int64_t max_bytes, int axis, int64_t max_parts) {
  return [=](const Shape& shape, DType dtype) {
    std::vector<int64_t> counts(shape.rank(), 1);
    if (axis < 0 || axis >= shape.rank() || shape.num_elements() == 0) return counts;
    constexpr int64_t kStringBytes = 16;  // TensorFlow's estimate
    const int64_t element = dtype == kString ? kStringBytes : static_cast<int64_t>(ElementSize(dtype));
    const int64_t row = shape.num_elements() / shape.dim(axis) * element;
    const int64_t rows_per_part = std::max<int64_t>(1, max_bytes / row);
    counts[axis] = (shape.dim(axis) + rows_per_part - 1) / rows_per_part;
    if (max_parts > 0) counts[axis] = std::min(counts[axis], max_parts);
    return counts;
  };
}

PartitionedVariable MakePartitionedVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                                            const PartitionedVarOptions& options) {
  if (!scope.ok()) return {};
  const absl::StatusOr<Division> division = Divide(name, shape, options);
  scope.Fail(division.status());
  if (!scope.ok()) return {};
  PartitionedVariable result;
  result.name = scope.graph().UniqueName(scope.FullName(name));
  result.shape = shape;
  result.axis = division->axis;
  const Scope s = scope.WithoutControlDependencies();
  const int64_t size = shape.dim(result.axis) / division->parts, extra = shape.dim(result.axis) % division->parts;
  std::vector<int64_t> offset(shape.rank(), 0);
  std::vector<Output> values;
  for (int64_t i = 0; i < division->parts; ++i) {
    Shape part = shape;
    part.set_dim(result.axis, size + (i < extra ? 1 : 0));
    const Initializer initializer = [&](const Scope& own, const Shape&, DType dtype) {
      return options.initializer(own, part, dtype, shape);
    };
    const Var v = MakeVariable(s.InScope(result.name), absl::StrCat("part_", i), part,
                               {.initializer = initializer, .dtype = options.dtype, .trainable = options.trainable});
    if (!v) return {};
    SetVariableSlice(v, {.full_name = result.name, .full_shape = shape, .offset = offset, .shape = part});
    offset[result.axis] += part.dim(result.axis);
    result.parts.push_back(v);
    values.push_back(v);
  }
  const Output whole =
      values.size() == 1
          ? values[0]
          : Concat(s.InScope(absl::StrCat(result.name, "/ConcatPartitions")).WithOpName("concat"), values, result.axis);
  result.value = Identity(s.InScope("").WithOpName(result.name), whole);
  return result;
}

Output EmbeddingLookup(const Scope& s, const PartitionedVariable& table, Output ids) {
  if (table.axis != 0) {
    s.Fail(InvalidArgument("EmbeddingLookup: '", table.name, "' is divided along dimension ", table.axis,
                           ", expected 0: its rows are not whole"));
  }
  return EmbeddingLookup(s, table.parts, ids, ShardStrategy::kDiv);
}

// Splits the ids by part, gathers the rows of each part where that part is, so that only rows cross the network, and
// puts them back in the order of the ids.
Output EmbeddingLookup(const Scope& scope, const std::vector<Var>& parts, Output ids, ShardStrategy strategy) {
  if (!scope.ok()) return {};
  const absl::StatusOr<int64_t> rows = CheckTable(parts, ids);
  scope.Fail(rows.status());
  if (!scope.ok()) return {};
  const Scope s = scope.SubScope("embedding_lookup");
  const auto n = static_cast<int>(parts.size());
  if (n == 1) return Identity(s, RowsOf(s, parts[0], ids));
  const Output flat = Reshape(s, ids, Const(s, {int32_t{-1}}));
  const Address address = strategy == ShardStrategy::kMod ? ModAddress(s, flat, n) : DivAddress(s, flat, n, *rows);
  const Output part = Cast(s, address.part, kInt32);
  const Output positions = Range(s, Const(s, 0), Size(s, flat), Const(s, 1));
  const std::vector<Output> wanted = DynamicPartition(s, address.row, part, n);
  const std::vector<Output> where = DynamicPartition(s, positions, part, n);
  if (!s.ok()) return {};
  std::vector<Output> found;
  for (int i = 0; i < n; ++i) found.push_back(RowsOf(s, parts[i], wanted[i]));
  const Output stitched = s.Add("ParallelDynamicStitch", {where, found});
  if (!s.ok()) return {};
  const PartialShape& row = parts[0].shape();
  std::vector<int32_t> row_sizes(row.dims().begin() + 1, row.dims().end());
  const Output sizes = Concat(s, {ShapeOf(s, ids), Const(s, row_sizes)}, 0);
  return Reshape(s, stitched, sizes);
}

}  // namespace thalweg
