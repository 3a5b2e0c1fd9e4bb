#include "thalweg/cluster/step_limits.h"

#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/master/master_session.h"

namespace thalweg {

absl::StatusOr<std::unique_ptr<StepLimits>> StepLimits::Begin(std::shared_ptr<MasterSession> session,
                                                              const CallOptions& options,
                                                              const tensorflow::RunOptions& run_options) {
  const MasterSessionOptions& of_session = session->options();
  std::unique_ptr<StepLimits> limits(new StepLimits(std::move(session), options.cancellation));
  RETURN_IF_ERROR(limits->session_->Enter(limits->cancellation_));
  limits->entered_ = true;
  if (limits->outside_ != nullptr) {
    limits->outside_id_ =
        limits->outside_->Register([c = limits->cancellation_](const absl::Status& why) { c->Cancel(why); });
    if (!limits->outside_id_.has_value()) return limits->outside_->status();
  }
  const int64_t timeout_ms =
      run_options.timeout_in_ms() > 0 ? run_options.timeout_in_ms() : of_session.config.operation_timeout_in_ms();
  if (timeout_ms > 0) {
    limits->alarm_ =
        of_session.timer->Set(absl::Now() + absl::Milliseconds(timeout_ms), [c = limits->cancellation_, timeout_ms] {
          c->Cancel(DeadlineExceeded("Timed out waiting for the step to finish: it had ", timeout_ms, " ms."));
        });
  }
  return limits;
}

StepLimits::~StepLimits() {
  if (outside_id_.has_value()) outside_->TryDeregister(*outside_id_);
  if (alarm_.has_value()) session_->options().timer->Unset(*alarm_);
  if (entered_) session_->Leave(cancellation_);
}

}  // namespace thalweg
