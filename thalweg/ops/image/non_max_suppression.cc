// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression: of boxes that overlap, keep the one with the highest score.
// Boxes are taken by falling score, and dropped if they overlap one that was
// taken by more than a threshold (intersection over union); the soft form (V5)
// lowers their score instead, by exp(-overlap^2 / (2 sigma)) (Bodla et al.,
// 2017). WithOverlaps takes the overlaps as they are.
#include <cmath>
#include <functional>
#include <limits>
#include <queue>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/box_overlap.h"
#include "thalweg/ops/image_ops.h"

namespace thalweg {
namespace {

std::vector<float> Floats(const Tensor& t) {
  std::vector<float> values(t.num_elements());
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    values[i] = t.dtype() == kHalf ? static_cast<float>(t.data<Half>()[i]) : t.data<float>()[i];
  }
  return values;
}

struct Limits {
  int64_t count = 0;
  float overlap = 0.5f;
  float score = -std::numeric_limits<float>::infinity();
  float sigma = 0;    // sigma of soft suppression; 0 means hard suppression
  bool half = false;  // scores are rounded
};

struct Selected {
  std::vector<int32_t> indices;
  std::vector<float> scores;
};

Selected Suppress(const std::vector<float>& scores, const Limits& limits,
                  const std::function<float(int, int)>& overlap) {
  struct Candidate {
    int box;
    float score;
    int compared;  // the number of selected boxes that it was compared with
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && box > other.box);
    }
  };
  std::priority_queue<Candidate> candidates;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > limits.score) candidates.push({static_cast<int>(i), scores[i], 0});
  }
  const bool soft = limits.sigma > 0;
  const auto round = [&](float v) { return limits.half ? static_cast<float>(static_cast<Half>(v)) : v; };
  Selected selected;
  while (static_cast<int64_t>(selected.indices.size()) < limits.count && !candidates.empty()) {
    Candidate next = candidates.top();
    candidates.pop();
    const float before = next.score;
    bool dropped = false;
    for (int i = static_cast<int>(selected.indices.size()) - 1; i >= next.compared; --i) {
      const float common = round(overlap(next.box, selected.indices[i]));
      if (!soft && common > limits.overlap) {
        dropped = true;
        break;
      }
      if (soft) next.score = round(next.score * round(std::exp(round(-0.5f / limits.sigma) * common * common)));
      if (next.score <= limits.score) break;
    }
    next.compared = static_cast<int>(selected.indices.size());
    if (dropped) continue;
    if (next.score == before) {
      selected.indices.push_back(next.box);
      selected.scores.push_back(next.score);
    } else if (next.score > limits.score) {
      candidates.push(next);
    }
  }
  return selected;
}

absl::StatusOr<float> ReadLimit(const Tensor& t, absl::string_view name) {
  if (t.rank() != 0) return InvalidArgument(name, " must be 0-D, got shape ", t.shape());
  return Floats(t)[0];
}

class NonMaxSuppressionKernel : public Kernel {
 public:
  // Version 0 is the form that takes overlaps.
  explicit NonMaxSuppressionKernel(int version) : version_(version) {}

