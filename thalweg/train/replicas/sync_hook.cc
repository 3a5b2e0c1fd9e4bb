// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/sync_hook.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/cluster/request_id.h"
#include "thalweg/train/replicas/replica_identity.h"

namespace thalweg {
namespace {

std::string Since(absl::Duration waited) {
  return absl::FormatDuration(
      absl::Trunc(waited, waited < absl::Seconds(10) ? absl::Milliseconds(1) : absl::Seconds(1)));
}

constexpr int64_t kEveryWorker = -1;

Tensor Worker(int64_t worker) { return Tensor::Scalar<int64_t>(worker); }

absl::Status RunShort(Session& session, const std::vector<Fetch>& fetches) {
  return session.Run(fetches, {}, {.timeout = kShortStep}).status();
}

// The roster learns of it first, see TellAccumulators(). `how`: roster_leave or roster_expel.
absl::Status Leave(Session& session, const SyncGraph& g, const Output& how, int64_t worker) {
  for (const Output& leave : {how, g.accumulator_leaves}) {
    RETURN_IF_ERROR(session.Run({leave}, {{g.member, Worker(worker)}}, {.timeout = kShortStep}).status());
  }
  return absl::OkStatus();
}

// `how` says whether the worker had left: own_join.had_left or roster_take_back. Returns what it says.
absl::StatusOr<bool> Join(Session& session, const SyncGraph& g, const Output& how, int64_t worker) {
  ASSIGN_OR_RETURN(const auto had_left, session.Run({how}, {{g.member, Worker(worker)}}, {.timeout = kShortStep}));
  if (!had_left[0].scalar<bool>()) return false;
  RETURN_IF_ERROR(session.Run({g.accumulator_joins}, {{g.member, Worker(worker)}}, {.timeout = kShortStep}).status());
  return true;
}

// The workers of the roster, and whether they are present: have joined and not left.
using Members = std::map<int64_t, bool>;
absl::StatusOr<Members> ReadMembers(Session& session, const SyncGraph& g) {
  ASSIGN_OR_RETURN(const auto out, session.Run({g.members.worker, g.members.present}, {}, {.timeout = kShortStep}));
  Members members;
  for (int64_t i = 0; i < out[0].num_elements(); ++i) {
    members[out[0].data<int64_t>()[i]] = out[1].data<bool>()[i];
  }
  return members;
}

// Tells the accumulators who is present. A worker that leaves or joins meanwhile tells the roster first and the
// accumulators second, so its own message may be overtaken by an older state of ours. It is then in the roster when
// we read it again.
absl::Status TellAccumulators(Session& session, const SyncGraph& g) {
  Members told;
  while (true) {
    ASSIGN_OR_RETURN(const Members members, ReadMembers(session, g));
    if (members == told) return absl::OkStatus();
    for (const auto& [worker, present] : members) {
      RETURN_IF_ERROR(session
                          .Run({present ? g.accumulator_joins : g.accumulator_leaves}, {{g.member, Worker(worker)}},
                               {.timeout = kShortStep})
                          .status());
    }
    told = members;
  }
}

// The workers that a step waits for.
struct Attendance {
  int64_t step = 0;
  std::map<int64_t, int64_t> last_steps;  // by worker: the last step for which it has sent all gradients
  std::set<int64_t> missing;              // workers that have not sent all of this step and have not left
};

absl::StatusOr<Attendance> ReadAttendance(Session& session, const SyncGraph& g, Cancellation* cancellation) {
  std::vector<Fetch> fetches = {g.members.worker, g.members.present, g.global_step};
  for (const AccumulatorLedgerResult& ledger : g.ledgers) {
    fetches.emplace_back(ledger.worker);
    fetches.emplace_back(ledger.last_step);
  }
  ASSIGN_OR_RETURN(const auto out, session.Run(fetches, {}, {.timeout = kShortStep, .cancellation = cancellation}));
  Attendance a{.step = out[2].scalar<int64_t>()};
  // A worker may be lost between two gradients, so the accumulator that knows least of it counts.
  std::map<int64_t, size_t> known;  // by worker: how many accumulators have had a gradient of it
  for (size_t l = 0; l < g.ledgers.size(); ++l) {
    const Tensor &workers = out[3 + 2 * l], &steps = out[4 + 2 * l];
    for (int64_t i = 0; i < workers.num_elements(); ++i) {
      const int64_t worker = workers.data<int64_t>()[i], step = steps.data<int64_t>()[i];
      const auto last = a.last_steps.try_emplace(worker, step).first;
      last->second = std::min(last->second, step);
      ++known[worker];
    }
  }
  std::erase_if(a.last_steps, [&](const auto& last) { return known[last.first] < g.ledgers.size(); });
  for (int64_t w = 0; w < g.options.total_num_replicas; ++w) {
    const auto last = a.last_steps.find(w);
    if (last == a.last_steps.end() || last->second < a.step) a.missing.insert(w);
  }
  for (int64_t i = 0; i < out[0].num_elements(); ++i) {
    if (!out[1].data<bool>()[i]) a.missing.erase(out[0].data<int64_t>()[i]);
  }
  return a;
}

void SayWhomFor(const Attendance& a, absl::Duration waited) {
  const std::string whom = a.missing.empty() ? "the chief, which takes the means"
                                             : absl::StrCat("gradients of worker ", absl::StrJoin(a.missing, ", "));
  LOG(INFO) << "step " << a.step << " has waited for " << Since(waited) << " for " << whom;
}

// A thread that looks now and then how long something takes.
class WaitWatch {
 public:
  // `log`: true when the wait has reached `log_after`, and each time it has doubled.
  using Look = std::function<void(absl::Duration waited, bool log)>;

