// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/all_reduce.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/collective_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/roster_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/optimizers/wrapped_optimizer.h"
#include "thalweg/train/replicas/replica_identity.h"
#include "thalweg/train/session/wait_backoff.h"

namespace thalweg {
namespace {

// Where the instance keys of the three uses begin: programs may have collectives of their own.
constexpr int kGradientKeys = 1 << 20, kBroadcastKeys = 2 << 20, kCheckKeys = 3 << 20;

// Tensors that travel as one.
struct Bucket {
  DType dtype = kInvalid;
  int64_t bytes = 0;
  std::vector<size_t> members;  // numbers of tensors
};

// In order, one open bucket per type. Every worker makes the same buckets.
std::vector<Bucket> MakeBuckets(const std::vector<Output>& tensors, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  std::map<DType, size_t> open;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const DType dtype = RemoveRef(tensors[i].dtype());
    const int64_t bytes = tensors[i].shape().AsShape()->num_elements() * static_cast<int64_t>(ElementSize(dtype));
    auto it = open.find(dtype);
    if (it == open.end() || buckets[it->second].bytes + bytes > bucket_bytes) {
      open[dtype] = buckets.size();
      buckets.push_back({.dtype = dtype});
      it = open.find(dtype);
    }
    buckets[it->second].bytes += bytes;
    buckets[it->second].members.push_back(i);
  }
  return buckets;
}

// The elements of all members, one after the other.
Output Flatten(const Scope& s, const std::vector<Output>& tensors, const Bucket& bucket) {
  std::vector<Output> flat;
  for (const size_t i : bucket.members) flat.push_back(Reshape(s, tensors[i], {-1}));
  return flat.size() == 1 ? flat[0] : Concat(s, flat, 0);
}

// The elements of each member; with `shaped`, in the shape of the member.
std::vector<Output> Unflatten(const Scope& s, Output flat, const std::vector<Output>& tensors, const Bucket& bucket,
                              bool shaped) {
  std::vector<int64_t> sizes;
  for (const size_t i : bucket.members) sizes.push_back(tensors[i].shape().AsShape()->num_elements());
  std::vector<Output> parts = {flat};
  if (sizes.size() > 1) {
    parts = Split(s, flat, Const(s, Tensor::Vector<int64_t>(sizes)), Const(s, 0), static_cast<int>(sizes.size()));
  }
  for (size_t k = 0; shaped && k < parts.size(); ++k) {
    const Shape shape = *tensors[bucket.members[k]].shape().AsShape();
    parts[k] = Reshape(s, parts[k], Const(s, Tensor::Vector<int64_t>(shape.dims())));
  }
  return parts;
}

bool CanReduce(DType dtype) {
  return dtype == kFloat || dtype == kDouble || dtype == kHalf || dtype == kBfloat16 || dtype == kInt32 ||
         dtype == kInt64;
}

// The group as nodes of the graph, and what they are fed with.
struct AllReduceGroup {
  Output feed;          // with kGoOn: size and key of the group; null if the group is the same for the whole training
  Tensor size_and_key;  // int32 [2]; set when a session begins

  std::vector<Feed> Feeds() const { return feed ? std::vector<Feed>{{feed, size_and_key}} : std::vector<Feed>(); }
};

CollectiveOptions KeysOf(const AllReduceOptions& options, const AllReduceGroup& group, int first, size_t i) {
  return {.group_size = options.workers,
          .group_key = options.group_key,
          .instance_key = first + static_cast<int>(i),
          .group = group.feed};
}

// Gives all workers the chief's values, and compares them later.
class AllReduceHook : public Hook {
 public:
  AllReduceHook(const AllReduceOptions& options, std::shared_ptr<AllReduceGroup> group, bool is_chief)
      : options_(options), group_(std::move(group)), is_chief_(is_chief) {}

  void Attach(const std::shared_ptr<Interruption>& interruption) override { interruption_ = interruption; }

