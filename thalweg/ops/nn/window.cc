// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/nn/window.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_join.h"

namespace thalweg {
namespace {

// Attributes are int32 in TensorFlow; products of two of them do not overflow.
absl::Status CheckRange(absl::string_view name, absl::Span<const int64_t> values) {
  for (const int64_t value : values) {
    if (value > std::numeric_limits<int32_t>::max() || value < std::numeric_limits<int32_t>::min()) {
      return InvalidArgument("Attr ", name, " has value ", value, " out of range for an int32");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCount(absl::string_view name, absl::Span<const int64_t> values, int rank) {
  RETURN_IF_ERROR(CheckRange(name, values));
  if (static_cast<int>(values.size()) == rank) return absl::OkStatus();
  return InvalidArgument("Sliding window ", name, " field must specify ", rank, " dimensions");
}

}  // namespace

// SAME: one output per stride, with as much padding as that needs, the odd one at the end. VALID: only whole windows.
absl::Status SlidingWindow::Slide(absl::string_view padding) {
  if (stride <= 0) return InvalidArgument("Stride must be > 0, but got ", stride);
  if (dilation < 1) return InvalidArgument("Dilation rate must be >= 1, but got ", dilation);
  const int64_t effective = (window - 1) * dilation + 1;
  if (padding == "SAME") {
    output = (input + stride - 1) / stride;
    const int64_t needed = std::max<int64_t>(0, (output - 1) * stride + effective - input);
    pad_before = needed / 2;
    pad_after = needed - pad_before;
  } else {
    if (padding == "VALID") pad_before = pad_after = 0;
    output = (input + pad_before + pad_after - effective + stride) / stride;
  }
  if (output >= 0) return absl::OkStatus();
  return InvalidArgument("Computed output size would be negative: ", output, " [input_size: ", input,
                         ", effective_filter_size: ", effective, ", stride: ", stride, "]");
}

absl::StatusOr<WindowAttrs> WindowAttrs::Read(const tensorflow::NodeDef& def, int spatial) {
  WindowAttrs attrs;
  attrs.spatial = spatial;
  if (HasAttr(def, "data_format")) {
    ASSIGN_OR_RETURN(const std::string format, GetAttr<std::string>(def, "data_format"));
    attrs.channels_first = format == "NCHW" || format == "NCDHW" || format == "NCHW_VECT_C";
  }
  ASSIGN_OR_RETURN(attrs.padding, GetAttr<std::string>(def, "padding"));
  const auto read = [&](absl::string_view name, std::vector<int64_t>* values) -> absl::Status {
    if (!HasAttr(def, name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(*values, GetAttr<std::vector<int64_t>>(def, name));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read("explicit_paddings", &attrs.explicit_paddings));
  RETURN_IF_ERROR(read("ksize", &attrs.ksize));
  RETURN_IF_ERROR(read("strides", &attrs.strides));
  RETURN_IF_ERROR(read("dilations", &attrs.dilations));
  if (HasAttr(def, "strides")) RETURN_IF_ERROR(attrs.Check());
  return attrs;
}

absl::Status WindowAttrs::Check() const {
  RETURN_IF_ERROR(CheckCount("strides", strides, rank()));
  if (strides[0] != 1) {
    return Unimplemented(ksize.empty() ? "Current implementation does not yet support strides in the batch and depth "
                                         "dimensions."
                                       : "Pooling is not yet supported on the batch dimension.");
  }
  for (int i = 0; i < spatial; ++i) {
    if (strides[spatial_dim(i)] <= 0) return InvalidArgument("Row and column strides should be larger than 0.");
  }
  if (!ksize.empty()) {
    RETURN_IF_ERROR(CheckCount("ksize", ksize, rank()));
    if (std::any_of(ksize.begin(), ksize.end(), [](int64_t k) { return k <= 0; })) {
      return InvalidArgument("Sliding window ksize must be positive. The specified or inferred ksize is: ",
                             absl::StrJoin(ksize, ","));
    }
    if (ksize[0] != 1) return Unimplemented("Pooling is not yet supported on the batch dimension.");
  } else if (strides[channel_dim()] != 1) {
    return Unimplemented("Current implementation does not yet support strides in the batch and depth dimensions.");
  }
  if (!dilations.empty()) {
    RETURN_IF_ERROR(CheckCount("dilations", dilations, rank()));
    if (dilations[0] != 1 || dilations[channel_dim()] != 1) {
      return Unimplemented("Current implementation does not yet support dilations in the batch and depth dimensions.");
    }
    for (int i = 0; i < spatial; ++i) {
      if (dilations[spatial_dim(i)] <= 0) return InvalidArgument("Dilated rates should be larger than 0.");
    }
  }
  if (padding != "EXPLICIT") {
    if (explicit_paddings.empty()) return absl::OkStatus();
    return InvalidArgument("explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT");
  }
  RETURN_IF_ERROR(CheckRange("explicit_paddings", explicit_paddings));
  if (static_cast<int>(explicit_paddings.size()) != 2 * rank()) {
    return InvalidArgument("explicit_paddings attribute must contain ", 2 * rank(),
                           " values, but got: ", explicit_paddings.size());
  }
  if (std::any_of(explicit_paddings.begin(), explicit_paddings.end(), [](int64_t p) { return p < 0; })) {
    return InvalidArgument("All elements of explicit_paddings must be nonnegative");
  }
  for (const int dim : {0, channel_dim()}) {
    if (explicit_paddings[2 * dim] != 0 || explicit_paddings[2 * dim + 1] != 0) {
      return InvalidArgument("Nonzero explicit padding in the batch or depth dimensions is not supported");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SlidingWindow> WindowAttrs::SlideOne(int i, int64_t input, int64_t size) const {
  const int dim = spatial_dim(i);
  SlidingWindow w{.input = input, .window = size, .stride = strides[dim]};
  if (!dilations.empty()) w.dilation = dilations[dim];
  if (!explicit_paddings.empty()) {
    w.pad_before = explicit_paddings[2 * dim];
    w.pad_after = explicit_paddings[2 * dim + 1];
  }
  if (std::max(input, size) > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("filter or input too large: ", size, " over ", input);
  }
  RETURN_IF_ERROR(w.Slide(padding));
  return w;
}

absl::StatusOr<Windows> WindowAttrs::Slide(absl::Span<const int64_t> input, absl::Span<const int64_t> sizes) const {
  Windows windows;
  for (int i = 0; i < spatial; ++i) {
    ASSIGN_OR_RETURN(windows[3 - spatial + i], SlideOne(i, input[spatial_dim(i)], sizes[i]));
  }
  return windows;
}

absl::StatusOr<Windows> WindowAttrs::SlideKsize(absl::Span<const int64_t> input) const {
  return Slide(input, absl::MakeConstSpan(ksize).subspan(spatial_dim(0), spatial));
}

absl::StatusOr<Shape> WindowAttrs::OutputShape(int64_t batch, const Windows& windows, int64_t channels) const {
  Dims dims(rank());
  dims[0] = batch;
  dims[channel_dim()] = channels;
  for (int i = 0; i < spatial; ++i) dims[spatial_dim(i)] = windows[3 - spatial + i].output;
  return Shape::Make(dims);
}

absl::StatusOr<PartialShape> WindowAttrs::InferOutput(const PartialShape& input, absl::Span<const int64_t> sizes,
                                                      int64_t channels) const {
  Dims dims(rank(), PartialShape::kUnknown);
  dims[0] = input.dim(0);
  dims[channel_dim()] = channels;
  for (int i = 0; i < spatial; ++i) {
    const int dim = spatial_dim(i);
    if (input.dim(dim) < 0 || (sizes[i] < 0 && padding != "SAME")) continue;
    ASSIGN_OR_RETURN(const SlidingWindow window, SlideOne(i, input.dim(dim), std::max<int64_t>(sizes[i], 0)));
    dims[dim] = window.output;
  }
  return PartialShape(std::move(dims));
}

}  // namespace thalweg
