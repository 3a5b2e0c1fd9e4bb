// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/nn/max_pool.h"

#include <limits>

namespace thalweg {

absl::Status PoolKernel::Init(const KernelInit& init) {
  ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), spatial_));
  if (attrs_.channels_first) {
    return InvalidArgument("Default ", init.node().op(), " only supports ", spatial_ == 2 ? "NHWC" : "NDHWC",
                           " on device type CPU");
  }
  return absl::OkStatus();
}

absl::StatusOr<WindowAttrs> PoolKernel::Attrs(KernelContext& context, int first) const {
  WindowAttrs attrs = attrs_;
  if (attrs.strides.empty()) {
    const auto read = [&](int i, std::vector<int64_t>* values) -> absl::Status {
      const Tensor& t = context.input(i);
      if (t.num_elements() != attrs.rank()) {
        return InvalidArgument("Sliding window ", i == first ? "ksize" : "stride", " field must specify ", attrs.rank(),
                               " dimensions");
      }
      values->assign(t.data<int32_t>(), t.data<int32_t>() + t.num_elements());
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(read(first, &attrs.ksize));
    RETURN_IF_ERROR(read(first + 1, &attrs.strides));
    RETURN_IF_ERROR(attrs.Check());
  }
  return attrs;
}

absl::StatusOr<Pool> PoolKernel::PoolOf(const WindowAttrs& attrs, const Shape& input) {
  if (input.rank() != attrs.rank()) return InvalidArgument("tensor_in must be ", attrs.rank(), "-dimensional");
  if (attrs.ksize[attrs.channel_dim()] != 1 || attrs.strides[attrs.channel_dim()] != 1) {
    return Unimplemented("MaxPoolingGrad is not yet supported on the depth dimension.");
  }
  Pool pool;
  pool.batch = input.dim(0);
  pool.channels = input.dim(attrs.channel_dim());
  ASSIGN_OR_RETURN(pool.windows, attrs.SlideKsize(input.dims()));
  for (int i = 0; i < attrs.spatial; ++i) {
    const SlidingWindow& w = pool.windows[3 - attrs.spatial + i];
    if (attrs.padding == "EXPLICIT" && std::max(w.pad_before, w.pad_after) >= w.window) {
      return InvalidArgument("padding ", std::max(w.pad_before, w.pad_after),
                             " needs to be smaller than the window size ", w.window);
    }
  }
  // Places are kept as int32.
  if (InputPositions(pool.windows) > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("image too large for pooling: ", input);
  }
  return pool;
}

absl::Status PoolKernel::CheckShape(const char* what, const Tensor& t, const Shape& expected) {
  if (t.shape() == expected) return absl::OkStatus();
  return InvalidArgument("Expected ", what, " shape to be ", expected, ", but got ", t.shape());
}

absl::Status InferMaxPool(ShapeContext& c, int spatial) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), spatial));
  if (attrs.padding != "EXPLICIT" && attrs.channels_first && c.input(0).has_rank() && c.input(0).rank() == 5 &&
      spatial == 2) {
    return absl::OkStatus();  // NCHW_VECT_C
  }
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, attrs.rank()));
  int64_t channels = input.dim(attrs.channel_dim());
  const int64_t window = attrs.ksize[attrs.channel_dim()];
  if (channels > 0 && window > 1) channels /= window;
  ASSIGN_OR_RETURN(
      PartialShape output,
      attrs.InferOutput(input, absl::MakeConstSpan(attrs.ksize).subspan(attrs.spatial_dim(0), spatial), channels));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, output);
  return absl::OkStatus();
}

std::vector<AttrArg> MaxPoolAttrs(const Node& node) {
  std::vector<AttrArg> attrs;
  for (const char* name :
       {"ksize", "strides", "padding", "explicit_paddings", "data_format", "include_batch_in_index"}) {
    const auto it = node.def().attr().find(name);
    if (it != node.def().attr().end()) attrs.emplace_back(name, it->second);
  }
  return attrs;
}

}  // namespace thalweg
