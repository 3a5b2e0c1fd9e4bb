// SPDX-License-Identifier: Apache-2.0
// Ops on a Roster (roster.h). TensorFlow does not have them, so their names begin with Thalweg.
#include "thalweg/ops/roster_ops.h"

#include "thalweg/base/status.h"
#include "thalweg/graph/sync_role.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/roster.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

// All ops share one roster by its name: it lives on the parameter server that holds the global step.
class RosterKernel final : public ResourceKernel<Roster> {
  absl::StatusOr<std::shared_ptr<Roster>> Make(const std::string&) override { return std::make_shared<Roster>(); }
};

absl::StatusOr<int64_t> ScalarOf(KernelContext& c, const char* what, int argument = 1) {
  const Tensor& value = c.input(argument);
  if (!value.shape().is_scalar()) return InvalidArgument(what, " must be a scalar, got ", value.shape());
  return value.scalar<int64_t>();
}

class JoinKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(task_, init.Attr<std::string>("task"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
    ASSIGN_OR_RETURN(const int64_t worker, ScalarOf(c, "worker"));
    // The state before tells three cases apart: a new worker (neither output), a worker that was restarted before
    // it was missed (was_present), and one that had left or was given up (had_left).
    ASSIGN_OR_RETURN(const std::unique_ptr<Roster::Member> before, roster->Join(worker, task_));
    c.set_output(0, Tensor::Scalar<bool>(before != nullptr && before->present));
    c.set_output(1, Tensor::Scalar<bool>(before != nullptr && !before->present));
    return absl::OkStatus();
  }

 private:
  std::string task_;
};

absl::Status Leave(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  ASSIGN_OR_RETURN(const int64_t worker, ScalarOf(c, "worker"));
  if (worker < 0) {  // -1 stands for all workers
    roster->Clear();
  } else {
    roster->Leave(worker);
  }
  return absl::OkStatus();
}

absl::Status Expel(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  ASSIGN_OR_RETURN(const int64_t worker, ScalarOf(c, "worker"));
  roster->Leave(worker, /*expelled=*/true);
  return absl::OkStatus();
}

absl::Status TakeBack(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  ASSIGN_OR_RETURN(const int64_t worker, ScalarOf(c, "worker"));
  c.set_output(0, Tensor::Scalar<bool>(roster->TakeBack(worker)));
  return absl::OkStatus();
}

absl::Status Members(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  // One snapshot, so that the four columns describe the same moment.
  const Roster::Members members = roster->members();
  const Shape shape({static_cast<int64_t>(members.size())});
  ASSIGN_OR_RETURN(Tensor * worker, c.Allocate(0, shape));
  ASSIGN_OR_RETURN(Tensor * present, c.Allocate(1, shape));
  ASSIGN_OR_RETURN(Tensor * clock, c.Allocate(2, shape));
  ASSIGN_OR_RETURN(Tensor * waits, c.Allocate(3, shape));
  int64_t i = 0;
  for (const auto& [number, member] : members) {
    worker->mutable_data<int64_t>()[i] = number;
    present->mutable_data<bool>()[i] = member.present;
    clock->mutable_data<int64_t>()[i] = member.clock;
    waits->mutable_data<int64_t>()[i] = member.waits;
    ++i;
  }
  return absl::OkStatus();
}

class ReleaseKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(wanted_, init.Attr<int64_t>("wanted"));
    ASSIGN_OR_RETURN(total_, init.Attr<int64_t>("total"));
    ASSIGN_OR_RETURN(again_, init.Attr<bool>("again"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
    ASSIGN_OR_RETURN(const int64_t step, ScalarOf(c, "step"));
    ASSIGN_OR_RETURN(const int64_t round, ScalarOf(c, "round", 2));
    roster->Release({.step = step, .round = round, .wanted = wanted_, .total = total_, .again = again_});
    return absl::OkStatus();
  }

 private:
  int64_t wanted_ = 1, total_ = 1;
  bool again_ = false;
};

