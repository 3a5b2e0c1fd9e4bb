// SPDX-License-Identifier: Apache-2.0
// Unique: the distinct elements of a vector in the order in which they appear
// first, for every element the place of its like, and (WithCounts) how often
// each occurs. The V2 forms can compare slices along an axis instead.
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The distinct elements of a vector, and the class of each element.
struct Classes {
  std::vector<int64_t> of;     // element -> class
  std::vector<int64_t> first;  // class -> first element
  std::vector<int64_t> count;  // class -> how many elements
};

// `key(i)` gives what elements are compared by, or nothing for one that equals
// no other (a NaN).
template <typename Key, typename KeyOf>
Classes Classify(int64_t n, KeyOf&& key) {
  Classes classes;
  classes.of.resize(n);
  absl::flat_hash_map<Key, int64_t> known;
  known.reserve(n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t fresh = static_cast<int64_t>(classes.first.size());
    std::optional<Key> k = key(i);
    const int64_t found = k.has_value() ? known.try_emplace(*std::move(k), fresh).first->second : fresh;
    if (found == fresh) {
      classes.first.push_back(i);
      classes.count.push_back(0);
    }
    ++classes.count[found];
    classes.of[i] = found;
  }
  return classes;
}

template <typename T>
std::optional<T> ElementKey(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return std::nullopt;
    return value + T(0);  // 0 for -0, which is equal
  } else {
    return value;
  }
}

