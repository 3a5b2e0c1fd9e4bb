// What ends a step, or its preparation, early: its deadline, its client, and the
// end of its session.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/proto/config.pb.h"

namespace thalweg {

class MasterSession;

// Lives as long as what it limits; the session waits for its end when it is
// closed.
class StepLimits {
 public:
  // FAILED_PRECONDITION if the session is closed, the client's reason if it has
  // cancelled already. Without a timeout in `run_options` the session's counts.
  static absl::StatusOr<std::unique_ptr<StepLimits>> Begin(std::shared_ptr<MasterSession> session,
                                                           const CallOptions& options,
                                                           const tensorflow::RunOptions& run_options);
  ~StepLimits();

  const std::shared_ptr<Cancellation>& cancellation() const { return cancellation_; }

 private:
  StepLimits(std::shared_ptr<MasterSession> session, Cancellation* outside)
      : session_(std::move(session)), outside_(outside) {}

  const std::shared_ptr<MasterSession> session_;
  Cancellation* const outside_;  // may be nullptr
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  bool entered_ = false;
  std::optional<Cancellation::CallbackId> outside_id_;
  std::optional<Timer::AlarmId> alarm_;
};

}  // namespace thalweg
