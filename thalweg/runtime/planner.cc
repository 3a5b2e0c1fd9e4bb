// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/planner.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/unusable_node.h"
#include "thalweg/runtime/deferred_reads.h"
#include "thalweg/runtime/frame_id.h"
#include "thalweg/runtime/segments.h"
#include "thalweg/runtime/slot_lifetimes.h"

namespace thalweg {
namespace {

// Compiles the nodes of one frame (the top level, or an iteration of a loop)
// and, through it, of the frames inside. A loop inside is one *unit* here, as
// every other node is.
class RegionCompiler {
 public:
  // `order`: the nodes of each frame, in topological order. `passes_variable`: see
  // DeferReads().
  RegionCompiler(const Graph& graph, const std::vector<std::vector<Node*>>& order, const Frames& frames, int frame,
                 const std::vector<bool>& passes_variable, const DeviceFinder& find_device,
                 const KernelSource& make_kernel, Plan* plan)
      : graph_(graph),
        order_(order),
        frames_(frames),
        frame_(frame),
        passes_variable_(passes_variable),
        find_device_(find_device),
        make_kernel_(make_kernel),
        plan_(*plan) {}

  absl::Status Compile() {
    RETURN_IF_ERROR(MakeUnits());
    ConnectUnits();
    RETURN_IF_ERROR(OrderUnits());
    FindPossiblyDead();
    FindSegments(units_, unit_order_, plan_);
    schedule_ = Schedule(units_, static_cast<int>(plan_.segments.size()));
    AssignSlots();
    RETURN_IF_ERROR(Emit());
    FindSlotLifetimes(Lives(), plan_);
    plan_.BindCalls();
    return absl::OkStatus();
  }

  // For the enclosing loop: the slot in this region of an output.
  int32_t SlotOf(const Output& output) const {
    const auto it = slots_.find(output);
    return it == slots_.end() ? -1 : it->second;
  }

 private:
  // The unit of a node; -1 if it is of another region.
  int UnitOf(const Node& node) const {
    const auto it = unit_of_.find(&node);
    return it == unit_of_.end() ? -1 : it->second;
  }

  absl::Status MakeUnits() {
    for (Node* node : order_[frame_]) {
      if (IsEnter(*node)) {
        // The loop it opens is the unit.
        const int child = frames_.of_outputs[node->id()];
        auto [it, is_new] = loop_units_.try_emplace(child, static_cast<int>(units_.size()));
        if (is_new) RETURN_IF_ERROR(MakeLoopUnit(child));
        unit_of_[node] = it->second;
        continue;
      }
      unit_of_[node] = static_cast<int>(units_.size());
      Unit& unit = units_.emplace_back();
      unit.node = node;
      RETURN_IF_ERROR(PrepareNode(unit));
    }
    // Exits are seen from outside as outputs of the loop.
    for (const auto& [child, unit] : loop_units_) {
      for (Node* exit : frames_.frames[child].exits) unit_of_[exit] = unit;
    }
    return absl::OkStatus();
  }

  absl::Status PrepareNode(Unit& unit) {
    Node* node = unit.node;
    if (frame_ != 0 && node->op() == "_Retval") {
      return InvalidArgument("'", node->input(0).name(), "' cannot be fetched: it is inside of loop '",
                             frames_.frames[frame_].name, "'; fetch what leaves it by an Exit");
    }
    if (frame_ != 0 && node->op() == "_Arg") {
      return InvalidArgument("{{node ", node->name(), "}}: a value from outside of the step arrives inside of loop '",
                             frames_.frames[frame_].name, "'");
    }
    if (node->op() == "_Arg" || node->op() == "_Retval" || IsExit(*node) || IsNextIteration(*node)) {
      unit.no_code = true;
      return absl::OkStatus();
    }
    if (node->op() == "Const" && node->control_inputs().empty()) {
      unit.no_code = true;
      return absl::OkStatus();
    }
    if (node->schema() == nullptr) {
      return WhyUnusable(*node);
    }
    if (IsAlias(*node)) {
      unit.no_code = true;
      return absl::OkStatus();
    }
    Device* device = find_device_(node->device());
    if (device == nullptr)
      return Internal("node '", node->name(), "' is placed on unknown device '", node->device(), "'");
    ASSIGN_OR_RETURN(unit.kernel, make_kernel_(*node, *device));
    unit.waits = unit.kernel->is_async();
    return absl::OkStatus();
  }

