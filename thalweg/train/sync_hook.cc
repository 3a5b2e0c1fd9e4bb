#include "thalweg/train/sync_hook.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"

namespace thalweg {
namespace {

// Steps that only read or write a few numbers.
constexpr absl::Duration kShortStep = absl::Minutes(1);
constexpr absl::Duration kSayAfter = absl::Seconds(10);

std::string Since(absl::Duration waited) {
  return absl::FormatDuration(
      absl::Trunc(waited, waited < absl::Seconds(10) ? absl::Milliseconds(1) : absl::Seconds(1)));
}

Tensor Worker(int64_t worker) { return Tensor::Scalar<int64_t>(worker); }

absl::Status RunShort(Session& session, const std::vector<Fetch>& fetches) {
  return session.Run(fetches, {}, {.timeout = kShortStep}).status();
}

absl::Status Leave(Session& session, const SyncGraph& g, int64_t worker) {
  return session.Run({g.roster_leave, g.accumulator_leaves}, {{g.member, Worker(worker)}}, {.timeout = kShortStep})
      .status();
}

// True if it was there already: it comes again without having left.
absl::StatusOr<bool> Join(Session& session, const SyncGraph& g, int64_t worker) {
  ASSIGN_OR_RETURN(const auto was, session.Run({g.roster_join.was_present, g.roster_join.had_left},
                                               {{g.member, Worker(worker)}}, {.timeout = kShortStep}));
  if (was[1].scalar<bool>()) {
    RETURN_IF_ERROR(session.Run({g.accumulator_joins}, {{g.member, Worker(worker)}}, {.timeout = kShortStep}).status());
  }
  return was[0].scalar<bool>();
}

// Who has joined and not left.
absl::StatusOr<std::set<int64_t>> Present(Session& session, const SyncGraph& g) {
  ASSIGN_OR_RETURN(const auto out, session.Run({g.members.worker, g.members.present}, {}, {.timeout = kShortStep}));
  std::set<int64_t> present;
  for (int64_t i = 0; i < out[0].num_elements(); ++i) {
    if (out[1].data<bool>()[i]) present.insert(out[0].data<int64_t>()[i]);
  }
  return present;
}

// The chief's threads on a session: one runs rounds, the other looks after
// workers that hold one up. Ends before the session does.
class Aggregation {
 public:
  Aggregation(Session& session, std::shared_ptr<const SyncGraph> graph)
      : session_(session),
        graph_(std::move(graph)),
        rounds_thread_("sync-rounds", [this] { RunRounds(); }),
        watch_thread_("sync-watch", [this] { Watch(); }) {}
  ~Aggregation() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
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
    const absl::StatusOr<Session::Callable> round = session_.Prepare({graph_->round});
    absl::Status status = round.status();
    while (status.ok()) {
      status = round->Run({}, {.cancellation = &cancellation_}).status();
      MutexLock lock(&mutex_);
      if (stopping_) return;
      if (!status.ok()) break;
      ++rounds_;
      last_round_ = absl::Now();
    }
    // Cancelled, but not by us: its server was stopped.
    if (absl::IsCancelled(status)) status = Unavailable(status.message());
    LOG(WARNING) << "the aggregation of gradients failed: " << status;
    {
      MutexLock lock(&mutex_);
      status_ = status;
    }
    // Nobody shall wait for the end of this round: the workers find in the next
    // step what is wrong, the chief from status_.
    RunShort(session_, {graph_->release_again}).IgnoreError();
  }

  // How long the round has waited, after `pause`; none: it is the end.
  std::optional<absl::Duration> Pause(absl::Duration pause) {
    MutexLock lock(&mutex_);
    if (!stopping_) changed_.WaitWithTimeout(&mutex_, pause);
    if (stopping_ || !status_.ok()) return std::nullopt;
    return absl::Now() - last_round_;
  }

  void Watch() {
    const absl::Duration expel_after = graph_->options.expel_after;
    const absl::Duration pause = std::min(kSayAfter, expel_after);
    absl::Duration say_at = kSayAfter;
    while (const std::optional<absl::Duration> waited = Pause(pause)) {
      if (*waited < pause) say_at = kSayAfter;
      if (*waited < pause && expelled_.empty()) continue;
      const bool say = *waited >= say_at;
      if (say) say_at = 2 * *waited;
      LookAfter(*waited, say, *waited >= expel_after);
    }
  }

  // Says whom the round waits for, takes workers for lost or takes them back.
  void LookAfter(absl::Duration waited, bool say, bool expel) {
    const SyncGraph& g = *graph_;
    const auto out =
        session_.Run({g.ledger.worker, g.ledger.last_step, g.members.worker, g.members.present, g.global_step}, {},
                     {.timeout = kShortStep, .cancellation = &cancellation_});
    if (!out.ok()) return;  // the round fails, too
    std::map<int64_t, int64_t> last_steps;
    for (int64_t i = 0; i < (*out)[0].num_elements(); ++i) {
      last_steps[(*out)[0].data<int64_t>()[i]] = (*out)[1].data<int64_t>()[i];
    }
    std::set<int64_t> missing;
    for (int64_t w = 0; w < g.options.total_num_replicas; ++w) {
      const auto last = last_steps.find(w);
      if (last == last_steps.end() || last->second < (*out)[4].scalar<int64_t>()) missing.insert(w);
    }
    for (int64_t i = 0; i < (*out)[2].num_elements(); ++i) {
      if (!(*out)[3].data<bool>()[i]) missing.erase((*out)[2].data<int64_t>()[i]);
    }
    if (say) {
      LOG(INFO) << "step " << (*out)[4].scalar<int64_t>() << " has waited for " << Since(waited)
                << " for gradients of worker " << absl::StrJoin(missing, ", ");
    }
    for (const int64_t worker : missing) {
      if (!expel || worker == g.worker) continue;
      LOG(WARNING) << "worker " << worker << " gave no gradient for " << Since(waited)
                   << ": the training goes on without it";
      if (Leave(session_, g, worker).ok()) expelled_[worker] = last_steps.contains(worker) ? last_steps[worker] : -1;
    }
    for (auto it = expelled_.begin(); it != expelled_.end();) {
      const auto last = last_steps.find(it->first);
      if (last == last_steps.end() || last->second <= it->second || !Join(session_, g, it->first).ok()) {
        ++it;
        continue;
      }
      LOG(INFO) << "worker " << it->first << " is back";
      it = expelled_.erase(it);
    }
  }