  absl::Status Begin(const Scope& root) override {
    const std::vector<Var> variables = GlobalVariables(root.graph());
    std::vector<Output> values;
    for (const Var& v : variables) {
      if (!CanReduce(v.dtype())) {
        return Unimplemented("AllReduce: variable '", v.name(), "' is of type ", v.dtype(),
                             ", which workers cannot share");
      }
      if (!v.shape().AsShape().has_value()) {
        return InvalidArgument("AllReduce: the shape of variable '", v.name(), "' is not known: ", v.shape());
      }
      values.push_back(v.ref);
    }
    if (values.empty()) return FailedPrecondition("AllReduce: the graph has no variables");
    const Scope s = root.WithDevice(variables[0].ref.node->device()).SubScope("all_reduce_variables");
    const std::vector<Bucket> buckets = MakeBuckets(values, options_.bucket_bytes);
    const std::string& own_device = variables[0].ref.node->device();
    RETURN_IF_ERROR(group_->feed ? AddAssembly(s, own_device) : AddEnd(s, own_device));
    AddBroadcast(s, variables, values, buckets);
    if (options_.check_every_n_steps > 0) AddCheck(s, variables, values, buckets);
    return s.status();
  }

  // The others may be in steps in which they wait for this worker, which does not come to them: it begins again. They
  // must begin again, too, to come to the broadcast. All workers count their steps from here.
  absl::Status AfterCreateSession(Session& session) override {
    steps_ = 0;
    if (group_->feed) {
      RETURN_IF_ERROR(Assemble(session));
    } else {
      RETURN_IF_ERROR(session.Run(end_others_, {}, {.timeout = kShortStep}).status());
    }
    const absl::Status status = session.Run({broadcast_}, group_->Feeds(), {.timeout = options_.max_wait}).status();
    if (status.ok()) began_ = true;
    if (began_ && IsTaskLost(status)) RETURN_IF_ERROR(AfterTaskLost(status));
    if (!absl::IsDeadlineExceeded(status)) return status;
    return Append(status, absl::StrCat(" (AllReduce: not all ", options_.workers, " workers have begun)"));
  }

  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    ++steps_;
    return StepRequest{.feeds = group_->Feeds()};
  }

  absl::Status AfterTaskLost(const absl::Status& why) override {
    if (options_.on_lost_worker != LostWorker::kEnd) return absl::OkStatus();
    return FailedPrecondition("AllReduce: a worker was lost, which ends the training (on_lost_worker is kEnd): ",
                              why.message());
  }

