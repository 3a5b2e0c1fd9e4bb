// SPDX-License-Identifier: Apache-2.0
// CTCBeamSearchDecoder: the most likely sequences of labels for logits [time,
// batch, classes], of which the last is "blank". The search goes through time
// and keeps the `beam_width` best prefixes; a prefix is a node of a tree, whose
// probability is split by whether its last moment was a blank.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/ctc.h"

namespace thalweg {
namespace {

struct Probability {
  double total = kLogZero<double>, blank = kLogZero<double>, label = kLogZero<double>;  // logarithms
};

struct Prefix {
  Prefix* parent = nullptr;
  int64_t label = -1;
  Probability before, now;
  std::map<int64_t, std::unique_ptr<Prefix>> longer;

  bool active() const { return now.total != kLogZero<double>; }
};

class Search {
 public:
  Search(int64_t width, int64_t classes) : width_(static_cast<size_t>(width)), blank_(classes - 1) {
    root_.now = {0, 0, kLogZero<double>};
    beam_.push_back(&root_);
  }

  // One moment, of log probabilities.
  void Step(const std::vector<double>& y) {
    const std::vector<Prefix*> prefixes = std::move(beam_);
    beam_.clear();
    for (Prefix* p : prefixes) p->before = p->now;
    for (Prefix* p : prefixes) {
      if (p->parent != nullptr) {
        if (p->parent->active()) {
          const Probability& parent = p->parent->before;
          p->now.label = LogSum(p->now.label, p->label == p->parent->label ? parent.blank : parent.total);
        }
        p->now.label += y[p->label];
      }
      p->now.blank = p->before.total + y[blank_];
      p->now.total = LogSum(p->now.blank, p->now.label);
      Insert(p);
    }
    for (Prefix* p : prefixes) {
      if (!IsCandidate(p->before.total)) continue;
      for (int64_t label = 0; label < blank_; ++label) {
        // To repeat a label, there must be a blank in between.
        const double total = y[label] + (label == p->label ? p->before.blank : p->before.total);
        const auto known = p->longer.find(label);
        if (known != p->longer.end() && known->second->active()) continue;
        if (!IsCandidate(total)) continue;
        std::unique_ptr<Prefix>& longer = p->longer[label];
        if (longer == nullptr) longer = std::make_unique<Prefix>();
        longer->parent = p;
        longer->label = label;
        longer->before = Probability();
        longer->now = {total, kLogZero<double>, total};
        Insert(longer.get());
      }
    }
  }

  // Best first.
  const std::vector<Prefix*>& beam() const { return beam_; }

 private:
  bool IsCandidate(double total) const {
    return total > kLogZero<double> && (beam_.size() < width_ || total > beam_.back()->now.total);
  }
  void Insert(Prefix* p) {
    if (beam_.size() == width_) {
      beam_.back()->now = Probability();
      beam_.pop_back();
    }
    const auto after = [](const Prefix* a, const Prefix* b) { return a->now.total > b->now.total; };
    beam_.insert(std::upper_bound(beam_.begin(), beam_.end(), p, after), p);
  }

  const size_t width_;
  const int64_t blank_;
  Prefix root_;
  std::vector<Prefix*> beam_;
};

std::vector<int64_t> LabelsOf(const Prefix* p, bool merge) {
  std::vector<int64_t> labels;
  for (int64_t previous = -1; p->parent != nullptr; previous = p->label, p = p->parent) {
    if (!merge || p->label != previous) labels.push_back(p->label);
  }
  std::reverse(labels.begin(), labels.end());
  return labels;
}

class CtcBeamSearchKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(merge_, init.Attr<bool>("merge_repeated"));
    ASSIGN_OR_RETURN(width_, init.Attr<int64_t>("beam_width"));
    ASSIGN_OR_RETURN(paths_, init.Attr<int64_t>("top_paths"));
    if (paths_ > width_) {
      return InvalidArgument("requested more paths than the beam width: ", paths_, " of ", width_);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &inputs = c.input(0), &lengths = c.input(1);
    RETURN_IF_ERROR(CheckSequences(inputs, lengths));
    const int64_t batch = inputs.dim(1), classes = inputs.dim(2);
    const int paths = static_cast<int>(paths_);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({batch, paths_}));
    ASSIGN_OR_RETURN(Tensor* const scores, c.Allocate(3 * paths, shape));
    std::vector<std::vector<std::vector<int64_t>>> decoded(paths, std::vector<std::vector<int64_t>>(batch));
    std::vector<double> y(classes);
    for (int64_t b = 0; b < batch; ++b) {
      Search search(width_, classes);
      for (int64_t t = 0; t < lengths.data<int32_t>()[b]; ++t) {
        if (c.step().cancellation != nullptr && c.step().cancellation->cancelled()) {
          return Cancelled("the search was cancelled");
        }
        LogSoftmax(inputs, (t * batch + b) * classes, y);
        search.Step(y);
      }
      if (static_cast<int64_t>(search.beam().size()) < paths_) {
        return InvalidArgument("Less leaves in the beam search than requested: ", search.beam().size(), " of ", paths_);
      }
      for (int p = 0; p < paths; ++p) {
        const Prefix* const best = search.beam()[p];
        decoded[p][b] = LabelsOf(best, merge_);
        if (scores->dtype() == kFloat) {
          scores->mutable_data<float>()[b * paths_ + p] = static_cast<float>(best->now.total);
        } else {
          scores->mutable_data<double>()[b * paths_ + p] = best->now.total;
        }
      }
    }
    for (int p = 0; p < paths; ++p) RETURN_IF_ERROR(Write(c, p, decoded[p]));
    return absl::OkStatus();
  }