  WaitWatch(absl::Duration every, absl::Duration log_after, Look look)
      : every_(std::min(every, log_after)),
        log_after_(log_after),
        look_(std::move(look)),
        thread_("sync-watch", [this] { Run(); }) {}
  ~WaitWatch() {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }

  void Begin() {
    MutexLock lock(&mutex_);
    since_ = absl::Now();
  }
  void End() {
    MutexLock lock(&mutex_);
    since_ = absl::InfiniteFuture();
  }

 private:
  // Pauses, then returns how long the round has taken so far; nothing if the hook ends.
  std::optional<absl::Duration> Pause() {
    MutexLock lock(&mutex_);
    if (!stopping_) changed_.WaitWithTimeout(&mutex_, every_);
    if (stopping_) return std::nullopt;
    return std::max(absl::Now() - since_, absl::ZeroDuration());
  }

  void Run() {
    absl::Duration log_at = log_after_;
    while (const std::optional<absl::Duration> waited = Pause()) {
      if (*waited < log_after_) log_at = log_after_;
      const bool log = *waited >= log_at;
      if (log) log_at = 2 * *waited;
      look_(*waited, log);
    }
  }

  const absl::Duration every_, log_after_;
  const Look look_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  Thread thread_;  // last: it is joined before the rest goes
};

// The rounds of a chief, which go on in its next session. A round has an identity, so that it can be repeated when its
// answer was lost: parameter servers skip what they have applied.
struct Rounds {
  const uint64_t client = static_cast<uint64_t>(NewRequestId());
  int64_t base = 0;       // number of the round before the first
  int64_t sequence = 1;   // number of the current round; only grows
  int64_t first = 1;      // sequence of the first round after `base`
  bool in_doubt = false;  // the current round may have been applied, at least in part

  int64_t number() const { return base + 1 + sequence - first; }
  // The variables have got new values.
  void Restart() {
    base = NewRequestId() >> 1;
    if (in_doubt) ++sequence;
    first = sequence;
    in_doubt = false;
  }
};

std::vector<Feed> Numbered(const SyncGraph& g, int64_t round) {
  std::vector<Feed> feeds;
  for (const Output& number : g.round_number) feeds.emplace_back(number, Tensor::Scalar<int64_t>(round));
  return feeds;
}

// The chief's threads on a session: one runs rounds, the other looks after
// workers that hold one up. Ends before the session does.
class Aggregation {
 public:
  Aggregation(Session& session, std::shared_ptr<const SyncGraph> graph, Rounds& current)
      : session_(session),
        graph_(std::move(graph)),
        current_(current),
        watch_(graph_->options.expel_after, graph_->options.log_after,
               [this](absl::Duration waited, bool log) { LookAfter(waited, log); }),
        rounds_thread_("sync-rounds", [this] { RunRounds(); }) {}
  ~Aggregation() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      stops_.SignalAll();
    }
    cancellation_.Cancel(Cancelled("the aggregation of gradients ends"));
  }

