// SPDX-License-Identifier: Apache-2.0
// SampleDistortedBoundingBox: a random part of an image, for training on more
// than there is. Its area and aspect ratio lie in given ranges, and it covers
// enough of one of the objects. If no attempt succeeds, it is the whole image.
// The numbers drawn are TensorFlow's. The Stateless form has its seed as an input.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

struct Box {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  float Area() const { return static_cast<float>((right - left) * (bottom - top)); }
};

Box Common(const Box& a, const Box& b) {
  const Box c{std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
              std::min(a.bottom, b.bottom)};
  return c.left > c.right || c.top > c.bottom ? Box() : c;
}

class Draws {
 public:
  explicit Draws(Philox generator) : next_(generator) {}
  // In [0, 1): 23 bits.
  float Fraction() { return std::bit_cast<float>((uint32_t{127} << 23) | (next_() & 0x7fffff)) - 1.0f; }
  // In [0, n), all equally likely.
  uint32_t Below(uint32_t n) {
    if (std::has_single_bit(n)) return next_() & (n - 1);
    const uint32_t rest = std::numeric_limits<uint32_t>::max() % n + 1;  // draws that would favour some
    uint32_t draw = next_();
    while (draw < rest) draw = next_();
    return draw % n;
  }

 private:
  PhiloxSingle next_;
};

class SampleBoxKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    if (!IsStateless(init.node().num_inputs())) {
      ASSIGN_OR_RETURN(const int64_t seed, init.Attr<int64_t>("seed"));
      ASSIGN_OR_RETURN(const int64_t seed2, init.Attr<int64_t>("seed2"));
      generator_.Seed(seed, seed2);
    }
    if (HasAttr(init.node().def(), "min_object_covered")) {
      ASSIGN_OR_RETURN(min_covered_, init.Attr<float>("min_object_covered"));
      if (min_covered_ < 0) return InvalidArgument("Min object covered must be non-negative: ", min_covered_);
    }
    ASSIGN_OR_RETURN(use_image_, init.Attr<bool>("use_image_if_no_bounding_boxes"));
    ASSIGN_OR_RETURN(ratios_, init.Attr<std::vector<float>>("aspect_ratio_range"));
    ASSIGN_OR_RETURN(areas_, init.Attr<std::vector<float>>("area_range"));
    ASSIGN_OR_RETURN(attempts_, init.Attr<int64_t>("max_attempts"));
    if (ratios_.size() != 2) return InvalidArgument("Aspect ratio range field must specify 2 dimensions");
    if (!(ratios_[0] > 0 && ratios_[1] > 0)) {
      return InvalidArgument("Aspect ratio range must be non-negative: [", ratios_[0], ", ", ratios_[1], "]");
    }
    if (areas_.size() != 2) return InvalidArgument("Area range field must specify 2 dimensions");
    if (!(areas_[0] > 0 && areas_[1] > 0)) {
      return InvalidArgument("Area range must be non-negative: [", areas_[0], ", ", areas_[1], "]");
    }
    if (!(areas_[0] <= 1 && areas_[1] <= 1)) {
      return InvalidArgument("Area range must be less then or equal to 1.0: [", areas_[0], ", ", areas_[1], "]");
    }
    if (attempts_ <= 0 || attempts_ > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("Max attempts must be non-negative: ", attempts_);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& image_size = c.input(0);
    if (image_size.rank() != 1) return InvalidArgument("image_size must be 1-dimensional", image_size.shape());
    if (image_size.dim(0) != 3) return InvalidArgument("image_size must contain 3 elements", image_size.shape());
    const int64_t height = ReadInteger(image_size, 0), width = ReadInteger(image_size, 1);
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    if (height < 0 || height >= kMax) return InvalidArgument("image height cannot be >= int32 max");
    if (width < 0 || width >= kMax) return InvalidArgument("image width cannot be >= int32 max");
    float covered = min_covered_;
    if (c.num_inputs() >= 3) {
      if (c.input(2).rank() != 0) {
        return InvalidArgument("min_object_covered must be 0-D, got shape ", c.input(2).shape());
      }
      covered = c.input(2).scalar<float>();
      if (!(covered >= 0)) return InvalidArgument("Min object covered must be non-negative: ", covered);
    }
    ASSIGN_OR_RETURN(const std::vector<Box> objects, ReadObjects(c.input(1), height, width));
    const Box image{0, 0, width, height};
    Philox generator(0);
    if (IsStateless(c.num_inputs())) {
      ASSIGN_OR_RETURN(generator, PhiloxFromSeed(c.input(3)));
    } else {
      generator = generator_.Reserve(attempts_);
    }
    Draws draws(generator);
    Box box = image;
    // Do not try if no crop can cover enough.
    const bool possible = covered <= 1 && std::any_of(objects.begin(), objects.end(),
                                                      [](const Box& object) { return object.Area() >= 1; });
    Cancellation* const cancellation = c.step().cancellation;
    for (int64_t i = 0; possible && i < attempts_; ++i) {
      if (i % (1 << 16) == 0 && cancellation != nullptr) RETURN_IF_ERROR(cancellation->status());
      const float ratio = draws.Fraction() * (ratios_[1] - ratios_[0]) + ratios_[0];
      Box crop;
      if (Draw(width, height, ratio, draws, &crop) && Covers(crop, objects, covered)) {
        box = crop;
        break;
      }
    }
    return Emit(c, box, image);
  }

 private:
  static bool IsStateless(int inputs) { return inputs == 4; }

  absl::StatusOr<std::vector<Box>> ReadObjects(const Tensor& boxes, int64_t height, int64_t width) const {
    if (boxes.rank() != 3) {
      return InvalidArgument("input boxes must be 3-dimensional [batch, num_boxes, coords]: ", boxes.shape());
    }
    if (boxes.dim(2) != 4) {
      return InvalidArgument("bounding boxes must have shape [4] or [*, 4], got ", boxes.shape());
    }
    std::vector<Box> objects;
    for (int64_t i = 0; i < boxes.num_elements(); i += 4) {
      const float* const b = boxes.data<float>() + i;
      for (int k = 0; k < 4; ++k) {
        if (!(b[k] >= 0 && b[k] <= 1)) {
          return InvalidArgument("All bounding box coordinates must be in [0.0, 1.0]: ", b[k]);
        }
      }
      const auto place = [](float fraction, int64_t size) {
        return static_cast<int64_t>(fraction * static_cast<float>(size));
      };
      objects.push_back({place(b[1], width), place(b[0], height), place(b[3], width), place(b[2], height)});
    }
    if (objects.empty()) {
      if (!use_image_) {
        return InvalidArgument(
            "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not "
            "provide any bounding boxes.");
      }
      objects.push_back({0, 0, width, height});
    }
    return objects;
  }

  // Draws a crop with this aspect ratio: its height first, then its position. Returns false if none has
  // an area in the range.
  bool Draw(int64_t image_width, int64_t image_height, float ratio, Draws& draws, Box* crop) const {
    if (ratio <= 0 || image_width <= 0 || image_height <= 0 || areas_[0] > areas_[1]) return false;
    const float min_area = areas_[0] * static_cast<float>(image_width) * static_cast<float>(image_height);
    const float max_area = areas_[1] * static_cast<float>(image_width) * static_cast<float>(image_height);
    const auto width_of = [ratio](int64_t height) { return std::lrint(static_cast<float>(height) * ratio); };
    int64_t height = std::lrint(std::sqrt(min_area / ratio));
    int64_t max_height = std::lrint(std::sqrt(max_area / ratio));
    if (width_of(max_height) > image_width) {
      constexpr float kEpsilon = 0.0000001f;
      max_height = static_cast<int64_t>((static_cast<double>(image_width) + 0.5 - kEpsilon) / ratio);
      if (width_of(max_height) > image_width) --max_height;
    }
    max_height = std::min(max_height, image_height);
    height = std::min(height, max_height);
    if (height < max_height) height += draws.Below(static_cast<uint32_t>(max_height - height + 1));
    const auto area = [&] { return static_cast<float>(width_of(height) * height); };
    if (area() < min_area) ++height;
    if (area() > max_area) --height;
    const int64_t width = width_of(height);
    if (area() < min_area || area() > max_area || width > image_width || height > image_height || width <= 0 ||
        height <= 0) {
      return false;
    }
    crop->top = height < image_height ? draws.Below(static_cast<uint32_t>(image_height - height)) : 0;
    crop->left = width < image_width ? draws.Below(static_cast<uint32_t>(image_width - width)) : 0;
    crop->bottom = crop->top + height;
    crop->right = crop->left + width;
    return true;
  }

  static bool Covers(const Box& crop, const std::vector<Box>& objects, float covered) {
    if (crop.Area() < 1) return false;
    for (const Box& object : objects) {
      if (object.Area() >= 1 && Common(crop, object).Area() / object.Area() >= covered) return true;
    }
    return false;
  }

  static absl::Status Emit(KernelContext& c, const Box& box, const Box& image) {
    ASSIGN_OR_RETURN(Tensor* const begin, c.Allocate(0, Shape({3})));
    ASSIGN_OR_RETURN(Tensor* const size, c.Allocate(1, Shape({3})));
    RETURN_IF_ERROR(Dispatch(Types<uint8_t, int8_t, int16_t, int32_t, int64_t>(), begin->dtype(), [&]<typename T>() {
      const int64_t begins[] = {box.top, box.left, 0}, sizes[] = {box.bottom - box.top, box.right - box.left, -1};
      for (int i = 0; i < 3; ++i) {
        begin->mutable_data<T>()[i] = static_cast<T>(begins[i]);
        size->mutable_data<T>()[i] = static_cast<T>(sizes[i]);
      }
      return absl::OkStatus();
    }));
    const float height = static_cast<float>(image.bottom), width = static_cast<float>(image.right);
    c.set_output(2, Tensor::Of<float>(
                        {1, 1, 4}, {static_cast<float>(box.top) / height, static_cast<float>(box.left) / width,
                                    static_cast<float>(box.bottom) / height, static_cast<float>(box.right) / width}));
    return absl::OkStatus();
  }

  SharedPhilox generator_;
  float min_covered_ = 0;
  bool use_image_ = false;
  std::vector<float> ratios_, areas_;
  int64_t attempts_ = 100;
};

