// SPDX-License-Identifier: Apache-2.0
// DecodeJpeg, DecodePng, DecodeGif, DecodeBmp and DecodeImage: the bytes of a
// file to [height, width, channels]; DecodeGif, and DecodeImage of an animation,
// to [frames, height, width, channels]. All but DecodeBmp know a file by its
// first bytes, and take each other's. DecodeAndCropJpeg decodes only a part.
// ExtractJpegShape reads only the head.
#include "absl/strings/match.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/gif.h"
#include "thalweg/ops/image/image_codec.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

enum class Format { kJpeg, kPng, kGif, kBmp, kUnknown };

Format FormatOf(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return Format::kJpeg;
  if (absl::StartsWith(bytes, "\211PNG\r\n\032\n")) return Format::kPng;
  if (absl::StartsWith(bytes, "GIF8")) return Format::kGif;
  if (absl::StartsWith(bytes, "BM")) return Format::kBmp;
  return Format::kUnknown;
}

enum class Which { kJpeg, kCropJpeg, kPng, kGif, kBmp, kImage };

class DecodeImageKernel : public Kernel {
 public:
  explicit DecodeImageKernel(Which which) : which_(which) {}

  absl::Status Init(const KernelInit& init) override {
    if (which_ == Which::kGif) {
      jpeg_.channels = channels_ = 3;
      return absl::OkStatus();
    }
    if (which_ == Which::kImage) {
      ASSIGN_OR_RETURN(expand_animations_, init.Attr<bool>("expand_animations"));
    }
    ASSIGN_OR_RETURN(const int64_t channels, init.Attr<int64_t>("channels"));
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
      return InvalidArgument("`channels` must be 0, 1, 3 or 4 but got ", channels);
    }
    jpeg_.channels = channels_ = static_cast<int>(channels);
    if (which_ != Which::kJpeg && which_ != Which::kCropJpeg) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t ratio, init.Attr<int64_t>("ratio"));
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
      return InvalidArgument("ratio must be 1, 2, 4, or 8, got ", ratio);
    }
    jpeg_.ratio = static_cast<int>(ratio);
    ASSIGN_OR_RETURN(jpeg_.fancy_upscaling, init.Attr<bool>("fancy_upscaling"));
    ASSIGN_OR_RETURN(jpeg_.try_recover_truncated, init.Attr<bool>("try_recover_truncated"));
    ASSIGN_OR_RETURN(jpeg_.acceptable_fraction, init.Attr<float>("acceptable_fraction"));
    ASSIGN_OR_RETURN(const std::string method, init.Attr<std::string>("dct_method"));
    if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
      return InvalidArgument("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
    }
    jpeg_.fast_dct = method != "INTEGER_ACCURATE";
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& contents = c.input(0);
    if (contents.rank() != 0) return InvalidArgument("`contents` must be scalar but got shape", contents.shape());
    const std::string& bytes = contents.scalar<std::string>();
    if (bytes.empty()) return InvalidArgument("Input is empty.");
    if (bytes.size() > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("Input contents are too large for int: ", bytes.size());
    }
    const Format format = FormatOf(bytes);
    RETURN_IF_ERROR(CheckFormat(format));
    // For other types, decodes to bytes first and then scales.
    const DType dtype = c.output_type(0);
    const bool wide = format == Format::kPng && dtype != kUint8;
    const DType stored = wide ? kUint16 : kUint8;
    Tensor pixels;
    const auto allocate = [&](const Dims& dims) -> absl::StatusOr<void*> {
      ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
      if (stored == dtype) {
        ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
        return out->raw();
      }
      ASSIGN_OR_RETURN(pixels, c.AllocateTemporary(stored, shape));
      return pixels.raw();
    };
    const auto memory = [&](const ImageSize& size) -> absl::StatusOr<void*> {
      if (which_ == Which::kGif) return allocate({1, size.height, size.width, size.channels});
      return allocate({size.height, size.width, size.channels});
    };
    switch (format) {
      case Format::kJpeg: {
        JpegDecodeOptions options = jpeg_;
        if (which_ == Which::kCropJpeg) {
          ASSIGN_OR_RETURN(options.crop, ReadWindow(c.input(1)));
        }
        RETURN_IF_ERROR(DecodeJpeg(bytes, options, memory));
        break;
      }
      case Format::kPng:
        RETURN_IF_ERROR(DecodePng(bytes, channels_, wide ? 16 : 8, memory));
        break;
      case Format::kGif:
        RETURN_IF_ERROR(DecodeFrames(bytes, allocate));
        break;
      default:
        RETURN_IF_ERROR(DecodeBmp(bytes, channels_, memory));
    }
    if (stored == dtype) return absl::OkStatus();
    return Convert(c, pixels);
  }

 private:
  absl::Status CheckFormat(Format format) const {
    constexpr const char* kNames[] = {"JPEG", "PNG", "GIF", "BMP"};
    if (format == Format::kUnknown) {
      return InvalidArgument("Unknown image file format. One of JPEG, PNG, GIF, BMP required.");
    }
    const char* const name = kNames[static_cast<int>(format)];
    if (which_ == Which::kCropJpeg && format != Format::kJpeg) {
      return InvalidArgument("DecodeAndCropJpeg operation can run on JPEG only, but detected ", name, ".");
    }
    if (which_ == Which::kBmp && format != Format::kBmp) {
      return InvalidArgument("Trying to decode ", name,
                             " format using DecodeBmp op. Use `decode_image` or the op of that format instead.");
    }
    if (which_ != Which::kBmp && which_ != Which::kImage && format == Format::kBmp) {
      return InvalidArgument(
          "Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead.");
    }
    if (format == Format::kGif && channels_ != 0 && channels_ != 3) {
      return InvalidArgument("channels must be 0 or 3 for GIF, got ", channels_);
    }
    if (format == Format::kJpeg && channels_ == 4) return InvalidArgument("JPEG does not support 4 channels");
    if (format == Format::kBmp && channels_ == 1) {
      return InvalidArgument("`channels` must be 0, 3 or 4 for BMP, but got ", channels_);
    }
    return absl::OkStatus();
  }

  // `allocate` gives memory for pixels of some shape.
  template <typename Allocate>
  absl::Status DecodeFrames(absl::string_view bytes, const Allocate& allocate) const {
    const bool animation = which_ == Which::kGif || (which_ == Which::kImage && expand_animations_);
    const bool first_only = which_ == Which::kImage && !expand_animations_;
    return DecodeGif(bytes, !first_only,
                     [&](int64_t frames, int64_t height, int64_t width) -> absl::StatusOr<uint8_t*> {
                       if (!animation && frames > 1) {
                         return InvalidArgument("Got ", frames,
                                                " frames, but animated gifs can only be decoded by tf.io.decode_gif "
                                                "or tf.io.decode_image");
                       }
                       Dims dims = {height, width, 3};
                       if (animation) dims.insert(dims.begin(), frames);
                       ASSIGN_OR_RETURN(void* const pixels, allocate(dims));
                       return static_cast<uint8_t*>(pixels);
                     });
  }

  static absl::StatusOr<CropWindow> ReadWindow(const Tensor& window) {
    if (window.rank() != 1) return InvalidArgument("crop_window must be 1-D, got shape ", window.shape());
    if (window.dim(0) != 4) return InvalidArgument("crop_size must have four elements ", window.shape());
    const int32_t* const w = window.data<int32_t>();
    return CropWindow{w[0], w[1], w[2], w[3]};
  }

  static absl::Status Convert(KernelContext& c, const Tensor& pixels) {
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, pixels.shape()));
    for (int64_t i = 0; i < pixels.num_elements(); ++i) {
      if (out->dtype() == kUint16) {
        out->mutable_data<uint16_t>()[i] = static_cast<uint16_t>(pixels.data<uint8_t>()[i] * 256);
      } else if (pixels.dtype() == kUint16) {
        out->mutable_data<float>()[i] = static_cast<float>(pixels.data<uint16_t>()[i]) * (1.0f / 65535);
      } else {
        out->mutable_data<float>()[i] = static_cast<float>(pixels.data<uint8_t>()[i]) * (1.0f / 255);
      }
    }
    return absl::OkStatus();
  }

  const Which which_;
  int channels_ = 0;
  bool expand_animations_ = true;
  JpegDecodeOptions jpeg_;
};

class JpegShapeKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).rank() != 0) return InvalidArgument("contents must be scalar, got shape ", c.input(0).shape());
    ASSIGN_OR_RETURN(const ImageSize size, JpegSize(c.input(0).scalar<std::string>()));
    if (c.output_type(0) == kInt64) {
      c.set_output(0, Tensor::Vector<int64_t>({size.height, size.width, size.channels}));
    } else {
      c.set_output(0, Tensor::Vector<int32_t>(
                          {static_cast<int32_t>(size.height), static_cast<int32_t>(size.width), size.channels}));
    }
    return absl::OkStatus();
  }
};

absl::Status DecodedShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  ASSIGN_OR_RETURN(const int64_t channels, c.Attr<int64_t>("channels"));
  if (channels < 0) return InvalidArgument("channels must be non-negative, got ", channels);
  if (c.node().op() == "DecodeImage") return absl::OkStatus();  // an animation has one more dimension
  c.set_output(0, {PartialShape::kUnknown, PartialShape::kUnknown, channels == 0 ? PartialShape::kUnknown : channels});
  return absl::OkStatus();
}

absl::Status FramesShape(ShapeContext& c) {
  constexpr int64_t kUnknown = PartialShape::kUnknown;
  c.set_output(0, {kUnknown, kUnknown, kUnknown, 3});
  return c.RequireScalar(0);
}

