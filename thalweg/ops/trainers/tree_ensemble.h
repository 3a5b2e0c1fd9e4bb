// SPDX-License-Identifier: Apache-2.0
// The decision trees of a gradient boosting model, which grow layer by layer. A resource; its
// ops are in boosted_trees.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/proto/boosted_trees.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// A split of a leaf. The contributions include the learning rate.
struct TreeSplit {
  int32_t feature_id = 0;
  int32_t dimension_id = 0;  // of the feature
  tensorflow::boosted_trees::SplitTypeWithDefault type = tensorflow::boosted_trees::INEQUALITY_DEFAULT_LEFT;
  float gain = 0;
  int32_t threshold = 0;
  float left_contribution = 0;
  float right_contribution = 0;
};

// The weight w and the gain of a leaf with given sums of gradients g and hessians h. w minimizes
// (h + l2) w^2 / 2 + g w + l1 |w|, and the gain is -2 times that minimum.
struct LeafWeight {
  float weight = 0;
  float gain = 0;
  static LeafWeight Of(float gradient, float hessian, float l1, float l2);
};

// The bucketized features of a batch of examples: one tensor [batch] or [batch, dimensions] per
// feature.
class BucketizedBatch {
 public:
  // INVALID_ARGUMENT if there are no features or their batch sizes differ.
  static absl::StatusOr<BucketizedBatch> Of(std::vector<Tensor> features);
  int64_t size() const { return features_[0].dim(0); }
  // INVALID_ARGUMENT if the feature or dimension, which comes from a split, does not exist.
  absl::StatusOr<int32_t> At(int64_t example, int32_t feature, int32_t dimension) const;

 private:
  std::vector<Tensor> features_;
};

// Thread-safe.
class TreeEnsemble final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow28BoostedTreesEnsembleResourceE";
  std::string Describe() const override { return "an ensemble of boosted trees"; }

  // Replaces all trees. INVALID_ARGUMENT unless `serialized` is a TreeEnsemble whose splits lead
  // downwards to leaves with one logit. An empty string is an empty ensemble.
  absl::Status Deserialize(absl::string_view serialized, int64_t stamp);
  struct Snapshot {
    int64_t stamp;
    std::string serialized;
  };
  Snapshot Serialize() const;

  struct States {
    int64_t stamp;
    int32_t trees, finalized_trees, attempted_layers;
    int32_t last_layer_begin, last_layer_end;  // nodes of the layer that is growing
  };
  States GetStates() const;

  enum class Pruning { kNone = 0, kPre = 1, kPost = 2 };
  // Adds a layer to the last tree; `splits` are by node. A tree with `max_depth` layers is
  // complete, and a new one begins.
  absl::Status Grow(const std::map<int32_t, TreeSplit>& splits, int32_t max_depth, Pruning pruning);
  // Adds to the bias, the root of the first tree. Returns true if the change was large enough to
  // continue.
  absl::StatusOr<bool> CenterBias(float logit);

  // The sum of the trees' logits for an example.
  absl::StatusOr<float> Predict(const BucketizedBatch& batch, int64_t example) const;
  // Continues an earlier prediction: returns what to add to it, and where this one ends. A node of
  // -1 means that there is no earlier prediction.
  struct Position {
    int32_t tree;
    int32_t node;
  };
  struct Partial {
    float logit;
    Position end;
  };
  absl::StatusOr<Partial> PredictFrom(Position start, const BucketizedBatch& batch, int64_t example) const;
  // The features on the decision path of an example, and the logits after each.
  absl::StatusOr<std::string> Explain(const BucketizedBatch& batch, int64_t example) const;

 private:
  using Node = tensorflow::boosted_trees::Node;

  absl::StatusOr<int32_t> NextNode(const Node& node, const BucketizedBatch& batch, int64_t example) const;
  absl::StatusOr<Partial> Walk(Position at, float tree_logit, const BucketizedBatch& batch, int64_t example) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddTree(float logit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Split(int tree, int32_t node_id, const TreeSplit& split) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Prune(int tree) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  int64_t stamp_ ABSL_GUARDED_BY(mutex_) = -1;
  tensorflow::boosted_trees::TreeEnsemble ensemble_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
