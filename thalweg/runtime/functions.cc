#include "thalweg/runtime/functions.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/runtime/frames.h"
#include "thalweg/runtime/function_body.h"

namespace thalweg {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NameAttrList;
using tensorflow::NodeDef;

// How a call came about: the function it stands in, the one that called that
// one, and so on.
struct Callers {
  std::string function;
  std::shared_ptr<const Callers> outer;
};

// Nodes in the order of their coming, each once.
class NodeList {
 public:
  void Add(Node* node) {
    if (seen_.insert(node).second) nodes_.push_back(node);
  }
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  std::vector<Node*> nodes_;
  absl::flat_hash_set<Node*> seen_;
};

class Inlining {
 public:
  Inlining(Graph& graph, std::vector<std::string>* targets, int max_nodes)
      : graph_(graph), targets_(*targets), max_nodes_(max_nodes) {
    for (const FunctionDef& function : graph.library().function()) functions_[function.signature().name()] = &function;
  }

  absl::Status Run() {
    RETURN_IF_ERROR(FindOuterCalls());
    if (calls_.empty()) return absl::OkStatus();
    const size_t num_outer = calls_.size();
    RETURN_IF_ERROR(scratch_.AddFunctions(graph_.library()));
    std::vector<std::pair<std::string, Node*>> outer;
    for (size_t i = 0; i < calls_.size(); ++i) {  // bodies add to the list
      const Call call = calls_[i];
      const absl::Status status = Expand(call);
      if (!status.ok()) return Append(status, absl::StrCat("; in the call '", call.node->name(), "'"));
      if (i < num_outer) outer.emplace_back(call.node->name(), expansions_.at(call.node).done);
    }
    Rewire();
    std::vector<bool> keep(graph_.num_nodes(), true);
    for (const Call& call : calls_) keep[call.node->id()] = false;
    graph_.Retain(keep);
    for (auto& [name, done] : outer) {
      RETURN_IF_ERROR(Add("NoOp", name, done->device(), {}, {ResolveControl(done)}).status());
    }
    return absl::OkStatus();
  }

 private:
  struct Call {
    Node* node = nullptr;
    // In a loop or a branch made of single nodes: its inputs tell in which
    // iteration it is, and whether it is dead.
    bool by_input = false;
    std::shared_ptr<const Callers> callers;  // nullptr: in the graph itself
  };
  // What a call became. Outputs may be those of other calls.
  struct Expansion {
    std::vector<Output> outputs;
    Node* done = nullptr;  // runs when everything of the call has
  };
  // An argument of a body. A guarded one is dead, or late, whenever the body
  // has to be.
  struct Arg {
    Output value;
    bool guarded = false;
  };
  struct Body {
    std::vector<Output> results;
    NodeList effects;
    NodeList ends;  // when these are done, so is the body: effects and results
  };