  Session& session_;
  const std::shared_ptr<const SyncGraph> graph_;
  Cancellation cancellation_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int64_t rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_round_ ABSL_GUARDED_BY(mutex_) = absl::Now();
  std::map<int64_t, int64_t> expelled_;  // and their last steps; of the watching thread
  // Last: they are joined before the rest goes.
  Thread rounds_thread_;
  Thread watch_thread_;
};

class SyncHook final : public Hook {
 public:
  SyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief) : graph_(std::move(graph)), is_chief_(is_chief) {}

  absl::Status Begin(const Scope&) override {
    if (graph_ != nullptr) return absl::OkStatus();
    return FailedPrecondition("SyncReplicas: Hooks() was called before Minimize() or ApplyGradients()");
  }

  absl::Status AfterCreateSession(Session& session) override {
    const SyncGraph& g = *graph_;
    aggregation_.reset();
    RETURN_IF_ERROR(session.Run({is_chief_ ? g.chief_init : g.local_init}).status());
    ASSIGN_OR_RETURN(const bool again, Join(session, g, g.worker));
    if (!is_chief_) return absl::OkStatus();
    // If it was here before, a round may have been cut off: the others may wait
    // for its end, with gradients that are lost.
    RETURN_IF_ERROR(RunShort(session, {again ? g.release_again : g.release}));
    aggregation_ = std::make_unique<Aggregation>(session, graph_);
    return absl::OkStatus();
  }

  absl::StatusOr<StepRequest> BeforeRun(StepContext&) override {
    RETURN_IF_ERROR(Health());
    return StepRequest{};
  }
  absl::Status AfterRun(StepContext&, absl::Span<const Tensor>) override { return Health(); }

  // Errors here are only told: the training ended well.
  absl::Status End(Session& session) override {
    const absl::Status left = Leave(session, *graph_, graph_->worker);
    if (!left.ok()) LOG(WARNING) << "worker " << graph_->worker << " could not take its leave: " << left;
    if (aggregation_ != nullptr && left.ok()) {
      AwaitOthers(session);
      aggregation_.reset();
      CleanUp(session);
    }
    aggregation_.reset();
    return absl::OkStatus();
  }

  void BeforeCloseSession(Session&) override { aggregation_.reset(); }

 private:
  absl::Status Health() const { return aggregation_ == nullptr ? absl::OkStatus() : aggregation_->status(); }

  // Rounds go on as long as there are workers that take part in them.
  void AwaitOthers(Session& session) {
    const absl::Duration linger = graph_->options.linger;
    const absl::Time start = absl::Now();
    absl::Time progress = start;
    int64_t rounds = aggregation_->rounds();
    while (aggregation_->status().ok()) {
      const absl::Duration pause = std::clamp(linger, absl::Milliseconds(10), kSayAfter);
      const absl::Status status = session.Run({graph_->await_empty}, {}, {.timeout = pause}).status();
      if (status.ok()) return;
      if (!absl::IsDeadlineExceeded(status)) {
        LOG(WARNING) << "the chief does not know whether other workers go on: " << status;
        return;
      }
      if (const int64_t now = aggregation_->rounds(); now != rounds) {
        rounds = now;
        progress = absl::Now();
      }
      const absl::StatusOr<std::set<int64_t>> present = Present(session, *graph_);
      if (!present.ok()) continue;
      if (absl::Now() - progress >= linger) {
        LOG(WARNING) << "the chief ends although worker " << absl::StrJoin(*present, ", ")
                     << " has not left: no step for " << Since(absl::Now() - progress);
        // Should one of them still come, it finds the end.
        RunShort(session, {graph_->close_steps}).IgnoreError();
        return;
      }
      LOG(INFO) << "the chief has waited for " << Since(absl::Now() - start) << " for the end of worker "
                << absl::StrJoin(*present, ", ");
    }
  }

  // For the next training on these servers nobody has left.
  void CleanUp(Session& session) {
    session
        .Run({graph_->roster_leave, graph_->accumulator_joins}, {{graph_->member, Worker(-1)}}, {.timeout = kShortStep})
        .status()
        .IgnoreError();
  }

  const std::shared_ptr<const SyncGraph> graph_;
  const bool is_chief_;
  std::unique_ptr<Aggregation> aggregation_;
};

}  // namespace

std::shared_ptr<Hook> MakeSyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief) {
  return std::make_shared<SyncHook>(std::move(graph), is_chief);
}

}  // namespace thalweg