  absl::Status MakeLoopUnit(int child) {
    auto loop = std::make_unique<LoopPlan>();
    loop->name = frames_.frames[child].name;
    loop->index = static_cast<int32_t>(plan_.loops.size());
    loop->name_hash = FrameNameHash(loop->name);
    auto body = std::make_unique<RegionCompiler>(graph_, order_, frames_, child, passes_variable_, find_device_,
                                                 make_kernel_, &loop->body);
    RETURN_IF_ERROR(body->Compile());
    Unit& unit = units_.emplace_back();
    unit.loop = child;
    unit.plan = loop.get();
    unit.waits = loop->body.has_waits;
    loop_bodies_[child] = std::move(body);
    plan_.loops.push_back(std::move(loop));
    return absl::OkStatus();
  }

  // An Identity of a value is its input under another name.
  bool IsAlias(const Node& node) const {
    return (node.op() == "Identity" || node.op() == "StopGradient" || node.op() == "LoopCond") &&
           node.control_inputs().empty() && !Reads(node, 0);
  }

  // True if an input is a variable of which the node wants the value.
  bool Reads(const Node& node, int i) const {
    return CarriesVariable(node.input(i), passes_variable_) && !TakesVariable(node, i, passes_variable_);
  }

  void AddDependency(int before, int after) {
    if (before < 0) return;
    // The dependencies of a unit are added together, so a duplicate is the last element.
    std::vector<int>& afters = units_[before].after;
    if (!afters.empty() && afters.back() == after) return;
    afters.push_back(after);
    units_[after].before.push_back(before);
  }

  // The edges of a node that come from this region.
  template <typename F>
  void ForEachSource(const Node& node, F&& f) const {
    for (const Output& input : node.inputs()) {
      if (!(IsMerge(node) && IsNextIteration(*input.node))) f(input.node);
    }
    for (Node* control : node.control_inputs()) f(control);
  }

  void ConnectUnits() {
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      const auto depend = [&](const Node* from) {
        // Values that enter this loop exist before the iteration begins.
        if (frames_.of_outputs[from->id()] == frame_) AddDependency(UnitOf(*from), u);
      };
      if (units_[u].node != nullptr) {
        ForEachSource(*units_[u].node, depend);
      } else {
        for (const Node* enter : frames_.frames[units_[u].loop].enters) ForEachSource(*enter, depend);
      }
    }
  }

  // Units come in topological order, except that a loop stands where its first
  // Enter does.
  absl::Status OrderUnits() {
    std::vector<int> pending(units_.size());
    for (size_t u = 0; u < units_.size(); ++u) {
      pending[u] = static_cast<int>(units_[u].before.size());
      if (pending[u] == 0) unit_order_.push_back(static_cast<int>(u));
    }
    for (size_t i = 0; i < unit_order_.size(); ++i) {
      for (const int next : units_[unit_order_[i]].after) {
        if (--pending[next] == 0) unit_order_.push_back(next);
      }
    }
    if (unit_order_.size() == units_.size()) return absl::OkStatus();
    for (size_t u = 0; u < units_.size(); ++u) {
      if (pending[u] > 0 && units_[u].loop >= 0) {
        return InvalidArgument("loop '", frames_.frames[units_[u].loop].name,
                               "' needs a value that depends on its own result");
      }
    }
    return Internal("nodes cannot be ordered");
  }

  bool OutputMayBeDead(const Node& from) const {
    if (IsEnter(from)) return frame_ != 0;   // a variable of the loop, after the first iteration
    if (IsNextIteration(from)) return true;  // in the first one
    const Unit& unit = units_[UnitOf(from)];
    return unit.may_be_dead || IsSwitch(from) || from.op() == "_Recv" || from.op() == "_HostRecv";
  }

  void FindPossiblyDead() {
    for (const int u : unit_order_) {
      Unit& unit = units_[u];
      if (unit.node == nullptr) {
        for (const Node* enter : frames_.frames[unit.loop].enters) {
          ForEachSource(*enter,
                        [&](const Node* from) { unit.may_be_dead = unit.may_be_dead || OutputMayBeDead(*from); });
        }
        // And its exits may be, if the loop ends without them.
        unit.may_be_dead = true;
        continue;
      }
      if (IsMerge(*unit.node) && frame_ != 0) {
        unit.may_be_dead = true;
        continue;
      }
      // Says that what it waits for is over, whichever branch that was in.
      if (unit.node->op() == "ControlTrigger") continue;
      bool any = false, all = true;
      for (const Output& input : unit.node->inputs()) {
        const bool dead = IsInner(*input.node) ? OutputMayBeDead(*input.node) : true;
        any = any || dead;
        all = all && dead;
      }
      bool control = false;
      for (const Node* from : unit.node->control_inputs()) {
        if (IsInner(*from)) control = control || ControlMayBeDead(*from);
      }
      unit.may_be_dead = control || (IsMerge(*unit.node) ? all : any);
    }
  }
  bool IsInner(const Node& node) const { return IsEnter(node) || UnitOf(node) >= 0; }
  bool ControlMayBeDead(const Node& from) const {
    if (IsEnter(from) && frames_.of_outputs[from.id()] == frame_) return frame_ != 0;
    if (IsNextIteration(from)) return true;
    return units_[UnitOf(from)].may_be_dead;
  }

