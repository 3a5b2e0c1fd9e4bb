// A plan: a graph compiled for running. Straight-line code over slots.
//
// Nodes become *instructions* in topological order; every edge becomes a *slot*
// of a frame. Which slots an instruction reads and writes, and which values die
// with it, is known beforehand, so a step looks nothing up. Constants lie in
// their slots for good; an Identity shares the slot of its input.
//
// An instruction that waits (a receive, a dequeue) splits the code into
// *segments*: a segment holds the instructions that depend on the same waits,
// and runs without a pause once its predecessors are done. A plan without waits
// is one segment, run like a function.
//
// A loop is one instruction with a plan of its own for an iteration. In code
// that a Switch may have turned off, instructions check for dead inputs and
// pass deadness on.
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
  // What every step needs of every instruction comes first: a line of the
  // cache.
  Kernel* kernel = nullptr;  // owned by the plan or the session
  KernelContext::Call call;  // its inputs are those of `inputs`, once the plan is complete
  OperandRange frees;        // slots to empty afterwards
  bool plain = false;        // a kernel, and nothing of what follows
  bool async = false;
  OperandRange inputs;       // slots read, in the node's order
  LoopPlan* loop = nullptr;  // instead of a kernel
  OperandRange reads;        // pairs (variable slot, value slot): variables whose value is wanted
  OperandRange dead_if;      // slots: if one is dead, so is this
  int32_t status_slot = -1;  // where control consumers look for deadness; -1 if none do
  bool is_merge = false;     // dead only if all inputs are
  bool is_switch = false;    // sets deadness itself
  bool runs_dead = false;    // a send: tells the other side
  int32_t async_index = -1;  // among the waiting instructions of the plan
};

struct Segment {
  int32_t begin = 0;  // instructions [begin, end)
  int32_t end = 0;
  int32_t predecessors = 0;         // segments and waits that must be done first
  std::vector<int32_t> successors;  // segments
};

// The slots of one running copy of a plan. Reused from step to step; concurrent
// steps have one each.
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
  // Points calls at their inputs. Operands are not added afterwards.
  void BindCalls();
  const int32_t* at(OperandRange r) const { return operands.data() + r.begin; }

  std::vector<Instruction> code;
  std::vector<std::vector<int32_t>> before;  // by instruction: those that it depends on
  std::vector<Segment> segments;
  std::vector<std::vector<int32_t>> wait_successors;  // by async_index: segments
  std::vector<int32_t> operands;
  int32_t num_slots = 0;
  std::vector<std::pair<int32_t, Tensor>> constants;  // slot, value: set when a frame is made
  std::vector<int32_t> kept_slots;                    // emptied when a step ends, not before
  std::vector<int32_t> arg_slots;                     // by _Arg index; -1 if nothing uses it
  std::vector<const Node*> arg_nodes;
  struct Result {
    int32_t slot = 0;
    const Node* node = nullptr;  // the _Retval
  };
  std::vector<Result> results;  // by _Retval index
  std::vector<std::unique_ptr<LoopPlan>> loops;
  std::vector<std::shared_ptr<Kernel>> kernels;
  bool has_waits = false;                   // here or in a loop inside
  std::unique_ptr<AdaptiveSchedule> forks;  // where it runs on two threads; learnt from the first steps
};

// One loop: what goes in, round and out.
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
  uint64_t name_hash = 0;  // of which its frames have their numbers
  int32_t index = 0;       // among the loops of the enclosing plan
  std::vector<Enter> enters;
  // Inner slots: NextIteration's input -> its output. In an order in which none
  // is written before it was read.
  std::vector<Move> back_edges;
  std::vector<int32_t> passed_on;  // of those inputs: slots that the next iteration fills anew
  std::vector<Move> exits;         // inner slot -> outer slot
};

// The whole of what a signature compiles to. Owns the graph that its
// instructions point into. Thread-safe: frames come from a pool.
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
  // The frame that a lone client uses over and over: no lock.
  std::atomic<PlanFrame*> last_frame_{nullptr};
  Mutex mutex_;
  std::vector<std::unique_ptr<PlanFrame>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
