// SPDX-License-Identifier: Apache-2.0
// Sets: the values along the last dimension of a tensor, dense or sparse, are a
// set per row of the others. The set operations ("a-b", "b-a", "intersection",
// "union") give sparse tensors whose rows are the sorted results; SetSize
// counts.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

using SetTypes = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, std::string>;

// The sets of the rows that have one, by their place.
template <typename T>
using Sets = std::map<std::vector<int64_t>, std::set<T>>;

template <typename T>
Sets<T> DenseSets(const Tensor& t) {
  Sets<T> sets;
  const int rank = t.rank();
  const int64_t width = t.dim(rank - 1);
  const Dims strides = RowMajorStrides(t.shape().dims().subspan(0, rank - 1));
  for (int64_t r = 0; width > 0 && r < t.num_elements() / width; ++r) {
    std::vector<int64_t> place(rank - 1);
    int64_t rest = r;
    for (int d = 0; d < rank - 1; ++d) {
      place[d] = rest / strides[d];
      rest %= strides[d];
    }
    const T* const row = t.data<T>() + r * width;
    sets[std::move(place)] = std::set<T>(row, row + width);
  }
  return sets;
}

template <typename T>
Sets<T> SparseSets(const SparseValue& x) {
  Sets<T> sets;
  for (int64_t i = 0; i < x.count(); ++i) {
    sets[std::vector<int64_t>(x.row(i), x.row(i) + x.rank() - 1)].insert(x.values.data<T>()[i]);
  }
  return sets;
}

absl::StatusOr<SparseValue> ReadSparse(KernelContext& context, int i, bool validate) {
  ASSIGN_OR_RETURN(SparseValue x, SparseValue::Make(context.input(i), context.input(i + 1), context.input(i + 2),
                                                    validate ? SparseValue::kOrdered : SparseValue::kUnordered));
  if (x.rank() < 2) return InvalidArgument("Invalid rank ", x.rank(), ".");
  return x;
}

class SetOperationKernel : public Kernel {
 public:
  SetOperationKernel(bool first_sparse, bool second_sparse)
      : first_sparse_(first_sparse), second_sparse_(second_sparse) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(operation_, init.Attr<std::string>("set_operation"));
    ASSIGN_OR_RETURN(validate_, init.Attr<bool>("validate_indices"));
    operation_ = absl::AsciiStrToLower(operation_);
    if (operation_ != "a-b" && operation_ != "b-a" && operation_ != "intersection" && operation_ != "union") {
      return InvalidArgument("Invalid set_operation ", operation_, ".");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    Dims dims[2];
    SparseValue sparse[2];
    const int starts[] = {0, first_sparse_ ? 3 : 1};
    for (int i = 0; i < 2; ++i) {
      if (i == 0 ? first_sparse_ : second_sparse_) {
        ASSIGN_OR_RETURN(sparse[i], ReadSparse(context, starts[i], validate_));
        dims[i] = sparse[i].dims;
      } else {
        const Shape& shape = context.input(starts[i]).shape();
        if (shape.rank() < 2) return InvalidArgument("Shape ", shape, " has rank ", shape.rank(), " < 2");
        dims[i].assign(shape.dims().begin(), shape.dims().end());
      }
      dims[i].pop_back();
    }
    if (dims[0] != dims[1]) {
      return InvalidArgument("Mismatched shapes ", PartialShape(dims[0]), " vs ", PartialShape(dims[1]));
    }
    return Dispatch(SetTypes(), context.output_type(1), [&]<typename T>() {
      Sets<T> a = first_sparse_ ? SparseSets<T>(sparse[0]) : DenseSets<T>(context.input(0));
      Sets<T> b = second_sparse_ ? SparseSets<T>(sparse[1]) : DenseSets<T>(context.input(starts[1]));
      for (const auto& [place, set] : b) a[place];  // rows that either has
      Sets<T> results;
      for (auto& [place, set] : a) {
        const std::set<T>& other = b[place];
        std::set<T>& result = results[place];
        const auto into = std::inserter(result, result.end());
        if (operation_ == "a-b") std::set_difference(set.begin(), set.end(), other.begin(), other.end(), into);
        if (operation_ == "b-a") std::set_difference(other.begin(), other.end(), set.begin(), set.end(), into);
        if (operation_ == "union") std::set_union(set.begin(), set.end(), other.begin(), other.end(), into);
        if (operation_ == "intersection") {
          std::set_intersection(set.begin(), set.end(), other.begin(), other.end(), into);
        }
      }
      return SetResult(context, dims[0], results);
    });
  }