  int32_t NewSlot() { return plan_.num_slots++; }

  void AssignSlots() {
    // Values that enter this loop, and loop variables from the previous iteration.
    if (frame_ != 0) {
      for (Node* enter : frames_.frames[frame_].enters) slots_[Output(enter)] = NewSlot();
      for (Node* next : frames_.frames[frame_].next_iterations) slots_[Output(next)] = NewSlot();
    }
    for (const int u : unit_order_) {
      Unit& unit = units_[u];
      if (unit.node == nullptr) {
        for (Node* exit : frames_.frames[unit.loop].exits) slots_[Output(exit)] = NewSlot();
        continue;
      }
      Node* node = unit.node;
      if (IsNextIteration(*node) || IsExit(*node)) continue;  // see LoopUnit
      if (unit.no_code && IsAlias(*node)) {
        slots_[Output(node)] = slots_.at(node->input(0));
        continue;
      }
      for (int i = 0; i < node->num_outputs(); ++i) slots_[Output(node, i)] = NewSlot();
      if (unit.no_code) {
        if (node->op() == "Const") constants_.push_back(slots_[Output(node)]);
      }
    }
  }

  // A slot whose deadness is that of the node as a whole.
  int32_t StatusSlot(const Node& from) {
    const auto it_own = slots_.find(Output(const_cast<Node*>(&from)));
    if (IsEnter(from) || IsNextIteration(from) || (IsExit(from) && it_own != slots_.end())) return it_own->second;
    // A node without code is as dead as its input.
    if (units_[UnitOf(from)].no_code && from.num_inputs() > 0) return slots_.at(from.input(0));
    const auto [it, is_new] = status_slots_.try_emplace(&from, plan_.num_slots);
    if (is_new) NewSlot();
    return it->second;
  }

  std::vector<int32_t> DeadIf(const Unit& unit, const Node& node) {
    std::vector<int32_t> slots;
    if (!unit.may_be_dead) return slots;
    if (!IsMerge(node)) {
      for (const Output& input : node.inputs()) {
        if (OutputMayBeDead(*input.node)) slots.push_back(slots_.at(input));
      }
    }
    for (const Node* control : node.control_inputs()) {
      if (ControlMayBeDead(*control)) slots.push_back(StatusSlot(*control));
    }
    return slots;
  }

  absl::Status Emit() {
    // Control consumers ask for status slots first, so that producers know.
    std::vector<std::vector<int32_t>> dead_if(units_.size());
    for (const int u : schedule_) {
      if (units_[u].node != nullptr) {
        dead_if[u] = DeadIf(units_[u], *units_[u].node);
      } else {
        for (const Node* enter : frames_.frames[units_[u].loop].enters) {
          for (const Node* control : enter->control_inputs()) {
            if (ControlMayBeDead(*control)) dead_if[u].push_back(StatusSlot(*control));
          }
        }
      }
    }
    int segment = -1;
    for (const int u : schedule_) {
      Unit& unit = units_[u];
      if (unit.segment != segment) {
        segment = unit.segment;
        plan_.segments[segment].begin = static_cast<int32_t>(plan_.code.size());
      }
      if (unit.node == nullptr) {
        EmitLoop(u, dead_if[u]);
      } else if (unit.no_code) {
        RETURN_IF_ERROR(EmitNothing(unit));
        unit.code_before = CodeBefore(unit);
      } else {
        EmitNode(u, dead_if[u]);
      }
      plan_.segments[segment].end = static_cast<int32_t>(plan_.code.size());
    }
    return absl::OkStatus();
  }