absl::Status SampleShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  RETURN_IF_ERROR(c.WithRank(1, 3).status());
  if (c.num_inputs() >= 3) RETURN_IF_ERROR(c.RequireScalar(2));
  if (c.num_inputs() == 4) RETURN_IF_ERROR(c.WithRank(3, 1).status());
  c.set_output(0, {3});
  c.set_output(1, {3});
  c.set_output(2, {1, 1, 4});
  return absl::OkStatus();
}

Op SampleOp(absl::string_view name, bool covered_is_input, bool seed_is_input) {
  Op op(name);
  op.Input("image_size: T").Input("bounding_boxes: float");
  if (covered_is_input) op.Input("min_object_covered: float");
  if (seed_is_input) op.Input("seed: Tseed");
  op.Output("begin: T").Output("size: T").Output("bboxes: float").Attr("T: {uint8, int8, int16, int32, int64}");
  if (seed_is_input) {
    op.Attr("Tseed: {int32, int64}");
  } else {
    op.Attr("seed: int = 0").Attr("seed2: int = 0").Stateful();
  }
  if (!covered_is_input) op.Attr("min_object_covered: float = 0.1");
  return op.Attr("aspect_ratio_range: list(float) = [0.75, 1.33]")
      .Attr("area_range: list(float) = [0.05, 1.0]")
      .Attr("max_attempts: int = 100")
      .Attr("use_image_if_no_bounding_boxes: bool = false")
      .Shape(SampleShape)
      .Kernel<SampleBoxKernel>()
      .NotDifferentiable();
}

const OpRegistration kSampleDistortedBoxOps[] = {SampleOp("SampleDistortedBoundingBox", false, false),
                                                 SampleOp("SampleDistortedBoundingBoxV2", true, false),
                                                 SampleOp("StatelessSampleDistortedBoundingBox", true, true)};

}  // namespace
}  // namespace thalweg
