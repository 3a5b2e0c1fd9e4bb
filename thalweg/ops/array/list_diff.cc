// SPDX-License-Identifier: Apache-2.0
// ListDiff: the elements of the vector x that are not in the vector y, in their
// order, and where in x they are. UnravelIndex: what flat indices into a tensor
// of shape `dims` are in each dimension.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// Numbers are compared as numbers: 0 is -0.
using ValueTypes = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                         uint64_t, std::string>;

template <typename T>
auto Key(const T& value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

absl::Status ListDiff(KernelContext& context) {
  const Tensor &x = context.input(0), &y = context.input(1);
  if (x.rank() != 1) return InvalidArgument("x should be a 1D vector.");
  if (y.rank() != 1) return InvalidArgument("y should be a 1D vector.");
  if (context.output_type(1) == kInt32 && x.num_elements() >= std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("x too large for int32 indexing");
  }
  return Dispatch(ValueTypes(), x.dtype(), [&]<typename T>() -> absl::Status {
    absl::flat_hash_set<decltype(Key(std::declval<T>()))> known;
    for (const T& value : y.flat<T>()) {
      const auto key = Key(value);
      if (key == key) known.insert(key);  // NaN equals nothing, so it is in no list
    }
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if (!known.contains(Key(x.data<T>()[i]))) kept.push_back(i);
    }
    const Shape shape({static_cast<int64_t>(kept.size())});
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * index, context.Allocate(1, shape));
    for (size_t i = 0; i < kept.size(); ++i) {
      out->mutable_data<T>()[i] = x.data<T>()[kept[i]];
      if (index->dtype() == kInt64) {
        index->mutable_data<int64_t>()[i] = kept[i];
      } else {
        index->mutable_data<int32_t>()[i] = static_cast<int32_t>(kept[i]);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status ListDiffShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_output(0, PartialShape::OfRank(1));
  c.set_output(1, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status UnravelIndex(KernelContext& context) {
  const Tensor &indices = context.input(0), &dims = context.input(1);
  if (indices.rank() > 1) {
    return InvalidArgument("The indices can only be scalar or vector, got \"", indices.shape(), "\"");
  }
  if (indices.num_elements() == 0) return InvalidArgument("received empty tensor indices: ", indices.ToString());
  if (dims.rank() != 1) return InvalidArgument("The indices can only be 1-D, got \"", dims.shape(), "\"");
  return Dispatch(IndexTypes(), indices.dtype(), [&]<typename T>() -> absl::Status {
    const absl::Span<const T> sizes = dims.flat<T>();
    int64_t product = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) {
        return InvalidArgument("Input dims cannot contain a dim of zero, but dims contains zero at index ", i);
      }
      if (sizes[i] < 0) return InvalidArgument("Input dims cannot be negative. Got dim = ", sizes[i], " at index ", i);
      if (product > std::numeric_limits<T>::max() / sizes[i]) {
        return InvalidArgument("Input dims product is causing integer overflow: (", dims.ToString(), ")");
      }
      product *= sizes[i];
    }
    for (const T index : indices.flat<T>()) {
      if (index < 0 || index >= product) return InvalidArgument("index is out of bound as with dims");
    }
    const int64_t rank = static_cast<int64_t>(sizes.size()), count = indices.num_elements();
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, indices.rank() == 0 ? Shape({rank}) : Shape({rank, count})));
    int64_t below = product;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t above = below;
      below /= sizes[d];
      for (int64_t i = 0; i < count; ++i) {
        out->mutable_data<T>()[d * count + i] = static_cast<T>(indices.data<T>()[i] % above / below);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status UnravelIndexShape(ShapeContext& c) {
  const PartialShape &indices = c.input(0), &dims = c.input(1);
  const int64_t rank = dims.has_rank() && dims.rank() == 1 ? dims.dim(0) : PartialShape::kUnknown;
  if (!indices.has_rank()) return absl::OkStatus();
  c.set_output(0, indices.rank() == 0 ? PartialShape({rank}) : PartialShape({rank, indices.num_elements()}));
  return absl::OkStatus();
}

const OpRegistration kListDiffOps[] = {
    Op("ListDiff")
        .Input("x: T")
        .Input("y: T")
        .Output("out: T")
        .Output("idx: out_idx")
        .Attr("T: type")
        .Attr("out_idx: {int32, int64} = DT_INT32")
        .Shape(ListDiffShape)
        .Compute(ListDiff)
        .NotDifferentiable(),
    Op("UnravelIndex")
        .Input("indices: Tidx")
        .Input("dims: Tidx")
        .Output("output: Tidx")
        .Attr("Tidx: {int32, int64} = DT_INT32")
        .Shape(UnravelIndexShape)
        .Compute(UnravelIndex)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
