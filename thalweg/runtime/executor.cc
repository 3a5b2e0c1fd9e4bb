#include "thalweg/runtime/executor.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/single_thread.h"
#include "thalweg/runtime/adaptive_schedule.h"
#include "thalweg/runtime/frame_id.h"

namespace thalweg {
namespace {

// By its inputs, but for a Merge, or by what it waits for.
bool DeadByOne(const Plan& plan, const Instruction& in, const Slot* slots) {
  const int32_t* list = plan.at(in.dead_if);
  for (int i = 0; i < in.dead_if.count; ++i) {
    if (slots[list[i]].dead) return true;
  }
  return false;
}

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

// Empties slots without touching `dead`, which readers of status may still ask.
void Empty(Slot& slot) {
  slot.tensor.Reset();
  slot.variable = nullptr;
}

// The same for a slot that the next step fills with its like: a few numbers
// that nobody else sees stay, to be written over.
void EmptyForNextStep(Slot& slot) {
  if (!slot.tensor.recyclable()) Empty(slot);
}

}  // namespace

// One running copy of a plan: the top level of a step, or a loop's iteration.
//
// Counts what is left: segments not run and waits not over. Whoever brings the
// count to zero ends the region. After an error, segments are passed over, so
// that the count still comes down; waits end because the step is cancelled.
class Execution::Region {
 public:
  Region(Execution& execution, const Plan& plan, PlanFrame& frame, uint64_t frame_id)
      : execution_(execution), plan_(plan), frame_(frame), frame_id_(frame_id) {
    if (plan_.has_waits) {
      pending_ = std::make_unique<std::atomic<int32_t>[]>(plan_.segments.size());
      waits_ = std::make_unique<Wait[]>(plan_.wait_successors.size());
      for (const Instruction& in : plan_.code) {
        if (in.async) waits_[in.async_index].instruction = &in;
      }
    }
  }

  // Runs the plan once. Without waits it ends here.
  void Start(int64_t iteration, Done done);
  // The same, for plans without waits.
  absl::Status RunToEnd(int64_t iteration) {
    StartMeasuring(iteration);
    absl::Status status = RunSegmentCode(0);
    if (measure_ != AdaptiveSchedule::Measure::kNothing) [[unlikely]]
      plan_.forks->EndRun(plan_);
    return status;
  }

  void DescribeWaits(std::vector<std::string>* names) const ABSL_LOCKS_EXCLUDED(mutex_);
  PlanFrame& frame() { return frame_; }
  // Empties what the iteration left behind.
  void Clear() {
    for (const int32_t slot : plan_.kept_slots) Empty(frame_.slots[slot]);
  }
  // After an error, slots hold whatever was computed before it.
  void ClearAll() {
    std::vector<bool> constant(frame_.slots.size(), false);
    for (const auto& [slot, value] : plan_.constants) constant[slot] = true;
    for (size_t i = 0; i < frame_.slots.size(); ++i) {
      if (!constant[i]) Empty(frame_.slots[i]);
    }
  }

 private:
  struct Wait {
    std::unique_ptr<KernelContext> context;
    std::unique_ptr<Loop> loop;  // replaced under mutex_, so that others can look into it
    const Instruction* instruction = nullptr;
    bool started = false;
    bool ended_at_once = false;           // before StartWait() returned
    std::atomic<bool> passed{false};      // by StartWait() or EndWait(), whichever came first
    std::atomic<int64_t> since_nanos{0};  // 0: not waiting
    int64_t start_nanos = 0;
  };

