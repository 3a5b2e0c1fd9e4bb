// SPDX-License-Identifier: Apache-2.0
// InplaceUpdate, InplaceAdd, InplaceSub: x with rows i replaced by, or combined with, the rows of
// v. Row numbers wrap around. The memory of x is reused if it is not shared. Empty: a tensor of a
// given shape, zeroed if `init`. ParallelConcat: concatenation along the first dimension.
// _ParallelConcatStart, _ParallelConcatUpdate: the two ops into which a TensorFlow master splits a
// ParallelConcat. The first makes the result, each of the others writes one row of it.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

class InplaceKernel : public Kernel {
 public:
  enum Form { kUpdate, kAdd, kSub };
  explicit InplaceKernel(Form form) : form_(form) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor &i = context.input(1), &v = context.input(2);
    if (i.rank() != 1) return InvalidArgument("i must be a vector. ", i.shape());
    if (x.rank() != v.rank())
      return InvalidArgument("x and v shape doesn't match (ranks differ): ", x.shape(), " vs. ", v.shape());
    if (x.rank() < 1) return InvalidArgument("x must be at least a vector");
    for (int d = 1; d < x.rank(); ++d) {
      if (x.dim(d) != v.dim(d)) {
        return InvalidArgument("x and v shape doesn't match at index ", d, " : ", x.shape(), " vs. ", v.shape());
      }
    }
    if (i.dim(0) != v.dim(0)) {
      return InvalidArgument("i and x shape doesn't match at index 0: ", i.shape(), " vs. ", v.shape());
    }
    const Shape shape = x.shape();
    const int64_t rows = x.dim(0), width = shape.Product(1, shape.rank());
    if (rows == 0 && i.num_elements() > 0) return InvalidArgument("x has no rows to update");
    ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocate({0}, 0, shape));
    const auto row = [&](int64_t k) { return (i.data<int32_t>()[k] % rows + rows) % rows; };
    RETURN_IF_ERROR(DispatchBySize(x.dtype(), [&]<typename T>() {
      if (y->raw() != x.raw()) CopyElements(ElementData<T>(x), x.num_elements(), MutableElementData<T>(y));
      for (int64_t k = 0; form_ == kUpdate && k < i.num_elements(); ++k) {
        CopyElements(ElementData<T>(v) + k * width, width, MutableElementData<T>(y) + row(k) * width);
      }
      return absl::OkStatus();
    }));
    if (form_ == kUpdate) return absl::OkStatus();
    return Dispatch(NumberTypes(), x.dtype(), [&]<typename T>() {
      for (int64_t k = 0; k < i.num_elements(); ++k) {
        T* const to = y->mutable_data<T>() + row(k) * width;
        const T* const from = v.data<T>() + k * width;
        for (int64_t c = 0; c < width; ++c) to[c] = Combine(to[c], from[c]);
      }
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  T Combine(T a, T b) const {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      const float x = static_cast<float>(a), y = static_cast<float>(b);
      return T(form_ == kAdd ? x + y : x - y);
    } else {
      return form_ == kAdd ? WrapAdd(a, b) : WrapSub(a, b);
    }
  }
  const Form form_;
};

class EmptyKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(init_, init.Attr<bool>("init"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    const Tensor& sizes = context.input(0);
    if (sizes.rank() != 1) return InvalidArgument("shape must be a vector of int32, got shape ", sizes.shape());
    ASSIGN_OR_RETURN(const Shape shape,
                     Shape::Make(Dims(sizes.data<int32_t>(), sizes.data<int32_t>() + sizes.num_elements())));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (init_) ClearElements(out);
    return absl::OkStatus();
  }

 private:
  bool init_ = false;
};

absl::Status EmptyShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status ParallelConcat(KernelContext& context) {
  Shape shape = context.input(0).shape();
  if (shape.rank() < 1) return InvalidArgument("values must be at least vectors, got ", shape);
  const int64_t rows = context.num_inputs();
  for (int i = 0; i < rows; ++i) {
    if (context.input(i).shape() != shape) {
      return InvalidArgument("All input shapes must match: ", context.input(i).shape(), " vs. ", shape);
    }
  }
  if (shape.dim(0) != 1) return InvalidArgument("Size of first dimension must be 1 but is ", shape.dim(0));
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims[0] = rows;
  ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, out_shape));
  return DispatchBySize(out->dtype(), [&]<typename T>() {
    for (int i = 0; i < rows; ++i) {
      const Tensor& x = context.input(i);
      CopyElements(ElementData<T>(x), x.num_elements(), MutableElementData<T>(out) + i * x.num_elements());
    }
    return absl::OkStatus();
  });
}

