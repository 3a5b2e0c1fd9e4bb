// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/bounded_staleness.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/roster_ops.h"
#include "thalweg/train/optimizers/wrapped_optimizer.h"
#include "thalweg/train/replicas/replica_identity.h"

namespace thalweg {
namespace {

constexpr char kClocksList[] = "bounded_staleness_members";
constexpr absl::Duration kSayAfter = absl::Seconds(10);
constexpr absl::Duration kReachEvery = absl::Seconds(1);

struct StalenessGraph {
  BoundedStalenessOptions options;
  int64_t worker = 0;
  Output member;  // fed: a worker, for what follows
  RosterJoinResult join;
  Output leave, expel;
  RosterMembersResult members;
  Output lead;        // how many steps this worker is ahead of the slowest
  Output await_turn;  // waits while that is more than the slack
  Output reach_all;   // does nothing, in every task that has variables
};

absl::StatusOr<std::vector<WorkerClock>> Clocks(Session& session, const std::vector<Fetch>& members,
                                                Cancellation* cancellation = nullptr) {
  ASSIGN_OR_RETURN(const auto out, session.Run(members, {}, {.timeout = kShortStep, .cancellation = cancellation}));
  std::vector<WorkerClock> clocks;
  for (int64_t i = 0; i < out[0].num_elements(); ++i) {
    clocks.push_back({.worker = out[0].data<int64_t>()[i],
                      .steps = out[2].data<int64_t>()[i],
                      .waits = out[3].data<int64_t>()[i],
                      .present = out[1].data<bool>()[i]});
  }
  return clocks;
}

std::vector<Fetch> Fetches(const RosterMembersResult& m) { return {m.worker, m.present, m.clock, m.waits}; }

// `how`: leave or expel.
absl::Status Leave(Session& session, const StalenessGraph& g, const Output& how, int64_t worker) {
  return session.Run({how}, {{g.member, Tensor::Scalar<int64_t>(worker)}}, {.timeout = kShortStep}).status();
}

// A thread that looks for workers which hold up others: the chief's, anyone;
// another worker's, itself, since the chief may be the one. Ends before the
// session does.
class Watch {
 public:
  Watch(Session& session, std::shared_ptr<const StalenessGraph> graph, bool is_chief)
      : session_(session), graph_(std::move(graph)), is_chief_(is_chief), thread_("ssp-watch", [this] { Run(); }) {}
  ~Watch() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    cancellation_.Cancel(Cancelled("the training ends"));
  }

 private:
  struct Seen {
    int64_t steps = -1;
    absl::Time since;
    absl::Duration said = absl::ZeroDuration();
  };

  bool Pause(absl::Duration pause) {
    MutexLock lock(&mutex_);
    if (!stopping_) changed_.WaitWithTimeout(&mutex_, pause);
    return !stopping_;
  }

  void Run() {
    std::map<int64_t, Seen> seen;
    while (Pause(std::min(kSayAfter, graph_->options.expel_after) / 2)) Look(&seen);
  }

  void Look(std::map<int64_t, Seen>* seen) {
    const auto clocks = Clocks(session_, Fetches(graph_->members), &cancellation_);
    if (!clocks.ok()) return;  // steps fail, too
    int64_t fastest = 0;
    for (const WorkerClock& c : *clocks) {
      if (c.present && (is_chief_ || c.worker == graph_->worker)) fastest = std::max(fastest, c.steps);
    }
    const absl::Time now = absl::Now();
    for (const WorkerClock& c : *clocks) {
      Seen& last = (*seen)[c.worker];
      const bool holds_up = c.present && fastest > c.steps + graph_->options.slack;
      if (last.steps != c.steps || !holds_up) last = {.steps = c.steps, .since = now};
      const absl::Duration waited = now - last.since;
      if (holds_up && waited >= graph_->options.expel_after) {
        LOG(WARNING) << "worker " << c.worker << " has been at step " << c.steps << " for "
                     << absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1)))
                     << ": the others continue without it";
        Leave(session_, *graph_, graph_->expel, c.worker).IgnoreError();
      } else if (holds_up && waited >= std::max(kSayAfter, 2 * last.said)) {
        last.said = waited;
        LOG(INFO) << "workers have waited for " << absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1)))
                  << " for worker " << c.worker << ", at step " << c.steps;
      }
    }
  }

  Session& session_;
  const std::shared_ptr<const StalenessGraph> graph_;
  const bool is_chief_;
  Cancellation cancellation_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;  // last: it is joined before the rest goes
};

class StalenessHook final : public Hook {
 public:
  StalenessHook(std::shared_ptr<const StalenessGraph> graph, bool is_chief)
      : graph_(std::move(graph)), is_chief_(is_chief) {}