  absl::Status status() const {
    MutexLock lock(&mutex_);
    return status_;
  }
  int64_t rounds() const {
    MutexLock lock(&mutex_);
    return rounds_;
  }

 private:
  void RunRounds() {
    const absl::StatusOr<Session::Callable> await = session_.Prepare({graph_->await_round}, graph_->round_number);
    const absl::StatusOr<Session::Callable> apply = session_.Prepare({graph_->apply_round}, graph_->round_number);
    absl::Status status = await.status();
    status.Update(apply.status());
    while (status.ok()) {
      watch_.Begin();
      status = RunRound(*await, *apply);
      MutexLock lock(&mutex_);
      if (stopping_) return;
      if (!status.ok()) break;
      ++rounds_;
    }
    watch_.End();
    // Cancelled, but not by us: its server was stopped.
    if (absl::IsCancelled(status)) status = Unavailable(status.message());
    LOG(WARNING) << "the aggregation of gradients failed: " << status;
    {
      MutexLock lock(&mutex_);
      status_ = status;
    }
    // End the chief's own step if it waits for this round. It finds the error in status_. The call may be lost as that
    // of the round was. If the roster is, the chief's step fails, too.
    while (!RunShort(session_, {graph_->wake}).ok() && !StoppingWithin(kWakeEvery)) {
    }
  }

  bool StoppingWithin(absl::Duration timeout) {
    MutexLock lock(&mutex_);
    if (!stopping_) stops_.WaitWithTimeout(&mutex_, timeout);
    return stopping_;
  }

  absl::Status RunRound(const Session::Callable& await, const Session::Callable& apply) {
    const std::vector<Tensor> number(graph_->round_number.size(), Tensor::Scalar<int64_t>(current_.number()));
    RETURN_IF_ERROR(await.Run(number, {.cancellation = &cancellation_}).status());
    current_.in_doubt = true;
    RETURN_IF_ERROR(Apply(apply, number));
    current_.in_doubt = false;
    ++current_.sequence;
    return absl::OkStatus();
  }

  // A round that was cut off is completed at once if the tasks are still there. The chief may be saving a checkpoint,
  // which waits for all of the round, and could not complete it in a new session before that has ended.
  absl::Status Apply(const Session::Callable& apply, const std::vector<Tensor>& number) {
    constexpr int kTries = 3;
    absl::Status status;
    for (int i = 0; i < kTries; ++i) {
      status =
          apply.Run(number, {.cancellation = &cancellation_, .client = current_.client, .sequence = current_.sequence})
              .status();
      if (!absl::IsUnavailable(status) && !absl::IsAborted(status)) break;
    }
    return status;
  }

  // Says whom the round waits for, takes workers for lost or takes them back.
  void LookAfter(absl::Duration waited, bool log) {
    const SyncGraph& g = *graph_;
    const bool expel = waited >= g.options.expel_after;
    if (!log && !expel && expelled_.empty()) return;
    const absl::StatusOr<Attendance> a = ReadAttendance(session_, g, &cancellation_);
    if (!a.ok()) return;  // the round fails, too
    if (log) SayWhomFor(*a, waited);
    // A worker that was killed while it left may have told the roster only.
    if (a->missing.empty()) TellAccumulators(session_, g).IgnoreError();  // the round fails, too
    const auto last_step = [&](int64_t worker) {
      const auto found = a->last_steps.find(worker);
      return found == a->last_steps.end() ? -1 : found->second;
    };
    for (const int64_t worker : a->missing) {
      if (!expel || worker == g.worker) continue;
      LOG(WARNING) << "worker " << worker << " has sent no gradient for " << Since(waited)
                   << ": the training continues without it";
      if (Leave(session_, g, g.roster_expel, worker).ok()) expelled_[worker] = last_step(worker);
    }
    for (auto it = expelled_.begin(); it != expelled_.end();) {
      if (last_step(it->first) <= it->second) {
        ++it;
        continue;
      }
      // A worker with a new session has come back by itself, and may have left again.
      const absl::StatusOr<bool> taken_back = Join(session_, g, g.roster_take_back, it->first);
      if (!taken_back.ok()) {
        ++it;
        continue;
      }
      if (*taken_back) LOG(INFO) << "worker " << it->first << " is back";
      it = expelled_.erase(it);
    }
  }