// Waits without a thread: the roster calls back when the step is released, cancelled or of an earlier generation. The
// kernel context outlives the callback, because the step ends only after done().
class AwaitStepKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    const absl::StatusOr<std::shared_ptr<Roster>> roster = FindResource<Roster>(c, 0);
    if (!roster.ok()) return done(roster.status());
    const absl::StatusOr<int64_t> worker = ScalarOf(c, "worker");
    if (!worker.ok()) return done(worker.status());
    const absl::StatusOr<int64_t> round = ScalarOf(c, "round", 2);
    if (!round.ok()) return done(round.status());
    const absl::StatusOr<int64_t> generation = ScalarOf(c, "generation", 3);
    if (!generation.ok()) return done(generation.status());
    (*roster)->AwaitStep(
        *worker, *round, *generation, {.cancellation = c.step().cancellation, .pool = c.step().pool},
        [&c, done = std::move(done)](const absl::Status& status, int64_t step, int64_t generation) mutable {
          if (status.ok()) {
            c.set_output(0, Tensor::Scalar<int64_t>(step));
            c.set_output(1, Tensor::Scalar<int64_t>(generation));
          }
          done(status);
        });
  }
};

absl::Status Generation(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  c.set_output(0, Tensor::Scalar<int64_t>(roster->generation()));
  return absl::OkStatus();
}

absl::Status Wake(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  roster->Wake();
  return absl::OkStatus();
}

absl::Status CloseSteps(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  roster->CloseSteps();
  return absl::OkStatus();
}

class AdvanceKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(slack_, init.Attr<int64_t>("slack"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
    ASSIGN_OR_RETURN(const int64_t worker, ScalarOf(c, "worker"));
    roster->Advance(worker, slack_);
    return absl::OkStatus();
  }

 private:
  int64_t slack_ = 0;
};

class AwaitTurnKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(slack_, init.Attr<int64_t>("slack"));
    return absl::OkStatus();
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    const absl::StatusOr<std::shared_ptr<Roster>> roster = FindResource<Roster>(c, 0);
    if (!roster.ok()) return done(roster.status());
    const absl::StatusOr<int64_t> worker = ScalarOf(c, "worker");
    if (!worker.ok()) return done(worker.status());
    (*roster)->AwaitTurn(*worker, slack_, {.cancellation = c.step().cancellation, .pool = c.step().pool},
                         std::move(done));
  }

 private:
  int64_t slack_ = 0;
};

absl::Status Lead(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Roster> roster, FindResource<Roster>(c, 0));
  ASSIGN_OR_RETURN(const int64_t worker, ScalarOf(c, "worker"));
  c.set_output(0, Tensor::Scalar<int64_t>(roster->Lead(worker)));
  return absl::OkStatus();
}

class AwaitEmptyKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    const absl::StatusOr<std::shared_ptr<Roster>> roster = FindResource<Roster>(c, 0);
    if (!roster.ok()) return done(roster.status());
    (*roster)->AwaitEmpty({.cancellation = c.step().cancellation, .pool = c.step().pool}, std::move(done));
  }
};

Op RosterUser(absl::string_view name) {
  Op op(name);
  op.Input("handle: resource").Stateful().NotDifferentiable();
  return op;
}

const OpRegistration kRosterOps[] = {
    Op("ThalwegRoster")
        .Output("handle: resource")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<RosterKernel>()
        .NotDifferentiable(),
    RosterUser("ThalwegRosterJoin")
        .Input("worker: int64")
        .Output("was_present: bool")
        .Output("had_left: bool")
        .Attr("task: string = ''")
        .Shape(shapes::Scalar)
        .Kernel<JoinKernel>(),
    RosterUser("ThalwegRosterLeave").Input("worker: int64").Shape(shapes::NoOutputs).Compute(Leave),
    RosterUser("ThalwegRosterExpel").Input("worker: int64").Shape(shapes::NoOutputs).Compute(Expel),
    RosterUser("ThalwegRosterTakeBack")
        .Input("worker: int64")
        .Output("was_expelled: bool")
        .Shape(shapes::Scalar)
        .Compute(TakeBack),
    RosterUser("ThalwegRosterMembers")
        .Output("worker: int64")
        .Output("present: bool")
        .Output("clock: int64")
        .Output("waits: int64")
        .Shape(shapes::Vector)
        .Compute(Members),
    RosterUser("ThalwegRosterRelease")
        .Input("step: int64")
        .Input("round: int64")
        .Attr("wanted: int >= 1")
        .Attr("total: int >= 1")
        .Attr("again: bool = false")
        .Shape(shapes::NoOutputs)
        .Kernel<ReleaseKernel>(),
    RosterUser("ThalwegRosterGeneration").Output("generation: int64").Shape(shapes::Scalar).Compute(Generation),
    RosterUser("ThalwegRosterWake").Shape(shapes::NoOutputs).Compute(Wake),
    RosterUser("ThalwegRosterAwaitStep")
        .Input("worker: int64")
        .Input("round: int64")
        .Input("generation: int64")
        .Output("step: int64")
        .Output("generation_now: int64")
        .Shape(shapes::Scalar)
        .Kernel<AwaitStepKernel>(),
    RosterUser("ThalwegRosterCloseSteps").Shape(shapes::NoOutputs).Compute(CloseSteps),
    RosterUser("ThalwegRosterAdvance")
        .Input("worker: int64")
        .Attr("slack: int >= 0")
        .Shape(shapes::NoOutputs)
        .Kernel<AdvanceKernel>(),
    RosterUser("ThalwegRosterAwaitTurn")
        .Input("worker: int64")
        .Attr("slack: int >= 0")
        .Shape(shapes::NoOutputs)
        .Kernel<AwaitTurnKernel>(),
    RosterUser("ThalwegRosterLead").Input("worker: int64").Output("lead: int64").Shape(shapes::Scalar).Compute(Lead),
    RosterUser("ThalwegRosterAwaitEmpty").Shape(shapes::NoOutputs).Kernel<AwaitEmptyKernel>(),
};