  void Attach(const std::shared_ptr<Interruption>& interruption) override { interruption_ = interruption; }
  absl::Status Begin(const Scope&) override {
    if (graph_ != nullptr) return absl::OkStatus();
    return FailedPrecondition("BoundedStaleness: Hooks() was called before Minimize() or ApplyGradients()");
  }
  absl::Status AfterCreateSession(Session& session) override {
    watch_.reset();
    RETURN_IF_ERROR(session
                        .Run({graph_->join.was_present}, {{graph_->member, Tensor::Scalar<int64_t>(graph_->worker)}},
                             {.timeout = kShortStep})
                        .status());
    watch_ = std::make_unique<Watch>(session, graph_, is_chief_);
    return absl::OkStatus();
  }
  // The wait is a step of its own. A checkpoint delays steps that update variables and waits for those that have
  // begun: they must not wait for other workers.
  absl::StatusOr<StepRequest> BeforeRun(StepContext& context) override {
    if (may_be_ahead_) {
      RETURN_IF_ERROR(AwaitTurn(context.session()));
      may_be_ahead_ = false;
    }
    return StepRequest{.fetches = {graph_->lead}};
  }
  // The lead may be that before or after this step. It does not grow otherwise.
  absl::Status AfterRun(StepContext&, absl::Span<const Tensor> results) override {
    may_be_ahead_ = results[0].scalar<int64_t>() + 1 > graph_->options.slack;
    return absl::OkStatus();
  }
  // An error here is only logged, because the training itself has succeeded.
  absl::Status End(Session& session) override {
    const absl::Status left = Leave(session, *graph_, graph_->leave, graph_->worker);
    if (!left.ok()) LOG(WARNING) << "worker " << graph_->worker << " could not leave the training: " << left;
    return absl::OkStatus();
  }
  void BeforeCloseSession(Session&) override { watch_.reset(); }

 private:
  // The roster is in one task. If another one is lost, the others wait for the chief to restore its variables, and so
  // the chief must not wait for them.
  absl::Status AwaitTurn(Session& session) const {
    Cancellation* const cancellation = interruption_ == nullptr ? nullptr : &interruption_->waits();
    while (true) {
      const absl::Status turn =
          session.Run({graph_->await_turn}, {}, {.timeout = kReachEvery, .cancellation = cancellation}).status();
      if (!absl::IsDeadlineExceeded(turn)) return turn;
      RETURN_IF_ERROR(
          session.Run({graph_->reach_all}, {}, {.timeout = kShortStep, .cancellation = cancellation}).status());
    }
  }

  const std::shared_ptr<const StalenessGraph> graph_;
  const bool is_chief_;
  std::shared_ptr<Interruption> interruption_;
  bool may_be_ahead_ = false;  // more than the slack: wait before the next step
  std::unique_ptr<Watch> watch_;
};

class BoundedStalenessOptimizer final : public WrappedOptimizer {
 public:
  BoundedStalenessOptimizer(std::unique_ptr<Optimizer> inner, const BoundedStalenessOptions& options)
      : WrappedOptimizer("BoundedStaleness", std::move(inner)), options_(options) {}

  Output ApplyGradients(const Scope& s, const std::vector<GradientAndVar>& gradients,
                        const ApplyGradientsOptions& options) override {
    if (!s.ok()) return {};
    if (options_.slack < 0) s.Fail(InvalidArgument("BoundedStaleness: slack is ", options_.slack));
    if (graph_ != nullptr) s.Fail(FailedPrecondition("BoundedStaleness: gradients are applied for the second time"));
    const Output update = inner().ApplyGradients(s, gradients, options);
    if (!s.ok()) return {};
    graph_ = std::make_shared<StalenessGraph>();
    StalenessGraph& g = *graph_;
    g.options = options_;
    g.worker = IdentifyReplica(s).worker;
    const Scope own = s.InScope("").WithoutControlDependencies().SubScope("bounded_staleness");
    const Scope at = own.ColocateWith(options.global_step ? options.global_step.ref : gradients[0].variable.ref);
    const Output roster = RosterOf(at.WithOpName("roster"), "staleness_roster");
    g.member = Placeholder(at.WithOpName("member"), kInt64, Shape());
    g.join = RosterJoin(at, roster, g.member);
    g.leave = RosterLeave(at, roster, g.member);
    g.expel = RosterExpel(at, roster, g.member);
    g.members = RosterMembers(at.WithOpName("members"), roster);
    const Output worker = Const(at.WithOpName("worker"), g.worker);
    const Output step =
        RosterAdvance(at.WithOpName("step").WithControlDependencies({update}), roster, worker, options_.slack);
    g.lead = RosterLead(at.WithOpName("lead"), roster, worker);
    g.await_turn = RosterAwaitTurn(at.WithOpName("await_turn"), roster, worker, options_.slack);
    std::vector<Output> reached;
    for (const GradientAndVar& gradient : gradients) reached.push_back(NoOp(own.ColocateWith(gradient.variable.ref)));
    g.reach_all = Group(at.WithOpName("reach_all"), reached);
    if (s.ok()) s.graph().AddToCollection(kClocksList, g.members.worker.node->name());
    return step;
  }

  HookList Hooks(bool is_chief) override {
    return WrappedOptimizer::Hooks(is_chief) + HookList{std::make_shared<StalenessHook>(graph_, is_chief)};
  }

 private:
  const BoundedStalenessOptions options_;
  std::shared_ptr<StalenessGraph> graph_;
};

}  // namespace

std::unique_ptr<Optimizer> BoundedStaleness(std::unique_ptr<Optimizer> optimizer,
                                            const BoundedStalenessOptions& options) {
  return std::make_unique<BoundedStalenessOptimizer>(std::move(optimizer), options);
}

absl::StatusOr<std::vector<WorkerClock>> ReadClocks(Session& session, const Graph& graph) {
  const std::vector<std::string>& names = graph.Collection(kClocksList);
  if (names.empty()) return NotFound("the graph has no optimizer of bounded staleness");
  std::vector<Fetch> fetches;
  for (int i = 0; i < 4; ++i) fetches.push_back(absl::StrCat(names[0], ":", i));
  return Clocks(session, fetches);
}

}  // namespace thalweg
