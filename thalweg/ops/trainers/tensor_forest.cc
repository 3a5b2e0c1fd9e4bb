// SPDX-License-Identifier: Apache-2.0
// The decision tree of a TensorForest estimator in TensorFlow 1.15: a resource that is saved, restored and asked for
// predictions. Programs make trees outside of graphs.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/proto/boosted_trees.pb.h"

namespace thalweg {
namespace {

using tensorflow::boosted_trees::Node;
using tensorflow::boosted_trees::Tree;

absl::StatusOr<std::shared_ptr<const Tree>> ParseTree(const Tensor& config) {
  if (config.num_elements() != 1) return InvalidArgument("tree_config must be a scalar, got shape ", config.shape());
  const std::string& bytes = config.data<std::string>()[0];
  auto tree = std::make_shared<Tree>();
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !tree->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("Unable to parse tree config.");
  }
  const int size = tree->nodes_size();
  for (int i = 0; i < size; ++i) {
    const Node& node = tree->nodes(i);
    if (node.has_leaf()) continue;
    if (!node.has_dense_split()) return InvalidArgument("node ", i, " of a tree is neither a leaf nor a dense split");
    for (const int32_t child : {node.dense_split().left_id(), node.dense_split().right_id()}) {
      if (child < 0 || child >= size) {
        return InvalidArgument("node ", i, " of a tree of ", size, " nodes has node ", child, " as a child");
      }
    }
  }
  return tree;
}

// Thread-safe.
class ForestTree final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow24TensorForestTreeResourceE";
  explicit ForestTree(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const Tree> Get() const {
    MutexLock lock(&mutex_);
    return tree_;
  }
  void Set(std::shared_ptr<const Tree> tree) {
    MutexLock lock(&mutex_);
    tree_ = std::move(tree);
  }
  std::string Describe() const override { return absl::StrCat("a decision tree of ", Get()->nodes_size(), " nodes"); }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Tree> tree_ ABSL_GUARDED_BY(mutex_);
};

absl::Status IsTreeInitialized(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, ForestTree::kTypeName));
  c.set_output(0, Tensor::Scalar<bool>(c.device().resources().Find<ForestTree>(name.container, name.name).ok()));
  return absl::OkStatus();
}

// Makes the tree, unless there is one.
absl::Status CreateTree(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, ForestTree::kTypeName));
  ASSIGN_OR_RETURN(std::shared_ptr<const Tree> tree, ParseTree(c.input(1)));
  const absl::Status status =
      c.device().resources().Create(name.container, name.name, std::make_shared<ForestTree>(std::move(tree)));
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

absl::Status SerializeTree(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ForestTree> tree, FindResource<ForestTree>(c, 0));
  c.set_output(0, Tensor::Scalar<std::string>(tree->Get()->SerializeAsString()));
  return absl::OkStatus();
}

absl::Status DeserializeTree(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ForestTree> tree, FindResource<ForestTree>(c, 0));
  ASSIGN_OR_RETURN(std::shared_ptr<const Tree> parsed, ParseTree(c.input(1)));
  tree->Set(std::move(parsed));
  return absl::OkStatus();
}

absl::Status TreeSize(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ForestTree> tree, FindResource<ForestTree>(c, 0));
  c.set_output(0, Tensor::Scalar<int32_t>(tree->Get()->nodes_size()));
  return absl::OkStatus();
}

class PredictTreeKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(logits_, init.Attr<int64_t>("logits_dimension"));
    if (logits_ < 0) return InvalidArgument("logits_dimension must not be negative, got ", logits_);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<ForestTree> resource, FindResource<ForestTree>(c, 0));
    const std::shared_ptr<const Tree> tree = resource->Get();
    const Tensor& features = c.input(1);
    if (features.rank() != 2) return InvalidArgument("dense_features must be a matrix, got shape ", features.shape());
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({features.dim(0), logits_}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    float* to = out->mutable_data<float>();
    std::fill_n(to, out->num_elements(), 0.0f);
    if (tree->nodes_size() == 0 || out->num_elements() == 0) return absl::OkStatus();  // a batch may be huge and empty
    for (int64_t i = 0; i < features.dim(0); ++i, to += logits_) {
      ASSIGN_OR_RETURN(const Node* const leaf,
                       Walk(*tree, features.data<float>() + i * features.dim(1), features.dim(1)));
      const auto& values = leaf->leaf().vector().value();
      if (values.size() < logits_) {
        return InvalidArgument("a leaf has ", values.size(), " values, but logits_dimension is ", logits_);
      }
      std::copy_n(values.begin(), logits_, to);
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<const Node*> Walk(const Tree& tree, const float* features, int64_t count) {
    const Node* node = &tree.nodes(0);
    for (int steps = 0; steps < tree.nodes_size(); ++steps) {
      if (node->has_leaf()) return node;
      const auto& split = node->dense_split();
      if (split.feature_id() < 0 || split.feature_id() >= count) {
        return InvalidArgument("a split is by feature ", split.feature_id(), ", but examples have ", count);
      }
      node = &tree.nodes(features[split.feature_id()] <= split.threshold() ? split.left_id() : split.right_id());
    }
    return InvalidArgument("the nodes of a tree form a circle");
  }

  int64_t logits_ = 0;
};

absl::Status PredictTreeShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape features, c.WithRank(1, 2));
  ASSIGN_OR_RETURN(const int64_t logits, c.Attr<int64_t>("logits_dimension"));
  c.set_output(0, PartialShape({features.dim(0), logits}));
  return absl::OkStatus();
}

Op TreeOp(absl::string_view name) {
  return Op(name).Input("tree_handle: resource").Stateful().Shape(shapes::Unknown).NotDifferentiable();
}

const OpRegistration kTensorForestOps[] = {
    Op("TensorForestTreeResourceHandleOp")
        .Output("resource: resource")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<HandleKernel>(ForestTree::kTypeName)
        .NotDifferentiable(),
    TreeOp("TensorForestTreeIsInitializedOp")
        .Output("is_initialized: bool")
        .Shape(shapes::Scalar)
        .Compute(IsTreeInitialized),
    TreeOp("TensorForestCreateTreeVariable").Input("tree_config: string").Compute(CreateTree),
    TreeOp("TensorForestTreeSerialize").Output("tree_config: string").Shape(shapes::Scalar).Compute(SerializeTree),
    TreeOp("TensorForestTreeDeserialize").Input("tree_config: string").Compute(DeserializeTree),
    TreeOp("TensorForestTreeSize").Output("tree_size: int32").Shape(shapes::Scalar).Compute(TreeSize),
    TreeOp("TensorForestTreePredict")
        .Input("dense_features: float")
        .Output("logits: float")
        .Attr("logits_dimension: int")
        .Shape(PredictTreeShape)
        .Kernel<PredictTreeKernel>(),
};

}  // namespace
}  // namespace thalweg
