// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/bounded_nesting.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/evaluate.h"

namespace thalweg {

Execution::Execution(Executable& executable, Step& step, StepStatsCollector* stats)
    : executable_(executable),
      step_(step),
      frame_(executable.TakeFrame()),
      run_(std::make_unique<PlanRun>(step, stats, executable.plan, *frame_, 0)) {}

Execution::~Execution() {
  run_->Clear();
  run_.reset();
  executable_.ReturnFrame(std::move(frame_));
}

absl::Status Execution::BindArgs(absl::Span<const Tensor> args) {
  const std::vector<int32_t>& slots = executable_.plan.arg_slots;
  if (args.size() < slots.size()) return Internal("expected ", slots.size(), " arguments, got ", args.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < 0) continue;
    frame_->slots[slots[i]].tensor = args[i];
    frame_->slots[slots[i]].dead = false;
  }
  return absl::OkStatus();
}

void Execution::Start(absl::Span<const Tensor> args, Done done) {
  if (const absl::Status status = BindArgs(args); !status.ok()) return done(status);
  run_->Start(0, [this, done = std::move(done)](const absl::Status& status) mutable {
    if (status.ok()) return done(status);
    run_->ClearAll();
    // The first error, here or in another task, cancelled the step. Report that one.
    done(step_.cancellation->cancelled() ? step_.cancellation->status() : status);
  });
}

absl::Status Execution::Run(absl::Span<const Tensor> args, absl::Duration log_wait_after) {
  if (!executable_.plan.has_waits) {
    const ScopedFlushDenormals flush;
    RETURN_IF_ERROR(BindArgs(args));
    absl::Status status = run_->RunToEnd(0);
    if (!status.ok()) [[unlikely]]
      run_->ClearAll();
    return status;
  }
  const FreshNesting fresh;  // what it starts must not wait for the caller
  Notification ended;
  absl::Status result;
  Start(args, [&](const absl::Status& status) {
    result = status;
    ended.Notify();
  });
  while (!ended.WaitForNotificationWithTimeout(log_wait_after)) {
    LOG(INFO) << "Step " << step_.id << " still waits for " << DescribeWaits();
  }
  return result;
}

absl::Status Execution::TakeResults(std::vector<Tensor>* results) {
  for (const Plan::Result& result : executable_.plan.results) {
    if (result.node == nullptr) return Internal("nothing computes result ", results->size(), " of the step");
    Slot& slot = frame_->slots[result.slot];
    if (slot.dead) {
      return InvalidArgument("The tensor returned for ", result.node->input(0).name(),
                             " was not valid: it is in a branch that was not taken");
    }
    Tensor value;
    if (slot.variable != nullptr) {
      RETURN_IF_ERROR(NodeError(ReadVariable(*slot.variable, &value), *result.node));
    } else {
      value = slot.tensor;
    }
    if (!value.has_value()) return Internal("The step left no value for ", result.node->input(0).name());
    results->push_back(std::move(value));
  }
  return absl::OkStatus();
}

std::vector<WaitingNode> Execution::WaitingNodes() const {
  std::vector<WaitingNode> nodes;
  run_->ListWaits(&nodes);
  return nodes;
}

std::string Execution::DescribeWaits() const {
  return absl::StrJoin(WaitingNodes(), ", ", [](std::string* out, const WaitingNode& waiting) {
    absl::StrAppend(out, "'", waiting.node->name(), "' (", waiting.node->op(), ") on ", waiting.node->device(), " for ",
                    absl::ToInt64Seconds(waiting.waited), " s");
  });
}

bool Execution::WaitsForRoom() const {
  const std::vector<WaitingNode> nodes = WaitingNodes();
  return !nodes.empty() && std::all_of(nodes.begin(), nodes.end(), [](const WaitingNode& waiting) {
    return absl::StartsWith(waiting.node->op(), "QueueEnqueue") || absl::EndsWith(waiting.node->op(), "Stage");
  });
}

}  // namespace thalweg