  absl::Status FindOuterCalls() {
    for (const auto& node : graph_.nodes()) {
      if (IsCall(*node)) calls_.push_back({node.get()});
    }
    if (calls_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
    const std::vector<bool> after_control_flow = AfterControlFlow(graph_, order);
    for (Call& call : calls_) call.by_input = after_control_flow[call.node->id()];
    return absl::OkStatus();
  }

  // By id: whether a node depends on a Switch or Enter.
  static std::vector<bool> AfterControlFlow(const Graph& graph, const std::vector<Node*>& order) {
    std::vector<bool> after(graph.num_nodes(), false);
    for (const Node* node : order) {
      bool is_after = IsSwitch(*node) || IsEnter(*node);
      for (const Output& input : node->inputs()) is_after = is_after || after[input.node->id()];
      for (const Node* control : node->control_inputs()) is_after = is_after || after[control->id()];
      after[node->id()] = is_after;
    }
    return after;
  }

  bool IsCall(const Node& node) const {
    static const auto* const kOps = new absl::flat_hash_set<std::string>{
        "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase",
        "While",           "StatelessWhile"};
    return kOps->contains(node.op()) || functions_.contains(node.op());
  }

  absl::Status Expand(const Call& call) {
    const std::string& op = call.node->op();
    if (op == "If" || op == "StatelessIf") return ExpandIf(call);
    if (op == "Case" || op == "StatelessCase") return ExpandCase(call);
    if (op == "While" || op == "StatelessWhile") return ExpandWhile(call);
    if (op == "PartitionedCall" || op == "StatefulPartitionedCall") {
      ASSIGN_OR_RETURN(const NameAttrList function, GetAttr<NameAttrList>(call.node->def(), "f"));
      return ExpandCall(call, function);
    }
    NameAttrList function;
    function.set_name(op);
    *function.mutable_attr() = call.node->def().attr();
    return ExpandCall(call, function);
  }

  absl::Status CheckSize(int more) const {
    if (graph_.num_nodes() + more <= max_nodes_) return absl::OkStatus();
    return ResourceExhausted("with the bodies of its functions, the graph has more than ", max_nodes_, " nodes");
  }

  absl::StatusOr<Node*> Add(absl::string_view op, const std::string& name, const std::string& device,
                            std::vector<Output> inputs, std::vector<Node*> controls, std::vector<AttrArg> attrs = {}) {
    RETURN_IF_ERROR(CheckSize(1));
    NodeDef def;
    def.set_name(name);
    def.set_op(std::string(op));
    def.set_device(device);
    for (AttrArg& attr : attrs) (*def.mutable_attr())[attr.name] = std::move(attr.value);
    return graph_.AddNode(std::move(def), std::move(inputs), std::move(controls));
  }
  // A node that belongs to a call: with its device, and the name of one of its
  // parts.
  absl::StatusOr<Node*> AddPart(const Node& call, absl::string_view op, absl::string_view part,
                                std::vector<Output> inputs, std::vector<Node*> controls,
                                std::vector<AttrArg> attrs = {}) {
    if (!inputs.empty()) attrs.emplace_back("T", RemoveRef(inputs[0].dtype()));
    return Add(op, absl::StrCat(call.name(), "/", part), call.device(), std::move(inputs), std::move(controls),
               std::move(attrs));
  }

  // Input i of a call, read once if it is a variable.
  absl::StatusOr<Output> Value(const Node& call, int i) {
    if (!IsRef(call.input(i).dtype())) return call.input(i);
    ASSIGN_OR_RETURN(Node * read,
                     AddPart(call, "Identity", absl::StrCat("_input_", i), {call.input(i)}, call.control_inputs()));
    return Output(read);
  }
  // The inputs of a call from number `first` on, as arguments that nothing
  // guards.
  absl::StatusOr<std::vector<Arg>> Args(const Node& call, int first) {
    std::vector<Arg> args;
    for (int i = first; i < call.num_inputs(); ++i) {
      ASSIGN_OR_RETURN(const Output value, Value(call, i));
      args.push_back({value, false});
    }
    return args;
  }
  // A condition as a bool.
  absl::StatusOr<Output> Truth(const Node& call, Output value, std::vector<Node*> controls) {
    if (RemoveRef(value.dtype()) == kBool) return value;
    ASSIGN_OR_RETURN(Node * truth, AddPart(call, "ToBool", "_truth", {value}, std::move(controls)));
    return Output(truth);
  }

  absl::Status ExpandCall(const Call& call, const NameAttrList& function) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const std::vector<Arg> args, Args(node, 0));
    Node* start = nullptr;
    if (call.by_input && !args.empty()) {
      ASSIGN_OR_RETURN(start, AddPart(node, "Identity", "_start", {args[0].value}, node.control_inputs()));
    } else if (!node.control_inputs().empty()) {
      ASSIGN_OR_RETURN(start, AddPart(node, "NoOp", "_start", {}, node.control_inputs()));
    }
    ASSIGN_OR_RETURN(Body body, AddBody(call, function, "_call", args, start, node.output_types()));
    if (start != nullptr) body.ends.Add(start);
    ASSIGN_OR_RETURN(Node * done, AddPart(node, "NoOp", "_done", {}, body.ends.nodes()));
    expansions_[call.node] = {std::move(body.results), done};
    return absl::OkStatus();
  }

