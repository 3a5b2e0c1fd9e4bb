// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/faulty_network.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"

namespace thalweg {

class FaultyNetwork::FaultyCall : public std::enable_shared_from_this<FaultyCall> {
 public:
  FaultyCall(FaultyNetwork& network, std::shared_ptr<NetworkFaults> faults, std::string to, const CallOptions& options,
             Send send, RpcChannel::Done done)
      : network_(network),
        faults_(std::move(faults)),
        to_(std::move(to)),
        options_(options),
        send_(std::move(send)),
        done_(std::move(done)),
        fate_(faults_->Next(network.from_, to_)) {}

  void Begin() {
    const auto self = shared_from_this();
    if (options_.cancellation != nullptr) {
      // Not on this thread, which may hold what the caller's end needs.
      std::optional<Cancellation::CallbackId> id = options_.cancellation->Register([self](const absl::Status&) {
        self->network_.pool_.Schedule([self] { self->End(Cancelled("The call was cancelled"), {}); });
      });
      if (!id.has_value()) return End(options_.cancellation->status(), {});
      MutexLock lock(&mutex_);
      outside_id_ = id;
    }
    if (options_.timeout < absl::InfiniteDuration()) {
      const Timer::AlarmId alarm = network_.timer_.Set(absl::Now() + options_.timeout, [self] {
        self->network_.pool_.Schedule([self] { self->End(absl::DeadlineExceededError("Deadline Exceeded"), {}); });
      });
      MutexLock lock(&mutex_);
      alarm_ = alarm;
    }
    Travel(fate_.delay, absl::ZeroDuration(), [self] { self->Arrive(); });
  }

  // Runs the caller's end of the call; the first time counts.
  void End(const absl::Status& status, grpc::ByteBuffer answer) {
    std::optional<Cancellation::CallbackId> outside_id;
    std::optional<Timer::AlarmId> alarm;
    {
      MutexLock lock(&mutex_);
      if (ended_.exchange(true)) return;
      outside_id = outside_id_;
      alarm = alarm_;
    }
    const auto self = shared_from_this();
    if (outside_id.has_value()) options_.cancellation->Deregister(*outside_id);
    if (alarm.has_value()) network_.timer_.Unset(*alarm);
    if (sent_.load()) inner_.Cancel(Cancelled("The call was given up"));
    RpcChannel::Done done = std::move(done_);
    done(status, answer);
    MutexLock lock(&network_.mutex_);
    network_.calls_.erase(self);
    if (network_.calls_.empty()) network_.ended_.SignalAll();
  }

 private:
  // Runs `then` when what was sent has arrived.
  void Travel(absl::Duration pause, absl::Duration waited, absl::AnyInvocable<void()> then) {
    if (network_.closed_.load()) return;  // the call has ended
    const absl::Duration cut_off = faults_->CutOffFor(network_.from_, to_);
    if (pause <= absl::ZeroDuration() && cut_off <= absl::ZeroDuration()) return then();
    if (waited >= kTcpTimeout) {
      return End(Unavailable("Connection timed out: nothing was acknowledged for ", absl::FormatDuration(kTcpTimeout)),
                 {});
    }
    if (cut_off > absl::ZeroDuration()) {
      const absl::Duration longest = kTcpTimeout - waited;
      pause = std::max(pause, std::min(cut_off, longest));
      waited += pause;
    }
    network_.timer_.Set(absl::Now() + pause, [self = shared_from_this(), waited, then = std::move(then)]() mutable {
      FaultyNetwork& network = self->network_;
      network.pool_.Schedule([self = std::move(self), waited, then = std::move(then)]() mutable {
        self->Travel(absl::ZeroDuration(), waited, std::move(then));
      });
    });
  }

  // The request is with the server.
  void Arrive() {
    if (fate_.lose_request) return End(Unavailable("Connection reset by peer (injected: the call was lost)"), {});
    CallOptions options = options_;
    options.cancellation = &inner_;
    for (int i = 0; i < (fate_.duplicate ? 2 : 1); ++i) {
      send_(options, [self = shared_from_this()](const absl::Status& status, grpc::ByteBuffer& answer) {
        self->Answered(status, answer);
      });
    }
    sent_.store(true);
    if (!ended_.load()) return;
    // The caller has given up before. The server hears of that after the call itself.
    network_.timer_.Set(absl::Now() + absl::Milliseconds(1),
                        [self = shared_from_this()] { self->inner_.Cancel(Cancelled("The call was given up")); });
  }

  void Answered(const absl::Status& status, grpc::ByteBuffer& answer) {
    if (ended_.load()) return;
    if (fate_.lose_answer) return End(Unavailable("Connection reset by peer (injected: the answer was lost)"), {});
    Travel(absl::ZeroDuration(), absl::ZeroDuration(),
           [self = shared_from_this(), status, answer = std::move(answer)]() mutable {
             self->End(status, std::move(answer));
           });
  }

  FaultyNetwork& network_;  // alive until the call has ended
  const std::shared_ptr<NetworkFaults> faults_;
  const std::string to_;
  const CallOptions options_;
  const Send send_;
  RpcChannel::Done done_;
  const NetworkFaults::Fate fate_;
  Cancellation inner_;  // cancels the call that is made
  std::atomic<bool> sent_{false};
  std::atomic<bool> ended_{false};
  Mutex mutex_;
  std::optional<Cancellation::CallbackId> outside_id_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timer::AlarmId> alarm_ ABSL_GUARDED_BY(mutex_);
};

FaultyNetwork::~FaultyNetwork() {
  std::set<std::shared_ptr<FaultyCall>> left;
  {
    MutexLock lock(&mutex_);
    closed_.store(true);
    left = calls_;
  }
  for (const auto& call : left) call->End(Cancelled("The client of the call is closing"), {});
  MutexLock lock(&mutex_);
  while (!calls_.empty()) ended_.Wait(&mutex_);
}

void FaultyNetwork::Call(std::shared_ptr<NetworkFaults> faults, const std::string& to, const CallOptions& options,
                         Send send, RpcChannel::Done done) {
  const auto call =
      std::make_shared<FaultyCall>(*this, std::move(faults), to, options, std::move(send), std::move(done));
  bool closed = false;
  {
    MutexLock lock(&mutex_);
    closed = closed_.load();
    calls_.insert(call);
  }
  if (closed) return call->End(Cancelled("The client of the call is closing"), {});
  call->Begin();
}

}  // namespace thalweg