  Session& session_;
  const std::shared_ptr<const SyncGraph> graph_;
  Rounds& current_;  // used by rounds_thread_ only
  Cancellation cancellation_;
  static constexpr absl::Duration kWakeEvery = absl::Milliseconds(100);

  mutable Mutex mutex_;
  CondVar stops_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, int64_t> expelled_;  // and their last steps; of the watching thread
  // Last: they are joined before the rest goes.
  WaitWatch watch_;
  Thread rounds_thread_;
};

// Another worker's thread that says whom its step waits for: the chief, which
// would say it, may be away. Ends before the session does.
class StepWatch {
 public:
  StepWatch(Session& session, std::shared_ptr<const SyncGraph> graph)
      : watch_(absl::InfiniteDuration(), graph->options.log_after,
               [this, &session, graph](absl::Duration waited, bool log) {
                 if (!log) return;
                 const absl::StatusOr<Attendance> a = ReadAttendance(session, *graph, &cancellation_);
                 if (a.ok()) SayWhomFor(*a, waited);
               }) {}
  ~StepWatch() { cancellation_.Cancel(Cancelled("the step has ended")); }

  void StepBegins() { watch_.Begin(); }
  void StepEnds() { watch_.End(); }

 private:
  Cancellation cancellation_;
  WaitWatch watch_;  // last: it ends before the rest goes
};

