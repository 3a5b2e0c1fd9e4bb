// SPDX-License-Identifier: Apache-2.0
// ExtractImagePatches and ExtractVolumePatches: what a window sees at each of
// its positions, as the channels of that position; zeros outside.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/window.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// The attributes, under the names that these ops have.
absl::StatusOr<WindowAttrs> ReadAttrs(const tensorflow::NodeDef& def, int spatial) {
  WindowAttrs attrs;
  attrs.spatial = spatial;
  ASSIGN_OR_RETURN(attrs.padding, GetAttr<std::string>(def, "padding"));
  ASSIGN_OR_RETURN(attrs.ksize, GetAttr<std::vector<int64_t>>(def, "ksizes"));
  ASSIGN_OR_RETURN(attrs.strides, GetAttr<std::vector<int64_t>>(def, "strides"));
  if (HasAttr(def, "rates")) {
    ASSIGN_OR_RETURN(attrs.dilations, GetAttr<std::vector<int64_t>>(def, "rates"));
  }
  RETURN_IF_ERROR(attrs.Check());
  if (attrs.ksize[attrs.channel_dim()] != 1 || attrs.strides[attrs.channel_dim()] != 1) {
    return Unimplemented("Only support ksizes, strides and rates across space.");
  }
  return attrs;
}

class ExtractPatchesKernel : public Kernel {
 public:
  explicit ExtractPatchesKernel(int spatial) : spatial_(spatial) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, ReadAttrs(init.node().def(), spatial_));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (x.rank() != attrs_.rank()) return InvalidArgument("input must be ", attrs_.rank(), "-dimensional", x.shape());
    ASSIGN_OR_RETURN(const Windows w, attrs_.SlideKsize(x.shape().dims()));
    const int64_t channels = x.dim(x.rank() - 1), positions = OutputPositions(w), window = WindowPositions(w);
    int64_t depth = 0;
    if (__builtin_mul_overflow(window, channels, &depth)) return InvalidArgument("patches are too large");
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(x.dim(0), w, depth));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return DispatchBySize(x.dtype(), [&]<typename T>() {
      const T* const from = ElementData<T>(x);
      T* const to = MutableElementData<T>(out);
      context.ParallelFor(x.dim(0) * positions, 0.5 * static_cast<double>(depth) + 10, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const int64_t o = p % positions, image = p / positions * InputPositions(w);
          const int64_t z0 = w[0].Start(o / (w[1].output * w[2].output)),
                        y0 = w[1].Start(o / w[2].output % w[1].output);
          const int64_t x0 = w[2].Start(o % w[2].output);
          T* row = to + p * depth;
          for (int64_t k = 0; k < window; ++k, row += channels) {
            const int64_t z = z0 + k / (w[1].window * w[2].window) * w[0].dilation;
            const int64_t y = y0 + k / w[2].window % w[1].window * w[1].dilation;
            const int64_t c = x0 + k % w[2].window * w[2].dilation;
            if (z < 0 || z >= w[0].input || y < 0 || y >= w[1].input || c < 0 || c >= w[2].input) {
              std::fill_n(row, channels, T());
            } else {
              CopyElements(from + (image + (z * w[1].input + y) * w[2].input + c) * channels, channels, row);
            }
          }
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  const int spatial_;
  WindowAttrs attrs_;
};

template <int spatial>
absl::Status PatchesShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadAttrs(c.node().def(), spatial));
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, attrs.rank()));
  int64_t depth = input.dim(attrs.channel_dim());
  const auto sizes = absl::MakeConstSpan(attrs.ksize).subspan(1, spatial);
  for (const int64_t size : sizes) {
    if (depth >= 0 && __builtin_mul_overflow(depth, size, &depth)) return InvalidArgument("patches are too large");
  }
  ASSIGN_OR_RETURN(PartialShape output, attrs.InferOutput(input, sizes, depth));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

const OpRegistration kExtractPatchesOps[] = {
    Op("ExtractImagePatches")
        .Input("images: T")
        .Output("patches: T")
        .Attr("ksizes: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr("rates: list(int) >= 4")
        .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
              "complex128, bool}")
        .Attr("padding: {'SAME', 'VALID'}")
        .Shape(PatchesShape<2>)
        .Kernel<ExtractPatchesKernel>(2),
    Op("ExtractVolumePatches")
        .Input("input: T")
        .Output("patches: T")
        .Attr("ksizes: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr("T: realnumbertype")
        .Attr("padding: {'SAME', 'VALID'}")
        .Shape(PatchesShape<3>)
        .Kernel<ExtractPatchesKernel>(3),
};

}  // namespace
}  // namespace thalweg