  // In a step of its own: the updates of this one are over.
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor>) override {
    if (options_.check_every_n_steps == 0 || steps_ % options_.check_every_n_steps != 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Tensor> differs,
                     context.session().Run({differs_.begin(), differs_.end()}, group_->Feeds()));
    for (size_t i = 0; i < differs.size(); ++i) {
      if (!differs[i].scalar<bool>()) continue;
      return DataLoss("AllReduce: workers have different values of variable '", names_[i], "' after step ",
                      context.global_step());
    }
    return absl::OkStatus();
  }

 private:
  CollectiveOptions Keys(int first, size_t i) const { return KeysOf(options_, *group_, first, i); }

  // The chief, task 0 of the worker's job, finds the workers that are there.
  absl::Status AddAssembly(const Scope& s, const std::string& own_device) {
    ASSIGN_OR_RETURN(const DeviceName own, DeviceName::Parse(own_device));
    if (!own.job.has_value() || !own.task.has_value() || *own.task >= options_.workers) {
      return InvalidArgument("AllReduce: with kGoOn, variables must be on one of the tasks 0 to ", options_.workers - 1,
                             " of a job, got device '", own_device, "'");
    }
    if (is_chief_ != (*own.task == 0)) {
      return InvalidArgument("AllReduce: with kGoOn, the chief must be task 0 and no other, got ",
                             is_chief_ ? "a chief" : "a worker that is not the chief", " at '", own_device, "'");
    }
    worker_ = *own.task;
    session_ = Placeholder(s, kInt64, {});
    again_ = Placeholder(s, kBool, {});
    assembled_ = AssembleGroup(s.WithDevice(absl::StrCat("/job:", *own.job, "/task:0")), session_, again_,
                               {.shared_name = absl::StrCat("all_reduce_", options_.group_key),
                                .worker = worker_,
                                .workers = options_.workers,
                                .lost_after = options_.lost_after});
    barrier_ = CollectiveBarrier(s, Keys(kBroadcastKeys - 1, 0));
    return s.status();
  }

  // Waits for the group of this session.
  absl::Status Assemble(Session& session) {
    const Tensor number = Tensor::Scalar<int64_t>(NewRequestId());
    WaitBackoff wait(options_.max_wait, interruption_ == nullptr ? nullptr : &interruption_->waits());
    for (;;) {
      ASSIGN_OR_RETURN(
          const std::vector<Tensor> out,
          session.Run({assembled_.group, assembled_.missing},
                      {{session_, number}, {again_, Tensor::Scalar<bool>(began_)}}, {.timeout = kShortStep}));
      group_->size_and_key = out[0];
      if (out[0].flat<int32_t>()[0] > 0) break;
      RETURN_IF_ERROR(wait.Pause(absl::StrCat("AllReduce: for workers ", absl::StrJoin(out[1].flat<int64_t>(), ", "))));
    }
    const int size = group_->size_and_key.flat<int32_t>()[0];
    LOG(INFO) << "AllReduce: " << size << " of " << options_.workers << " workers take part";
    // A member that has died since then does not come here.
    const absl::Status there =
        session.Run({Fetch::Target(barrier_)}, group_->Feeds(), {.timeout = kShortStep}).status();
    if (!absl::IsDeadlineExceeded(there)) return there;
    return Unavailable("AllReduce: a worker of the new group is gone: ", there.message());
  }

  // Ends what other workers do in sessions from before this one.
  absl::Status AddEnd(const Scope& s, const std::string& own_device) {
    ASSIGN_OR_RETURN(const DeviceName own, DeviceName::Parse(own_device));
    if (!own.job.has_value() || !own.task.has_value()) return absl::OkStatus();  // in this process
    for (int task = 0; task < options_.workers; ++task) {
      if (task == *own.task) continue;
      const Scope there = s.WithDevice(absl::StrCat("/job:", *own.job, "/task:", task));
      for (const int first : {kGradientKeys, kCheckKeys}) {
        end_others_.push_back(
            Fetch::Target(CollectiveEnd(there, {.group_key = options_.group_key,
                                                .first_instance = first,
                                                .last_instance = first + kGradientKeys - 1,
                                                .why = absl::StrCat("task ", *own.task, " has a new session")})));
      }
    }
    return s.status();
  }

  // The chief gives its values and all others zeros: the sum is the chief's value.
  void AddBroadcast(const Scope& s, const std::vector<Var>& variables, const std::vector<Output>& values,
                    const std::vector<Bucket>& buckets) {
    std::vector<Output> assigned;
    for (size_t b = 0; b < buckets.size() && s.ok(); ++b) {
      Output flat = Flatten(s, values, buckets[b]);
      if (!is_chief_) flat = ZerosLike(s, flat);
      const Output sum = CollectiveReduce(s, flat, Keys(kBroadcastKeys, b));
      const std::vector<Output> parts = Unflatten(s, sum, values, buckets[b], /*shaped=*/true);
      for (size_t k = 0; k < parts.size() && s.ok(); ++k) {
        assigned.push_back(Assign(s, variables[buckets[b].members[k]].ref, parts[k]));
      }
    }
    broadcast_ = Group(s.WithOpName("broadcast"), assigned);
  }

  // Bits, as whole numbers: the largest of all workers is the smallest if they are equal.
  void AddCheck(const Scope& s, const std::vector<Var>& variables, const std::vector<Output>& values,
                const std::vector<Bucket>& buckets) {
    for (size_t b = 0; b < buckets.size() && s.ok(); ++b) {
      Output bits = Flatten(s, values, buckets[b]);
      switch (ElementSize(buckets[b].dtype)) {
        case 2:
          bits = Cast(s, Bitcast(s, bits, kInt16), kInt32);
          break;
        case 4:
          bits = Bitcast(s, bits, kInt32);
          break;
        default:
          bits = Bitcast(s, bits, kInt64);
      }
      const Output most = CollectiveReduce(s, bits, Keys(kCheckKeys, 2 * b), {.kind = ReduceKind::kMax});
      const Output least = CollectiveReduce(s, bits, Keys(kCheckKeys, 2 * b + 1), {.kind = ReduceKind::kMin});
      const std::vector<Output> parts = Unflatten(s, NotEqual(s, most, least), values, buckets[b], /*shaped=*/false);
      for (size_t k = 0; k < parts.size() && s.ok(); ++k) {
        differs_.push_back(ReduceAny(s, parts[k]));
        names_.push_back(variables[buckets[b].members[k]].name());
      }
    }
  }

  const AllReduceOptions options_;
  const std::shared_ptr<AllReduceGroup> group_;
  const bool is_chief_;
  std::shared_ptr<Interruption> interruption_;
  bool began_ = false;  // this process has been in a group that has got the chief's values
  std::vector<Fetch> end_others_;
  int64_t worker_ = 0;
  Output session_, again_;  // with kGoOn: fed when a session begins
  AssembledGroup assembled_;
  Output barrier_;
  Output broadcast_;
  std::vector<Output> differs_;     // by variable
  std::vector<std::string> names_;  // names of these
  int64_t steps_ = 0;
};

