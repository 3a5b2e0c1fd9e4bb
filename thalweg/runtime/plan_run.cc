// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/plan_run.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/clock.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/single_thread.h"
#include "thalweg/runtime/frame_id.h"
#include "thalweg/runtime/loop_run.h"

namespace thalweg {
namespace {

// An exception of a library that the kernel calls, such as std::bad_alloc, becomes an
// error of the node.
absl::Status Compute(const Instruction& in, KernelContext& context) {
  try {
    return in.kernel->Compute(context);
  } catch (...) {
    return StatusOfException();
  }
}

// By its inputs, but for a Merge, or by what it waits for.
bool DeadByOne(const Plan& plan, const Instruction& in, const Slot* slots) {
  const int32_t* list = plan.at(in.dead_if);
  for (int i = 0; i < in.dead_if.count; ++i) {
    if (slots[list[i]].dead) return true;
  }
  return false;
}

// Deadness: a Switch marks the output that it does not take as dead. Dead instructions do not run, and their outputs
// are dead, until a Merge has one input that lives.
bool AnyDead(const Plan& plan, const Instruction& in, const Slot* slots) {
  if (DeadByOne(plan, in, slots)) return true;
  if (!in.is_merge) return false;
  const int32_t* inputs = plan.at(in.inputs);
  for (int i = 0; i < in.inputs.count; ++i) {
    if (!slots[inputs[i]].dead) return false;
  }
  return true;
}

void SetDead(const Instruction& in, Slot* slots, bool dead) {
  for (int i = 0; i < in.call.num_outputs; ++i) slots[in.call.first_output + i].dead = dead;
  if (in.status_slot >= 0) slots[in.status_slot].dead = dead;
}

// Empties a slot that the next step fills with its like: a few numbers that
// nobody else sees stay, to be written over.
void EmptyForNextStep(Slot& slot) {
  if (!slot.tensor.recyclable()) EmptySlot(slot);
}

}  // namespace

// An instruction that waits: a kernel that ends later, or a loop with one in it.
struct PlanRun::Wait {
  std::unique_ptr<KernelContext> context;
  std::unique_ptr<LoopRun> loop;  // replaced under mutex_, so that others can look into it
  const Instruction* instruction = nullptr;
  bool started = false;
  bool ended_at_once = false;           // before StartWait() returned
  std::atomic<bool> passed{false};      // by StartWait() or EndWait(), whichever came first
  std::atomic<int64_t> since_nanos{0};  // 0: not waiting
  int64_t start_nanos = 0;
  int64_t delay_nanos = 0;  // how long only this wait kept the plan from going on
};

// The `done` of a kernel that waits. An exception, in the kernel or on the way to its end on another thread, destroys
// it without a call. The node then fails: the step must not wait forever.
class PlanRun::WaitEnd {
 public:
  WaitEnd(PlanRun* run, Wait* wait) : run_(run), wait_(wait) {}
  WaitEnd(WaitEnd&& other) noexcept : run_(std::exchange(other.run_, nullptr)), wait_(other.wait_) {}
  ~WaitEnd() {
    if (run_ == nullptr) return;
    LogExceptions("a node that waits", [&] {
      (*this)(ResourceExhausted(
          "There is not enough memory: an exception ended the node. The log of its task has the exception."));
    });
  }
  void operator()(const absl::Status& status) {
    if (PlanRun* const run = std::exchange(run_, nullptr); run != nullptr) run->EndKernel(*wait_, status);
  }