  // Of the frame that a loop opens in this iteration.
  uint64_t FrameIdOf(const LoopPlan& loop) const { return ChildFrameId(frame_id_, iteration_, loop.name_hash); }
  void StartMeasuring(int64_t iteration) {
    iteration_ = iteration;
    measure_ = plan_.forks->done() ? AdaptiveSchedule::Measure::kNothing : plan_.forks->StartRun();
  }
  absl::Status RunSegmentCode(int32_t segment);
  absl::Status RunStages(const std::vector<Stage>& stages);
  absl::Status RunCode(absl::Span<const Instruction> code);
  absl::Status RunInstruction(const Instruction& in, KernelContext& context);
  void StartWait(const Instruction& in);
  void BeginWait(const Instruction& in, Wait& wait);
  void EndWait(Wait& wait, const absl::Status& status);
  void RunSegments(std::vector<int32_t> ready);
  void Release(const std::vector<int32_t>& successors, std::vector<int32_t>* ready);
  void Fail(const absl::Status& status);
  void CountDown(int32_t n);
  absl::Status ReadVariables(const Instruction& in);
  void FreeSlots(const Instruction& in) {
    const int32_t* list = plan_.at(in.frees);
    for (int i = 0; i < in.frees.count; ++i) EmptyForNextStep(frame_.slots[list[i]]);
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  Execution& execution_;
  const Plan& plan_;
  PlanFrame& frame_;
  const uint64_t frame_id_;
  int64_t iteration_ = 0;
  AdaptiveSchedule::Measure measure_ = AdaptiveSchedule::Measure::kNothing;  // what instructions take, in this run

  // Only for plans with waits.
  std::unique_ptr<std::atomic<int32_t>[]> pending_;  // by segment: predecessors not done
  std::unique_ptr<Wait[]> waits_;
  std::atomic<int32_t> left_{0};
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Done done_;
};

// Runs the iterations of a loop, one after the other.
class Execution::Loop {
 public:
  Loop(Execution& execution, const LoopPlan& plan, PlanFrame& outer, PlanFrame& inner, uint64_t frame_id)
      : execution_(execution), plan_(plan), outer_(outer), region_(execution, plan.body, inner, frame_id) {}

  // For loops without waits.
  absl::Status RunToEnd() {
    if (!Enter()) return absl::OkStatus();
    for (int64_t iteration = 0;; ++iteration) {
      if (execution_.step_.cancellation->cancelled()) return Abandon(execution_.step_.cancellation->status());
      const absl::Status status = region_.RunToEnd(iteration);
      if (!status.ok()) return Abandon(status);
      if (!Advance()) return absl::OkStatus();
    }
  }

  void Start(Done done) {
    done_ = std::move(done);
    if (!Enter()) return Finish(absl::OkStatus());
    Iterate();
  }

  void DescribeWaits(std::vector<std::string>* names) const { region_.DescribeWaits(names); }

 private:
  // Brings values in. False if they are all dead: then so are the exits.
  bool Enter() {
    bool alive = false;
    Slot* inner = region_.frame().slots.data();
    for (const LoopPlan::Enter& enter : plan_.enters) {
      inner[enter.inner_slot] = outer_.slots[enter.outer_slot];
      alive = alive || !inner[enter.inner_slot].dead;
    }
    for (const LoopPlan::Move& back : plan_.back_edges) inner[back.to].dead = true;
    for (const LoopPlan::Move& exit : plan_.exits) outer_.slots[exit.to].dead = true;
    if (!alive) region_.Clear();
    return alive;
  }

  // After an iteration: values that leave, values that come round. False if
  // none come round: the loop is over.
  bool Advance() {
    Slot* inner = region_.frame().slots.data();
    for (const LoopPlan::Move& exit : plan_.exits) {
      // What waits for it goes on with the first.
      if (!inner[exit.from].dead && outer_.slots[exit.to].dead) outer_.slots[exit.to] = inner[exit.from];
    }
    bool alive = false;
    for (const LoopPlan::Move& back : plan_.back_edges) {
      inner[back.to] = inner[back.from];
      alive = alive || !inner[back.to].dead;
    }
    if (!alive) {
      region_.Clear();
      return false;
    }
    for (const int32_t slot : plan_.passed_on) Empty(inner[slot]);
    for (const LoopPlan::Enter& enter : plan_.enters) {
      if (enter.is_constant) continue;
      Empty(inner[enter.inner_slot]);
      inner[enter.inner_slot].dead = true;
    }
    return true;
  }

  absl::Status Abandon(const absl::Status& status) {
    region_.ClearAll();
    return status;
  }

