// SPDX-License-Identifier: Apache-2.0
// The ops of boosted trees that keep and use the ensemble (tree_ensemble.h). One
// logit per example, as TensorFlow 1.15's estimators have.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/trainers/tree_ensemble.h"

namespace thalweg {
namespace {

template <typename T>
absl::StatusOr<T> ScalarInput(KernelContext& context, int i, absl::string_view name) {
  const Tensor& t = context.input(i);
  if (t.num_elements() != 1) return InvalidArgument(name, " must be a scalar, got a tensor of shape ", t.shape());
  return t.data<T>()[0];
}

// Only outputs the handle; BoostedTreesCreateEnsemble creates the ensemble.
class EnsembleHandleKernel : public AnyResourceKernel {
 public:
  EnsembleHandleKernel() { type_name_ = TreeEnsemble::kTypeName; }
  absl::Status Compute(KernelContext& context) override {
    SetHandle(context);
    return absl::OkStatus();
  }
};

// Makes the ensemble, unless there is one.
absl::Status CreateEnsemble(KernelContext& context) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(context, 0, TreeEnsemble::kTypeName));
  ASSIGN_OR_RETURN(const int64_t stamp, ScalarInput<int64_t>(context, 1, "stamp_token"));
  ASSIGN_OR_RETURN(const std::string serialized, ScalarInput<std::string>(context, 2, "tree_ensemble_serialized"));
  auto ensemble = std::make_shared<TreeEnsemble>();
  RETURN_IF_ERROR(ensemble->Deserialize(serialized, stamp));
  const absl::Status status = context.device().resources().Create(name.container, name.name, std::move(ensemble));
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

absl::Status DeserializeEnsemble(KernelContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
  ASSIGN_OR_RETURN(const int64_t stamp, ScalarInput<int64_t>(context, 1, "stamp_token"));
  ASSIGN_OR_RETURN(const std::string serialized, ScalarInput<std::string>(context, 2, "tree_ensemble_serialized"));
  return ensemble->Deserialize(serialized, stamp);
}

absl::Status SerializeEnsemble(KernelContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
  TreeEnsemble::Snapshot snapshot = ensemble->Serialize();
  context.set_output(0, Tensor::Scalar<int64_t>(snapshot.stamp));
  context.set_output(1, Tensor::Scalar<std::string>(std::move(snapshot.serialized)));
  return absl::OkStatus();
}

absl::Status GetEnsembleStates(KernelContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
  const TreeEnsemble::States states = ensemble->GetStates();
  context.set_output(0, Tensor::Scalar<int64_t>(states.stamp));
  context.set_output(1, Tensor::Scalar<int32_t>(states.trees));
  context.set_output(2, Tensor::Scalar<int32_t>(states.finalized_trees));
  context.set_output(3, Tensor::Scalar<int32_t>(states.attempted_layers));
  // A new ensemble grows from a root.
  context.set_output(4, Tensor::Vector<int32_t>({states.last_layer_begin, std::max(1, states.last_layer_end)}));
  return absl::OkStatus();
}

absl::Status IsEnsembleInitialized(KernelContext& context) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(context, 0, TreeEnsemble::kTypeName));
  const bool found = context.device().resources().Find<TreeEnsemble>(name.container, name.name).ok();
  context.set_output(0, Tensor::Scalar<bool>(found));
  return absl::OkStatus();
}

// Gains that differ by less count as the same, and the feature of the smaller id
// is taken.
constexpr float kSameGain = 1e-15f;

absl::StatusOr<TreeEnsemble::Pruning> PruningFrom(int64_t mode) {
  if (mode < 0 || mode > 2) return InvalidArgument("pruning_mode must be 0, 1 or 2, got ", mode);
  return static_cast<TreeEnsemble::Pruning>(mode);
}