template <typename T>
Classes ClassifyElements(const Tensor& x) {
  const T* const values = x.data<T>();
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return Classify<float>(x.num_elements(), [&](int64_t i) { return ElementKey(static_cast<float>(values[i])); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    return Classify<absl::string_view>(x.num_elements(),
                                       [&](int64_t i) { return std::optional<absl::string_view>(values[i]); });
  } else {
    return Classify<T>(x.num_elements(), [&](int64_t i) { return ElementKey(values[i]); });
  }
}

// Slices [outer, n, inner], compared by their bytes (strings: with lengths).
Classes ClassifySlices(const Tensor& x, int64_t outer, int64_t n, int64_t inner) {
  return Classify<std::string>(n, [&](int64_t i) {
    std::string key;
    for (int64_t o = 0; o < outer && inner > 0; ++o) {
      const int64_t at = (o * n + i) * inner;
      if (x.dtype() == kString) {
        for (int64_t k = 0; k < inner; ++k) {
          const std::string& element = x.data<std::string>()[at + k];
          absl::StrAppend(&key, element.size(), ":", element);
        }
      } else {
        const size_t size = ElementSize(x.dtype());
        key.append(static_cast<const char*>(x.raw()) + at * size, inner * size);
      }
    }
    return std::optional<std::string>(std::move(key));
  });
}

absl::Status PutIntegers(const std::vector<int64_t>& values, Tensor* out) {
  return Dispatch(IndexTypes(), out->dtype(), [&]<typename T>() {
    for (size_t i = 0; i < values.size(); ++i) out->mutable_data<T>()[i] = static_cast<T>(values[i]);
    return absl::OkStatus();
  });
}

absl::Status ComputeUnique(KernelContext& c) {
  const Tensor& x = c.input(0);
  int axis = 0;
  bool whole = true;  // no axis: x is a vector
  if (c.num_inputs() > 1) {
    const Tensor& axis_input = c.input(1);
    if (axis_input.rank() != 1) return InvalidArgument("axis expects a 1D vector.");
    if (axis_input.num_elements() > 1) {
      return InvalidArgument("axis does not support input tensors larger than 1 elements");
    }
    whole = axis_input.num_elements() == 0;
    if (!whole) {
      const int64_t given = ReadInteger(axis_input);
      axis = static_cast<int>(given < 0 ? given + x.rank() : given);
      if (given < -x.rank() || given >= x.rank()) {
        return InvalidArgument("axis has to be between [0, ", x.rank(), ")");
      }
    }
  }
  if (whole && x.rank() != 1) return InvalidArgument("unique expects a 1D vector.");
  const int64_t outer = x.shape().Product(0, axis), n = x.dim(axis);
  const int64_t inner = x.shape().Product(axis + 1, x.rank());
  // Before the work: slices of nothing may be more than there is memory for.
  ASSIGN_OR_RETURN(Tensor* const index, c.Allocate(1, Shape({n})));
  Classes classes;
  if (outer == 1 && inner == 1) {
    RETURN_IF_ERROR(Dispatch(Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                                   uint32_t, uint64_t, bool, std::string>(),
                             x.dtype(), [&]<typename T>() {
                               classes = ClassifyElements<T>(x);
                               return absl::OkStatus();
                             }));
  } else if (x.dtype() == kString || ElementSize(x.dtype()) != 0) {
    classes = ClassifySlices(x, outer, n, inner);
  } else {
    return Unimplemented("no kernel for type ", x.dtype());
  }
  Shape shape = x.shape();
  const int64_t distinct = static_cast<int64_t>(classes.first.size());
  shape.set_dim(axis, distinct);
  ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, shape));
  RETURN_IF_ERROR(DispatchBySize(x.dtype(), [&]<typename T>() {
    for (int64_t o = 0; o < outer && inner > 0; ++o) {
      for (int64_t k = 0; k < distinct; ++k) {
        CopyElements(ElementData<T>(x) + (o * n + classes.first[k]) * inner, inner,
                     MutableElementData<T>(y) + (o * distinct + k) * inner);
      }
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(PutIntegers(classes.of, index));
  if (c.num_outputs() < 3) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor* const counts, c.Allocate(2, Shape({distinct})));
  return PutIntegers(classes.count, counts);
}

absl::Status UniqueShape(ShapeContext& c) {
  const PartialShape unknown({PartialShape::kUnknown});
  const bool has_axis = c.num_inputs() > 1;
  if (!has_axis) {
    RETURN_IF_ERROR(c.WithRank(0, 1).status());
    c.set_output(0, unknown);
    c.set_output(1, c.input(0).has_rank() ? c.input(0) : unknown);
  } else {
    c.set_output(1, unknown);
    const PartialShape& x = c.input(0);
    const std::optional<Dims> given = ConstantIntegers(c, 1);
    if (x.has_rank() && given.has_value() && given->size() == 1) {
      ASSIGN_OR_RETURN(const int axis, NormalizeAxis((*given)[0], x.rank()));
      Dims dims(x.dims().begin(), x.dims().end());
      c.set_output(1, {dims[axis]});
      dims[axis] = PartialShape::kUnknown;
      c.set_output(0, PartialShape(std::move(dims)));
    } else if (x.has_rank()) {
      if (given.has_value()) c.set_output(1, x);
      c.set_output(0, PartialShape::OfRank(x.rank()));
    }
  }
  if (c.num_outputs() > 2) c.set_output(2, unknown);
  return absl::OkStatus();
}

const OpRegistration kUniqueOps[] = {
    Op("Unique")
        .Input("x: T")
        .Output("y: T")
        .Output("idx: out_idx")
        .Attr("T: type")
        .Attr("out_idx: {int32, int64} = DT_INT32")
        .Shape(UniqueShape)
        .Compute(ComputeUnique)
        .NotDifferentiable(),
    Op("UniqueV2")
        .Input("x: T")
        .Input("axis: Taxis")
        .Output("y: T")
        .Output("idx: out_idx")
        .Attr("T: type")
        .Attr("Taxis: {int32, int64} = DT_INT64")
        .Attr("out_idx: {int32, int64} = DT_INT32")
        .Shape(UniqueShape)
        .Compute(ComputeUnique)
        .NotDifferentiable(),
    Op("UniqueWithCounts")
        .Input("x: T")
        .Output("y: T")
        .Output("idx: out_idx")
        .Output("count: out_idx")
        .Attr("T: type")
        .Attr("out_idx: {int32, int64} = DT_INT32")
        .Shape(UniqueShape)
        .Compute(ComputeUnique)
        .NotDifferentiable(),
    Op("UniqueWithCountsV2")
        .Input("x: T")
        .Input("axis: Taxis")
        .Output("y: T")
        .Output("idx: out_idx")
        .Output("count: out_idx")
        .Attr("T: type")
        .Attr("Taxis: {int32, int64} = DT_INT64")
        .Attr("out_idx: {int32, int64} = DT_INT32")
        .Shape(UniqueShape)
        .Compute(ComputeUnique)
        .NotDifferentiable(),
};

}  // namespace

UniqueResult Unique(const Scope& s, Output x, DType out_idx) {
  Node* const node = s.Add("Unique", {x}, {{"out_idx", out_idx}});
  return {.y = Output(node, 0), .idx = Output(node, 1)};
}
UniqueWithCountsResult UniqueWithCounts(const Scope& s, Output x, DType out_idx) {
  Node* const node = s.Add("UniqueWithCounts", {x}, {{"out_idx", out_idx}});
  return {.y = Output(node, 0), .idx = Output(node, 1), .count = Output(node, 2)};
}

}  // namespace thalweg
