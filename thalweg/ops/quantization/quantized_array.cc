// SPDX-License-Identifier: Apache-2.0
// QuantizedConcat, QuantizedConcatV2: joins tensors after giving them one range.
// QuantizedReshape: the same elements and range under another shape.
// QuantizedInstanceNorm: each channel of each image with mean 0 and deviation 1.
#include <algorithm>
#include <cmath>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/quantization/quantized_range.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Inputs of a QuantizedConcat of n tensors.
struct ConcatLayout {
  ConcatLayout(bool axis_first, int num_inputs)
      : n((num_inputs - 1) / 3), axis(axis_first ? 0 : n), first(axis_first ? 1 : 0), mins(n + 1), maxes(2 * n + 1) {}
  int n, axis, first, mins, maxes;
};

// The range that all have room in; around 0 if the type is signed.
template <typename T>
absl::StatusOr<QuantizedRange> JointRange(KernelContext& c, const ConcatLayout& layout,
                                          std::vector<QuantizedRange>* ranges) {
  QuantizedRange joint{0, std::numeric_limits<float>::lowest()};
  for (int i = 0; i < layout.n; ++i) {
    const Tensor &min = c.input(layout.mins + i), &max = c.input(layout.maxes + i);
    if (min.num_elements() != 1)
      return InvalidArgument("QuantizedConcatOp : Expected minimum input ", i, " to be a scalar, got ", min.shape());
    if (max.num_elements() != 1)
      return InvalidArgument("QuantizedConcatOp : Expected maximum input ", i, " to be a scalar, got ", max.shape());
    const QuantizedRange range{min.scalar<float>(), max.scalar<float>()};
    if (!std::isfinite(range.min) || !std::isfinite(range.max)) {
      return InvalidArgument("a quantized range must be finite, got [", range.min, ", ", range.max, "]");
    }
    joint.min = std::min(joint.min, range.min);
    joint.max = std::max(joint.max, range.max);
    ranges->push_back(range);
  }
  if (std::is_signed_v<T>) {
    const float most = std::max(std::abs(joint.min), std::abs(joint.max));
    joint = {-most, most};
  }
  return joint;
}

class QuantizedConcatKernel final : public Kernel {
 public:
  explicit QuantizedConcatKernel(bool axis_first) : axis_first_(axis_first) {}