  absl::Status EmitNothing(const Unit& unit) {
    Node* node = unit.node;
    if (node->op() == "Const") {
      ASSIGN_OR_RETURN(Tensor value, GetAttr<Tensor>(node->def(), "value"));
      plan_.constants.emplace_back(slots_.at(Output(node)), std::move(value));
    } else if (node->op() == "_Arg") {
      ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(node->def(), "index"));
      if (index >= graph_.num_nodes()) return Internal("_Arg index ", index);
      if (plan_.arg_slots.size() <= static_cast<size_t>(index)) {
        plan_.arg_slots.resize(index + 1, -1);
        plan_.arg_nodes.resize(index + 1, nullptr);
      }
      plan_.arg_slots[index] = slots_.at(Output(node));
      plan_.arg_nodes[index] = node;
    } else if (node->op() == "_Retval") {
      ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(node->def(), "index"));
      if (index >= graph_.num_nodes()) return Internal("_Retval index ", index);
      if (plan_.results.size() <= static_cast<size_t>(index)) plan_.results.resize(index + 1);
      const int32_t slot = slots_.at(node->input(0));
      plan_.results[index] = {slot, node};
      results_.push_back(slot);
    }
    return absl::OkStatus();
  }

  void EmitNode(int u, const std::vector<int32_t>& dead_if) {
    const Unit& unit = units_[u];
    Node* node = unit.node;
    Instruction in;
    in.kernel = unit.kernel.get();
    plan_.kernels.push_back(unit.kernel);
    in.call.node = node;
    in.call.device = find_device_(node->device());
    std::vector<int32_t> inputs, reads;
    for (int i = 0; i < node->num_inputs(); ++i) inputs.push_back(InputSlot(*node, i, &reads));
    in.inputs = plan_.AddOperands(inputs);
    in.reads = plan_.AddOperands(reads);
    in.dead_if = plan_.AddOperands(dead_if);
    in.call.num_outputs = node->num_outputs();
    in.call.first_output = node->num_outputs() > 0 ? slots_.at(Output(node)) : 0;
    in.is_merge = IsMerge(*node);
    in.is_switch = IsSwitch(*node);
    in.runs_dead = node->op() == "_Send" || node->op() == "_HostSend";
    if (const auto it = status_slots_.find(node); it != status_slots_.end()) in.status_slot = it->second;
    FinishInstruction(u, in);
  }

  void EmitLoop(int u, const std::vector<int32_t>& dead_if) {
    const Unit& unit = units_[u];
    LoopPlan* loop = unit.plan;
    const RegionCompiler& body = *loop_bodies_.at(unit.loop);
    const Frame& frame = frames_.frames[unit.loop];
    Instruction in;
    in.loop = loop;
    in.call.node = frame.enters[0];
    std::vector<int32_t> inputs, reads;
    for (Node* enter : frame.enters) {
      const int32_t outer = InputSlot(*enter, 0, &reads);
      inputs.push_back(outer);
      loop->enters.push_back({outer, body.SlotOf(Output(enter)), *GetAttr<bool>(enter->def(), "is_constant")});
    }
    for (Node* exit : frame.exits) loop->exits.push_back({body.SlotOf(exit->input(0)), slots_.at(Output(exit))});
    // A NextIteration of another's output takes it before the other writes there:
    // it comes later in the topological order.
    for (auto next = frame.next_iterations.rbegin(); next != frame.next_iterations.rend(); ++next) {
      loop->back_edges.push_back({body.SlotOf((*next)->input(0)), body.SlotOf(Output(*next))});
    }
    for (const LoopPlan::Move& back : loop->back_edges) {
      const bool is_constant = absl::c_any_of(
          loop->enters, [&](const LoopPlan::Enter& e) { return e.is_constant && e.inner_slot == back.from; });
      const bool comes_round =
          absl::c_any_of(loop->back_edges, [&](const LoopPlan::Move& other) { return other.to == back.from; });
      if (!is_constant && !comes_round) loop->passed_on.push_back(back.from);
    }
    in.inputs = plan_.AddOperands(inputs);
    in.reads = plan_.AddOperands(reads);
    in.dead_if = plan_.AddOperands(dead_if);
    FinishInstruction(u, in);
  }

  // The slot of an input. If the input is a variable and the node takes a value, the variable
  // is read into a separate slot when the instruction runs.
  int32_t InputSlot(const Node& node, int i, std::vector<int32_t>* reads) {
    const int32_t slot = slots_.at(node.input(i));
    if (!Reads(node, i)) return slot;
    reads->push_back(slot);
    reads->push_back(NewSlot());
    return reads->back();
  }

  void FinishInstruction(int u, Instruction in) {
    if (units_[u].waits) {
      in.async = true;
      in.async_index = units_[u].wait;
    }
    in.plain = in.loop == nullptr && !in.async && !in.is_merge && !in.is_switch && in.reads.count == 0 &&
               in.dead_if.count == 0;
    units_[u].code = static_cast<int32_t>(plan_.code.size());
    plan_.before.push_back(CodeBefore(units_[u]));
    plan_.code.push_back(in);
  }

  // The instructions of its segment that a unit depends on, also through units without code.
  // The units before it have been visited, so their sets are known.
  std::vector<int32_t> CodeBefore(const Unit& unit) const {
    std::vector<int32_t> code;
    for (const int before : unit.before) {
      const Unit& other = units_[before];
      if (other.no_code) {
        code.insert(code.end(), other.code_before.begin(), other.code_before.end());
      } else {
        code.push_back(other.code);
      }
    }
    return code;
  }

  // The slot lifetimes of this region; see slot_lifetimes.h.
  SlotLifetimes Lives() const {
    SlotLifetimes lives{.kept = results_, .constants = constants_};
    if (frame_ == 0) return lives;
    const Frame& frame = frames_.frames[frame_];
    for (Node* enter : frame.enters) lives.kept.push_back(slots_.at(Output(enter)));
    for (Node* exit : frame.exits) lives.kept.push_back(slots_.at(exit->input(0)));
    // Loop variables are not kept after the Merge has read them, so that the loop can update
    // them in place.
    for (Node* next : frame.next_iterations) lives.kept.push_back(slots_.at(next->input(0)));
    return lives;
  }

  const Graph& graph_;
  const std::vector<std::vector<Node*>>& order_;
  const Frames& frames_;
  const int frame_;
  const std::vector<bool>& passes_variable_;
  const DeviceFinder& find_device_;
  const KernelSource& make_kernel_;
  Plan& plan_;

  std::vector<Unit> units_;
  std::vector<int> unit_order_;
  absl::flat_hash_map<const Node*, int> unit_of_;
  absl::flat_hash_map<int, int> loop_units_;  // frame -> unit
  absl::flat_hash_map<int, std::unique_ptr<RegionCompiler>> loop_bodies_;
  std::vector<int> schedule_;
  absl::flat_hash_map<Output, int32_t> slots_;
  absl::flat_hash_map<const Node*, int32_t> status_slots_;
  std::vector<int32_t> results_;    // slots that leave the plan
  std::vector<int32_t> constants_;  // their slots
};