  absl::Status Init(const KernelInit& init) override {
    if (version_ == 1) {
      ASSIGN_OR_RETURN(iou_threshold_, init.Attr<float>("iou_threshold"));
      RETURN_IF_ERROR(CheckThreshold(iou_threshold_));
    }
    if (version_ >= 4) {
      ASSIGN_OR_RETURN(pad_, init.Attr<bool>("pad_to_max_output_size"));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& boxes = c.input(0);
    const Tensor& scores = c.input(1);
    RETURN_IF_ERROR(CheckBoxes(boxes));
    if (scores.rank() != 1) {
      return InvalidArgument("scores must be 1-D", scores.shape(), " (Shape must be rank 1 but is rank ", scores.rank(),
                             ")");
    }
    if (scores.dim(0) != boxes.dim(0)) {
      return InvalidArgument("scores has incompatible shape (Dimensions must be equal, but are ", boxes.dim(0), " and ",
                             scores.dim(0), ")");
    }
    if (boxes.dim(0) > std::numeric_limits<int32_t>::max()) return InvalidArgument("too many boxes");
    Limits limits;
    RETURN_IF_ERROR(ReadLimits(c, &limits));
    const std::vector<float> places = Floats(boxes);
    const int64_t width = boxes.dim(1);
    const Selected selected = Suppress(Floats(scores), limits, [&](int i, int j) {
      return version_ == 0 ? places[i * width + j] : BoxOverlap(&places[4 * i], &places[4 * j]);
    });
    return Emit(c, selected, limits.count);
  }

 private:
  static absl::Status CheckThreshold(float threshold) {
    if (threshold >= 0 && threshold <= 1) return absl::OkStatus();
    return InvalidArgument("iou_threshold must be in [0, 1]");
  }

  absl::Status CheckBoxes(const Tensor& boxes) const {
    if (version_ == 0) {
      if (boxes.rank() != 2) return InvalidArgument("overlaps must be 2-D", boxes.shape());
      if (boxes.dim(0) != boxes.dim(1)) return InvalidArgument("overlaps must be square", boxes.shape());
      return absl::OkStatus();
    }
    if (boxes.rank() != 2) {
      return InvalidArgument("boxes must be 2-D", boxes.shape(), " (Shape must be rank 2 but is rank ", boxes.rank(),
                             ")");
    }
    if (boxes.dim(1) != 4) {
      return InvalidArgument("boxes must have 4 columns (Dimension must be 4 but is ", boxes.dim(1), ")");
    }
    return absl::OkStatus();
  }

  absl::Status ReadLimits(const KernelContext& c, Limits* limits) const {
    const Tensor& count = c.input(2);
    if (count.rank() != 0) {
      return InvalidArgument("max_output_size must be 0-D, got shape ", count.shape(),
                             " (Shape must be rank 0 but is rank ", count.rank(), ")");
    }
    limits->count = count.scalar<int32_t>();
    if (limits->count < 0) return InvalidArgument("output size must be non-negative");
    limits->overlap = iou_threshold_;
    limits->half = c.input(1).dtype() == kHalf;
    if (limits->half) limits->score = -65504.0f;
    if (limits->score < -std::numeric_limits<float>::max()) limits->score = -std::numeric_limits<float>::max();
    if (version_ != 1) {
      ASSIGN_OR_RETURN(limits->overlap, ReadLimit(c.input(3), "iou_threshold"));
      if (version_ != 0) RETURN_IF_ERROR(CheckThreshold(limits->overlap));
    }
    if (version_ == 0 || version_ >= 3) {
      ASSIGN_OR_RETURN(limits->score, ReadLimit(c.input(4), "score_threshold"));
    }
    if (version_ == 5) {
      ASSIGN_OR_RETURN(limits->sigma, ReadLimit(c.input(5), "soft_nms_sigma"));
      if (!(limits->sigma >= 0)) return InvalidArgument("soft_nms_sigma_val must be >= 0");
    }
    return absl::OkStatus();
  }

  absl::Status Emit(KernelContext& c, const Selected& selected, int64_t count) const {
    const int64_t valid = static_cast<int64_t>(selected.indices.size());
    const Shape shape({pad_ ? count : valid});
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, shape));
    std::fill_n(indices->mutable_data<int32_t>(), shape.num_elements(), 0);
    std::copy(selected.indices.begin(), selected.indices.end(), indices->mutable_data<int32_t>());
    if (version_ == 5) {
      ASSIGN_OR_RETURN(Tensor* const scores, c.Allocate(1, shape));
      RETURN_IF_ERROR(Dispatch(Types<float, Half>(), scores->dtype(), [&]<typename T>() {
        for (int64_t i = 0; i < shape.num_elements(); ++i) {
          scores->mutable_data<T>()[i] = static_cast<T>(i < valid ? selected.scores[i] : 0.0f);
        }
        return absl::OkStatus();
      }));
    }
    if (version_ >= 4) c.set_output(c.num_outputs() - 1, Tensor::Scalar<int32_t>(static_cast<int32_t>(valid)));
    return absl::OkStatus();
  }

  const int version_;
  float iou_threshold_ = 0.5f;
  bool pad_ = false;
};

