// SPDX-License-Identifier: Apache-2.0
// CombinedNonMaxSuppression: non-maximum suppression for every class of every
// image, then the best boxes of all classes of an image.
#include <algorithm>
#include <numeric>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/box_overlap.h"

namespace thalweg {
namespace {

struct Detection {
  float score;
  int64_t class_index;
  const float* box;
};

struct Limits {
  int64_t per_class;
  float overlap, score;
};

// Appends the boxes of one class that are kept, the best first.
void Suppress(const float* boxes, int64_t box_stride, const float* scores, int64_t score_stride, int64_t n,
              int64_t class_index, const Limits& limits, std::vector<Detection>* kept) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) {
    if (scores[i * score_stride] > limits.score) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return scores[a * score_stride] > scores[b * score_stride]; });
  const size_t first = kept->size();
  for (const int64_t i : order) {
    if (static_cast<int64_t>(kept->size() - first) >= limits.per_class) break;
    const float* const box = boxes + i * box_stride;
    const bool covered = std::any_of(kept->begin() + first, kept->end(),
                                     [&](const Detection& d) { return BoxOverlap(box, d.box) > limits.overlap; });
    if (!covered) kept->push_back({scores[i * score_stride], class_index, box});
  }
}

absl::StatusOr<int64_t> PositiveScalar(const Tensor& t, const char* name, const char* text) {
  if (t.rank() != 0) return InvalidArgument(name, " must be 0-D, got shape ", t.shape());
  if (t.scalar<int32_t>() <= 0) return InvalidArgument(text);
  return t.scalar<int32_t>();
}

class CombinedKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(pad_per_class_, init.Attr<bool>("pad_per_class"));
    ASSIGN_OR_RETURN(clip_boxes_, init.Attr<bool>("clip_boxes"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &boxes = c.input(0), &scores = c.input(1);
    if (boxes.rank() != 4) return InvalidArgument("boxes must be 4-D", boxes.shape());
    if (scores.rank() != 3) return InvalidArgument("scores must be 3-D", scores.shape());
    if (boxes.dim(0) != scores.dim(0)) return InvalidArgument("boxes and scores must have same batch size");
    Limits limits;
    ASSIGN_OR_RETURN(limits.per_class,
                     PositiveScalar(c.input(2), "max_size_per_class", "max_size_per_class must be positive"));
    ASSIGN_OR_RETURN(const int64_t total, PositiveScalar(c.input(3), "max_total_size", "max_total_size must be > 0"));
    for (const int i : {4, 5}) {
      if (c.input(i).rank() == 0) continue;
      return InvalidArgument(i == 4 ? "iou_threshold" : "score_threshold", " must be 0-D, got shape ",
                             c.input(i).shape());
    }
    limits.overlap = c.input(4).scalar<float>();
    limits.score = c.input(5).scalar<float>();
    if (!(limits.overlap >= 0 && limits.overlap <= 1)) return InvalidArgument("iou_threshold must be in [0, 1]");
    const int64_t n = boxes.dim(1), q = boxes.dim(2), classes = scores.dim(2);
    if (q != 1 && q != classes) {
      return InvalidArgument("third dimension of boxes must be either 1 or num classes");
    }
    if (boxes.dim(3) != 4) return InvalidArgument("boxes must have 4 columns");
    if (scores.dim(1) != n) return InvalidArgument("scores has incompatible shape");
    const int64_t per_image = pad_per_class_ && limits.per_class <= total / std::max<int64_t>(classes, 1)
                                  ? limits.per_class * classes
                                  : total;
    return Detect(c, boxes, scores, limits, per_image);
  }

 private:
  absl::Status Detect(KernelContext& c, const Tensor& boxes, const Tensor& scores, const Limits& limits,
                      int64_t per_image) const {
    const int64_t images = boxes.dim(0), n = boxes.dim(1), q = boxes.dim(2), classes = scores.dim(2);
    ASSIGN_OR_RETURN(const Shape boxes_shape, Shape::Make({images, per_image, 4}));
    ASSIGN_OR_RETURN(Tensor* const out_boxes, c.Allocate(0, boxes_shape));
    ASSIGN_OR_RETURN(Tensor* const out_scores, c.Allocate(1, Shape({images, per_image})));
    ASSIGN_OR_RETURN(Tensor* const out_classes, c.Allocate(2, Shape({images, per_image})));
    ASSIGN_OR_RETURN(Tensor* const valid, c.Allocate(3, Shape({images})));
    for (Tensor* const t : {out_boxes, out_scores, out_classes})
      std::fill_n(t->mutable_data<float>(), t->num_elements(), 0.0f);
    c.ParallelFor(images, 100.0 * static_cast<double>(n * classes), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        std::vector<Detection> kept;
        for (int64_t k = 0; k < classes; ++k) {
          Suppress(boxes.data<float>() + (b * n * q + (q > 1 ? k : 0)) * 4, q * 4,
                   scores.data<float>() + b * n * classes + k, classes, n, k, limits, &kept);
        }
        std::stable_sort(kept.begin(), kept.end(),
                         [](const Detection& a, const Detection& d) { return a.score > d.score; });
        const int64_t count = std::min<int64_t>(per_image, static_cast<int64_t>(kept.size()));
        valid->mutable_data<int32_t>()[b] = static_cast<int32_t>(count);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = b * per_image + i;
          for (int k = 0; k < 4; ++k) {
            const float edge = kept[i].box[k];
            out_boxes->mutable_data<float>()[at * 4 + k] = clip_boxes_ ? std::max(std::min(edge, 1.0f), 0.0f) : edge;
          }
          out_scores->mutable_data<float>()[at] = kept[i].score;
          out_classes->mutable_data<float>()[at] = static_cast<float>(kept[i].class_index);
        }
      }
    });
    return absl::OkStatus();
  }

  bool pad_per_class_ = false, clip_boxes_ = true;
};