// NextIteration and Exit have no instruction: their value is dead if their input is. If
// control inputs can make them dead too, or if the input is a variable, inserts a node with
// an instruction, which checks the control inputs or reads the variable.
absl::Status GuardLoopEdges(Graph& graph) {
  const int nodes = graph.num_nodes();
  for (int id = 0; id < nodes; ++id) {
    Node* node = graph.node(id);
    if (node == nullptr || !(IsNextIteration(*node) || IsExit(*node))) continue;
    const bool is_ref = IsRef(node->input_type(0));
    const bool reads = IsRef(node->input(0).dtype()) && !is_ref;
    if (node->control_inputs().empty() && !reads) continue;
    tensorflow::NodeDef def;
    def.set_name(graph.UniqueName(absl::StrCat(node->name(), "/_guard")));
    def.set_op(is_ref ? "RefIdentity" : "Identity");
    def.set_device(node->device());
    SetAttr(def, "T", RemoveRef(node->input(0).dtype()));
    ASSIGN_OR_RETURN(Node * guard, graph.AddNode(std::move(def), {node->input(0)}, node->control_inputs()));
    node->set_input(0, guard->out());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executable>> Compile(Graph graph, const DeviceFinder& find_device,
                                                    const KernelSource& make_kernel) {
  auto executable = std::make_unique<Executable>();
  executable->graph = std::move(graph);
  RETURN_IF_ERROR(GuardLoopEdges(executable->graph));
  ReadInPlace(executable->graph);
  const std::vector<bool> passes_variable = DeferReads(executable->graph);
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(executable->graph));
  ASSIGN_OR_RETURN(const Frames frames, FindFrames(executable->graph, order));
  std::vector<std::vector<Node*>> of_frame(frames.frames.size());
  for (Node* node : order) of_frame[frames.of_node[node->id()]].push_back(node);
  RegionCompiler compiler(executable->graph, of_frame, frames, 0, passes_variable, find_device, make_kernel,
                          &executable->plan);
  RETURN_IF_ERROR(compiler.Compile());
  return executable;
}

}  // namespace thalweg