absl::Status SuppressionShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 2).status());
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  for (int i = 2; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(0, {PartialShape::kUnknown});
  if (c.num_outputs() == 3) c.set_output(1, {PartialShape::kUnknown});
  if (c.num_outputs() > 1) c.set_output(c.num_outputs() - 1, PartialShape(Shape()));
  return absl::OkStatus();
}

const OpRegistration kNonMaxSuppressionOps[] = {
    Op("NonMaxSuppression")
        .Input("boxes: float")
        .Input("scores: float")
        .Input("max_output_size: int32")
        .Output("selected_indices: int32")
        .Attr("iou_threshold: float = 0.5")
        .Shape(SuppressionShape)
        .Kernel<NonMaxSuppressionKernel>(1)
        .NotDifferentiable(),
    Op("NonMaxSuppressionV2")
        .Input("boxes: T")
        .Input("scores: T")
        .Input("max_output_size: int32")
        .Input("iou_threshold: T_threshold")
        .Output("selected_indices: int32")
        .Attr("T: {half, float} = DT_FLOAT")
        .Attr("T_threshold: {half, float} = DT_FLOAT")
        .Shape(SuppressionShape)
        .Kernel<NonMaxSuppressionKernel>(2)
        .NotDifferentiable(),
    Op("NonMaxSuppressionV3")
        .Input("boxes: T")
        .Input("scores: T")
        .Input("max_output_size: int32")
        .Input("iou_threshold: T_threshold")
        .Input("score_threshold: T_threshold")
        .Output("selected_indices: int32")
        .Attr("T: {half, float} = DT_FLOAT")
        .Attr("T_threshold: {half, float} = DT_FLOAT")
        .Shape(SuppressionShape)
        .Kernel<NonMaxSuppressionKernel>(3)
        .NotDifferentiable(),
    Op("NonMaxSuppressionV4")
        .Input("boxes: T")
        .Input("scores: T")
        .Input("max_output_size: int32")
        .Input("iou_threshold: T_threshold")
        .Input("score_threshold: T_threshold")
        .Output("selected_indices: int32")
        .Output("valid_outputs: int32")
        .Attr("T: {half, float} = DT_FLOAT")
        .Attr("T_threshold: {half, float} = DT_FLOAT")
        .Attr("pad_to_max_output_size: bool = false")
        .Shape(SuppressionShape)
        .Kernel<NonMaxSuppressionKernel>(4)
        .NotDifferentiable(),
    Op("NonMaxSuppressionV5")
        .Input("boxes: T")
        .Input("scores: T")
        .Input("max_output_size: int32")
        .Input("iou_threshold: T")
        .Input("score_threshold: T")
        .Input("soft_nms_sigma: T")
        .Output("selected_indices: int32")
        .Output("selected_scores: T")
        .Output("valid_outputs: int32")
        .Attr("T: {half, float} = DT_FLOAT")
        .Attr("pad_to_max_output_size: bool = false")
        .Shape(SuppressionShape)
        .Kernel<NonMaxSuppressionKernel>(5)
        .NotDifferentiable(),
    Op("NonMaxSuppressionWithOverlaps")
        .Input("overlaps: float")
        .Input("scores: float")
        .Input("max_output_size: int32")
        .Input("overlap_threshold: float")
        .Input("score_threshold: float")
        .Output("selected_indices: int32")
        .Shape(SuppressionShape)
        .Kernel<NonMaxSuppressionKernel>(0)
        .NotDifferentiable(),
};

}  // namespace

Output NonMaxSuppression(const Scope& s, Output boxes, Output scores, const IntArg& max_output_size,
                         const ScalarArg& iou_threshold, const ScalarArg& score_threshold) {
  return s.Add("NonMaxSuppressionV3",
               {boxes, scores, max_output_size.AsTensor(s, "max_output_size"),
                iou_threshold.AsTensor(s, "iou_threshold"), score_threshold.AsTensor(s, "score_threshold")});
}

}  // namespace thalweg