// The second version has the dimensions and types of splits, and the pruning mode, as inputs.
class UpdateEnsembleKernel : public Kernel {
 public:
  explicit UpdateEnsembleKernel(bool second) : second_(second) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(features_, init.Attr<int64_t>("num_features"));
    if (!second_) {
      ASSIGN_OR_RETURN(const int64_t pruning, init.Attr<int64_t>("pruning_mode"));
      ASSIGN_OR_RETURN(pruning_, PruningFrom(pruning));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const int64_t logits, init.Attr<int64_t>("logits_dimension"));
    ASSIGN_OR_RETURN(const int64_t groups, init.Attr<int64_t>("num_groups"));
    if (logits == 1 && groups == 1) return absl::OkStatus();
    return Unimplemented("trees of ", logits, " logits from ", groups, " groups of features: trees have one logit");
  }

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
    const int scalars = 2 + (second_ ? 7 : 5) * static_cast<int>(features_);
    ASSIGN_OR_RETURN(const int32_t max_depth, ScalarInput<int32_t>(context, scalars, "max_depth"));
    ASSIGN_OR_RETURN(const float rate, ScalarInput<float>(context, scalars + 1, "learning_rate"));
    TreeEnsemble::Pruning pruning = pruning_;
    if (second_) {
      ASSIGN_OR_RETURN(const int32_t mode, ScalarInput<int32_t>(context, scalars + 2, "pruning_mode"));
      ASSIGN_OR_RETURN(pruning, PruningFrom(mode));
    }
    const Tensor& ids = context.input(1);
    if (ids.rank() != 1 || ids.dim(0) != features_) {
      return InvalidArgument("feature_ids must be a vector of ", features_, ", got shape ", ids.shape());
    }
    std::map<int32_t, TreeSplit> best;
    for (int i = 0; i < features_; ++i) RETURN_IF_ERROR(AddCandidates(context, i, ids.data<int32_t>()[i], rate, best));
    return ensemble->Grow(best, max_depth, pruning);
  }

 private:
  // Inputs: the handle, ids of features, and for each feature nodes, gains,
  // thresholds, left and right contributions. The second version has dimensions
  // before and types after these.
  absl::Status AddCandidates(KernelContext& context, int feature, int32_t id, float rate,
                             std::map<int32_t, TreeSplit>& best) const {
    const int first = second_ ? 1 : 0;
    const auto input = [&](int list) -> const Tensor& {
      return context.input(2 + (first + list) * static_cast<int>(features_) + feature);
    };
    const Tensor &nodes = input(0), &gains = input(1), &thresholds = input(2), &left = input(3), &right = input(4);
    const int64_t count = nodes.num_elements();
    for (int list = -first; list < 5 + first; ++list) {
      if (input(list).num_elements() == count && input(list).rank() >= 1) continue;
      return InvalidArgument("the splits of feature ", feature, " must be one for each of ", count,
                             " nodes, with one logit, got shape ", input(list).shape());
    }
    for (int64_t i = 0; i < count; ++i) {
      TreeSplit split{.feature_id = id,
                      .gain = gains.data<float>()[i],
                      .threshold = thresholds.data<int32_t>()[i],
                      .left_contribution = rate * left.data<float>()[i],
                      .right_contribution = rate * right.data<float>()[i]};
      if (second_) {
        split.dimension_id = input(-1).data<int32_t>()[i];
        const std::string& type = input(5).data<std::string>()[i];
        if (!tensorflow::boosted_trees::SplitTypeWithDefault_Parse(type, &split.type)) {
          return InvalidArgument("split_types[", i, "] of feature ", feature, " is \"", type,
                                 "\", which is not a type of split");
        }
      }
      const auto [at, added] = best.try_emplace(nodes.data<int32_t>()[i], split);
      if (added) continue;
      const float difference = split.gain - at->second.gain;
      if (difference >= kSameGain || (std::abs(difference) < kSameGain && id < at->second.feature_id)) {
        at->second = split;
      }
    }
    return absl::OkStatus();
  }

  const bool second_;
  int64_t features_ = 0;
  TreeEnsemble::Pruning pruning_ = TreeEnsemble::Pruning::kNone;
};