const SyncRoleRegistration kRosterRoles[] = {
    {"ThalwegRosterAdvance", SyncRole::kFinishStep},
    {"ThalwegRosterAwaitStep", SyncRole::kAwaitStep},
    {"ThalwegRosterAwaitTurn", SyncRole::kAwaitStep},
    {"ThalwegRosterAwaitEmpty", SyncRole::kAwaitStep},
};

}  // namespace

Output RosterOf(const Scope& s, absl::string_view shared_name) {
  return s.Add("ThalwegRoster", {}, {{"shared_name", std::string(shared_name)}});
}
RosterJoinResult RosterJoin(const Scope& s, Output roster, Output worker, const std::string& task) {
  Node* const node = s.Add("ThalwegRosterJoin", {roster, worker}, {{"task", task}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output RosterLeave(const Scope& s, Output roster, Output worker) {
  return s.Add("ThalwegRosterLeave", {roster, worker});
}
Output RosterExpel(const Scope& s, Output roster, Output worker) {
  return s.Add("ThalwegRosterExpel", {roster, worker});
}
Output RosterTakeBack(const Scope& s, Output roster, Output worker) {
  return s.Add("ThalwegRosterTakeBack", {roster, worker});
}
RosterMembersResult RosterMembers(const Scope& s, Output roster) {
  Node* const node = s.Add("ThalwegRosterMembers", {roster});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1), node->out(2), node->out(3)};
}
Output RosterRelease(const Scope& s, Output roster, Output step, Output round, const RosterReleaseOptions& a) {
  return s.Add("ThalwegRosterRelease", {roster, step, round},
               {{"wanted", a.wanted}, {"total", a.total}, {"again", a.again}});
}
RosterStep RosterAwaitStep(const Scope& s, Output roster, Output worker, Output round, Output generation) {
  Node* const node = s.Add("ThalwegRosterAwaitStep", {roster, worker, round, generation});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}
Output RosterGeneration(const Scope& s, Output roster) { return s.Add("ThalwegRosterGeneration", {roster}); }
Output RosterWake(const Scope& s, Output roster) { return s.Add("ThalwegRosterWake", {roster}); }
Output RosterCloseSteps(const Scope& s, Output roster) { return s.Add("ThalwegRosterCloseSteps", {roster}); }
Output RosterAdvance(const Scope& s, Output roster, Output worker, int64_t slack) {
  return s.Add("ThalwegRosterAdvance", {roster, worker}, {{"slack", slack}});
}
Output RosterAwaitTurn(const Scope& s, Output roster, Output worker, int64_t slack) {
  return s.Add("ThalwegRosterAwaitTurn", {roster, worker}, {{"slack", slack}});
}
Output RosterLead(const Scope& s, Output roster, Output worker) { return s.Add("ThalwegRosterLead", {roster, worker}); }
Output RosterAwaitEmpty(const Scope& s, Output roster) { return s.Add("ThalwegRosterAwaitEmpty", {roster}); }

}  // namespace thalweg
