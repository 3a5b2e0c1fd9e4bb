// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/trainers/tree_ensemble.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using tensorflow::boosted_trees::Node;
using tensorflow::boosted_trees::Tree;

// Below this ratio of a change to the bias, centering it is done.
constexpr float kLeastBiasChange = 0.01f;

bool IsLeaf(const Node& node) { return node.node_case() == Node::kLeaf; }

// The logit of a leaf; for a split node, the logit before it was split.
float Value(const Node& node) { return IsLeaf(node) ? node.leaf().scalar() : node.metadata().original_leaf().scalar(); }

struct Children {
  int32_t left, right;
};
Children ChildrenOf(const Node& node) {
  if (node.has_bucketized_split()) return {node.bucketized_split().left_id(), node.bucketized_split().right_id()};
  return {node.categorical_split().left_id(), node.categorical_split().right_id()};
}
void SetChildren(Node& node, Children children) {
  if (node.has_bucketized_split()) {
    node.mutable_bucketized_split()->set_left_id(children.left);
    node.mutable_bucketized_split()->set_right_id(children.right);
  } else {
    node.mutable_categorical_split()->set_left_id(children.left);
    node.mutable_categorical_split()->set_right_id(children.right);
  }
}

// Children stand behind their parents, so that no walk goes round.
absl::Status Validate(const Tree& tree) {
  if (tree.nodes_size() == 0) return InvalidArgument("a tree of an ensemble has no nodes");
  for (int i = 0; i < tree.nodes_size(); ++i) {
    const Node& node = tree.nodes(i);
    if (IsLeaf(node)) {
      if (node.leaf().has_vector() || node.leaf().has_sparse_vector()) {
        return InvalidArgument("leaves with several logits are not supported");
      }
      continue;
    }
    if (!node.has_bucketized_split() && !node.has_categorical_split()) {
      return InvalidArgument("node ", i, " of a tree is neither a leaf nor a split by buckets or categories");
    }
    const Children children = ChildrenOf(node);
    for (const int32_t child : {children.left, children.right}) {
      if (child <= i || child >= tree.nodes_size()) {
        return InvalidArgument("node ", i, " of a tree of ", tree.nodes_size(), " nodes has node ", child,
                               " as a child");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Validate(const tensorflow::boosted_trees::TreeEnsemble& ensemble) {
  const int trees = ensemble.trees_size();
  if (ensemble.tree_weights_size() != trees || ensemble.tree_metadata_size() != trees) {
    return InvalidArgument("an ensemble of ", trees, " trees has ", ensemble.tree_weights_size(), " weights and ",
                           ensemble.tree_metadata_size(), " metadata");
  }
  for (int i = 0; i < trees; ++i) {
    RETURN_IF_ERROR(Validate(ensemble.trees(i)));
    for (const auto& update : ensemble.tree_metadata(i).post_pruned_nodes_meta()) {
      if (update.new_node_id() < 0 || update.new_node_id() >= ensemble.trees(i).nodes_size()) {
        return InvalidArgument("a pruned node went to node ", update.new_node_id(), " of a tree of ",
                               ensemble.trees(i).nodes_size());
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

LeafWeight LeafWeight::Of(float gradient, float hessian, float l1, float l2) {
  constexpr float kLeast = 1e-15f;
  if (l1 > 0) {
    if (std::fabs(gradient) <= l1) return {};
    gradient -= std::copysign(l1, gradient);
  }
  if (hessian + l2 <= kLeast) return {};
  const float weight = -gradient / (hessian + l2);
  return {weight, -gradient * weight};
}

absl::StatusOr<BucketizedBatch> BucketizedBatch::Of(std::vector<Tensor> features) {
  if (features.empty()) return InvalidArgument("there are no bucketized features");
  for (size_t i = 0; i < features.size(); ++i) {
    const Tensor& t = features[i];
    if (t.rank() != 1 && t.rank() != 2) {
      return InvalidArgument("bucketized feature ", i, " must be a vector or a matrix, got shape ", t.shape());
    }
    if (t.dim(0) != features[0].dim(0)) {
      return InvalidArgument("bucketized features have batches of ", features[0].dim(0), " and ", t.dim(0));
    }
  }
  BucketizedBatch batch;
  batch.features_ = std::move(features);
  return batch;
}

absl::StatusOr<int32_t> BucketizedBatch::At(int64_t example, int32_t feature, int32_t dimension) const {
  if (feature < 0 || feature >= static_cast<int32_t>(features_.size())) {
    return InvalidArgument("a tree splits by feature ", feature, " of ", features_.size());
  }
  const Tensor& t = features_[feature];
  const int64_t dimensions = t.rank() == 1 ? 1 : t.dim(1);
  if (dimension < 0 || dimension >= dimensions) {
    return InvalidArgument("a tree splits by dimension ", dimension, " of feature ", feature, ", which has ",
                           dimensions);
  }
  return t.data<int32_t>()[example * dimensions + dimension];
}

absl::Status TreeEnsemble::Deserialize(absl::string_view serialized, int64_t stamp) {
  tensorflow::boosted_trees::TreeEnsemble parsed;
  if (serialized.size() > std::numeric_limits<int>::max() ||
      !parsed.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return InvalidArgument("Unable to parse tree ensemble proto.");
  }
  RETURN_IF_ERROR(Validate(parsed));
  MutexLock lock(&mutex_);
  ensemble_ = std::move(parsed);
  stamp_ = stamp;
  return absl::OkStatus();
}

TreeEnsemble::Snapshot TreeEnsemble::Serialize() const {
  MutexLock lock(&mutex_);
  return {stamp_, ensemble_.SerializeAsString()};
}

TreeEnsemble::States TreeEnsemble::GetStates() const {
  MutexLock lock(&mutex_);
  const auto& growing = ensemble_.growing_metadata();
  const int32_t trees = ensemble_.trees_size();
  States states{.stamp = stamp_,
                .trees = trees,
                .finalized_trees = trees,
                .attempted_layers = static_cast<int32_t>(growing.num_layers_attempted()),
                .last_layer_begin = growing.last_layer_node_start(),
                .last_layer_end = growing.last_layer_node_end()};
  // The last may be growing, and may be a bare root that waits to.
  if (trees > 0 && !ensemble_.tree_metadata(trees - 1).is_finalized()) --states.finalized_trees;
  return states;
}

void TreeEnsemble::AddTree(float logit) {
  ensemble_.add_trees()->add_nodes()->mutable_leaf()->set_scalar(logit);
  ensemble_.add_tree_weights(1);
  ensemble_.add_tree_metadata();
}

absl::Status TreeEnsemble::Split(int tree, int32_t node_id, const TreeSplit& split) {
  Tree& t = *ensemble_.mutable_trees(tree);
  if (node_id < 0 || node_id >= t.nodes_size() || !IsLeaf(t.nodes(node_id))) {
    return InvalidArgument("node ", node_id, " of tree ", tree, ", which has ", t.nodes_size(),
                           " nodes, is not a leaf to split");
  }
  const int32_t left = t.nodes_size(), right = left + 1;
  const float before = t.nodes(node_id).leaf().scalar();
  t.add_nodes()->mutable_leaf()->set_scalar(before + split.left_contribution);
  t.add_nodes()->mutable_leaf()->set_scalar(before + split.right_contribution);
  Node& node = *t.mutable_nodes(node_id);
  // A bare root is not worth remembering.
  if (node_id != 0 || before != 0) *node.mutable_metadata()->mutable_original_leaf() = node.leaf();
  node.mutable_metadata()->set_gain(split.gain);
  if (split.type == tensorflow::boosted_trees::EQUALITY_DEFAULT_RIGHT) {
    auto& categorical = *node.mutable_categorical_split();
    categorical.set_feature_id(split.feature_id);
    categorical.set_value(split.threshold);
    categorical.set_dimension_id(split.dimension_id);
  } else {
    auto& bucketized = *node.mutable_bucketized_split();
    bucketized.set_feature_id(split.feature_id);
    bucketized.set_threshold(split.threshold);
    bucketized.set_dimension_id(split.dimension_id);
    const bool to_right = split.type == tensorflow::boosted_trees::INEQUALITY_DEFAULT_RIGHT;
    bucketized.set_default_direction(to_right ? tensorflow::boosted_trees::DEFAULT_RIGHT
                                              : tensorflow::boosted_trees::DEFAULT_LEFT);
  }
  SetChildren(node, {left, right});
  return absl::OkStatus();
}

absl::Status TreeEnsemble::Grow(const std::map<int32_t, TreeSplit>& splits, int32_t max_depth, Pruning pruning) {
  MutexLock lock(&mutex_);
  ++stamp_;
  auto& growing = *ensemble_.mutable_growing_metadata();
  const int trees = ensemble_.trees_size();
  growing.set_num_layers_attempted(growing.num_layers_attempted() + 1);
  // The first layer of a tree, whose root is all there is.
  if (trees == 0 || ((trees == 1 || ensemble_.tree_metadata(trees - 2).is_finalized()) &&
                     ensemble_.trees(trees - 1).nodes_size() == 1)) {
    growing.set_num_trees_attempted(growing.num_trees_attempted() + 1);
  }
  if (trees == 0) AddTree(0);
  if (splits.empty()) return absl::OkStatus();
  const int tree = ensemble_.trees_size() - 1;
  int32_t begin = ensemble_.trees(tree).nodes_size();
  bool grown = false;
  for (const auto& [node, split] : splits) {
    if (pruning == Pruning::kPre && split.gain < 0) continue;
    RETURN_IF_ERROR(Split(tree, node, split));
    grown = true;
  }
  if (!grown) return absl::OkStatus();
  int32_t end = ensemble_.trees(tree).nodes_size();
  auto& metadata = *ensemble_.mutable_tree_metadata(tree);
  metadata.set_num_layers_grown(metadata.num_layers_grown() + 1);
  if (metadata.num_layers_grown() >= max_depth) {
    metadata.set_is_finalized(true);
    if (pruning == Pruning::kPost) Prune(tree);
    AddTree(0);
    begin = 0;
    end = 1;
  }
  growing.set_last_layer_node_start(begin);
  growing.set_last_layer_node_end(end);
  return absl::OkStatus();
}

// Splits that lose, and whose children are leaves, become leaves again, from the
// bottom up. What becomes of every node is kept for predictions that ended there.
void TreeEnsemble::Prune(int tree) {
  Tree& t = *ensemble_.mutable_trees(tree);
  const int count = t.nodes_size();
  struct Change {
    int parent = -1;  // -1: stays
    float logit = 0;
  };
  std::vector<Change> changes(count);
  for (int i = count - 1; i >= 0; --i) {  // children stand behind their parents
    Node& node = *t.mutable_nodes(i);
    if (IsLeaf(node) || node.metadata().gain() >= 0) continue;
    const Children children = ChildrenOf(node);
    if (!IsLeaf(t.nodes(children.left)) || !IsLeaf(t.nodes(children.right))) continue;
    const float value = Value(node);
    for (const int32_t child : {children.left, children.right}) changes[child] = {i, value - Value(t.nodes(child))};
    node.mutable_leaf()->set_scalar(value);
    node.clear_metadata();
  }
  if (std::none_of(changes.begin(), changes.end(), [](const Change& c) { return c.parent >= 0; })) return;
  std::vector<int32_t> ids(count);
  Tree pruned;
  for (int i = 0; i < count; ++i) {
    ids[i] = pruned.nodes_size();
    if (changes[i].parent < 0) *pruned.add_nodes() = t.nodes(i);
  }
  for (Node& node : *pruned.mutable_nodes()) {
    if (IsLeaf(node)) continue;
    const Children children = ChildrenOf(node);
    SetChildren(node, {ids[children.left], ids[children.right]});
  }
  auto& metadata = *ensemble_.mutable_tree_metadata(tree);
  for (int i = 0; i < count; ++i) {
    int at = i;
    float logit = 0;
    for (; changes[at].parent >= 0; at = changes[at].parent) logit += changes[at].logit;
    auto& update = *metadata.add_post_pruned_nodes_meta();
    update.set_new_node_id(ids[at]);
    update.add_logit_change(logit);
  }
  t = std::move(pruned);
}

absl::StatusOr<bool> TreeEnsemble::CenterBias(float logit) {
  MutexLock lock(&mutex_);
  ++stamp_;
  if (ensemble_.trees_size() == 0) {
    AddTree(logit);
    return true;
  }
  Node& root = *ensemble_.mutable_trees(0)->mutable_nodes(0);
  if (!IsLeaf(root)) return FailedPrecondition("the bias cannot be centered any more: the first tree has grown");
  const float bias = root.leaf().scalar();
  root.mutable_leaf()->set_scalar(bias + logit);
  return std::fabs(logit / bias) > kLeastBiasChange;
}

absl::StatusOr<int32_t> TreeEnsemble::NextNode(const Node& node, const BucketizedBatch& batch, int64_t example) const {
  if (node.has_bucketized_split()) {
    const auto& split = node.bucketized_split();
    ASSIGN_OR_RETURN(const int32_t bucket, batch.At(example, split.feature_id(), split.dimension_id()));
    return bucket <= split.threshold() ? split.left_id() : split.right_id();
  }
  const auto& split = node.categorical_split();
  ASSIGN_OR_RETURN(const int32_t bucket, batch.At(example, split.feature_id(), split.dimension_id()));
  return bucket == split.value() ? split.left_id() : split.right_id();
}

absl::StatusOr<TreeEnsemble::Partial> TreeEnsemble::Walk(Position at, float tree_logit, const BucketizedBatch& batch,
                                                         int64_t example) const {
  float sum = 0;
  const int last = ensemble_.trees_size() - 1;
  while (true) {
    const Node& node = ensemble_.trees(at.tree).nodes(at.node);
    if (!IsLeaf(node)) {
      ASSIGN_OR_RETURN(at.node, NextNode(node, batch, example));
      continue;
    }
    sum += ensemble_.tree_weights(at.tree) * (tree_logit + node.leaf().scalar());
    tree_logit = 0;
    if (at.tree == last) return Partial{sum, at};
    at = {at.tree + 1, 0};
  }
}

absl::StatusOr<float> TreeEnsemble::Predict(const BucketizedBatch& batch, int64_t example) const {
  MutexLock lock(&mutex_);
  if (ensemble_.trees_size() == 0) return 0.0f;
  ASSIGN_OR_RETURN(const Partial result, Walk({0, 0}, 0, batch, example));
  return result.logit;
}

absl::StatusOr<TreeEnsemble::Partial> TreeEnsemble::PredictFrom(Position start, const BucketizedBatch& batch,
                                                                int64_t example) const {
  MutexLock lock(&mutex_);
  if (ensemble_.trees_size() == 0) return Partial{0, {start.tree, 0}};
  if (start.tree < 0 || start.tree >= ensemble_.trees_size()) {
    return InvalidArgument("a cached prediction ended in tree ", start.tree, " of ", ensemble_.trees_size());
  }
  if (start.node < 0) return Walk({start.tree, 0}, 0, batch, example);
  float logit = 0;
  const auto& updates = ensemble_.tree_metadata(start.tree).post_pruned_nodes_meta();
  if (ensemble_.tree_metadata(start.tree).is_finalized() && start.node < updates.size()) {
    const auto& update = updates[start.node];
    start.node = update.new_node_id();
    if (update.logit_change_size() > 0) logit = update.logit_change(0);
  }
  if (start.node >= ensemble_.trees(start.tree).nodes_size()) {
    return InvalidArgument("a cached prediction ended in node ", start.node, " of tree ", start.tree, ", which has ",
                           ensemble_.trees(start.tree).nodes_size(), " nodes");
  }
  // The earlier prediction contains the node's logit: subtract it, and add the leaf's.
  return Walk(start, logit - Value(ensemble_.trees(start.tree).nodes(start.node)), batch, example);
}

absl::StatusOr<std::string> TreeEnsemble::Explain(const BucketizedBatch& batch, int64_t example) const {
  MutexLock lock(&mutex_);
  tensorflow::boosted_trees::DebugOutput output;
  if (ensemble_.trees_size() == 0) return output.SerializeAsString();
  float tree_logit = ensemble_.tree_weights(0) * Value(ensemble_.trees(0).nodes(0)), past = 0;
  output.add_logits_path(tree_logit);
  for (int tree = 0; tree < ensemble_.trees_size(); ++tree) {
    int32_t at = 0;
    while (!IsLeaf(ensemble_.trees(tree).nodes(at))) {
      const Node& node = ensemble_.trees(tree).nodes(at);
      output.add_feature_ids(node.has_bucketized_split() ? node.bucketized_split().feature_id()
                                                         : node.categorical_split().feature_id());
      ASSIGN_OR_RETURN(at, NextNode(node, batch, example));
      tree_logit = ensemble_.tree_weights(tree) * Value(ensemble_.trees(tree).nodes(at));
      output.add_logits_path(tree_logit + past);
    }
    if (tree == 0 || at > 0) past += tree_logit;
  }
  return output.SerializeAsString();
}

}  // namespace thalweg
