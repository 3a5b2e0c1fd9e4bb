// SPDX-License-Identifier: Apache-2.0
// A plan is a graph compiled for execution: straight-line code over slots.
//
// Nodes become *instructions* in topological order, and every edge becomes a *slot* of a
// frame. The compiler determines which slots an instruction reads and writes, and which
// values die with it, so a step does no lookups. Constants stay in their slots. An
// Identity shares the slot of its input.
//
// An instruction that waits (a receive, a dequeue) splits the code into *segments*. A
// segment holds the instructions that depend on the same waits, and runs without
// interruption once its predecessors are done. A plan without waits is one segment and
// runs like a function.
//
// A loop is one instruction with its own plan for an iteration. Instructions that a
// Switch may have turned off check for dead inputs and propagate deadness.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

class AdaptiveSchedule;
struct Plan;
struct LoopPlan;

// A run of indices in Plan::operands.
struct OperandRange {
  int32_t begin = 0;
  int32_t count = 0;
};

struct Instruction {
  // The fields that every step needs come first, in one cache line.
  Kernel* kernel = nullptr;  // owned by the plan or the session
  KernelContext::Call call;  // BindCalls() sets its inputs from `inputs`
  OperandRange frees;        // slots to empty afterwards
  bool plain = false;        // calls a kernel and uses none of the fields below
  bool async = false;
  OperandRange inputs;       // slots read, in the node's order
  LoopPlan* loop = nullptr;  // instead of a kernel
  OperandRange reads;        // pairs (variable slot, value slot): variables to read before the call
  OperandRange dead_if;      // slots: if one is dead, so is this
  int32_t status_slot = -1;  // holds the deadness for control outputs; -1 if there are none
  bool is_merge = false;     // dead only if all inputs are
  bool is_switch = false;    // sets deadness itself
  bool runs_dead = false;    // runs on dead inputs: a send, which passes deadness to the receiver
  int32_t async_index = -1;  // among the waiting instructions of the plan
};

struct Segment {
  int32_t begin = 0;  // instructions [begin, end)
  int32_t end = 0;
  int32_t predecessors = 0;         // segments and waits that must be done first
  std::vector<int32_t> successors;  // segments
};

// The slots of one running instance of a plan. Reused from step to step; concurrent
// steps use separate frames.
struct PlanFrame {
  explicit PlanFrame(const Plan& plan);
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<PlanFrame>> loops;  // by LoopPlan::index
};

struct Plan {
  Plan();
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  OperandRange AddOperands(const std::vector<int32_t>& list);
  // Points the calls at their inputs. No operands may be added afterwards.
  void BindCalls();
  const int32_t* at(OperandRange r) const { return operands.data() + r.begin; }

  std::vector<Instruction> code;
  std::vector<std::vector<int32_t>> before;  // by instruction: the instructions that it depends on
  std::vector<Segment> segments;
  std::vector<std::vector<int32_t>> wait_successors;  // by async_index: segments
  std::vector<int32_t> operands;
  int32_t num_slots = 0;
  std::vector<std::pair<int32_t, Tensor>> constants;  // slot, value: set when a frame is made
  std::vector<int32_t> kept_slots;                    // emptied only at the end of a step
  std::vector<int32_t> arg_slots;                     // by _Arg index; -1 if nothing uses it
  std::vector<const Node*> arg_nodes;
  struct Result {
    int32_t slot = 0;
    const Node* node = nullptr;  // the _Retval
  };
  std::vector<Result> results;  // by _Retval index
  std::vector<std::unique_ptr<LoopPlan>> loops;
  std::vector<std::shared_ptr<Kernel>> kernels;
  bool has_waits = false;                      // in this plan or in a nested loop
  std::unique_ptr<AdaptiveSchedule> schedule;  // where to run on two threads; measured in the first steps
};

// A loop: its body, and the slots through which values enter, are passed to the next
// iteration, and leave.
struct LoopPlan {
  struct Enter {
    int32_t outer_slot;
    int32_t inner_slot;
    bool is_constant;
  };
  struct Move {
    int32_t from;
    int32_t to;
  };
  Plan body;
  std::string name;
  uint64_t name_hash = 0;  // frame ids are derived from it
  int32_t index = 0;       // among the loops of the enclosing plan
  std::vector<Enter> enters;
  // Inner slots: the input of a NextIteration -> its output. Ordered so that no slot is
  // written before it is read.
  std::vector<Move> back_edges;
  std::vector<int32_t> passed_on;  // the slots among those inputs that the next iteration overwrites
  std::vector<Move> exits;         // inner slot -> outer slot
};

// A compiled signature. Owns the graph that its instructions point into. Thread-safe:
// frames come from a pool.
class Executable {
 public:
  Executable() = default;
  ~Executable();

  std::unique_ptr<PlanFrame> TakeFrame();
  void ReturnFrame(std::unique_ptr<PlanFrame> frame);

  Graph graph;
  Plan plan;

 private:
  static constexpr size_t kMaxIdleFrames = 16;
  // A one-entry cache without a lock, for the common case of one step at a time.
  std::atomic<PlanFrame*> last_frame_{nullptr};
  Mutex mutex_;
  std::vector<std::unique_ptr<PlanFrame>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
