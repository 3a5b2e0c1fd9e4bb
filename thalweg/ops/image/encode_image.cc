// SPDX-License-Identifier: Apache-2.0
// EncodeJpeg and EncodePng: [height, width, channels] to the bytes of a file;
// PNG also for several images at once, in the dimensions before these.
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/image_codec.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The largest side that JPEG supports.
constexpr int64_t kMaxJpegSide = 65500;

absl::Status WriteJpeg(KernelContext& c, const JpegEncodeOptions& options) {
  const Tensor& image = c.input(0);
  if (image.num_elements() >= std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("Cannot encode images with >= max int32 elements");
  }
  if (image.dim(0) == 0 || image.dim(1) == 0 || image.dim(0) > kMaxJpegSide || image.dim(1) > kMaxJpegSide) {
    return Internal("JPEG encoding failed: an image of ", image.shape());
  }
  if (options.quality < 0 || options.quality > 100) {
    return InvalidArgument("quality must be in [0,100], got ", options.quality);
  }
  const ImageView view{image.raw(), image.dim(0), image.dim(1), static_cast<int>(image.dim(2)), 8};
  ASSIGN_OR_RETURN(std::string bytes, EncodeJpeg(view, options));
  c.set_output(0, Tensor::Scalar<std::string>(std::move(bytes)));
  return absl::OkStatus();
}

class EncodeJpegKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(format_, init.Attr<std::string>("format"));
    ASSIGN_OR_RETURN(const int64_t quality, init.Attr<int64_t>("quality"));
    if (quality < 0 || quality > 100) return InvalidArgument("quality must be in [0,100], got ", quality);
    options_.quality = static_cast<int>(quality);
    ASSIGN_OR_RETURN(options_.progressive, init.Attr<bool>("progressive"));
    ASSIGN_OR_RETURN(options_.optimize_size, init.Attr<bool>("optimize_size"));
    ASSIGN_OR_RETURN(options_.chroma_downsampling, init.Attr<bool>("chroma_downsampling"));
    ASSIGN_OR_RETURN(const std::string unit, init.Attr<std::string>("density_unit"));
    options_.density_in_cm = unit == "cm";
    ASSIGN_OR_RETURN(const int64_t x_density, init.Attr<int64_t>("x_density"));
    ASSIGN_OR_RETURN(const int64_t y_density, init.Attr<int64_t>("y_density"));
    options_.x_density = static_cast<int>(x_density);
    options_.y_density = static_cast<int>(y_density);
    ASSIGN_OR_RETURN(options_.xmp_metadata, init.Attr<std::string>("xmp_metadata"));
    if (options_.xmp_metadata.size() > 65000) return InvalidArgument("xmp_metadata is too long");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& image = c.input(0);
    if (image.rank() != 3) return InvalidArgument("image must be 3-dimensional", image.shape());
    if (format_.empty() && image.dim(2) != 1 && image.dim(2) != 3) {
      return InvalidArgument("image must have 1 or 3 channels, got ", image.shape());
    }
    const int64_t expected = format_ == "grayscale" ? 1 : 3;
    if (!format_.empty() && image.dim(2) != expected) {
      return InvalidArgument("format ", format_, " expects ", expected, " channels, got ", image.shape());
    }
    return WriteJpeg(c, options_);
  }

 private:
  std::string format_;
  JpegEncodeOptions options_;
};

absl::Status ComputeVariableQuality(KernelContext& c) {
  const Tensor& image = c.input(0);
  if (image.rank() != 3) return InvalidArgument("image must be 3-dimensional", image.shape());
  if (c.input(1).rank() != 0) return InvalidArgument("quality must be scalar: ", c.input(1).shape());
  if (image.dim(2) != 1 && image.dim(2) != 3) {
    return InvalidArgument("image must have 1 or 3 channels, got ", image.shape());
  }
  return WriteJpeg(c, {.quality = c.input(1).scalar<int32_t>()});
}

class EncodePngKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(compression_, init.Attr<int64_t>("compression"));
    if (compression_ < -1 || compression_ > 9) {
      return InvalidArgument("compression should be in [-1,9], got ", compression_);
    }
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    const int batch_rank = images.rank() - 3;
    if (batch_rank < 0) return InvalidArgument("images must be at least rank 3", images.shape());
    if (images.num_elements() >= std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("image cannot have >= int32 max elements");
    }
    const int64_t height = images.dim(batch_rank), width = images.dim(batch_rank + 1);
    const int64_t channels = images.dim(batch_rank + 2);
    if (channels < 1 || channels > 4) {
      return InvalidArgument("image must have 1, 2, 3, or 4 channels, got ", channels);
    }
    if (width >= std::numeric_limits<int32_t>::max() / 2 / channels) return InvalidArgument("image too wide to encode");
    Shape shape(images.shape().dims().subspan(0, batch_rank));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    const int64_t bytes = height * width * channels * static_cast<int64_t>(ElementSize(images.dtype()));
    std::vector<absl::Status> statuses(shape.num_elements());
    c.ParallelFor(shape.num_elements(), 50.0 * static_cast<double>(bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const ImageView view{static_cast<const char*>(images.raw()) + i * bytes, height, width,
                             static_cast<int>(channels), images.dtype() == kUint16 ? 16 : 8};
        absl::StatusOr<std::string> png = EncodePng(view, static_cast<int>(compression_));
        statuses[i] = png.status();
        if (png.ok()) out->mutable_data<std::string>()[i] = *std::move(png);
      }
    });
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

 private:
  int64_t compression_ = -1;
};

absl::Status JpegShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 3).status());
  return shapes::Scalar(c);
}

absl::Status PngShape(ShapeContext& c) {
  const PartialShape& images = c.input(0);
  if (!images.has_rank()) return absl::OkStatus();
  if (images.rank() < 3) return InvalidArgument("images must be at least rank 3", images);
  c.set_output(0, SubShape(images, 0, images.rank() - 3));
  return absl::OkStatus();
}

const OpRegistration kEncodeImageOps[] = {
    Op("EncodeJpeg")
        .Input("image: uint8")
        .Output("contents: string")
        .Attr("format: {'', 'grayscale', 'rgb'} = ''")
        .Attr("quality: int = 95")
        .Attr("progressive: bool = false")
        .Attr("optimize_size: bool = false")
        .Attr("chroma_downsampling: bool = true")
        .Attr("density_unit: {'in', 'cm'} = 'in'")
        .Attr("x_density: int = 300")
        .Attr("y_density: int = 300")
        .Attr("xmp_metadata: string = ''")
        .Shape(JpegShape)
        .Kernel<EncodeJpegKernel>()
        .NotDifferentiable(),
    Op("EncodeJpegVariableQuality")
        .Input("images: uint8")
        .Input("quality: int32")
        .Output("contents: string")
        .Shape(JpegShape)
        .Compute(ComputeVariableQuality)
        .NotDifferentiable(),
    Op("EncodePng")
        .Input("image: T")
        .Output("contents: string")
        .Attr("compression: int = -1")
        .Attr("T: {uint8, uint16} = DT_UINT8")
        .Shape(PngShape)
        .Kernel<EncodePngKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output EncodeJpeg(const Scope& s, Output image, int quality) {
  return s.Add("EncodeJpeg", {image}, {{"quality", quality}});
}
Output EncodePng(const Scope& s, Output image, int compression) {
  return s.Add("EncodePng", {image}, {{"compression", compression}});
}

}  // namespace thalweg