class SyncHook final : public Hook {
 public:
  SyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief) : graph_(std::move(graph)), is_chief_(is_chief) {}

  absl::Status Begin(const Scope&) override {
    if (graph_ != nullptr) return absl::OkStatus();
    return FailedPrecondition("SyncReplicas: Hooks() was called before Minimize() or ApplyGradients()");
  }

  void AfterValuesGiven() override { values_are_new_ = true; }

  absl::Status AfterCreateSession(Session& session) override {
    const SyncGraph& g = *graph_;
    BeforeCloseSession(session);
    RETURN_IF_ERROR(Join(session, g, g.own_join.had_left, g.worker).status());
    if (is_chief_) RETURN_IF_ERROR(values_are_new_ ? BeginRounds(session) : CompleteRound(session));
    if (!is_chief_) RETURN_IF_ERROR(AwaitRounds(session));
    RETURN_IF_ERROR(RunShort(session, {g.local_init}));
    if (!is_chief_) {
      step_watch_ = std::make_unique<StepWatch>(session, graph_);
      return absl::OkStatus();
    }
    aggregation_ = std::make_unique<Aggregation>(session, graph_, rounds_);
    return absl::OkStatus();
  }

  absl::StatusOr<StepRequest> BeforeRun(StepContext&) override {
    RETURN_IF_ERROR(Health());
    if (step_watch_ != nullptr) step_watch_->StepBegins();
    return StepRequest{};
  }
  absl::Status AfterRun(StepContext&, absl::Span<const Tensor>) override {
    if (step_watch_ != nullptr) step_watch_->StepEnds();
    return Health();
  }

  // The roster aborts the chief's step when a round has failed.
  absl::Status CauseOfFailure(const absl::Status& error) override {
    return absl::IsAborted(error) ? Health() : absl::OkStatus();
  }

  // Errors here are only logged, because the training itself has succeeded.
  absl::Status End(Session& session) override {
    const absl::Status left = Leave(session, *graph_, graph_->roster_leave, graph_->worker);
    if (!left.ok()) LOG(WARNING) << "worker " << graph_->worker << " could not leave the training: " << left;
    if (aggregation_ != nullptr && left.ok()) {
      AwaitOthers(session);
      aggregation_.reset();
      CleanUp(session);
    }
    aggregation_.reset();
    return absl::OkStatus();
  }

  void BeforeCloseSession(Session&) override {
    aggregation_.reset();
    step_watch_.reset();
  }

 private:
  // The chief drops all gradients when it begins, so a step that began earlier would be in vain.
  // If the chief takes long or has ended, the worker's first step says so.
  absl::Status AwaitRounds(Session& session) {
    const absl::Status status = RunShort(session, {graph_->rounds_begun});
    return absl::IsDeadlineExceeded(status) || absl::IsOutOfRange(status) ? absl::OkStatus() : status;
  }

  // Gradients of other values of the variables do not count. Accumulators that were lost do not know who has left.
  absl::Status BeginRounds(Session& session) {
    const SyncGraph& g = *graph_;
    rounds_.Restart();
    RETURN_IF_ERROR(session.Run({g.begin_rounds}, Numbered(g, rounds_.base), {.timeout = kShortStep}).status());
    // Forget what workers of an earlier training told the accumulators after it had ended.
    RETURN_IF_ERROR(
        session.Run({g.accumulator_joins}, {{g.member, Worker(kEveryWorker)}}, {.timeout = kShortStep}).status());
    RETURN_IF_ERROR(TellAccumulators(session, g));
    values_are_new_ = false;
    return absl::OkStatus();
  }

  // The last session may have ended while a round was applied.
  absl::Status CompleteRound(Session& session) {
    if (!rounds_.in_doubt) return absl::OkStatus();
    RETURN_IF_ERROR(session
                        .Run({graph_->apply_round}, Numbered(*graph_, rounds_.number()),
                             {.timeout = kShortStep, .client = rounds_.client, .sequence = rounds_.sequence})
                        .status());
    rounds_.in_doubt = false;
    ++rounds_.sequence;
    return absl::OkStatus();
  }

  absl::Status Health() const { return aggregation_ == nullptr ? absl::OkStatus() : aggregation_->status(); }

  // Keeps running rounds as long as other workers take part.
  void AwaitOthers(Session& session) {
    const absl::Duration chief_wait = graph_->options.chief_wait;
    const absl::Time start = absl::Now();
    absl::Time progress = start;
    int64_t rounds = aggregation_->rounds();
    while (aggregation_->status().ok()) {
      const absl::Duration pause = std::clamp(chief_wait, absl::Milliseconds(10), graph_->options.log_after);
      const absl::Status status = session.Run({graph_->await_empty}, {}, {.timeout = pause}).status();
      if (status.ok()) return;
      if (!absl::IsDeadlineExceeded(status)) {
        LOG(WARNING) << "the chief cannot find out whether other workers still train: " << status;
        return;
      }
      if (const int64_t now = aggregation_->rounds(); now != rounds) {
        rounds = now;
        progress = absl::Now();
      }
      const absl::StatusOr<Members> members = ReadMembers(session, *graph_);
      if (!members.ok()) continue;
      std::vector<int64_t> present;
      for (const auto& [worker, is_present] : *members) {
        if (is_present) present.push_back(worker);
      }
      if (absl::Now() - progress >= chief_wait) {
        LOG(WARNING) << "the chief ends although worker " << absl::StrJoin(present, ", ")
                     << " has not left: no step for " << Since(absl::Now() - progress);
        // Should one of them still come, it finds the end.
        RunShort(session, {graph_->close_steps}).IgnoreError();
        return;
      }
      LOG(INFO) << "the chief has waited for " << Since(absl::Now() - start) << " for the end of worker "
                << absl::StrJoin(present, ", ");
    }
  }

  // Clears the roster and resets the accumulators for the next training on these servers.
  void CleanUp(Session& session) {
    session
        .Run({graph_->roster_leave, graph_->accumulator_joins}, {{graph_->member, Worker(kEveryWorker)}},
             {.timeout = kShortStep})
        .status()
        .IgnoreError();
  }

  const std::shared_ptr<const SyncGraph> graph_;
  const bool is_chief_;
  // For the chief:
  bool values_are_new_ = true;  // those of the variables, and the rounds do not know it yet
  Rounds rounds_;
  std::unique_ptr<Aggregation> aggregation_;
  std::unique_ptr<StepWatch> step_watch_;  // another worker's
};

}  // namespace

std::shared_ptr<Hook> MakeSyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief) {
  return std::make_shared<SyncHook>(std::move(graph), is_chief);
}

}  // namespace thalweg