 private:
  PlanRun* run_;
  Wait* wait_;
};

PlanRun::PlanRun(Step& step, StepStatsCollector* stats, const Plan& plan, PlanFrame& frame, uint64_t frame_id)
    : step_(step), stats_(stats), plan_(plan), frame_(frame), frame_id_(frame_id) {
  if (!plan_.has_waits) return;
  pending_ = std::make_unique<std::atomic<int32_t>[]>(plan_.segments.size());
  waits_ = std::make_unique<Wait[]>(plan_.wait_successors.size());
  for (const Instruction& in : plan_.code) {
    if (in.async) waits_[in.async_index].instruction = &in;
  }
}

PlanRun::~PlanRun() = default;

uint64_t PlanRun::FrameIdOf(const LoopPlan& loop) const { return ChildFrameId(frame_id_, iteration_, loop.name_hash); }

inline void PlanRun::FreeSlots(const Instruction& in) {
  const int32_t* list = plan_.at(in.frees);
  for (int i = 0; i < in.frees.count; ++i) EmptyForNextStep(frame_.slots[list[i]]);
}

absl::Status PlanRun::ReadVariables(const Instruction& in) {
  const int32_t* pairs = plan_.at(in.reads);
  // A dead instruction reads nothing: its variable may have no value yet.
  const bool passed_over = DeadByOne(plan_, in, frame_.slots.data());
  for (int i = 0; i < in.reads.count; i += 2) {
    const Slot& from = frame_.slots[pairs[i]];
    Slot& to = frame_.slots[pairs[i + 1]];
    to.dead = from.dead;
    if (from.dead || passed_over) continue;
    if (from.variable == nullptr) {
      to.tensor = from.tensor;  // fed
      continue;
    }
    RETURN_IF_ERROR(ReadVariable(*from.variable, &to.tensor));
  }
  return absl::OkStatus();
}

absl::Status PlanRun::RunInstruction(const Instruction& in, KernelContext& context) {
  if (in.reads.count > 0) RETURN_IF_ERROR(NodeError(ReadVariables(in), *in.call.node));
  if (in.loop != nullptr) {
    if (AnyDead(plan_, in, frame_.slots.data())) {
      for (const LoopPlan::Move& exit : in.loop->exits) frame_.slots[exit.to].dead = true;
    } else {
      RETURN_IF_ERROR(
          LoopRun(step_, stats_, *in.loop, frame_, *frame_.loops[in.loop->index], FrameIdOf(*in.loop)).RunToEnd());
    }
    FreeSlots(in);
    return absl::OkStatus();
  }
  if (in.dead_if.count > 0 || in.is_merge) {
    const bool dead = AnyDead(plan_, in, frame_.slots.data());
    SetDead(in, frame_.slots.data(), dead);
    if (dead && !in.runs_dead) {
      FreeSlots(in);
      return absl::OkStatus();
    }
  } else if (in.is_switch) {
    SetDead(in, frame_.slots.data(), false);  // it was set by an earlier step
  }
  context.set_call(&in.call);
  if (stats_ != nullptr) [[unlikely]] {
    const int64_t start = NowNanos();
    RETURN_IF_ERROR(NodeError(Compute(in, context), *in.call.node));
    stats_->Add(*in.call.node, in.call.device, start, NowNanos(), frame_.slots.data() + in.call.first_output);
  } else if (absl::Status status = Compute(in, context); !status.ok()) [[unlikely]] {
    return NodeError(status, *in.call.node);
  }
  FreeSlots(in);
  return absl::OkStatus();
}

// The heart: straight-line code. Waits in it are started and not waited for.
absl::Status PlanRun::RunCode(absl::Span<const Instruction> code) {
  KernelContext context(&step_, frame_.slots.data());
  context.set_iteration(frame_id_, iteration_);
  const bool measure = measure_ != AdaptiveSchedule::Measure::kNothing;
  const bool fast = !measure && stats_ == nullptr;
  for (const Instruction& in : code) {
    if (step_.cancellation->cancelled()) [[unlikely]] {
      return step_.cancellation->status();
    }
    if (in.plain && fast) [[likely]] {
      context.set_call(&in.call);
      if (absl::Status status = Compute(in, context); !status.ok()) [[unlikely]]
        return NodeError(status, *in.call.node);
      FreeSlots(in);
    } else if (in.async) {
      StartWait(in);
    } else if (!measure) [[likely]] {
      RETURN_IF_ERROR(RunInstruction(in, context));
    } else {
      const auto number = static_cast<int32_t>(&in - plan_.code.data());
      const bool serial = plan_.schedule->RunsSerially(measure_, number);
      const ScopedSingleThread scope(serial);
      context.clear_used_pool();
      const int64_t start = NowNanos();
      RETURN_IF_ERROR(RunInstruction(in, context));
      const int concurrency = in.call.device != nullptr ? in.call.device->intra_op_pool().concurrency() : 1;
      plan_.schedule->Record(plan_, number, serial, NowNanos() - start, context.used_pool(), concurrency);
    }
  }
  return absl::OkStatus();
}

absl::Status PlanRun::RunSegmentCode(int32_t id) {
  if (const auto* stages = plan_.schedule->stages(); stages != nullptr && !(*stages)[id].empty())
    return RunStages((*stages)[id]);
  const Segment& segment = plan_.segments[id];
  return RunCode(absl::MakeConstSpan(plan_.code).subspan(segment.begin, segment.end - segment.begin));
}

absl::Status PlanRun::RunStages(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    if (stage.second.empty()) {
      const ScopedSingleThread scope(stage.serial);
      RETURN_IF_ERROR(RunCode(stage.first));
      continue;
    }
    absl::Status first, second;
    const Device* device =
        stage.first[0].call.device != nullptr ? stage.first[0].call.device : stage.second[0].call.device;
    if (device == nullptr) {  // two loops
      first = RunCode(stage.first);
      second = RunCode(stage.second);
    } else {
      device->intra_op_pool().Both([&] { first = RunCode(stage.first); }, [&] { second = RunCode(stage.second); });
    }
    RETURN_IF_ERROR(first);
    RETURN_IF_ERROR(second);
    for (const int32_t slot : stage.frees) EmptySlot(frame_.slots[slot]);
  }
  return absl::OkStatus();
}