// The memory of an element type that ParallelConcat may write from several threads.
absl::Status CheckParallelConcatType(DType dtype) {
  if (ElementSize(dtype) > 0 && dtype != kString && dtype != kResource && dtype != kVariant) return absl::OkStatus();
  return Unimplemented("the parallel concatenation of ", dtype, " across tasks");
}

class ParallelConcatStartKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const PartialShape shape, init.Attr<PartialShape>("shape"));
    if (!shape.fully_known()) return InvalidArgument("shape must be fully defined, got ", shape);
    ASSIGN_OR_RETURN(shape_, Shape::Make(Dims(shape.dims().begin(), shape.dims().end())));
    return CheckParallelConcatType(init.node().output_type(0));
  }
  // Without the memory of an earlier step, which its reader may still hold.
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(Tensor out, context.AllocateTemporary(context.output_type(0), shape_));
    ClearElements(&out);
    context.set_output(0, std::move(out));
    return absl::OkStatus();
  }

 private:
  Shape shape_;
};

// Writes into the tensor of _ParallelConcatStart, which is the only tensor that it may change. The reader of the tensor
// waits for all updates by control edges.
class ParallelConcatUpdateKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(row_, init.Attr<int64_t>("loc"));
    if (init.node().num_inputs() != 2 || init.node().input(0).node->op() != "_ParallelConcatStart") {
      return InvalidArgument("_ParallelConcatUpdate changes only the result of a _ParallelConcatStart");
    }
    return CheckParallelConcatType(init.node().output_type(0));
  }

  absl::Status Compute(KernelContext& context) override {
    Tensor value = context.input(0);
    const Tensor& update = context.input(1);
    if (value.rank() < 1) return InvalidArgument("value must be at least a vector, got shape ", value.shape());
    if (value.rank() != update.rank()) {
      return InvalidArgument("value and update shape doesn't match: ", value.shape(), " vs. ", update.shape());
    }
    for (int d = 1; d < value.rank(); ++d) {
      if (value.dim(d) == update.dim(d)) continue;
      return InvalidArgument("value and update shape doesn't match: ", value.shape(), " vs. ", update.shape());
    }
    if (update.dim(0) != 1) return InvalidArgument("update must have one row, got shape ", update.shape());
    if (row_ < 0 || row_ >= value.dim(0)) {
      return InvalidArgument("loc is ", row_, ", but value has ", value.dim(0), " rows");
    }
    RETURN_IF_ERROR(DispatchBySize(value.dtype(), [&]<typename T>() {
      const int64_t width = update.num_elements();
      CopyElements(ElementData<T>(update), width, MutableElementData<T>(&value) + row_ * width);
      return absl::OkStatus();
    }));
    context.set_output(0, std::move(value));
    return absl::OkStatus();
  }

 private:
  int64_t row_ = 0;
};

Op Inplace(const char* name, InplaceKernel::Form form) {
  return Op(name)
      .Input("x: T")
      .Input("i: int32")
      .Input("v: T")
      .Output("y: T")
      .Attr("T: type")
      .Shape(shapes::LikeInput0)
      .Kernel<InplaceKernel>(form)
      .NotDifferentiable();
}

const OpRegistration kInplaceOps[] = {
    Inplace("InplaceUpdate", InplaceKernel::kUpdate),
    Inplace("InplaceAdd", InplaceKernel::kAdd),
    Inplace("InplaceSub", InplaceKernel::kSub),
    Op("Empty")
        .Input("shape: int32")
        .Output("output: dtype")
        .Attr("dtype: type")
        .Attr("init: bool = false")
        .Stateful()
        .Shape(EmptyShape)
        .Kernel<EmptyKernel>()
        .NotDifferentiable(),
    Op("ParallelConcat")
        .Input("values: N * T")
        .Output("output: T")
        .Attr("N: int >= 1")
        .Attr("T: type")
        .Attr("shape: shape")
        .Shape(shapes::FromShapeAttr)
        .Compute(ParallelConcat),
    Op("_ParallelConcatStart")
        .Output("output: dtype")
        .Attr("shape: shape")
        .Attr("dtype: type")
        .Stateful()
        .Shape(shapes::FromShapeAttr)
        .Kernel<ParallelConcatStartKernel>()
        .NotDifferentiable(),
    Op("_ParallelConcatUpdate")
        .Input("value: T")
        .Input("update: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("loc: int")
        .Shape(shapes::LikeInput0)
        .Kernel<ParallelConcatUpdateKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
