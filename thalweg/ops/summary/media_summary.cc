// SPDX-License-Identifier: Apache-2.0
// ImageSummary and AudioSummaryV2 report the first few of a batch of images, as
// PNG, or of sounds, as WAV of 16 bits.
#include "thalweg/ops/summary/media_summary.h"

#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/audio/wav.h"
#include "thalweg/ops/image/image_codec.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/summary/emit_summary.h"
#include "thalweg/proto/summary.pb.h"

namespace thalweg {
namespace {

using tensorflow::Summary;

// Scales to [0, 255]: by the largest value if none is negative, otherwise so that 0 is in the middle.
// Pixels with a non-finite component get the bad color.
template <typename T>
void Normalize(const T* values, int64_t pixels, int depth, const uint8_t* bad_color, uint8_t* out) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  const auto finite = [&](int64_t pixel) {
    for (int k = 0; k < depth; ++k) {
      if (!std::isfinite(static_cast<float>(values[pixel * depth + k]))) return false;
    }
    return true;
  };
  for (int64_t i = 0; i < pixels; ++i) {
    if (!finite(i)) continue;
    for (int k = 0; k < depth; ++k) {
      low = std::min(low, static_cast<float>(values[i * depth + k]));
      high = std::max(high, static_cast<float>(values[i * depth + k]));
    }
  }
  constexpr float kTiny = 1e-6f;
  const float largest = low < 0 ? std::max(std::abs(low), std::abs(high)) : high;
  const T scale = static_cast<T>(largest < kTiny ? 0.0f : (low < 0 ? 127.0f : 255.0f) / largest);
  const T offset = static_cast<T>(low < 0 ? 128.0f : 0.0f);
  for (int64_t i = 0; i < pixels; ++i) {
    const bool good = finite(i);
    for (int k = 0; k < depth; ++k) {
      const T value = good ? static_cast<T>(static_cast<T>(values[i * depth + k] * scale) + offset) : T();
      out[i * depth + k] = good ? static_cast<uint8_t>(static_cast<double>(value)) : bad_color[k];
    }
  }
}

}  // namespace

absl::Status AddImages(absl::string_view tag, const Tensor& images, const Tensor& bad_color, int64_t max_images,
                       Summary* summary) {
  const Shape& shape = images.shape();
  if (shape.rank() != 4 || (shape.dim(3) != 1 && shape.dim(3) != 3 && shape.dim(3) != 4)) {
    return InvalidArgument("Tensor must be 4-D with last dim 1, 3, or 4, not ", shape);
  }
  if (shape.dim(0) >= int64_t{1} << 31 || shape.dim(1) * shape.dim(2) >= int64_t{1} << 29) {
    return InvalidArgument("Tensor too large for summary ", shape);
  }
  const int64_t pixels = shape.dim(1) * shape.dim(2);
  const int depth = static_cast<int>(shape.dim(3));
  if (pixels == 0) return InvalidArgument("input tensor must have non-zero dims. Found: ", shape, ".");
  if (images.dtype() != kUint8 && bad_color.dim(0) < depth) {
    return InvalidArgument("expected depth <= bad_color.size, got depth = ", depth,
                           ", bad_color.size = ", bad_color.dim(0));
  }
  std::vector<uint8_t> bytes(pixels * depth);
  for (int64_t i = 0; i < std::min(max_images, shape.dim(0)); ++i) {
    RETURN_IF_ERROR(Dispatch(Types<uint8_t, float, Half, double>(), images.dtype(), [&]<typename T>() {
      const T* const values = images.data<T>() + i * pixels * depth;
      if constexpr (std::is_same_v<T, uint8_t>) {
        std::copy_n(values, bytes.size(), bytes.begin());
      } else {
        Normalize(values, pixels, depth, bad_color.data<uint8_t>(), bytes.data());
      }
      return absl::OkStatus();
    }));
    Summary::Value* const value = summary->add_value();
    value->set_tag(absl::StrCat(tag, "/image"));
    if (max_images > 1) absl::StrAppend(value->mutable_tag(), "/", i);
    Summary::Image* const image = value->mutable_image();
    image->set_height(static_cast<int>(shape.dim(1)));
    image->set_width(static_cast<int>(shape.dim(2)));
    image->set_colorspace(depth);
    const ImageView view{bytes.data(), shape.dim(1), shape.dim(2), depth, 8};
    ASSIGN_OR_RETURN(*image->mutable_encoded_image_string(), EncodePng(view, -1));
  }
  return absl::OkStatus();
}