  absl::Status Compute(KernelContext& c) override {
    const ConcatLayout layout(axis_first_, c.num_inputs());
    const Tensor& axis_input = c.input(layout.axis);
    if (axis_input.rank() != 0) {
      return InvalidArgument("QuantizedConcatOp : Expected concat_dim to be a scalar, got shape ", axis_input.shape());
    }
    const Shape first = c.input(layout.first).shape();
    if (first.rank() == 0) return InvalidArgument("QuantizedConcatOp : Can't concatenate scalars");
    const int64_t given = ReadInteger(axis_input);
    if (given < -first.rank() || given >= first.rank()) {
      return InvalidArgument("QuantizedConcatOp : Expected concatenating dimensions in the range [", -first.rank(),
                             ", ", first.rank(), "), but got ", given);
    }
    const int axis = static_cast<int>(given < 0 ? given + first.rank() : given);
    Dims dims(first.dims().begin(), first.dims().end());
    dims[axis] = 0;
    for (int i = 0; i < layout.n; ++i) {
      const Shape& shape = c.input(layout.first + i).shape();
      Dims other(shape.dims().begin(), shape.dims().end());
      if (shape.rank() == first.rank()) other[axis] = first.dim(axis);
      if (absl::MakeConstSpan(other) != first.dims()) {
        return InvalidArgument("QuantizedConcatOp : Dimensions of inputs should match: shape[0] = ", first,
                               " vs. shape[", i, "] = ", shape);
      }
      dims[axis] += shape.dim(axis);
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    return Dispatch(QuantizedStorage(), StorageType(out->dtype()), [&]<typename T>() -> absl::Status {
      std::vector<QuantizedRange> ranges;
      ASSIGN_OR_RETURN(const QuantizedRange joint, JointRange<T>(c, layout, &ranges));
      RETURN_IF_ERROR(SetRange(c, 1, joint));
      const int64_t rows = shape.Product(0, axis), inner = shape.Product(axis + 1, shape.rank());
      int64_t begin = 0;
      for (int i = 0; i < layout.n; ++i) {
        const Tensor& x = c.input(layout.first + i);
        const int64_t width = x.dim(axis) * inner;
        const FromQuantizedFloats<T> floats(ranges[i]);
        const ToQuantizedFloats<T> quantized(joint);
        for (int64_t r = 0; r < rows; ++r) {
          const T* const from = Integers<T>(x) + r * width;
          T* const to = MutableIntegers<T>(out) + r * dims[axis] * inner + begin;
          for (int64_t k = 0; k < width; ++k) to[k] = ranges[i] == joint ? from[k] : quantized(floats(from[k]));
        }
        begin += width;
      }
      return absl::OkStatus();
    });
  }

 private:
  const bool axis_first_;
};

absl::Status ComputeReshape(KernelContext& c) {
  ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 2));
  const Tensor& sizes = c.input(1);
  if (sizes.rank() != 1) return InvalidArgument("sizes input must be 1-D, not ", sizes.shape());
  Dims dims;
  int64_t known = 1;
  int unknown = -1;
  for (int64_t i = 0; i < sizes.num_elements(); ++i) {
    const int64_t size = sizes.dtype() == kInt32 ? sizes.data<int32_t>()[i] : sizes.data<int64_t>()[i];
    if (size == -1 && unknown >= 0)
      return InvalidArgument("Only one input size may be -1, not both ", unknown, " and ", i);
    if (size < -1) return InvalidArgument("Size ", i, " must be non-negative, not ", size);
    if (size == -1) unknown = static_cast<int>(i);
    if (size >= 0 && __builtin_mul_overflow(known, size, &known))
      return InvalidArgument("the shape has too many elements");
    dims.push_back(size);
  }
  const int64_t count = c.input(0).num_elements();
  if (unknown >= 0) {
    if (known == 0 || count % known != 0) {
      return InvalidArgument("Input to reshape is a tensor with ", count,
                             " values, but the requested shape requires a multiple of ", known);
    }
    dims[unknown] = count / known;
  }
  ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  if (shape.num_elements() != count) {
    return InvalidArgument("Input to reshape is a tensor with ", count, " values, but the requested shape has ",
                           shape.num_elements());
  }
  c.set_output(0, c.TakeInput(0).WithShape(std::move(shape)));
  return SetRange(c, 1, range);
}

class InstanceNormKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(given_, init.Attr<bool>("output_range_given"));
    ASSIGN_OR_RETURN(range_.min, init.Attr<float>("given_y_min"));
    ASSIGN_OR_RETURN(range_.max, init.Attr<float>("given_y_max"));
    ASSIGN_OR_RETURN(epsilon_, init.Attr<float>("variance_epsilon"));
    ASSIGN_OR_RETURN(separation_, init.Attr<float>("min_separation"));
    if (given_ && !(range_.min < range_.max)) {
      return InvalidArgument("given_y_min must be less than given_y_max : ", range_.min, " >= ", range_.max);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 1));
    if (!(range.min < range.max)) {
      return InvalidArgument("input_min must be less than input_max : ", range.min, " >= ", range.max);
    }
    if (x.rank() != 4) return InvalidArgument("input must be 4-D, got ", x.shape());
    if (StorageType(x.dtype()) != kUint8) return Unimplemented("no kernel for type ", x.dtype(), "; use quint8");
    ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
    ASSIGN_OR_RETURN(Tensor normal, c.AllocateTemporary(kFloat, x.shape()));
    Normalize(x, range, normal.mutable_data<float>());
    QuantizedRange out = range_;
    if (!given_) {
      const auto [low, high] = std::minmax_element(normal.data<float>(), normal.data<float>() + normal.num_elements());
      out = normal.num_elements() == 0 ? QuantizedRange{0, separation_} : QuantizedRange{*low, *high};
      if (out.max - out.min < separation_) out.max = out.min + separation_;
    }
    const ToQuantizedFloats<uint8_t> quantized(out);
    for (int64_t i = 0; i < x.num_elements(); ++i) MutableIntegers<uint8_t>(y)[i] = quantized(normal.data<float>()[i]);
    return SetRange(c, 1, out);
  }

 private:
  void Normalize(const Tensor& x, const QuantizedRange& range, float* to) const {
    const FromQuantizedFloats<uint8_t> floats(range);
    const int64_t channels = x.dim(3), pixels = x.dim(1) * x.dim(2), image = pixels * channels;
    for (int64_t i = 0; i < x.dim(0) * channels && pixels > 0; ++i) {
      const uint8_t* const from = Integers<uint8_t>(x) + i / channels * image + i % channels;
      float* const out = to + i / channels * image + i % channels;
      double sum = 0, squares = 0;
      for (int64_t p = 0; p < pixels; ++p) sum += floats(from[p * channels]);
      const double mean = sum / static_cast<double>(pixels);
      for (int64_t p = 0; p < pixels; ++p)
        squares += (floats(from[p * channels]) - mean) * (floats(from[p * channels]) - mean);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(pixels) + epsilon_);
      for (int64_t p = 0; p < pixels; ++p)
        out[p * channels] = static_cast<float>((floats(from[p * channels]) - mean) * scale);
    }
  }

  bool given_ = false;
  QuantizedRange range_;
  float epsilon_ = 1e-5f, separation_ = 1e-3f;
};

absl::Status ConcatShape(ShapeContext& c) {
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  const ConcatLayout layout(c.node().op() == "QuantizedConcat", c.num_inputs());
  if (c.input(layout.first).has_rank()) c.set_output(0, PartialShape::OfRank(c.input(layout.first).rank()));
  return absl::OkStatus();
}

absl::Status ReshapeShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(2));
  RETURN_IF_ERROR(c.RequireScalar(3));
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(1));
  c.set_output(0, std::move(shape));
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status InstanceNormShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.WithRank(0, 4));
  RETURN_IF_ERROR(c.RequireScalar(1));
  RETURN_IF_ERROR(c.RequireScalar(2));
  c.set_output(0, std::move(shape));
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

Op Concat(Op op, bool axis_first) {
  return op.Input("input_mins: N * float")
      .Input("input_maxes: N * float")
      .Output("output: T")
      .Output("output_min: float")
      .Output("output_max: float")
      .Attr("N: int >= 2")
      .Attr("T: type")
      .Shape(ConcatShape)
      .Kernel<QuantizedConcatKernel>(axis_first)
      .NotDifferentiable();
}

const OpRegistration kQuantizedArrayOps[] = {
    Concat(Op("QuantizedConcat").Input("concat_dim: int32").Input("values: N * T"), true),
    Concat(Op("QuantizedConcatV2").Input("values: N * T").Input("axis: Tidx"), false)
        .Attr("Tidx: {int32, int64} = DT_INT32"),
    Op("QuantizedReshape")
        .Input("tensor: T")
        .Input("shape: Tshape")
        .Input("input_min: float")
        .Input("input_max: float")
        .Output("output: T")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr("T: type")
        .Attr("Tshape: {int32, int64} = DT_INT32")
        .Shape(ReshapeShape)
        .Compute(ComputeReshape)
        .NotDifferentiable(),
    Op("QuantizedInstanceNorm")
        .Input("x: T")
        .Input("x_min: float")
        .Input("x_max: float")
        .Output("y: T")
        .Output("y_min: float")
        .Output("y_max: float")
        .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
        .Attr("output_range_given: bool = false")
        .Attr("given_y_min: float = 0")
        .Attr("given_y_max: float = 0")
        .Attr("variance_epsilon: float = 1e-05")
        .Attr("min_separation: float = 0.001")
        .Shape(InstanceNormShape)
        .Kernel<InstanceNormKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