absl::Status CenterBias(KernelContext& context) {
  ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
  ASSIGN_OR_RETURN(const float gradient, ScalarInput<float>(context, 1, "mean_gradients"));
  ASSIGN_OR_RETURN(const float hessian, ScalarInput<float>(context, 2, "mean_hessians"));
  ASSIGN_OR_RETURN(const float l1, ScalarInput<float>(context, 3, "l1"));
  ASSIGN_OR_RETURN(const float l2, ScalarInput<float>(context, 4, "l2"));
  ASSIGN_OR_RETURN(const bool go_on, ensemble->CenterBias(LeafWeight::Of(gradient, hessian, l1, l2).weight));
  context.set_output(0, Tensor::Scalar<bool>(go_on));
  return absl::OkStatus();
}

// ---- Predictions ----

class PredictKernelBase : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const int64_t logits, init.Attr<int64_t>("logits_dimension"));
    if (logits != 1) return InvalidArgument("Currently only one dimensional outputs are supported.");
    return absl::OkStatus();
  }

 protected:
  // The features behind `first` other inputs.
  static absl::StatusOr<BucketizedBatch> Features(KernelContext& context, int first) {
    std::vector<Tensor> features;
    for (int i = first; i < context.num_inputs(); ++i) features.push_back(context.input(i));
    return BucketizedBatch::Of(std::move(features));
  }

  // Runs f(example) for each; the first error.
  template <typename F>
  static absl::Status ForEachExample(KernelContext& context, int64_t size, const F& f) {
    Mutex mutex;
    absl::Status first;
    context.ParallelFor(size, 200, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const absl::Status status = f(i);
        if (status.ok()) continue;
        MutexLock lock(&mutex);
        first.Update(status);
        return;
      }
    });
    return first;
  }
};

class PredictKernel : public PredictKernelBase {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
    ASSIGN_OR_RETURN(const BucketizedBatch batch, Features(context, 1));
    ASSIGN_OR_RETURN(Tensor* const logits, context.Allocate(0, Shape({batch.size(), 1})));
    return ForEachExample(context, batch.size(), [&](int64_t i) -> absl::Status {
      ASSIGN_OR_RETURN(logits->mutable_data<float>()[i], ensemble->Predict(batch, i));
      return absl::OkStatus();
    });
  }
};

// Continues from the end of the prediction of the step before, so that only the nodes that have grown
// since are visited.
class TrainingPredictKernel : public PredictKernelBase {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
    ASSIGN_OR_RETURN(const BucketizedBatch batch, Features(context, 3));
    const Tensor &trees = context.input(1), &nodes = context.input(2);
    for (const Tensor* t : {&trees, &nodes}) {
      if (t->rank() == 1 && t->dim(0) == batch.size()) continue;
      return InvalidArgument("cached ids must be vectors of ", batch.size(), ", got shape ", t->shape());
    }
    ASSIGN_OR_RETURN(Tensor* const logits, context.Allocate(0, Shape({batch.size(), 1})));
    ASSIGN_OR_RETURN(Tensor* const tree_ids, context.Allocate(1, trees.shape()));
    ASSIGN_OR_RETURN(Tensor* const node_ids, context.Allocate(2, nodes.shape()));
    return ForEachExample(context, batch.size(), [&](int64_t i) -> absl::Status {
      const TreeEnsemble::Position start{trees.data<int32_t>()[i], nodes.data<int32_t>()[i]};
      ASSIGN_OR_RETURN(const TreeEnsemble::Partial partial, ensemble->PredictFrom(start, batch, i));
      logits->mutable_data<float>()[i] = partial.logit;
      tree_ids->mutable_data<int32_t>()[i] = partial.end.tree;
      node_ids->mutable_data<int32_t>()[i] = partial.end.node;
      return absl::OkStatus();
    });
  }
};

class ExampleDebugOutputsKernel : public PredictKernelBase {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<TreeEnsemble> ensemble, FindResource<TreeEnsemble>(context, 0));
    ASSIGN_OR_RETURN(const BucketizedBatch batch, Features(context, 1));
    ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, Shape({batch.size()})));
    return ForEachExample(context, batch.size(), [&](int64_t i) -> absl::Status {
      ASSIGN_OR_RETURN(out->mutable_data<std::string>()[i], ensemble->Explain(batch, i));
      return absl::OkStatus();
    });
  }
};