absl::Status CombinedShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape scores, c.WithRank(1, 3));
  for (const int i : {2, 3, 4, 5}) RETURN_IF_ERROR(c.RequireScalar(i));
  ASSIGN_OR_RETURN(const bool pad, c.Attr<bool>("pad_per_class"));
  int64_t per_image = PartialShape::kUnknown;
  const std::optional<Tensor> per_class = c.Constant(2), total = c.Constant(3);
  if (total.has_value() && total->num_elements() == 1) {
    if (!pad) {
      per_image = total->scalar<int32_t>();
    } else if (per_class.has_value() && per_class->num_elements() == 1 && scores.dim(2) >= 0) {
      per_image = std::min<int64_t>(total->scalar<int32_t>(), per_class->scalar<int32_t>() * scores.dim(2));
    }
    if (per_image <= 0 && per_image != PartialShape::kUnknown) {
      return InvalidArgument("max_total_size should be > 0 ");
    }
  }
  c.set_output(0, PartialShape({boxes.dim(0), per_image, 4}));
  c.set_output(1, PartialShape({boxes.dim(0), per_image}));
  c.set_output(2, PartialShape({boxes.dim(0), per_image}));
  c.set_output(3, PartialShape({boxes.dim(0)}));
  return absl::OkStatus();
}

const OpRegistration kCombined = Op("CombinedNonMaxSuppression")
                                     .Input("boxes: float")
                                     .Input("scores: float")
                                     .Input("max_output_size_per_class: int32")
                                     .Input("max_total_size: int32")
                                     .Input("iou_threshold: float")
                                     .Input("score_threshold: float")
                                     .Output("nmsed_boxes: float")
                                     .Output("nmsed_scores: float")
                                     .Output("nmsed_classes: float")
                                     .Output("valid_detections: int32")
                                     .Attr("pad_per_class: bool = false")
                                     .Attr("clip_boxes: bool = true")
                                     .Shape(CombinedShape)
                                     .Kernel<CombinedKernel>()
                                     .NotDifferentiable();

}  // namespace
}  // namespace thalweg
