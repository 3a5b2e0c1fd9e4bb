// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/sync_replicas.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/roster_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/optimizers/wrapped_optimizer.h"
#include "thalweg/train/replicas/replica_identity.h"
#include "thalweg/train/replicas/sync_hook.h"
#include "thalweg/train/session/summary.h"

namespace thalweg {
namespace {

// Collections of the graph: the op that lists the members, and the ops that read the ledger
// of each accumulator.
constexpr char kRosterList[] = "sync_replicas_members";
constexpr char kLedgerList[] = "sync_replicas_ledgers";

// Sums repeated rows and sorts them by index, so that the accumulator can merge rows with the same index.
Gradient Sorted(const Scope& s, const Gradient& gradient) {
  const Gradient summed = SumRepeatedRows(s, gradient);
  const Output rows = Cast(s, summed.indices, kInt64);
  const Output order = TopK(s, Neg(s, rows), Size(s, rows)).indices;
  return Gradient(Gather(s, summed.values, order), Gather(s, rows, order), gradient.dense_shape);
}

class SyncReplicasOptimizer final : public WrappedOptimizer {
 public:
  SyncReplicasOptimizer(std::unique_ptr<Optimizer> inner, SyncReplicasOptions options)
      : WrappedOptimizer("SyncReplicas", std::move(inner)), options_(options) {
    if (options_.total_num_replicas == 0) options_.total_num_replicas = options_.replicas_to_aggregate;
  }

  Output ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                        const ApplyGradientsOptions& options) override {
    if (!s.ok()) return {};
    s.Fail(Check(gradients, options));
    if (!s.ok()) return {};
    graph_ = std::make_shared<SyncGraph>();
    return Build(s, gradients, options);
  }

  HookList Hooks(bool is_chief) override {
    return WrappedOptimizer::Hooks(is_chief) + HookList{MakeSyncHook(graph_, is_chief)};
  }

 private:
  // A variable with its accumulator.
  struct Accumulated {
    Output handle;
    Output push;
    Gradient mean;
    Scope scope;   // places nodes with the variable
    Output round;  // the number of the round, on the same device
  };

  absl::Status Check(const std::vector<GradientAndVar>& gradients, const ApplyGradientsOptions& options) const {
    if (graph_ != nullptr) return FailedPrecondition("SyncReplicas: gradients are applied for the second time");
    if (options_.replicas_to_aggregate < 1 || options_.total_num_replicas < 1) {
      return InvalidArgument("SyncReplicas: replicas_to_aggregate is ", options_.replicas_to_aggregate,
                             " and total_num_replicas ", options_.total_num_replicas, ", expected positive numbers");
    }
    if (!options.global_step) return InvalidArgument("SyncReplicas: a global step is needed to tell stale gradients");
    if (std::none_of(gradients.begin(), gradients.end(), [](const auto& g) { return bool(g.gradient); })) {
      return InvalidArgument("No gradients provided for any variable: the loss depends on none of the ",
                             gradients.size());
    }
    return absl::OkStatus();
  }

  Output Build(const Scope& s, const std::vector<GradientAndVar>& gradients, const ApplyGradientsOptions& options);
  Accumulated Accumulate(const Scope& own, const GradientAndVar& g, Output local_step);
  // The placeholder of the round's number on the device of a variable.
  Output RoundNumber(const Scope& beside, const Var& v);
  void BuildMembership(const Scope& at_step, Output roster, const std::string& task,
                       const std::vector<Accumulated>& all);
  void BuildLedger(const Scope& at_step, const std::vector<Accumulated>& all);