WaitDelay PlanRun::DelayOf(size_t wait) const {
  const Instruction& in = *waits_[wait].instruction;
  return in.loop != nullptr ? WaitDelay() : WaitDelay{in.async_index, waits_[wait].delay_nanos};
}

// Only the first thread that begins after a pause adds to the delay of the wait that woke it.
void PlanRun::BeginWork(Wait* ended) {
  if (workers_.fetch_add(1, std::memory_order_acq_rel) > 0 || ended == nullptr) return;
  const int64_t since = std::max(idle_nanos_.load(std::memory_order_relaxed), ended->start_nanos);
  ended->delay_nanos += std::max<int64_t>(NowNanos() - since, 0);
}

void PlanRun::EndWork() {
  idle_nanos_.store(NowNanos(), std::memory_order_relaxed);
  workers_.fetch_sub(1, std::memory_order_acq_rel);
}

void PlanRun::Start(int64_t iteration, Done done) {
  if (!plan_.has_waits) {
    absl::Status status;
    {
      const ScopedFlushDenormals flush;
      status = RunToEnd(iteration);
    }
    return done(status);
  }
  done_ = std::move(done);
  StartMeasuring(iteration);
  const auto segments = static_cast<int32_t>(plan_.segments.size());
  for (int32_t i = 0; i < segments; ++i) pending_[i].store(plan_.segments[i].predecessors, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  {
    MutexLock lock(&mutex_);
    status_ = absl::OkStatus();
  }
  // One more than there is, so that nothing ends before everything is started.
  left_.store(segments + static_cast<int32_t>(plan_.wait_successors.size()) + 1, std::memory_order_release);
  BeginWork(nullptr);
  for (int32_t i = 0; i < segments; ++i) {
    if (plan_.segments[i].predecessors == 0) RunSegments({i});
  }
  EndWork();
  CountDown(1);
}

// Runs segments, and then those that they made ready.
void PlanRun::RunSegments(std::vector<int32_t> ready) {
  int32_t finished = 0;
  while (!ready.empty()) {
    const int32_t id = ready.back();
    ready.pop_back();
    const Segment& segment = plan_.segments[id];
    if (!failed()) {
      // RunCode starts waits one by one; after an error the rest are not
      // started, and count as over.
      const ScopedFlushDenormals flush;
      const absl::Status status = RunSegmentCode(id);
      if (!status.ok()) Fail(status);
    }
    for (int32_t at = segment.begin; at < segment.end; ++at) {
      const Instruction& in = plan_.code[at];
      if (!in.async) continue;
      Wait& wait = waits_[in.async_index];
      if (wait.started && !wait.ended_at_once) continue;
      ++finished;
      Release(plan_.wait_successors[in.async_index], &ready);
    }
    Release(segment.successors, &ready);
    ++finished;
  }
  CountDown(finished);
}

// Counts one predecessor of each successor as done. Segments without any left are ready.
void PlanRun::Release(const std::vector<int32_t>& successors, std::vector<int32_t>* ready) {
  for (const int32_t next : successors) {
    if (pending_[next].fetch_sub(1, std::memory_order_acq_rel) == 1) ready->push_back(next);
  }
}

// A wait that is over by the time it was started is followed by RunSegments(),
// which the thread is in, not by recursion: chains of them may be long.
void PlanRun::StartWait(const Instruction& in) {
  Wait& wait = waits_[in.async_index];
  wait.started = true;
  wait.passed.store(false, std::memory_order_relaxed);
  BeginWait(in, wait);
  wait.ended_at_once = wait.passed.exchange(true, std::memory_order_acq_rel);
}

void PlanRun::BeginWait(const Instruction& in, Wait& wait) {
  wait.start_nanos = NowNanos();
  wait.since_nanos.store(wait.start_nanos, std::memory_order_release);
  Slot* slots = frame_.slots.data();
  if (const absl::Status status = ReadVariables(in); !status.ok())
    return EndWait(wait, NodeError(status, *in.call.node));
  const bool dead = AnyDead(plan_, in, slots);
  if (in.loop != nullptr) {
    if (dead) {
      for (const LoopPlan::Move& exit : in.loop->exits) slots[exit.to].dead = true;
      return EndWait(wait, absl::OkStatus());
    }
    auto loop =
        std::make_unique<LoopRun>(step_, stats_, *in.loop, frame_, *frame_.loops[in.loop->index], FrameIdOf(*in.loop));
    LoopRun& started = *loop;
    {
      MutexLock lock(&mutex_);
      wait.loop.swap(loop);
    }
    loop.reset();  // ends the run of the previous iteration
    started.Start([this, &wait](const absl::Status& status) { EndWait(wait, status); });
    return;
  }
  SetDead(in, slots, dead);
  if (dead) return EndWait(wait, absl::OkStatus());
  wait.context = std::make_unique<KernelContext>(&step_, frame_.slots.data(), &in.call);
  wait.context->set_iteration(frame_id_, iteration_);
  WaitEnd end(this, &wait);
  LogExceptions("a node that waits",
                [&] { static_cast<AsyncKernel*>(in.kernel)->ComputeAsync(*wait.context, std::move(end)); });
}

void PlanRun::EndKernel(Wait& wait, const absl::Status& status) {
  const KernelContext::Call& call = wait.instruction->call;
  if (stats_ != nullptr && status.ok()) {
    stats_->Add(*call.node, call.device, wait.start_nanos, NowNanos(), frame_.slots.data() + call.first_output);
  }
  EndWait(wait, NodeError(status, *call.node));
}

void PlanRun::EndWait(Wait& wait, const absl::Status& status) {
  const Instruction& in = *wait.instruction;
  if (!status.ok()) Fail(status);
  FreeSlots(in);
  wait.since_nanos.store(0, std::memory_order_release);
  if (!wait.passed.exchange(true, std::memory_order_acq_rel)) return;  // StartWait() goes on
  BeginWork(&wait);
  std::vector<int32_t> ready;
  Release(plan_.wait_successors[in.async_index], &ready);
  RunSegments(std::move(ready));
  EndWork();
  CountDown(1);
}

void PlanRun::Fail(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    status_ = status;
    failed_.store(true, std::memory_order_release);
  }
  // The waits of this step end now. The reason is the first error.
  step_.cancellation->Cancel(status);
}

