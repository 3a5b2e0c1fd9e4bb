// RaggedTensorToSparse: a ragged tensor, given by the splits of its rows and its
// values, as a sparse one. Row i of a level is what lies in [splits[i],
// splits[i + 1]) of the next.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/shape_arguments.h"

namespace thalweg {
namespace {

absl::StatusOr<std::vector<int64_t>> ReadSplits(const Tensor& t) {
  if (t.rank() != 1) return InvalidArgument("ragged splits must be a vector, got shape ", t.shape());
  if (t.num_elements() == 0) return InvalidArgument("ragged splits may not be empty.");
  std::vector<int64_t> splits;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    splits.push_back(ReadInteger(t, i));
    if (i == 0 && splits[0] != 0) return InvalidArgument("First value of ragged splits must be 0.");
    if (i > 0 && splits[i] < splits[i - 1]) {
      return InvalidArgument("Ragged splits should be non decreasing, but we got ", splits[i - 1], " followed by ",
                             splits[i]);
    }
  }
  return splits;
}

absl::Status ComputeRaggedToSparse(KernelContext& c) {
  const int levels = c.num_inputs() - 1;
  const Tensor& values = c.input(levels);
  if (values.rank() < 1) return InvalidArgument("rt_dense_values must not be a scalar");
  std::vector<std::vector<int64_t>> splits;
  for (int i = 0; i < levels; ++i) {
    ASSIGN_OR_RETURN(std::vector<int64_t> level, ReadSplits(c.input(i)));
    if (i > 0 && static_cast<int64_t>(level.size()) - 1 != splits.back().back()) {
      return InvalidArgument("Final value of ragged splits must match the length the corresponding ragged values.");
    }
    splits.push_back(std::move(level));
  }
  if (values.dim(0) != splits.back().back()) {
    return InvalidArgument("Final value of ragged splits must match the length the corresponding ragged values.");
  }
  const int rank = levels + values.rank();
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({values.num_elements(), rank}));
  ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, shape));
  // For every value, and every level from the last: the row it lies in, and its
  // place there. rows[k] never goes back.
  std::vector<int64_t> rows(levels, 0);
  int64_t* index = indices->mutable_data<int64_t>();
  const int64_t width = values.dim(0) == 0 ? 0 : values.num_elements() / values.dim(0);
  for (int64_t i = 0; i < values.num_elements(); ++i, index += rank) {
    int64_t place = i / width;
    for (int k = levels - 1; k >= 0; --k) {
      while (splits[k][rows[k] + 1] <= place) ++rows[k];
      index[k + 1] = place - splits[k][rows[k]];
      place = rows[k];
    }
    index[0] = place;
    int64_t rest = i % width;
    for (int d = values.rank() - 1; d >= 1; --d) {
      index[levels + d] = rest % values.dim(d);
      rest /= values.dim(d);
    }
  }
  c.set_output(1, values.WithShape(Shape({values.num_elements()})));
  Dims dims = {static_cast<int64_t>(splits[0].size()) - 1};
  for (const std::vector<int64_t>& level : splits) {
    int64_t longest = 0;
    for (size_t i = 1; i < level.size(); ++i) longest = std::max(longest, level[i] - level[i - 1]);
    dims.push_back(longest);
  }
  for (int d = 1; d < values.rank(); ++d) dims.push_back(values.dim(d));
  c.set_output(2, Tensor::Vector<int64_t>(dims));
  return absl::OkStatus();
}

absl::Status RaggedToSparseShape(ShapeContext& c) {
  const int levels = c.num_inputs() - 1;
  for (int i = 0; i < levels; ++i) RETURN_IF_ERROR(c.WithRank(i, 1).status());
  const PartialShape& values = c.input(levels);
  const int64_t rank = values.has_rank() ? values.rank() + levels : PartialShape::kUnknown;
  c.set_output(0, {values.num_elements(), rank});
  c.set_output(1, {values.num_elements()});
  c.set_output(2, {rank});
  return absl::OkStatus();
}

const OpRegistration kRaggedToSparse = Op("RaggedTensorToSparse")
                                           .Input("rt_nested_splits: RAGGED_RANK * Tsplits")
                                           .Input("rt_dense_values: T")
                                           .Output("sparse_indices: int64")
                                           .Output("sparse_values: T")
                                           .Output("sparse_dense_shape: int64")
                                           .Attr("RAGGED_RANK: int >= 1")
                                           .Attr("T: type")
                                           .Attr("Tsplits: {int32, int64} = DT_INT64")
                                           .Shape(RaggedToSparseShape)
                                           .Compute(ComputeRaggedToSparse);

}  // namespace
}  // namespace thalweg