  SyncReplicasOptions options_;
  std::shared_ptr<SyncGraph> graph_;
  std::map<std::string, Output> round_numbers_;  // by device
};

Output SyncReplicasOptimizer::RoundNumber(const Scope& beside, const Var& v) {
  if (!beside.ok()) return {};
  Output& number = round_numbers_[v.ref.node->device()];
  if (!number) {
    number = Placeholder(beside.WithOpName("round_number"), kInt64, Shape());
    graph_->round_number.push_back(number);
  }
  return number;
}

// Adds the accumulator of a variable, the op with which a worker sends its gradient (`push`), and the op
// with which the chief takes the mean.
SyncReplicasOptimizer::Accumulated SyncReplicasOptimizer::Accumulate(const Scope& own, const GradientAndVar& g,
                                                                     Output local_step) {
  const Var& v = g.variable;
  const Scope beside = own.ColocateWith(v.ref);
  const AccumulatorOptions options = {.shared_name = absl::StrCat(v.name(), ":0/grad_accum")};
  Accumulated a{.scope = beside, .round = RoundNumber(beside, v)};
  if (g.gradient.sparse()) {
    const Gradient rows = Sorted(own, g.gradient);
    a.handle = SparseConditionalAccumulator(beside.WithOpName("sparse_conditional_accumulator"), v.dtype(), v.shape(),
                                            options);
    a.push = SparseAccumulatorApplyGradient(beside, a.handle, local_step, rows.indices, rows.values);
    const SparseGradientResult mean = SparseAccumulatorTakeRound(beside, a.handle, a.round, v.dtype());
    a.mean = Gradient(mean.values, mean.indices, mean.shape);
  } else {
    a.handle = ConditionalAccumulator(beside.WithOpName("conditional_accumulator"), v.dtype(), v.shape(), options);
    a.push = AccumulatorApplyGradient(beside, a.handle, local_step, g.gradient.values);
    a.mean = AccumulatorTakeRound(beside, a.handle, a.round, v.dtype());
  }
  if (a.push) {
    SetAttr(a.push.node->mutable_def(), kWorkerAttr, graph_->worker);
    // If each worker contributes one gradient per step, a second one comes from a repeated
    // step.
    SetAttr(a.push.node->mutable_def(), kOncePerStepAttr,
            options_.replicas_to_aggregate <= options_.total_num_replicas);
  }
  return a;
}

// Builds two subgraphs that meet in the accumulators and the roster:
// - the train op, run by every worker: push all gradients, wait for the release of the next step, and
//   store that step as the local step;
// - the round, run by a thread of the chief in two steps: wait until all accumulators have enough
//   gradients; then take the means, update the variables and the global step, and release the new step.
//   The second step does not wait for others and may be repeated, so a round that was cut off is
//   completed, and a checkpoint has all of a round or nothing.
// All workers build the same nodes, so the accumulators and the roster have shared names.
Output SyncReplicasOptimizer::Build(const Scope& s, const std::vector<GradientAndVar>& gradients,
                                    const ApplyGradientsOptions& options) {
  const Var& global_step = options.global_step;
  const Scope root = s.InScope("").WithoutControlDependencies();
  const ReplicaIdentity replica = IdentifyReplica(root, options_.total_num_replicas);
  graph_->options = options_;
  graph_->worker = replica.worker;
  graph_->global_step = global_step;
  const Var local_step =
      MakeVariable(root.ColocateWith(replica.anchor), "sync_rep_local_step", Shape(),
                   {.initializer = initializers::Zeros(), .dtype = kInt64, .trainable = false, .local = true});
  const Var generation =
      MakeVariable(root.ColocateWith(replica.anchor), "sync_rep_generation", Shape(),
                   {.initializer = initializers::Zeros(), .dtype = kInt64, .trainable = false, .local = true});
  if (!s.ok()) return {};
  const Scope own = root.SubScope("sync_replicas"), at_step = own.ColocateWith(global_step.ref);

  const Output roster = RosterOf(at_step.WithOpName("roster"), "sync_roster");
  const Output worker = Const(at_step.WithOpName("worker"), graph_->worker);

  std::vector<Accumulated> all;
  std::vector<GradientAndVar> means;
  std::vector<Output> pushes;
  std::map<std::string, Output> rounds;  // by device: the round that takes the worker's gradients
  for (const GradientAndVar& g : gradients) {
    means.push_back({{}, g.variable});
    if (!g.gradient) continue;
    all.push_back(Accumulate(own, g, local_step));
    const Accumulated& a = all.back();
    means.back().gradient = a.mean;
    pushes.push_back(a.push);
    if (!s.ok()) return {};
    if (Output& taking = rounds[g.variable.ref.node->device()]; !taking) {
      taking = AccumulatorRoundOf(a.scope.WithControlDependencies({a.push}), a.handle, graph_->worker);
    }
  }
  if (!s.ok()) return {};

  // One aggregation round. Nodes that are not placed with a variable are placed with the global
  // step, so that the round does not involve a worker's task.
  const Output update =
      inner().ApplyGradients(root.WithDevice(global_step.ref.node->device()), means, {.global_step = global_step});
  if (!s.ok()) return {};
  BuildMembership(at_step, roster, replica.task, all);
  const Output round = RoundNumber(at_step, global_step);
  RosterReleaseOptions release = {.wanted = options_.replicas_to_aggregate, .total = options_.total_num_replicas};
  const Output new_step = Identity(at_step.WithOpName("new_step"), update);
  graph_->apply_round = RosterRelease(at_step.WithOpName("round"), roster, new_step, round, release);
  release.again = true;
  std::vector<Output> awaited, resets;
  for (const Accumulated& a : all) {
    awaited.push_back(
        AccumulatorAwaitRound(a.scope, a.handle, a.round, options_.replicas_to_aggregate, options_.total_num_replicas));
    resets.push_back(AccumulatorReset(a.scope, a.handle, global_step.read, a.round));
  }
  // All devices have a number to be fed.
  awaited.push_back(Identity(at_step, round));
  graph_->await_round = Group(at_step.WithOpName("await_round"), awaited);
  graph_->begin_rounds =
      RosterRelease(at_step.WithControlDependencies(resets), roster, global_step.read, round, release);
  graph_->wake = RosterWake(at_step, roster);
  // No worker and no step: only waits until there are steps.
  graph_->rounds_begun = RosterAwaitStep(at_step.WithOpName("rounds_begun"), roster, Const(at_step, int64_t{-1}),
                                         Const(at_step, int64_t{-1}), Const(at_step, int64_t{-1}))
                             .step;
  graph_->close_steps = RosterCloseSteps(at_step, roster);
  BuildLedger(at_step, all);

  const Scope at_worker = own.ColocateWith(local_step.ref);
  // The generation first: if values are restored in between, the step is of an old generation and is run again.
  const Output generation_now = RosterGeneration(at_step, roster);
  const Output step_now = Identity(at_step.WithControlDependencies({generation_now}), global_step.ref);
  graph_->local_init = Group(at_worker.WithOpName("local_init"), {Assign(at_worker, local_step.ref, step_now),
                                                                  Assign(at_worker, generation.ref, generation_now)});

  // The train op: push all gradients, then wait until they are taken. If the step is repeated, the accumulators may
  // have them already, and a round may have taken them.
  Output taking;
  for (const auto& [device, round_of_device] : rounds) {
    taking = taking ? Minimum(at_step, taking, round_of_device) : round_of_device;
  }
  const RosterStep next = RosterAwaitStep(at_step.WithControlDependencies(pushes), roster, worker, taking, generation);
  if (!s.ok()) return {};
  at_step.graph().AddToCollection(kGlobalStepUpdates, next.step.node->name());
  const Output new_generation = Assign(at_worker, generation.ref, next.generation);
  return Assign(root.ColocateWith(local_step.ref)
                    .WithControlDependencies({new_generation})
                    .WithOpName(options.name.empty() ? name() : options.name),
                local_step.ref, next.step);
}

void SyncReplicasOptimizer::BuildMembership(const Scope& at_step, Output roster, const std::string& task,
                                            const std::vector<Accumulated>& all) {
  SyncGraph& g = *graph_;
  g.member = Placeholder(at_step.WithOpName("member"), kInt64, Shape());
  g.own_join = RosterJoin(at_step, roster, g.member, task);
  g.roster_leave = RosterLeave(at_step, roster, g.member);
  g.roster_expel = RosterExpel(at_step, roster, g.member);
  g.roster_take_back = RosterTakeBack(at_step, roster, g.member);
  g.members = RosterMembers(at_step.WithOpName("members"), roster);
  g.await_empty = RosterAwaitEmpty(at_step, roster);
  std::vector<Output> joins, leaves;
  for (const Accumulated& a : all) {
    joins.push_back(AccumulatorJoin(a.scope, a.handle, g.member));
    leaves.push_back(AccumulatorLeave(a.scope, a.handle, g.member, options_.total_num_replicas));
  }
  g.accumulator_joins = Group(at_step.WithOpName("joins"), joins);
  g.accumulator_leaves = Group(at_step.WithOpName("leaves"), leaves);
}

void SyncReplicasOptimizer::BuildLedger(const Scope& at_step, const std::vector<Accumulated>& all) {
  std::vector<Output> accepted, stale;
  for (const Accumulated& a : all) {
    const AccumulatorLedgerResult ledger = AccumulatorLedger(a.scope.WithOpName("ledger"), a.handle);
    if (!at_step.ok()) return;
    graph_->ledgers.push_back(ledger);
    at_step.graph().AddToCollection(kLedgerList, ledger.worker.node->name());
    accepted.push_back(ReduceSum(a.scope, ledger.accepted));
    stale.push_back(ReduceSum(a.scope, ledger.stale));
  }
  summary::Scalar(at_step, "accepted_gradients", AddN(at_step.WithOpName("accepted"), accepted));
  summary::Scalar(at_step, "stale_gradients", AddN(at_step.WithOpName("stale"), stale));
  // The first variable's accumulator stands for all when late workers are identified.
  const Scope first = all[0].scope;
  for (int64_t worker = 0; worker < options_.total_num_replicas; ++worker) {
    const Scope own = first.SubScope(absl::StrCat("worker_", worker));
    const AccumulatorLedgerResult& ledger = graph_->ledgers[0];
    const Output is_it = Cast(own, Equal(own, ledger.worker, Const(own, worker)), kInt64);
    summary::Scalar(own, "accepted_steps", ReduceSum(own, Mul(own, is_it, ledger.accepted)));
    summary::Scalar(own, "stale_steps", ReduceSum(own, Mul(own, is_it, ledger.stale)));
  }
  if (at_step.ok()) at_step.graph().AddToCollection(kRosterList, graph_->members.worker.node->name());
}

}  // namespace

