// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/faults/fail_point.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"

namespace thalweg {
namespace {

constexpr FailPointInfo kFailPoints[] = {
    {"master.create_session", "the master begins to make a session", true},
    {"worker.create_session", "a task is asked to take part in a session", true},
    {"master.register_graph", "the master is about to send the parts of a graph to their tasks", true},
    {"worker.register_graph", "a task is asked to compile its part of a graph", true},
    {"master.run_step", "the master begins a step", true},
    {"worker.run_graph", "a task begins its part of a step", true},
    {"transfer.push", "a tensor is about to be sent to another task", true},
    {"transfer.piece", "a piece of a large tensor was sent, and the next is about to be", true},
    {"worker.apply", "an update of a numbered step is about to change a variable, or a gradient an accumulator", true},
    {"worker.applied", "an update of a numbered step has changed a variable", false},
    {"worker.wait", "an op begins to wait: for gradients, a token, or room or an element of a queue", false},
    {"worker.answer", "a task has run its part of a step and is about to say so", false},
    {"master.answer", "the master has run a step and is about to tell the client", false},
    {"save.before_rename", "the files of a checkpoint are written under temporary names", true},
    {"save.between_renames", "the data file of a checkpoint has its name, the index has not", true},
    {"save.after_renames", "a checkpoint is complete, the list of checkpoints does not have it yet", false},
    {"restore", "a task is about to read variables from a checkpoint", true},
    {"collective.group", "a member of a collective is about to ask who the others are", true},
    {"collective.instance", "a member knows the group and is about to ask about this collective", true},
    {"collective.execute", "a member is about to exchange values with the others", true},
    {"collective.receive", "a member is about to ask another one for values", true},
    {"disk.write", "bytes of a file are about to be written", true},
    {"server.drain", "a server begins to leave after a signal", false},
    {"server.stop", "a server begins to end its sessions and steps", false},
};

Mutex handler_mutex;
std::shared_ptr<const FailPointHandler> current_handler ABSL_GUARDED_BY(handler_mutex);

}  // namespace

namespace internal {

std::atomic<bool> fail_points_on{false};

absl::Status HitFailPoint(const char* point, absl::string_view task) {
  std::shared_ptr<const FailPointHandler> handler;
  {
    MutexLock lock(&handler_mutex);
    handler = current_handler;
  }
  CHECK(FindFailPoint(point) != nullptr) << point;
  return handler == nullptr ? absl::OkStatus() : (*handler)(point, task);
}

}  // namespace internal

absl::Span<const FailPointInfo> FailPoints() { return kFailPoints; }

const FailPointInfo* FindFailPoint(absl::string_view name) {
  const auto it = std::find_if(std::begin(kFailPoints), std::end(kFailPoints),
                               [&](const FailPointInfo& point) { return name == point.name; });
  return it == std::end(kFailPoints) ? nullptr : it;
}

void SetFailPointHandler(FailPointHandler handler) {
  std::shared_ptr<const FailPointHandler> next;
  if (handler != nullptr) next = std::make_shared<const FailPointHandler>(std::move(handler));
  MutexLock lock(&handler_mutex);
  internal::fail_points_on.store(next != nullptr, std::memory_order_relaxed);
  current_handler.swap(next);
}

}  // namespace thalweg
