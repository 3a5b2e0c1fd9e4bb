// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/queue_runner.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

// Enqueues until the data end. Returns OK at the end of the data or of the training.
absl::Status Fill(const QueueRunner& runner, const Output& enqueue, Session& session, Coordinator& coordinator) {
  ASSIGN_OR_RETURN(const Session::Callable step, session.Prepare({enqueue}));
  while (!coordinator.ShouldStop()) {
    const absl::Status status = step.Run({}, {.cancellation = coordinator.cancellation()}).status();
    if (status.ok()) continue;
    // CANCELLED means that the queue was closed.
    if (absl::IsOutOfRange(status) || absl::IsCancelled(status)) return absl::OkStatus();
    return Prepend(status, absl::StrCat("queue runner ", runner.name, ": "));
  }
  return absl::OkStatus();
}

}  // namespace

QueueRunner MakeQueueRunner(const Scope& s, Output queue, std::vector<Output> enqueue_ops) {
  QueueRunner runner{.enqueue_ops = std::move(enqueue_ops)};
  if (!s.ok() || !queue) return runner;
  runner.name = queue.node->name();
  const Scope own = s.InScope(runner.name).ColocateWith(queue);
  runner.close_op = QueueClose(own.WithOpName("Close"), queue);
  runner.cancel_op = QueueClose(own.WithOpName("Close_cancel"), queue, {.cancel_pending_enqueues = true});
  return runner;
}

void StartQueueRunners(const std::vector<QueueRunner>& runners, Session& session, Coordinator& coordinator) {
  for (const QueueRunner& runner : runners) {
    auto left = std::make_shared<std::atomic<int>>(static_cast<int>(runner.enqueue_ops.size()));
    for (const Output& enqueue : runner.enqueue_ops) {
      coordinator.Start(absl::StrCat("q:", runner.name), [runner, enqueue, left, &session, &coordinator] {
        const absl::Status status = Fill(runner, enqueue, session, coordinator);
        if (!status.ok() && runner.cancel_op) {
          session.Run({runner.cancel_op}).IgnoreError();  // ends the waits of consumers
        } else if (left->fetch_sub(1) == 1 && runner.close_op && !coordinator.ShouldStop()) {
          return Prepend(session.Run({runner.close_op}).status(), absl::StrCat("closing ", runner.name, ": "));
        }
        return status;
      });
    }
  }
}

}  // namespace thalweg