 private:
  template <typename T>
  static absl::Status SetResult(KernelContext& context, const Dims& dims, const Sets<T>& sets) {
    int64_t count = 0, width = 0;
    for (const auto& [place, set] : sets) {
      count += static_cast<int64_t>(set.size());
      width = std::max(width, static_cast<int64_t>(set.size()));
    }
    const int64_t rank = static_cast<int64_t>(dims.size()) + 1;
    ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({count, rank})));
    ASSIGN_OR_RETURN(Tensor * values, context.Allocate(1, Shape({count})));
    ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(2, Shape({rank})));
    std::copy(dims.begin(), dims.end(), shape->mutable_data<int64_t>());
    shape->mutable_data<int64_t>()[rank - 1] = width;
    int64_t* to = indices->mutable_data<int64_t>();
    T* value = values->mutable_data<T>();
    for (const auto& [place, set] : sets) {
      int64_t i = 0;
      for (const T& element : set) {
        to = std::copy(place.begin(), place.end(), to);
        *to++ = i++;
        *value++ = element;
      }
    }
    return absl::OkStatus();
  }

  const bool first_sparse_;
  const bool second_sparse_;
  std::string operation_;
  bool validate_ = true;
};

class SetSizeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(validate_, init.Attr<bool>("validate_indices"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const SparseValue x, ReadSparse(context, 0, validate_));
    const Dims dims(x.dims.begin(), x.dims.end() - 1);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    std::fill_n(out->mutable_data<int32_t>(), shape.num_elements(), 0);
    const Dims strides = RowMajorStrides(dims);
    return Dispatch(SetTypes(), x.values.dtype(), [&]<typename T>() {
      for (const auto& [place, set] : SparseSets<T>(x)) {
        int64_t to = 0;
        for (size_t d = 0; d < place.size(); ++d) to += place[d] * strides[d];
        out->mutable_data<int32_t>()[to] = static_cast<int32_t>(set.size());
      }
      return absl::OkStatus();
    });
  }

 private:
  bool validate_ = true;
};

absl::Status SetShape(ShapeContext& c) {
  c.set_output(0, PartialShape::OfRank(2));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape::OfRank(1));
  return absl::OkStatus();
}

Op Operand(Op& op, const char* name, bool sparse) {
  if (!sparse) return op.Input(absl::StrCat(name, ": T"));
  return op.Input(absl::StrCat(name, "_indices: int64"))
      .Input(absl::StrCat(name, "_values: T"))
      .Input(absl::StrCat(name, "_shape: int64"));
}

Op SetOperation(const char* name, bool first_sparse, bool second_sparse) {
  Op op(name);
  op = Operand(op, "set1", first_sparse);
  op = Operand(op, "set2", second_sparse);
  return op.Output("result_indices: int64")
      .Output("result_values: T")
      .Output("result_shape: int64")
      .Attr("set_operation: string")
      .Attr("validate_indices: bool = true")
      .Attr("T: {int8, int16, int32, int64, uint8, uint16, string}")
      .Shape(SetShape)
      .Kernel<SetOperationKernel>(first_sparse, second_sparse)
      .NotDifferentiable();
}

const OpRegistration kSetsOps[] = {
    SetOperation("DenseToDenseSetOperation", false, false),
    SetOperation("DenseToSparseSetOperation", false, true),
    SetOperation("SparseToSparseSetOperation", true, true),
    Op("SetSize")
        .Input("set_indices: int64")
        .Input("set_values: T")
        .Input("set_shape: int64")
        .Output("size: int32")
        .Attr("validate_indices: bool = true")
        .Attr("T: {int8, int16, int32, int64, uint8, uint16, string}")
        .Shape(shapes::Unknown)
        .Kernel<SetSizeKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
