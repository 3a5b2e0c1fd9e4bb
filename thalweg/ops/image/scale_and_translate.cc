// SPDX-License-Identifier: Apache-2.0
// ScaleAndTranslate: images [n, height, width, channels] of another size, by a
// filter: out(x * scale + translation) = in(x). With antialiasing, the input is smoothed where it
// shrinks. Positions outside of the image are 0.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

enum class Filter { kLanczos, kGaussian, kBox, kTriangle, kKeysCubic, kMitchellCubic };

struct Kind {
  Filter filter;
  float radius;
};
std::optional<Kind> KindOf(const std::string& name) {
  constexpr std::pair<const char*, Kind> kKinds[] = {
      {"lanczos1", {Filter::kLanczos, 1}},
      {"lanczos3", {Filter::kLanczos, 3}},
      {"lanczos5", {Filter::kLanczos, 5}},
      {"gaussian", {Filter::kGaussian, 1.5f}},
      {"box", {Filter::kBox, 1}},
      {"triangle", {Filter::kTriangle, 1}},
      {"keyscubic", {Filter::kKeysCubic, 2}},
      {"mitchellcubic", {Filter::kMitchellCubic, 2}},
  };
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

float Weight(const Kind& kind, float x) {
  x = std::fabs(x);
  constexpr float kPi = std::numbers::pi_v<float>;
  switch (kind.filter) {
    case Filter::kLanczos:
      if (x > kind.radius) return 0;
      if (x <= 1e-3f) return 1;
      return kind.radius * std::sin(kPi * x) * std::sin(kPi * x / kind.radius) / (kPi * kPi * x * x);
    case Filter::kGaussian:
      return x >= kind.radius ? 0 : std::exp(-x * x / (2 * (kind.radius / 3) * (kind.radius / 3)));
    case Filter::kBox:
      return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0;
    case Filter::kTriangle:
      return x < 1 ? 1 - x : 0;
    case Filter::kKeysCubic:
      if (x >= 2) return 0;
      return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
    case Filter::kMitchellCubic:
      if (x >= 2) return 0;
      return x >= 1 ? (((-7.0f / 18) * x + 2) * x - 10.0f / 3) * x + 16.0f / 9
                    : ((7.0f / 6) * x - 2) * x * x + 8.0f / 9;
  }
  return 0;
}

// For every pixel of the result along one dimension: the input pixels and their weights.
struct Span {
  int64_t start = 0;
  std::vector<float> weights;
};

absl::StatusOr<std::vector<Span>> Spans(const Kind& kind, int64_t out, int64_t in, float scale, float translation,
                                        bool antialias) {
  const float inverse = 1 / scale, shift = -inverse * translation;
  const float widened = antialias ? std::max(inverse, 1.0f) : 1;
  constexpr int64_t kMost = int64_t{1} << 26;
  if (out > kMost) return ResourceExhausted("images of more than ", kMost, " rows or columns: ", out);
  std::vector<Span> spans(out);
  int64_t total = 0;
  for (int64_t x = 0; x < out; ++x) {
    const float at = (static_cast<float>(x) + 0.5f) * inverse + shift;
    if (!(at >= 0 && at <= static_cast<float>(in))) continue;
    const auto clamp = [&](float v) {
      return static_cast<int64_t>(std::min(std::max(v, 0.0f), static_cast<float>(in - 1)));
    };
    Span& span = spans[x];
    span.start = clamp(std::ceil(at - kind.radius * widened - 0.5f));
    const int64_t end = clamp(std::floor(at + kind.radius * widened - 0.5f)) + 1;
    total += end - span.start;
    if (total > kMost) return ResourceExhausted("the filter has more than ", kMost, " weights");
    float sum = 0;
    for (int64_t source = span.start; source < end; ++source) {
      span.weights.push_back(Weight(kind, (static_cast<float>(source) + 0.5f - at) / widened));
      sum += span.weights.back();
    }
    if (std::fabs(sum) >= 1000 * std::numeric_limits<float>::min()) {
      for (float& w : span.weights) w /= sum;
    }
  }
  return spans;
}

class ScaleAndTranslateKernel final : public Kernel {
 public:
  explicit ScaleAndTranslateKernel(bool backward) : backward_(backward) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string name, init.Attr<std::string>("kernel_type"));
    ASSIGN_OR_RETURN(antialias_, init.Attr<bool>("antialias"));
    const std::optional<Kind> kind = KindOf(name);
    if (!kind.has_value()) return InvalidArgument("Unrecognized kernel type: ", name);
    kind_ = *kind;
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    const Tensor& other = c.input(1);  // the new size, or the original image
    if (images.rank() != 4) return InvalidArgument("input must be 4-dimensional ", images.shape());
    int64_t size[2];
    if (backward_) {
      if (other.rank() != 4) return InvalidArgument("original_image must be 4-dimensional", other.shape());
      if (other.dim(0) != images.dim(0) || other.dim(3) != images.dim(3)) {
        return InvalidArgument("grads of shape ", images.shape(), " are not those of an image ", other.shape());
      }
      for (int i = 0; i < 2; ++i) size[i] = other.dim(1 + i);
    } else {
      if (other.rank() != 1 || other.dim(0) != 2) {
        return InvalidArgument("output_size must be 1-dimensional with 2 elements, got shape ", other.shape());
      }
      for (int i = 0; i < 2; ++i) size[i] = other.data<int32_t>()[i];
    }
    float scale[2], translation[2];
    for (int i = 2; i < 4; ++i) {
      const Tensor& t = c.input(i);
      if (t.rank() != 1 || t.dim(0) != 2) {
        return InvalidArgument(i == 2 ? "scale" : "translation", " must be a vector of 2 elements, got shape ",
                               t.shape());
      }
      std::copy_n(t.data<float>(), 2, i == 2 ? scale : translation);
    }
    if (!(scale[0] > 0 && scale[1] > 0)) return InvalidArgument("Scale must be greater than zero.");
    if (size[0] <= 0 || size[1] <= 0) return InvalidArgument("output dimensions must be positive");
    if (images.dim(1) <= 0 || images.dim(2) <= 0) return InvalidArgument("Input image must be of non-zero size");
    const int64_t n = images.dim(0), depth = images.dim(3);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({n, size[0], size[1], depth}));
    ASSIGN_OR_RETURN(const Shape half, Shape::Make({n, size[0], images.dim(2), depth}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (out->num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
    ASSIGN_OR_RETURN(Tensor tall, c.AllocateTemporary(kFloat, half));
    ASSIGN_OR_RETURN(Tensor values, c.AllocateTemporary(kFloat, images.shape()));
    std::vector<Span> spans[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t from = images.dim(1 + i);
      ASSIGN_OR_RETURN(spans[i], backward_ ? Spans(kind_, from, size[i], scale[i], translation[i], antialias_)
                                           : Spans(kind_, size[i], from, scale[i], translation[i], antialias_));
    }
    RETURN_IF_ERROR(Dispatch(RealTypes(), images.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < images.num_elements(); ++i) {
        values.mutable_data<float>()[i] = static_cast<float>(images.data<T>()[i]);
      }
      return absl::OkStatus();
    }));
    Apply(values.data<float>(), n, images.dim(1), size[0], images.dim(2) * depth, spans[0], tall.mutable_data<float>());
    Apply(tall.data<float>(), n * size[0], images.dim(2), size[1], depth, spans[1], out->mutable_data<float>());
    return absl::OkStatus();
  }

 private:
  // [outer, from, inner] to [outer, to, inner].
  void Apply(const float* x, int64_t outer, int64_t from, int64_t to, int64_t inner, const std::vector<Span>& spans,
             float* y) const {
    std::fill_n(y, outer * to * inner, 0.0f);
    for (int64_t o = 0; o < outer; ++o) {
      for (size_t k = 0; k < spans.size(); ++k) {
        for (size_t w = 0; w < spans[k].weights.size(); ++w) {
          const int64_t source = spans[k].start + static_cast<int64_t>(w), place = static_cast<int64_t>(k);
          const float* const in = x + (o * from + (backward_ ? place : source)) * inner;
          float* const sum = y + (o * to + (backward_ ? source : place)) * inner;
          for (int64_t i = 0; i < inner; ++i) sum[i] += spans[k].weights[w] * in[i];
        }
      }
    }
  }

  const bool backward_;
  bool antialias_ = true;
  Kind kind_ = {};
};