  // Starts iterations until one waits. An iteration that ends inside Start()
  // is followed by the next in this loop, not by recursion: `turn_` tells which
  // of the two, Start's return or the end of the iteration, comes second.
  void Iterate() {
    for (;;) {
      if (execution_.step_.cancellation->cancelled()) return Finish(execution_.step_.cancellation->status());
      turn_.store(0, std::memory_order_relaxed);
      region_.Start(iteration_++, [this](const absl::Status& status) {
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

  void Finish(const absl::Status& status) {
    if (!status.ok()) region_.ClearAll();
    Done done = std::move(done_);  // this loop may be gone when it returns
    done(status);
  }

  Execution& execution_;
  const LoopPlan& plan_;
  PlanFrame& outer_;
  Region region_;
  int64_t iteration_ = 0;
  std::atomic<int> turn_{0};
  absl::Status status_;
  Done done_;
};

absl::Status Execution::Region::ReadVariables(const Instruction& in) {
  const int32_t* pairs = plan_.at(in.reads);
  // What is passed over reads nothing: a variable may have no value yet.
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

absl::Status Execution::Region::RunInstruction(const Instruction& in, KernelContext& context) {
  if (in.reads.count > 0) RETURN_IF_ERROR(NodeError(ReadVariables(in), *in.call.node));
  if (in.loop != nullptr) {
    if (AnyDead(plan_, in, frame_.slots.data())) {
      for (const LoopPlan::Move& exit : in.loop->exits) frame_.slots[exit.to].dead = true;
    } else {
      RETURN_IF_ERROR(
          Loop(execution_, *in.loop, frame_, *frame_.loops[in.loop->index], FrameIdOf(*in.loop)).RunToEnd());
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
  if (execution_.stats_ != nullptr) [[unlikely]] {
    const int64_t start = NowNanos();
    RETURN_IF_ERROR(NodeError(in.kernel->Compute(context), *in.call.node));
    execution_.stats_->Add(*in.call.node, in.call.device, start, NowNanos(),
                           frame_.slots.data() + in.call.first_output);
  } else if (absl::Status status = in.kernel->Compute(context); !status.ok()) [[unlikely]] {
    return NodeError(status, *in.call.node);
  }
  FreeSlots(in);
  return absl::OkStatus();
}

// The heart: straight-line code. Waits in it are started and not waited for.
absl::Status Execution::Region::RunCode(absl::Span<const Instruction> code) {
  KernelContext context(&execution_.step_, frame_.slots.data());
  context.set_iteration(frame_id_, iteration_);
  const bool measure = measure_ != AdaptiveSchedule::Measure::kNothing;
  const bool fast = !measure && execution_.stats_ == nullptr;
  for (const Instruction& in : code) {
    if (execution_.step_.cancellation->cancelled()) [[unlikely]] {
      return execution_.step_.cancellation->status();
    }
    if (in.plain && fast) [[likely]] {
      context.set_call(&in.call);
      if (absl::Status status = in.kernel->Compute(context); !status.ok()) [[unlikely]]
        return NodeError(status, *in.call.node);
      FreeSlots(in);
    } else if (in.async) {
      StartWait(in);
    } else if (!measure) [[likely]] {
      RETURN_IF_ERROR(RunInstruction(in, context));
    } else {
      const auto number = static_cast<int32_t>(&in - plan_.code.data());
      const bool alone = plan_.forks->Alone(measure_, number);
      const ScopedSingleThread scope(alone);
      context.clear_used_pool();
      const int64_t start = NowNanos();
      RETURN_IF_ERROR(RunInstruction(in, context));
      const int concurrency = in.call.device != nullptr ? in.call.device->intra_op_pool().concurrency() : 1;
      plan_.forks->Record(plan_, number, alone, NowNanos() - start, context.used_pool(), concurrency);
    }
  }
  return absl::OkStatus();
}

absl::Status Execution::Region::RunSegmentCode(int32_t id) {
  if (const auto* stages = plan_.forks->stages(); stages != nullptr && !(*stages)[id].empty())
    return RunStages((*stages)[id]);
  const Segment& segment = plan_.segments[id];
  return RunCode(absl::MakeConstSpan(plan_.code).subspan(segment.begin, segment.end - segment.begin));
}

absl::Status Execution::Region::RunStages(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    if (stage.second.empty()) {
      const ScopedSingleThread scope(stage.alone);
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
    for (const int32_t slot : stage.frees) Empty(frame_.slots[slot]);
  }
  return absl::OkStatus();
}

void Execution::Region::Start(int64_t iteration, Done done) {
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
  for (int32_t i = 0; i < segments; ++i) {
    if (plan_.segments[i].predecessors == 0) RunSegments({i});
  }
  CountDown(1);
}

// Runs segments, and then those that they made ready.
void Execution::Region::RunSegments(std::vector<int32_t> ready) {
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

void Execution::Region::Release(const std::vector<int32_t>& successors, std::vector<int32_t>* ready) {
  for (const int32_t next : successors) {
    if (pending_[next].fetch_sub(1, std::memory_order_acq_rel) == 1) ready->push_back(next);
  }
}

// A wait that is over by the time it was started is followed by RunSegments(),
// which the thread is in, not by recursion: chains of them may be long.
void Execution::Region::StartWait(const Instruction& in) {
  Wait& wait = waits_[in.async_index];
  wait.started = true;
  wait.passed.store(false, std::memory_order_relaxed);
  BeginWait(in, wait);
  wait.ended_at_once = wait.passed.exchange(true, std::memory_order_acq_rel);
}

void Execution::Region::BeginWait(const Instruction& in, Wait& wait) {
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
        std::make_unique<Loop>(execution_, *in.loop, frame_, *frame_.loops[in.loop->index], FrameIdOf(*in.loop));
    Loop& started = *loop;
    {
      MutexLock lock(&mutex_);
      wait.loop.swap(loop);
    }
    loop.reset();  // of the iteration before
    started.Start([this, &wait](const absl::Status& status) { EndWait(wait, status); });
    return;
  }
  SetDead(in, slots, dead);
  if (dead) return EndWait(wait, absl::OkStatus());
  wait.context = std::make_unique<KernelContext>(&execution_.step_, frame_.slots.data(), &in.call);
  wait.context->set_iteration(frame_id_, iteration_);
  static_cast<AsyncKernel*>(in.kernel)->ComputeAsync(*wait.context, [this, &wait, &in](const absl::Status& status) {
    if (execution_.stats_ != nullptr && status.ok()) {
      execution_.stats_->Add(*in.call.node, in.call.device, wait.start_nanos, NowNanos(),
                             frame_.slots.data() + in.call.first_output);
    }
    EndWait(wait, NodeError(status, *in.call.node));
  });
}

void Execution::Region::EndWait(Wait& wait, const absl::Status& status) {
  const Instruction& in = *wait.instruction;
  if (!status.ok()) Fail(status);
  FreeSlots(in);
  wait.since_nanos.store(0, std::memory_order_release);
  if (!wait.passed.exchange(true, std::memory_order_acq_rel)) return;  // StartWait() goes on
  std::vector<int32_t> ready;
  Release(plan_.wait_successors[in.async_index], &ready);
  RunSegments(std::move(ready));
  CountDown(1);
}

void Execution::Region::Fail(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    status_ = status;
    failed_.store(true, std::memory_order_release);
  }
  // The waits of this step end now. The reason is the first error.
  execution_.step_.cancellation->Cancel(status);
}

void Execution::Region::CountDown(int32_t n) {
  if (left_.fetch_sub(n, std::memory_order_acq_rel) != n) return;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = status_;
  }
  for (size_t i = 0; i < plan_.wait_successors.size(); ++i) waits_[i].started = false;
  if (measure_ != AdaptiveSchedule::Measure::kNothing) plan_.forks->EndRun(plan_);
  // The region may be gone when `done` returns.
  Done done = std::move(done_);
  done(status);
}

void Execution::Region::DescribeWaits(std::vector<std::string>* names) const {
  const int64_t now = NowNanos();
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < plan_.wait_successors.size(); ++i) {
    const int64_t since = waits_[i].since_nanos.load(std::memory_order_acquire);
    if (since == 0) continue;
    if (waits_[i].instruction->loop != nullptr) {
      if (waits_[i].loop != nullptr) waits_[i].loop->DescribeWaits(names);
      continue;
    }
    const Node& node = *waits_[i].instruction->call.node;
    names->push_back(absl::StrCat("'", node.name(), "' (", node.op(), ") on ", node.device(), " for ",
                                  (now - since) / 1'000'000'000, " s"));
  }
}

Execution::Execution(Executable& executable, Step& step, StepStatsCollector* stats)
    : executable_(executable),
      step_(step),
      stats_(stats),
      frame_(executable.TakeFrame()),
      region_(std::make_unique<Region>(*this, executable.plan, *frame_, 0)) {}

Execution::~Execution() {
  region_->Clear();
  region_.reset();
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
  region_->Start(0, [this, done = std::move(done)](const absl::Status& status) mutable {
    if (status.ok()) return done(status);
    region_->ClearAll();
    // What went wrong first, here or outside, is why the step was cancelled.
    done(step_.cancellation->cancelled() ? step_.cancellation->status() : status);
  });
}

absl::Status Execution::Run(absl::Span<const Tensor> args, absl::Duration report_after) {
  if (!executable_.plan.has_waits) {
    const ScopedFlushDenormals flush;
    RETURN_IF_ERROR(BindArgs(args));
    absl::Status status = region_->RunToEnd(0);
    if (!status.ok()) [[unlikely]]
      region_->ClearAll();
    return status;
  }
  Notification ended;
  absl::Status result;
  Start(args, [&](const absl::Status& status) {
    result = status;
    ended.Notify();
  });
  while (!ended.WaitForNotificationWithTimeout(report_after)) {
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

std::string Execution::DescribeWaits() const {
  std::vector<std::string> names;
  region_->DescribeWaits(&names);
  return absl::StrJoin(names, ", ");
}

}  // namespace thalweg
