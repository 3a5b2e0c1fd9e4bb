// SPDX-License-Identifier: Apache-2.0
// Dilation2D: grayscale dilation of images by a filter [height, width,
// channels]:
//
//   output[b, y, x, c] = max over (i, j) of input[b, y * stride - pad + i * rate, ..., c] + filter[i, j, c]
//
// The gradients go to the first place of a window, and the element of the
// filter, where the maximum is.
#include <algorithm>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/window.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

absl::StatusOr<WindowAttrs> ReadAttrs(const tensorflow::NodeDef& def) {
  WindowAttrs attrs;
  ASSIGN_OR_RETURN(attrs.padding, GetAttr<std::string>(def, "padding"));
  ASSIGN_OR_RETURN(attrs.strides, GetAttr<std::vector<int64_t>>(def, "strides"));
  ASSIGN_OR_RETURN(attrs.dilations, GetAttr<std::vector<int64_t>>(def, "rates"));
  RETURN_IF_ERROR(attrs.Check());
  return attrs;
}

class DilationKernel : public Kernel {
 public:
  enum Form { kForward, kByInput, kByFilter };
  explicit DilationKernel(Form form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, ReadAttrs(init.node().def()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &filter = context.input(1);
    if (input.rank() != 4) return InvalidArgument("input must be 4-dimensional", input.shape());
    if (filter.rank() != 3) return InvalidArgument("filter must be 3-dimensional: ", filter.shape());
    if (input.dim(3) != filter.dim(2)) {
      return InvalidArgument("input and filter must have the same depth: ", input.dim(3), " vs ", filter.dim(2));
    }
    ASSIGN_OR_RETURN(const Windows w, attrs_.Slide(input.shape().dims(), filter.shape().dims().subspan(0, 2)));
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(input.dim(0), w, input.dim(3)));
    if (form_ != kForward && context.input(2).shape() != shape) {
      return InvalidArgument("out_backprop has incompatible size: ", context.input(2).shape(), ", expected ", shape);
    }
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, form_ == kForward   ? shape
                                                       : form_ == kByInput ? input.shape()
                                                                           : filter.shape()));
    if (form_ != kForward) ClearElements(out);
    return Dispatch(RealTypes(), input.dtype(), [&]<typename T>() {
      Run<T>(input, filter, w, shape, form_ == kForward ? nullptr : context.input(2).data<T>(), out->mutable_data<T>());
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  void Run(const Tensor& input, const Tensor& filter, const Windows& w, const Shape& shape, const T* dy, T* out) const {
    const int64_t channels = shape.dim(3), positions = OutputPositions(w);
    for (int64_t k = 0; k < shape.num_elements(); ++k) {
      const int64_t c = k % channels, o = k / channels % positions,
                    image = k / channels / positions * InputPositions(w);
      T best = std::numeric_limits<T>::lowest();
      int64_t from = -1, weight = 0;
      for (int64_t i = 0; i < w[1].window; ++i) {
        const int64_t y = w[1].Start(o / w[2].output) + i * w[1].dilation;
        if (y < 0 || y >= w[1].input) continue;
        for (int64_t j = 0; j < w[2].window; ++j) {
          const int64_t x = w[2].Start(o % w[2].output) + j * w[2].dilation;
          if (x < 0 || x >= w[2].input) continue;
          const int64_t place = (image + y * w[2].input + x) * channels + c, f = (i * w[2].window + j) * channels + c;
          const T value = SumOf(input.data<T>()[place], filter.data<T>()[f]);
          if (from >= 0 && !(value > best)) continue;
          best = value;
          from = place;
          weight = f;
        }
      }
      if (form_ == kForward) {
        out[k] = best;
      } else if (from >= 0) {
        T& to = out[form_ == kByInput ? from : weight];
        to = SumOf(to, dy[k]);
      }
    }
  }

  const Form form_;
  WindowAttrs attrs_;
};

absl::Status DilationShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadAttrs(c.node().def()));
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, 3));
  ASSIGN_OR_RETURN(PartialShape output,
                   attrs.InferOutput(input, filter.dims().subspan(0, 2), std::max(input.dim(3), filter.dim(2))));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}
template <int i>
absl::Status LikeInput(ShapeContext& c) {
  c.set_output(0, c.input(i));
  return absl::OkStatus();
}

absl::Status DilationGradient(GradientContext& g) {
  std::vector<AttrArg> attrs;
  for (const char* name : {"strides", "rates", "padding"}) attrs.emplace_back(name, g.node()->def().attr().at(name));
  const Scope& s = g.scope();
  g.set_dx(0, Output(s.Add("Dilation2DBackpropInput", {g.input(0), g.input(1), g.dy()}, attrs)));
  g.set_dx(1, Output(s.Add("Dilation2DBackpropFilter", {g.input(0), g.input(1), g.dy()}, attrs)));
  return absl::OkStatus();
}

Op Dilation(const char* name, const char* output) {
  Op op(name);
  op.Input("input: T").Input("filter: T");
  if (absl::string_view(output) != "output") op.Input("out_backprop: T");
  return op.Output(absl::StrCat(output, ": T"))
      .Attr("T: realnumbertype")
      .Attr("strides: list(int) >= 4")
      .Attr("rates: list(int) >= 4")
      .Attr("padding: {'SAME', 'VALID'}");
}

const OpRegistration kDilation2dOps[] = {
    Dilation("Dilation2D", "output")
        .Shape(DilationShape)
        .Kernel<DilationKernel>(DilationKernel::kForward)
        .Gradient(DilationGradient),
    Dilation("Dilation2DBackpropInput", "in_backprop")
        .Shape(LikeInput<0>)
        .Kernel<DilationKernel>(DilationKernel::kByInput),
    Dilation("Dilation2DBackpropFilter", "filter_backprop")
        .Shape(LikeInput<1>)
        .Kernel<DilationKernel>(DilationKernel::kByFilter),
};

}  // namespace
}  // namespace thalweg