absl::Status ScaleShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape images, c.WithRank(0, 4));
  Dims dims{images.dim(0), PartialShape::kUnknown, PartialShape::kUnknown, images.dim(3)};
  if (const std::optional<Dims> size = ConstantIntegers(c, 1); size.has_value() && size->size() == 2) {
    for (int i = 0; i < 2; ++i) dims[1 + i] = (*size)[i] < 0 ? PartialShape::kUnknown : (*size)[i];
  }
  c.set_output(0, PartialShape(dims));
  return absl::OkStatus();
}
absl::Status ScaleGradShape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status ScaleGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const std::string kind, g.Attr<std::string>("kernel_type"));
  ASSIGN_OR_RETURN(const bool antialias, g.Attr<bool>("antialias"));
  const Output image = s.Add("Cast", {g.input(0)}, {{"DstT", kFloat}});
  const Output dx = s.Add("ScaleAndTranslateGrad", {g.dy(), image, g.input(2), g.input(3)},
                          {{"kernel_type", kind}, {"antialias", antialias}});
  g.set_dx(0, Output(s.Add("Cast", {dx}, {{"DstT", g.input(0).dtype()}})));
  return absl::OkStatus();
}

const OpRegistration kScaleAndTranslateOps[] = {
    Op("ScaleAndTranslate")
        .Input("images: T")
        .Input("size: int32")
        .Input("scale: float")
        .Input("translation: float")
        .Output("resized_images: float")
        .Attr("T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}")
        .Attr("kernel_type: string = 'lanczos3'")
        .Attr("antialias: bool = true")
        .Shape(ScaleShape)
        .Kernel<ScaleAndTranslateKernel>(false)
        .Gradient(ScaleGradient),
    Op("ScaleAndTranslateGrad")
        .Input("grads: T")
        .Input("original_image: T")
        .Input("scale: float")
        .Input("translation: float")
        .Output("output: T")
        .Attr("T: {float}")
        .Attr("kernel_type: string = 'lanczos3'")
        .Attr("antialias: bool = true")
        .Shape(ScaleGradShape)
        .Kernel<ScaleAndTranslateKernel>(true),
};

}  // namespace
}  // namespace thalweg