// The thread that brings the count to zero is the last one to use the run.
void PlanRun::CountDown(int32_t n) {
  if (left_.fetch_sub(n, std::memory_order_acq_rel) != n) return;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = status_;
  }
  for (size_t i = 0; i < plan_.wait_successors.size(); ++i) waits_[i].started = false;
  if (measure_ != AdaptiveSchedule::Measure::kNothing) plan_.schedule->EndRun(plan_);
  // The run may be gone when `done` returns.
  Done done = std::move(done_);
  done(status);
}

void PlanRun::ListWaits(std::vector<WaitingNode>* nodes) const {
  const int64_t now = NowNanos();
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < plan_.wait_successors.size(); ++i) {
    const int64_t since = waits_[i].since_nanos.load(std::memory_order_acquire);
    if (since == 0) continue;
    if (waits_[i].instruction->loop != nullptr) {
      if (waits_[i].loop != nullptr) waits_[i].loop->ListWaits(nodes);
      continue;
    }
    nodes->push_back({waits_[i].instruction->call.node, absl::Nanoseconds(now - since)});
  }
}

void PlanRun::Clear() {
  for (const int32_t slot : plan_.kept_slots) EmptySlot(frame_.slots[slot]);
}

void PlanRun::ClearAll() {
  std::vector<bool> constant(frame_.slots.size(), false);
  for (const auto& [slot, value] : plan_.constants) constant[slot] = true;
  for (size_t i = 0; i < frame_.slots.size(); ++i) {
    if (!constant[i]) EmptySlot(frame_.slots[i]);
  }
}

}  // namespace thalweg