  absl::Status ExpandIf(const Call& call) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const NameAttrList then_branch, GetAttr<NameAttrList>(node.def(), "then_branch"));
    ASSIGN_OR_RETURN(const NameAttrList else_branch, GetAttr<NameAttrList>(node.def(), "else_branch"));
    ASSIGN_OR_RETURN(Output condition, Value(node, 0));
    ASSIGN_OR_RETURN(condition, Truth(node, condition, node.control_inputs()));
    ASSIGN_OR_RETURN(Node * split, AddPart(node, "Switch", "_switch", {condition, condition}, node.control_inputs()));
    return AddBranches(call, split, {{"_else", else_branch}, {"_then", then_branch}});
  }

  absl::Status ExpandCase(const Call& call) {
    const Node& node = *call.node;
    const auto& functions = node.def().attr().at("branches").list().func();
    std::vector<std::pair<std::string, NameAttrList>> branches;
    for (const NameAttrList& f : functions) branches.emplace_back(absl::StrCat("_branch_", branches.size()), f);
    ASSIGN_OR_RETURN(const Output index, Value(node, 0));
    ASSIGN_OR_RETURN(Node * split, AddPart(node, "_SwitchN", "_switch", {index, index}, node.control_inputs(),
                                           {{"num_outs", static_cast<int64_t>(branches.size())}}));
    return AddBranches(call, split, branches);
  }

  // A body for each output of `split`, of which one is alive. The arguments
  // need no Switch of their own: what begins a branch waits for its pivot, and
  // is dead with it.
  absl::Status AddBranches(const Call& call, Node* split,
                           const std::vector<std::pair<std::string, NameAttrList>>& branches) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const std::vector<Arg> args, Args(node, 1));
    std::vector<std::vector<Output>> results(node.num_outputs());
    std::vector<Output> ends;
    for (size_t b = 0; b < branches.size(); ++b) {
      const auto& [part, function] = branches[b];
      ASSIGN_OR_RETURN(Node * pivot, AddPart(node, "Identity", absl::StrCat(part, "/_pivot"),
                                             {Output(split, static_cast<int>(b))}, {}));
      ASSIGN_OR_RETURN(Body body, AddBody(call, function, part, args, pivot, node.output_types()));
      ASSIGN_OR_RETURN(Node * end,
                       AddPart(node, "Identity", absl::StrCat(part, "/_done"), {Output(pivot)}, body.ends.nodes()));
      ends.push_back(Output(end));
      for (int i = 0; i < node.num_outputs(); ++i) results[i].push_back(body.results[i]);
    }
    Expansion expansion;
    const AttrArg count("N", static_cast<int64_t>(branches.size()));
    for (int i = 0; i < node.num_outputs(); ++i) {
      ASSIGN_OR_RETURN(Node * merge, AddPart(node, "Merge", absl::StrCat("_merge_", i), results[i], {}, {count}));
      expansion.outputs.push_back(Output(merge));
    }
    ASSIGN_OR_RETURN(expansion.done, AddPart(node, "Merge", "_done", ends, {}, {count}));
    expansions_[call.node] = std::move(expansion);
    return absl::OkStatus();
  }

  // A variable of a loop. What the body hands back as it came in only enters.
  struct LoopVariable {
    bool is_constant = false;
    Node* enter = nullptr;
    Node* merge = nullptr;
    Node* split = nullptr;
    Node* exit = nullptr;
  };

  // Which variables the body does not change. One is always taken for one that
  // changes: it drives the loop.
  absl::StatusOr<std::vector<LoopVariable>> FindVariables(const Node& node, const NameAttrList& body) {
    ASSIGN_OR_RETURN(const FunctionBody made, InstantiateFunction(body, absl::StrCat(node.name(), "/_body/")));
    std::vector<LoopVariable> variables(node.num_inputs());
    bool all_constant = true;
    for (size_t i = 0; i < variables.size() && i < made.results.size() && i < made.args.size(); ++i) {
      variables[i].is_constant = made.results[i] == absl::StrCat(made.args[i], ":0");
      all_constant = all_constant && variables[i].is_constant;
    }
    if (all_constant && !variables.empty()) variables[0].is_constant = false;
    return variables;
  }

  absl::Status ExpandWhile(const Call& call) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const NameAttrList cond, GetAttr<NameAttrList>(node.def(), "cond"));
    ASSIGN_OR_RETURN(const NameAttrList body, GetAttr<NameAttrList>(node.def(), "body"));
    ASSIGN_OR_RETURN(std::vector<LoopVariable> variables, FindVariables(node, body));
    ASSIGN_OR_RETURN(std::vector<Arg> values, Args(node, 0));
    // A loop of no variables is driven by one of its own.
    if (values.empty()) {
      ASSIGN_OR_RETURN(Node * token, AddPart(node, "Const", "_token", {}, node.control_inputs(),
                                             {{"dtype", kBool}, {"value", Tensor::Scalar<bool>(true)}}));
      values.push_back({Output(token), false});
      variables.resize(1);
    }
    const int count = static_cast<int>(variables.size());
    std::vector<Arg> at_cond, at_body;
    LoopVariable* driver = nullptr;
    for (int i = 0; i < count; ++i) {
      LoopVariable& v = variables[i];
      ASSIGN_OR_RETURN(v.enter,
                       AddPart(node, "Enter", absl::StrCat("_enter_", i), {values[i].value}, node.control_inputs(),
                               {{"frame_name", node.name()}, {"is_constant", v.is_constant}}));
      if (v.is_constant) {
        at_cond.push_back({Output(v.enter), false});
        continue;
      }
      // Its second input is set when there is one.
      ASSIGN_OR_RETURN(v.merge, AddPart(node, "Merge", absl::StrCat("_merge_", i), {Output(v.enter), Output(v.enter)},
                                        {}, {{"N", 2}}));
      at_cond.push_back({Output(v.merge), true});
      if (driver == nullptr) driver = &v;
    }
    const bool has_token = node.num_inputs() == 0;
    if (has_token) at_cond.clear();
    ASSIGN_OR_RETURN(Body test, AddBody(call, cond, "_cond", at_cond, driver->merge, {}));
    if (test.results.size() != 1)
      return InvalidArgument("the condition of a loop has ", test.results.size(), " values");
    ASSIGN_OR_RETURN(const Output truth, Truth(node, test.results[0], {}));
    ASSIGN_OR_RETURN(Node * loop_cond, Add("LoopCond", absl::StrCat(node.name(), "/_loop_cond"), node.device(), {truth},
                                           test.effects.nodes()));
    for (int i = 0; i < count; ++i) {
      LoopVariable& v = variables[i];
      if (v.is_constant) {
        at_body.push_back({Output(v.enter), false});
        continue;
      }
      ASSIGN_OR_RETURN(v.split,
                       AddPart(node, "Switch", absl::StrCat("_switch_", i), {Output(v.merge), Output(loop_cond)}, {}));
      at_body.push_back({Output(v.split, 1), true});
      ASSIGN_OR_RETURN(v.exit, AddPart(node, "Exit", absl::StrCat("_exit_", i), {Output(v.split, 0)}, {}));
    }
    ASSIGN_OR_RETURN(Node * pivot, AddPart(node, "Identity", "_body/_pivot", {Output(driver->split, 1)}, {}));
    if (has_token) at_body.clear();
    ASSIGN_OR_RETURN(Body round, AddBody(call, body, "_body", at_body, pivot, node.output_types()));
    if (has_token) round.results.push_back(Output(pivot));
    Expansion expansion;
    for (int i = 0; i < count; ++i) {
      LoopVariable& v = variables[i];
      if (v.is_constant) {
        // It leaves when the loop is over, and not at all if the loop is dead.
        ASSIGN_OR_RETURN(Node * out,
                         AddPart(node, "Identity", absl::StrCat("_exit_", i), {values[i].value}, {driver->exit}));
        expansion.outputs.push_back(Output(out));
        continue;
      }
      // The next iteration begins when the effects of this one are there.
      ASSIGN_OR_RETURN(Node * next, AddPart(node, "NextIteration", absl::StrCat("_next_", i), {round.results[i]},
                                            &v == driver ? round.effects.nodes() : std::vector<Node*>{}));
      v.merge->set_input(1, Output(next));
      expansion.outputs.push_back(Output(v.exit));
    }
    if (has_token) expansion.outputs.clear();
    expansion.done = driver->exit;
    expansions_[call.node] = std::move(expansion);
    return absl::OkStatus();
  }

  absl::StatusOr<FunctionBody> InstantiateFunction(const NameAttrList& function, const std::string& prefix) {
    const auto it = functions_.find(function.name());
    if (it == functions_.end()) return NotFound("Function ", function.name(), " is not defined.");
    return Instantiate(*it->second, function.attr(), scratch_, prefix);
  }

  // Types of what goes in and comes out. `outputs` is empty where the caller
  // takes what there is.
  static absl::Status CheckTypes(const FunctionBody& body, const std::string& name, const std::vector<Arg>& args,
                                 const std::vector<DType>& outputs) {
    if (body.arg_types.size() != args.size()) {
      return InvalidArgument("function '", name, "' takes ", body.arg_types.size(), " arguments, got ", args.size());
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (RemoveRef(args[i].value.dtype()) != body.arg_types[i]) {
        return InvalidArgument("argument ", i, " of function '", name, "' is of type ", body.arg_types[i], ", got ",
                               args[i].value.dtype());
      }
    }
    if (outputs.empty()) return absl::OkStatus();
    if (body.result_types.size() != outputs.size()) {
      return InvalidArgument("function '", name, "' returns ", body.result_types.size(), " values, expected ",
                             outputs.size());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (body.result_types[i] != outputs[i]) {
        return InvalidArgument("result ", i, " of function '", name, "' is of type ", body.result_types[i],
                               ", expected ", outputs[i]);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckRecursion(const Call& call, const std::string& function) {
    for (const Callers* c = call.callers.get(); c != nullptr; c = c->outer.get()) {
      if (c->function != function) continue;
      std::string circle = function;
      for (const Callers* d = call.callers.get(); d != c; d = d->outer.get()) {
        circle = absl::StrCat(d->function, " -> ", circle);
      }
      return Unimplemented("functions call each other in a circle: ", function, " -> ", circle);
    }
    return absl::OkStatus();
  }

  // Adds the nodes of a function that `call` calls. Those that nothing else
  // holds back wait for `pivot`, if there is one.
  absl::StatusOr<Body> AddBody(const Call& call, const NameAttrList& function, absl::string_view part,
                               const std::vector<Arg>& args, Node* pivot, const std::vector<DType>& output_types) {
    RETURN_IF_ERROR(CheckRecursion(call, function.name()));
    ASSIGN_OR_RETURN(const FunctionBody made,
                     InstantiateFunction(function, absl::StrCat(call.node->name(), "/", part, "/")));
    RETURN_IF_ERROR(CheckTypes(made, function.name(), args, output_types));
    RETURN_IF_ERROR(CheckSize(made.def.node_size()));
    RETURN_IF_ERROR(Append(scratch_.Import(made.def), absl::StrCat("; in function '", function.name(), "'")));
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(scratch_));
    ASSIGN_OR_RETURN(const Frames frames, FindFrames(scratch_, order));
    const std::vector<bool> after_control_flow = AfterControlFlow(scratch_, order);

    absl::flat_hash_map<const Node*, const Arg*> arg_of;
    for (size_t i = 0; i < args.size(); ++i) arg_of[scratch_.FindNode(made.args[i])] = &args[i];
    const std::vector<Node*> copies = CopyNeeded(made, arg_of);
    const auto callers = std::make_shared<const Callers>(Callers{function.name(), call.callers});
    for (const auto& node : scratch_.nodes()) {
      if (Node* copy = copies[node->id()]) {
        Connect(*node, copy, copies, arg_of, pivot);
        RETURN_IF_ERROR(SetDevice(*call.node, copy));
        if (IsCall(*copy)) {
          // What is inside finds its frame, and whether it is dead, through this.
          if (pivot != nullptr && frames.of_node[node->id()] == 0) copy->AddControlInput(pivot);
          calls_.push_back({copy, after_control_flow[node->id()], callers});
        }
      }
    }
    ASSIGN_OR_RETURN(Body body, FindEnds(made, frames, copies));
    for (size_t i = 0; i < made.results.size(); ++i) {
      ASSIGN_OR_RETURN(const Output result, scratch_.FindOutput(made.results[i]));
      const auto arg = arg_of.find(result.node);
      if (arg == arg_of.end()) {
        body.results.push_back(Output(copies[result.node->id()], result.index));
      } else if (pivot == nullptr || arg->second->guarded) {
        body.results.push_back(arg->second->value);
      } else {
        ASSIGN_OR_RETURN(Node * out, AddPart(*call.node, "Identity", absl::StrCat(part, "/_result_", i),
                                             {arg->second->value}, {pivot}));
        body.results.push_back(Output(out));
      }
    }
    scratch_.Retain(std::vector<bool>(scratch_.num_nodes(), false));
    return body;
  }

  // Copies, by id in the scratch graph, of the nodes that results and effects
  // need.
  std::vector<Node*> CopyNeeded(const FunctionBody& made, const absl::flat_hash_map<const Node*, const Arg*>& arg_of) {
    std::vector<Node*> copies(scratch_.num_nodes(), nullptr);
    std::vector<bool> needed(scratch_.num_nodes(), false);
    std::vector<Node*> stack;
    const auto need = [&](Node* node) {
      if (needed[node->id()] || arg_of.contains(node)) return;
      needed[node->id()] = true;
      stack.push_back(node);
    };
    for (const std::string& result : made.results) need(scratch_.FindOutput(result)->node);
    for (const std::string& effect : made.effects) need(scratch_.FindNode(effect));
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      for (const Output& input : node->inputs()) need(input.node);
      for (Node* control : node->control_inputs()) need(control);
    }
    for (const auto& node : scratch_.nodes()) {
      if (needed[node->id()]) copies[node->id()] = graph_.AddCopy(*node);
    }
    return copies;
  }

  static void Connect(const Node& node, Node* copy, const std::vector<Node*>& copies,
                      const absl::flat_hash_map<const Node*, const Arg*>& arg_of, Node* pivot) {
    bool guarded = false;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output& input = node.input(i);
      const auto arg = arg_of.find(input.node);
      guarded = guarded || arg == arg_of.end() || arg->second->guarded;
      copy->set_input(i, arg == arg_of.end() ? Output(copies[input.node->id()], input.index) : arg->second->value);
    }
    std::vector<Node*> controls;
    for (const Node* control : node.control_inputs()) {
      if (Node* other = copies[control->id()]) controls.push_back(other);
    }
    if (pivot != nullptr && !guarded && controls.empty()) controls.push_back(pivot);
    copy->set_control_inputs(std::move(controls));
  }

  static absl::Status SetDevice(const Node& call, Node* node) {
    if (call.device().empty()) return absl::OkStatus();
    if (node->device().empty()) {
      node->set_device(call.device());
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const DeviceName outer, DeviceName::Parse(call.device()));
    ASSIGN_OR_RETURN(const DeviceName inner, DeviceName::Parse(node->device()));
    node->set_device(outer.MergedWith(inner).ToString());
    return absl::OkStatus();
  }

  // A body is done when its effects and its results are there. What lies in a
  // loop of the body cannot be waited for from outside, and need not: the
  // results come out of it, or other effects do.
  absl::StatusOr<Body> FindEnds(const FunctionBody& made, const Frames& frames, const std::vector<Node*>& copies) {
    Body body;
    const auto add = [&](const Node& node, NodeList* list) {
      Node* copy = copies[node.id()];
      if (copy != nullptr && frames.of_outputs[node.id()] == 0) list->Add(copy);
    };
    for (const std::string& effect : made.effects) {
      const Node& node = *scratch_.FindNode(effect);
      add(node, &body.effects);
      add(node, &body.ends);
      if (Node* copy = copies[node.id()]; copy != nullptr && !IsCall(*copy)) targets_.push_back(copy->name());
    }
    for (const std::string& result : made.results) {
      ASSIGN_OR_RETURN(const Output output, scratch_.FindOutput(result));
      add(*output.node, &body.ends);
    }
    return body;
  }

  // Follows outputs of calls to the nodes that make them.
  Output Resolve(Output output) const {
    for (auto it = expansions_.find(output.node); it != expansions_.end(); it = expansions_.find(output.node)) {
      output = it->second.outputs[output.index];
    }
    return output;
  }
  Node* ResolveControl(Node* node) const {
    for (auto it = expansions_.find(node); it != expansions_.end(); it = expansions_.find(node)) {
      node = it->second.done;
    }
    return node;
  }

  void Rewire() {
    for (const auto& node : graph_.nodes()) {
      bool moved = false;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output input = Resolve(node->input(i));
        moved = moved || input.node != node->input(i).node;
        node->set_input(i, input);
      }
      NodeList controls;
      for (Node* control : node->control_inputs()) controls.Add(ResolveControl(control));
      node->set_control_inputs(controls.nodes());
      // A value is fetched where it is.
      if (moved && node->op() == "_Retval") {
        SetAttr(node->mutable_def(), "_class",
                std::vector<std::string>{absl::StrCat("loc:@", node->input(0).node->name())});
      }
    }
  }

  Graph& graph_;
  std::vector<std::string>& targets_;
  const int max_nodes_;
  absl::flat_hash_map<std::string, const FunctionDef*> functions_;
  Graph scratch_;  // where a body is read before its nodes are copied
  std::vector<Call> calls_;
  absl::flat_hash_map<const Node*, Expansion> expansions_;
};

}  // namespace

absl::Status InlineFunctions(Graph& graph, std::vector<std::string>* targets, int max_nodes) {
  return Inlining(graph, targets, max_nodes).Run();
}

}  // namespace thalweg