 private:
  static void LogSoftmax(const Tensor& inputs, int64_t first, std::vector<double>& y) {
    for (size_t k = 0; k < y.size(); ++k) {
      y[k] = inputs.dtype() == kFloat ? inputs.data<float>()[first + k] : inputs.data<double>()[first + k];
    }
    const double largest = *std::max_element(y.begin(), y.end());
    double sum = 0;
    for (const double x : y) sum += std::exp(x - largest);
    for (double& x : y) x -= largest + std::log(sum);
  }

  // The best, second best, ... of every sequence as a sparse matrix.
  absl::Status Write(KernelContext& c, int path, const std::vector<std::vector<int64_t>>& rows) const {
    int64_t count = 0, longest = 0;
    for (const std::vector<int64_t>& row : rows) {
      count += static_cast<int64_t>(row.size());
      longest = std::max(longest, static_cast<int64_t>(row.size()));
    }
    const int paths = static_cast<int>(paths_);
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(path, Shape({count, 2})));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(paths + path, Shape({count})));
    ASSIGN_OR_RETURN(Tensor* const shape, c.Allocate(2 * paths + path, Shape({2})));
    int64_t* place = indices->mutable_data<int64_t>();
    int64_t* value = values->mutable_data<int64_t>();
    for (size_t b = 0; b < rows.size(); ++b) {
      for (size_t i = 0; i < rows[b].size(); ++i) {
        *place++ = static_cast<int64_t>(b);
        *place++ = static_cast<int64_t>(i);
        *value++ = rows[b][i];
      }
    }
    shape->mutable_data<int64_t>()[0] = static_cast<int64_t>(rows.size());
    shape->mutable_data<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

  bool merge_ = true;
  int64_t width_ = 1, paths_ = 1;
};

absl::Status BeamShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape inputs, c.WithRank(0, 3));
  ASSIGN_OR_RETURN(const int64_t paths, c.Attr<int64_t>("top_paths"));
  for (int i = 0; i < paths; ++i) {
    c.set_output(i, PartialShape({-1, 2}));
    c.set_output(static_cast<int>(paths) + i, PartialShape::OfRank(1));
    c.set_output(static_cast<int>(2 * paths) + i, PartialShape({2}));
  }
  c.set_output(static_cast<int>(3 * paths), PartialShape({inputs.dim(1), paths}));
  return absl::OkStatus();
}

const OpRegistration kCtcBeamSearch = Op("CTCBeamSearchDecoder")
                                          .Input("inputs: T")
                                          .Input("sequence_length: int32")
                                          .Output("decoded_indices: top_paths * int64")
                                          .Output("decoded_values: top_paths * int64")
                                          .Output("decoded_shape: top_paths * int64")
                                          .Output("log_probability: T")
                                          .Attr("beam_width: int >= 1")
                                          .Attr("top_paths: int >= 1")
                                          .Attr("merge_repeated: bool = true")
                                          .Attr("T: {float, double} = DT_FLOAT")
                                          .Shape(BeamShape)
                                          .Kernel<CtcBeamSearchKernel>()
                                          .NotDifferentiable();

}  // namespace
}  // namespace thalweg
