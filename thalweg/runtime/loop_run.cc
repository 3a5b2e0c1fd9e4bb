// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/loop_run.h"

#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {

absl::Status LoopRun::RunToEnd() {
  if (!Enter()) return absl::OkStatus();
  for (int64_t iteration = 0;; ++iteration) {
    if (step_.cancellation->cancelled()) return Abandon(step_.cancellation->status());
    const absl::Status status = body_.RunToEnd(iteration);
    if (!status.ok()) return Abandon(status);
    if (!Advance()) return absl::OkStatus();
  }
}

void LoopRun::Start(Done done) {
  done_ = std::move(done);
  if (!Enter()) return Finish(absl::OkStatus());
  Iterate();
}

bool LoopRun::Enter() {
  bool alive = false;
  Slot* inner = body_.frame().slots.data();
  for (const LoopPlan::Enter& enter : plan_.enters) {
    inner[enter.inner_slot] = outer_.slots[enter.outer_slot];
    alive = alive || !inner[enter.inner_slot].dead;
  }
  for (const LoopPlan::Move& back : plan_.back_edges) inner[back.to].dead = true;
  for (const LoopPlan::Move& exit : plan_.exits) outer_.slots[exit.to].dead = true;
  if (!alive) body_.Clear();
  return alive;
}

bool LoopRun::Advance() {
  Slot* inner = body_.frame().slots.data();
  for (const LoopPlan::Move& exit : plan_.exits) {
    // The first live value of an exit counts.
    if (!inner[exit.from].dead && outer_.slots[exit.to].dead) outer_.slots[exit.to] = inner[exit.from];
  }
  bool alive = false;
  for (const LoopPlan::Move& back : plan_.back_edges) {
    inner[back.to] = inner[back.from];
    alive = alive || !inner[back.to].dead;
  }
  if (!alive) {
    body_.Clear();
    return false;
  }
  for (const int32_t slot : plan_.passed_on) EmptySlot(inner[slot]);
  for (const LoopPlan::Enter& enter : plan_.enters) {
    if (enter.is_constant) continue;
    EmptySlot(inner[enter.inner_slot]);
    inner[enter.inner_slot].dead = true;
  }
  return true;
}

absl::Status LoopRun::Abandon(const absl::Status& status) {
  body_.ClearAll();
  return status;
}

// An iteration that ends inside Start() is followed by the next in this loop, not
// by recursion: `turn_` tells which of the two, Start's return or the end of the
// iteration, comes second.
void LoopRun::Iterate() {
  for (;;) {
    if (step_.cancellation->cancelled()) return Finish(step_.cancellation->status());
    turn_.store(0, std::memory_order_relaxed);
    body_.Start(iteration_++, [this](const absl::Status& status) {
      status_ = status;
      if (turn_.exchange(1, std::memory_order_acq_rel) == 0) return;  // Iterate() goes on
      if (!status_.ok()) return Finish(status_);
      if (!Advance()) return Finish(absl::OkStatus());
      Iterate();
    });
    if (turn_.exchange(1, std::memory_order_acq_rel) == 0) return;  // it waits; its end goes on
    if (!status_.ok()) return Finish(status_);
    if (!Advance()) return Finish(absl::OkStatus());
  }
}

void LoopRun::Finish(const absl::Status& status) {
  if (!status.ok()) body_.ClearAll();
  Done done = std::move(done_);  // this loop may be gone when it returns
  done(status);
}

}  // namespace thalweg