std::unique_ptr<Optimizer> SyncReplicas(std::unique_ptr<Optimizer> optimizer, const SyncReplicasOptions& options) {
  return std::make_unique<SyncReplicasOptimizer>(std::move(optimizer), options);
}

absl::StatusOr<GradientLedger> ReadLedger(Session& session, const Graph& graph) {
  const std::vector<std::string>& ledgers = graph.Collection(kLedgerList);
  const std::vector<std::string>& rosters = graph.Collection(kRosterList);
  const Var global_step = GetGlobalStep(graph);
  if (ledgers.empty() || rosters.empty()) return NotFound("the graph has no synchronous optimizer");
  std::vector<Fetch> fetches = {absl::StrCat(rosters[0], ":0"), absl::StrCat(rosters[0], ":1")};
  for (const std::string& ledger : ledgers) {
    for (int i = 0; i < 4; ++i) fetches.push_back(absl::StrCat(ledger, ":", i));
  }
  if (global_step) fetches.push_back(global_step.read);
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(fetches));

  GradientLedger result;
  result.variables = static_cast<int64_t>(ledgers.size());
  if (global_step) result.global_step = values.back().scalar<int64_t>();
  std::map<int64_t, GradientLedger::Worker> workers;
  const auto members = values[0].flat<int64_t>();
  for (size_t i = 0; i < members.size(); ++i) {
    workers[members[i]].present = values[1].flat<bool>()[i];
  }
  for (size_t l = 0; l < ledgers.size(); ++l) {
    const Tensor* columns = &values[2 + 4 * l];  // worker, accepted, stale, last step
    for (int64_t i = 0; i < columns[0].num_elements(); ++i) {
      GradientLedger::Worker& worker = workers[columns[0].data<int64_t>()[i]];
      worker.accepted += columns[1].data<int64_t>()[i];
      worker.stale += columns[2].data<int64_t>()[i];
      worker.last_step = std::max(worker.last_step, columns[3].data<int64_t>()[i]);
    }
  }
  for (auto& [number, worker] : workers) {
    worker.worker = number;
    result.workers.push_back(worker);
  }
  return result;
}

int64_t GradientLedger::accepted() const {
  int64_t n = 0;
  for (const Worker& w : workers) n += w.accepted;
  return n;
}

int64_t GradientLedger::stale() const {
  int64_t n = 0;
  for (const Worker& w : workers) n += w.stale;
  return n;
}

std::string GradientLedger::ToString() const {
  std::string text = absl::StrFormat("step %d, %d gradients a step\n%-8s  %10s  %10s  %9s\n", global_step, variables,
                                     "worker", "accepted", "stale", "last step");
  for (const Worker& w : workers) {
    absl::StrAppendFormat(&text, "%-8s  %10d  %10d  %9d%s\n", w.worker < 0 ? "unknown" : absl::StrCat(w.worker),
                          w.accepted, w.stale, w.last_step, w.present ? "" : "  left");
  }
  absl::StrAppendFormat(&text, "%-8s  %10d  %10d\n", "all", accepted(), stale());
  return text;
}

}  // namespace thalweg