absl::Status VectorOf3(ShapeContext& c) {
  c.set_output(0, {3});
  return c.RequireScalar(0);
}

Op DecodeJpegOp(absl::string_view name, Which which) {
  Op op(name);
  op.Input("contents: string");
  if (which == Which::kCropJpeg) op.Input("crop_window: int32");
  return op.Output("image: uint8")
      .Attr("channels: int = 0")
      .Attr("ratio: int = 1")
      .Attr("fancy_upscaling: bool = true")
      .Attr("try_recover_truncated: bool = false")
      .Attr("acceptable_fraction: float = 1.0")
      .Attr("dct_method: string = ''")
      .Shape(DecodedShape)
      .Kernel<DecodeImageKernel>(which)
      .NotDifferentiable();
}

const OpRegistration kDecodeImageOps[] = {
    DecodeJpegOp("DecodeJpeg", Which::kJpeg),
    DecodeJpegOp("DecodeAndCropJpeg", Which::kCropJpeg),
    Op("DecodePng")
        .Input("contents: string")
        .Output("image: dtype")
        .Attr("channels: int = 0")
        .Attr("dtype: {uint8, uint16} = DT_UINT8")
        .Shape(DecodedShape)
        .Kernel<DecodeImageKernel>(Which::kPng)
        .NotDifferentiable(),
    Op("DecodeImage")
        .Input("contents: string")
        .Output("image: dtype")
        .Attr("channels: int = 0")
        .Attr("dtype: {uint8, uint16, float} = DT_UINT8")
        .Attr("expand_animations: bool = true")
        .Shape(DecodedShape)
        .Kernel<DecodeImageKernel>(Which::kImage)
        .NotDifferentiable(),
    Op("DecodeGif")
        .Input("contents: string")
        .Output("image: uint8")
        .Shape(FramesShape)
        .Kernel<DecodeImageKernel>(Which::kGif)
        .NotDifferentiable(),
    Op("DecodeBmp")
        .Input("contents: string")
        .Output("image: uint8")
        .Attr("channels: int = 0")
        .Shape(DecodedShape)
        .Kernel<DecodeImageKernel>(Which::kBmp)
        .NotDifferentiable(),
    Op("ExtractJpegShape")
        .Input("contents: string")
        .Output("image_shape: output_type")
        .Attr("output_type: {int32, int64} = DT_INT32")
        .Shape(VectorOf3)
        .Kernel<JpegShapeKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output DecodeJpeg(const Scope& s, Output contents, const DecodeJpegOptions& options) {
  return s.Add("DecodeJpeg", {contents},
               {{"channels", options.channels},
                {"ratio", options.ratio},
                {"fancy_upscaling", options.fancy_upscaling},
                {"try_recover_truncated", options.try_recover_truncated},
                {"acceptable_fraction", options.acceptable_fraction},
                {"dct_method", options.dct_method == JpegDct::kIntegerFast       ? "INTEGER_FAST"
                               : options.dct_method == JpegDct::kIntegerAccurate ? "INTEGER_ACCURATE"
                                                                                 : ""}});
}
Output DecodePng(const Scope& s, Output contents, int channels, DType dtype) {
  return s.Add("DecodePng", {contents}, {{"channels", channels}, {"dtype", dtype}});
}
Output DecodeImage(const Scope& s, Output contents, int channels, DType dtype) {
  return s.Add("DecodeImage", {contents}, {{"channels", channels}, {"dtype", dtype}});
}
Output DecodeGif(const Scope& s, Output contents) { return s.Add("DecodeGif", {contents}); }
Output DecodeBmp(const Scope& s, Output contents, int channels) {
  return s.Add("DecodeBmp", {contents}, {{"channels", channels}});
}
Output ExtractJpegShape(const Scope& s, Output contents, DType output_type) {
  return s.Add("ExtractJpegShape", {contents}, {{"output_type", output_type}});
}

}  // namespace thalweg