class AllReduceOptimizer : public WrappedOptimizer {
 public:
  AllReduceOptimizer(std::unique_ptr<Optimizer> inner, const AllReduceOptions& options)
      : WrappedOptimizer("AllReduce", std::move(inner)), options_(options) {}

  Output ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                        const ApplyGradientsOptions& options) override {
    if (options_.workers < 1 || options_.bucket_bytes < 1) {
      s.Fail(InvalidArgument("AllReduce: got ", options_.workers, " workers and buckets of ", options_.bucket_bytes,
                             " bytes, expected at least 1 of each"));
    }
    if (options_.wire != kFloat && options_.wire != kHalf && options_.wire != kBfloat16) {
      s.Fail(InvalidArgument("AllReduce: float gradients cannot travel as ", options_.wire,
                             ", expected float, half or bfloat16"));
    }
    if (std::exchange(applied_, true)) s.Fail(FailedPrecondition("AllReduce: ApplyGradients was called before"));
    std::vector<GradientAndVar> used;
    for (const GradientAndVar& g : gradients) {
      if (g.gradient) used.push_back(g);
    }
    if (options_.lost_after < absl::ZeroDuration()) {
      s.Fail(InvalidArgument("AllReduce: lost_after is ", absl::FormatDuration(options_.lost_after),
                             ", expected at least 0"));
    }
    if (!s.ok() || used.empty() || options_.workers == 1) return inner().ApplyGradients(s, gradients, options);
    const Scope own = s.SubScope("all_reduce");
    if (options_.on_lost_worker == LostWorker::kGoOn) {
      group_->feed = Placeholder(own.WithDevice(used[0].variable.ref.node->device()), kInt32, {2});
    }
    Average(own, used);
    return inner().ApplyGradients(s, used, options);
  }

  HookList Hooks(bool is_chief) override {
    if (options_.workers == 1) return inner().Hooks(is_chief);
    return inner().Hooks(is_chief) + HookList{std::make_shared<AllReduceHook>(options_, group_, is_chief)};
  }

 private:
  void Average(const Scope& s, std::vector<GradientAndVar>& gradients) {
    // Nodes of the backward pass are made in the order in which they can run.
    std::vector<size_t> order(gradients.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return gradients[a].gradient.values.node->id() < gradients[b].gradient.values.node->id();
    });
    std::vector<Output> dense;
    for (const size_t i : order) {
      dense.push_back(AsDense(s, gradients[i]));
      if (!s.ok()) return;
    }
    const std::vector<Bucket> buckets = MakeBuckets(dense, options_.bucket_bytes);
    for (size_t b = 0; b < buckets.size() && s.ok(); ++b) {
      std::vector<Output> members;
      for (const size_t i : buckets[b].members) members.push_back(dense[i]);
      const std::vector<Output> parts = CollectiveReduceBucket(s, members, KeysOf(options_, *group_, kGradientKeys, b),
                                                               {.mean = true, .rank_order = options_.rank_order},
                                                               buckets[b].dtype == kFloat ? options_.wire : kInvalid);
      for (size_t k = 0; k < parts.size(); ++k) {
        gradients[order[buckets[b].members[k]]].gradient = Gradient(parts[k]);
      }
    }
  }

  static Output AsDense(const Scope& s, const GradientAndVar& g) {
    const std::optional<Shape> shape = g.variable.shape().AsShape();
    if (!shape.has_value()) {
      s.Fail(InvalidArgument("AllReduce: the shape of variable '", g.variable.name(), "' is not known"));
      return {};
    }
    return EnsureShape(s, ToDense(s, g.gradient), *shape);
  }

  const AllReduceOptions options_;
  const std::shared_ptr<AllReduceGroup> group_ = std::make_shared<AllReduceGroup>();  // shared with the hooks
  bool applied_ = false;
};

}  // namespace

std::unique_ptr<Optimizer> AllReduce(std::unique_ptr<Optimizer> optimizer, const AllReduceOptions& options) {
  return std::make_unique<AllReduceOptimizer>(std::move(optimizer), options);
}

}  // namespace thalweg