absl::Status AddSounds(absl::string_view tag, const Tensor& sounds, const Tensor& sample_rate, int64_t max_outputs,
                       Summary* summary) {
  if (sounds.rank() != 2 && sounds.rank() != 3) {
    return InvalidArgument("Tensor must be 3-D or 2-D, got: ", sounds.shape());
  }
  if (sample_rate.num_elements() != 1) {
    return InvalidArgument("sample_rate must be rank-0 or contain a single value");
  }
  const float rate = sample_rate.scalar<float>();
  if (!(rate > 0)) return InvalidArgument("sample_rate must be > 0");
  const int64_t channels = sounds.rank() == 2 ? 1 : sounds.dim(2);
  if (channels < 1 || channels > std::numeric_limits<uint16_t>::max()) {
    return InvalidArgument("num_channels must be in (0, 2^16), got: ", channels);
  }
  if (rate > 4294967040.0f) return InvalidArgument("sample_rate must be in (0, 2^32), got: ", rate);
  const int64_t length = sounds.dim(1) * channels;
  if (length > (std::numeric_limits<int32_t>::max() - 44) / 2) {
    return InvalidArgument("Provided channels and frames cannot be encoded as a WAV.");
  }
  const int64_t count = std::min(max_outputs, sounds.dim(0));
  constexpr int64_t kHead = 44;  // header of a WAV file, which also sounds without samples have
  if (count > std::numeric_limits<int32_t>::max() / (kHead + 2 * length)) {
    return InvalidArgument("the summary is too large for a message: ", count, " sounds of ", length, " samples");
  }
  for (int64_t i = 0; i < count; ++i) {
    Summary::Value* const value = summary->add_value();
    value->set_tag(absl::StrCat(tag, "/audio"));
    if (max_outputs > 1) absl::StrAppend(value->mutable_tag(), "/", i);
    Summary::Audio* const audio = value->mutable_audio();
    audio->set_sample_rate(rate);
    audio->set_num_channels(channels);
    audio->set_length_frames(sounds.dim(1));
    audio->set_content_type("audio/wav");
    audio->set_encoded_audio_string(EncodeWav(sounds.flat<float>().subspan(i * length, length),
                                              static_cast<uint32_t>(std::max<int64_t>(std::llrint(rate), 1)),
                                              static_cast<uint16_t>(channels)));
  }
  return absl::OkStatus();
}

namespace {

class ImageSummaryKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(max_images_, init.Attr<int64_t>("max_images"));
    if (max_images_ >= int64_t{1} << 31) return InvalidArgument("max_images must be < 2^31");
    ASSIGN_OR_RETURN(bad_color_, init.Attr<Tensor>("bad_color"));
    if (bad_color_.dtype() != kUint8) return InvalidArgument("bad_color must be uint8, got ", bad_color_.dtype());
    if (bad_color_.rank() != 1) return InvalidArgument("bad_color must be a vector, got shape ", bad_color_.shape());
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).rank() != 0) return InvalidArgument("Tags must be a scalar");
    Summary summary;
    RETURN_IF_ERROR(AddImages(c.input(0).scalar<std::string>(), c.input(1), bad_color_, max_images_, &summary));
    return EmitSummary(c, summary);
  }

 private:
  int64_t max_images_ = 3;
  Tensor bad_color_;
};

class AudioSummaryKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(max_outputs_, init.Attr<int64_t>("max_outputs"));
    if (HasAttr(init.node().def(), "sample_rate")) {
      ASSIGN_OR_RETURN(rate_, init.Attr<float>("sample_rate"));
    }
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).rank() != 0) return InvalidArgument("Tag must be a scalar");
    const Tensor rate = c.num_inputs() > 2 ? c.input(2) : Tensor::Scalar(rate_);
    Summary summary;
    RETURN_IF_ERROR(AddSounds(c.input(0).scalar<std::string>(), c.input(1), rate, max_outputs_, &summary));
    return EmitSummary(c, summary);
  }

 private:
  int64_t max_outputs_ = 3;
  float rate_ = 0;
};

const OpRegistration kMediaSummaryOps[] = {
    Op("ImageSummary")
        .Input("tag: string")
        .Input("tensor: T")
        .Output("summary: string")
        .Attr("max_images: int >= 1 = 3")
        .Attr("T: {uint8, float, half, double} = DT_FLOAT")
        .Attr("bad_color: tensor = { dtype: DT_UINT8 tensor_shape { dim { size: 4 } } "
              "int_val: 255 int_val: 0 int_val: 0 int_val: 255 }")
        .Shape(shapes::Scalar)
        .Kernel<ImageSummaryKernel>()
        .NotDifferentiable(),
    Op("AudioSummary")
        .Input("tag: string")
        .Input("tensor: float")
        .Output("summary: string")
        .Attr("sample_rate: float")
        .Attr("max_outputs: int >= 1 = 3")
        .Shape(shapes::Scalar)
        .Kernel<AudioSummaryKernel>()
        .NotDifferentiable(),
    Op("AudioSummaryV2")
        .Input("tag: string")
        .Input("tensor: float")
        .Input("sample_rate: float")
        .Output("summary: string")
        .Attr("max_outputs: int >= 1 = 3")
        .Shape(shapes::Scalar)
        .Kernel<AudioSummaryKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output ImageSummary(const Scope& s, Output tag, Output tensor, int64_t max_images) {
  return s.Add("ImageSummary", {tag, tensor}, {{"max_images", max_images}});
}
Output AudioSummary(const Scope& s, Output tag, Output tensor, Output sample_rate, int64_t max_outputs) {
  return s.Add("AudioSummaryV2", {tag, tensor, sample_rate}, {{"max_outputs", max_outputs}});
}

}  // namespace thalweg