Op EnsembleOp(absl::string_view name) {
  return Op(name).Input("tree_ensemble_handle: resource").Stateful().Shape(shapes::Unknown).NotDifferentiable();
}
Op PredictOp(absl::string_view name) {
  return EnsembleOp(name).Attr("num_bucketized_features: int >= 1").Attr("logits_dimension: int");
}

const OpRegistration kBoostedTreesOps[] = {
    Op("BoostedTreesEnsembleResourceHandleOp")
        .Output("resource: resource")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<EnsembleHandleKernel>()
        .NotDifferentiable(),
    EnsembleOp("IsBoostedTreesEnsembleInitialized").Output("is_initialized: bool").Compute(IsEnsembleInitialized),
    EnsembleOp("BoostedTreesCreateEnsemble")
        .Input("stamp_token: int64")
        .Input("tree_ensemble_serialized: string")
        .Compute(CreateEnsemble),
    EnsembleOp("BoostedTreesDeserializeEnsemble")
        .Input("stamp_token: int64")
        .Input("tree_ensemble_serialized: string")
        .Compute(DeserializeEnsemble),
    EnsembleOp("BoostedTreesSerializeEnsemble")
        .Output("stamp_token: int64")
        .Output("tree_ensemble_serialized: string")
        .Compute(SerializeEnsemble),
    EnsembleOp("BoostedTreesGetEnsembleStates")
        .Output("stamp_token: int64")
        .Output("num_trees: int32")
        .Output("num_finalized_trees: int32")
        .Output("num_attempted_layers: int32")
        .Output("last_layer_nodes_range: int32")
        .Compute(GetEnsembleStates),
    EnsembleOp("BoostedTreesUpdateEnsemble")
        .Input("feature_ids: int32")
        .Input("node_ids: num_features * int32")
        .Input("gains: num_features * float")
        .Input("thresholds: num_features * int32")
        .Input("left_node_contribs: num_features * float")
        .Input("right_node_contribs: num_features * float")
        .Input("max_depth: int32")
        .Input("learning_rate: float")
        .Attr("pruning_mode: int >= 0")
        .Attr("num_features: int >= 0")
        .Kernel<UpdateEnsembleKernel>(/*second=*/false),
    EnsembleOp("BoostedTreesUpdateEnsembleV2")
        .Input("feature_ids: num_groups * int32")
        .Input("dimension_ids: num_features * int32")
        .Input("node_ids: num_features * int32")
        .Input("gains: num_features * float")
        .Input("thresholds: num_features * int32")
        .Input("left_node_contribs: num_features * float")
        .Input("right_node_contribs: num_features * float")
        .Input("split_types: num_features * string")
        .Input("max_depth: int32")
        .Input("learning_rate: float")
        .Input("pruning_mode: int32")
        .Attr("num_features: int >= 0")
        .Attr("logits_dimension: int = 1")
        .Attr("num_groups: int >= 1 = 1")
        .Kernel<UpdateEnsembleKernel>(/*second=*/true),
    EnsembleOp("BoostedTreesCenterBias")
        .Input("mean_gradients: float")
        .Input("mean_hessians: float")
        .Input("l1: float")
        .Input("l2: float")
        .Output("continue_centering: bool")
        .Compute(CenterBias),
    PredictOp("BoostedTreesPredict")
        .Input("bucketized_features: num_bucketized_features * int32")
        .Output("logits: float")
        .Kernel<PredictKernel>(),
    PredictOp("BoostedTreesTrainingPredict")
        .Input("cached_tree_ids: int32")
        .Input("cached_node_ids: int32")
        .Input("bucketized_features: num_bucketized_features * int32")
        .Output("partial_logits: float")
        .Output("tree_ids: int32")
        .Output("node_ids: int32")
        .Kernel<TrainingPredictKernel>(),
    PredictOp("BoostedTreesExampleDebugOutputs")
        .Input("bucketized_features: num_bucketized_features * int32")
        .Output("examples_debug_outputs_serialized: string")
        .Kernel<ExampleDebugOutputsKernel>(),
};

}  // namespace
}  // namespace thalweg
