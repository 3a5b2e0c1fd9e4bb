// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/functions.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/runtime/embedded_functions.h"
#include "thalweg/runtime/function_inliner.h"
#include "thalweg/runtime/synthesized_functions.h"

namespace thalweg {
namespace {

using tensorflow::NameAttrList;
using tensorflow::NodeDef;

constexpr char kMissingArgument[] = "thalweg/missing_argument";

class Inlining {
 public:
  Inlining(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits,
           std::shared_ptr<const Callers> callers)
      : graph_(graph), bodies_(graph, targets, limits, std::move(callers)) {}

  absl::Status Run() {
    RETURN_IF_ERROR(bodies_.Start());
    const size_t num_outer = bodies_.calls().size();
    if (num_outer == 0) return absl::OkStatus();
    std::vector<std::pair<std::string, Node*>> outer;
    for (size_t i = 0; i < bodies_.calls().size(); ++i) {  // bodies add to the list
      const FunctionCall call = bodies_.calls()[i];
      const absl::Status status = Expand(call);
      if (!status.ok()) return Append(status, absl::StrCat("; in the call '", call.node->name(), "'"));
      if (i < num_outer) outer.emplace_back(call.node->name(), expansions_.at(call.node).done);
    }
    Rewire();
    for (auto& [name, done] : outer) done = ResolveControl(done);
    std::vector<bool> keep(graph_.num_nodes(), true);
    for (const FunctionCall& call : bodies_.calls()) keep[call.node->id()] = false;
    graph_.Retain(keep);
    for (auto& [name, done] : outer) {
      RETURN_IF_ERROR(Add("NoOp", name, done->device(), {}, {done}).status());
    }
    return absl::OkStatus();
  }

 private:
  // The nodes that replace a call. Its outputs may be outputs of other calls.
  struct Expansion {
    std::vector<Output> outputs;
    Node* done = nullptr;  // runs when everything of the call has
  };

  absl::Status Expand(const FunctionCall& call) {
    const std::string& op = call.node->op();
    if (op == "If" || op == "StatelessIf") return ExpandIf(call);
    if (op == "Case" || op == "StatelessCase") return ExpandCase(call);
    if (op == "While" || op == "StatelessWhile") return ExpandWhile(call);
    if (op == "PartitionedCall" || op == "StatefulPartitionedCall") {
      ASSIGN_OR_RETURN(const NameAttrList function, GetAttr<NameAttrList>(call.node->def(), "f"));
      return ExpandCall(call, function);
    }
    if (op == "RemoteCall") return ExpandRemoteCall(call);
    if (op == "SymbolicGradient") return ExpandGradient(call);
    if (op == "For") return ExpandFor(call);
    NameAttrList function;
    function.set_name(op);
    *function.mutable_attr() = call.node->def().attr();
    return ExpandCall(call, function);
  }

  absl::StatusOr<Node*> Add(absl::string_view op, const std::string& name, const std::string& device,
                            std::vector<Output> inputs, std::vector<Node*> controls, std::vector<AttrArg> attrs = {}) {
    RETURN_IF_ERROR(bodies_.CheckSize(1));
    NodeDef def;
    def.set_name(name);
    def.set_op(std::string(op));
    def.set_device(device);
    for (AttrArg& attr : attrs) (*def.mutable_attr())[attr.name] = std::move(attr.mutable_value());
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
  absl::StatusOr<std::vector<BodyArg>> Args(const Node& call, int first) {
    std::vector<BodyArg> args;
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

  absl::Status ExpandCall(const FunctionCall& call, const NameAttrList& function, int first_arg = 0) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const std::vector<BodyArg> args, Args(node, first_arg));
    Node* start = nullptr;
    if (call.by_input && !args.empty()) {
      ASSIGN_OR_RETURN(start, AddPart(node, "Identity", "_start", {args[0].value}, node.control_inputs()));
    } else if (!node.control_inputs().empty()) {
      ASSIGN_OR_RETURN(start, AddPart(node, "NoOp", "_start", {}, node.control_inputs()));
    }
    ASSIGN_OR_RETURN(InlinedBody body, bodies_.Add(call, function, "_call", args, start, node.output_types()));
    if (start != nullptr) body.ends.Add(start);
    ASSIGN_OR_RETURN(Node * done, AddPart(node, "NoOp", "_done", {}, body.ends.nodes()));
    expansions_[call.node] = {std::move(body.results), done};
    return absl::OkStatus();
  }

  // A call whose body is on another device. Which one must be known before the
  // step is placed.
  absl::Status ExpandRemoteCall(const FunctionCall& call) {
    const Node& target = *call.node->input(0).node;
    if (target.op() != "Const") {
      absl::Status status =
          Unimplemented("a RemoteCall to a device that is not a constant but the value of '", target.name(), "'");
      if (target.op() == "_Arg") {
        ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(target.def(), "index"));
        status.SetPayload(kMissingArgument, absl::Cord(absl::StrCat(index)));
      }
      return status;
    }
    ASSIGN_OR_RETURN(const NameAttrList function, GetAttr<NameAttrList>(call.node->def(), "f"));
    ASSIGN_OR_RETURN(const Tensor text, GetAttr<Tensor>(target.def(), "value"));
    if (text.num_elements() != 1) return InvalidArgument("the target of a RemoteCall has shape ", text.shape());
    ASSIGN_OR_RETURN(const DeviceName device, DeviceName::Parse(text.scalar<std::string>()));
    call.node->set_device(device.ToString());
    return ExpandCall(call, function, 1);
  }

  // The function that the library names as the gradient, or one made for it.
  absl::Status ExpandGradient(const FunctionCall& call) {
    ASSIGN_OR_RETURN(NameAttrList function, GetAttr<NameAttrList>(call.node->def(), "f"));
    for (const auto& gradient : graph_.library().gradient()) {
      if (gradient.function_name() != function.name()) continue;
      function.set_name(gradient.gradient_func());
      return ExpandCall(call, function);
    }
    const std::string name = absl::StrCat("_gradient_of_", function.name(), "_in_", call.node->name());
    ASSIGN_OR_RETURN(std::shared_ptr<const Callers> callers, CallersIn(function.name(), call.callers, true));
    ASSIGN_OR_RETURN(tensorflow::FunctionDef made,
                     GradientFunction(bodies_.library(), function, name, std::move(callers)));
    RETURN_IF_ERROR(bodies_.AddFunction(std::move(made)));
    NameAttrList gradient;
    gradient.set_name(name);
    return ExpandCall(call, gradient);
  }

  // INVALID_ARGUMENT if it is seen already that bounds are wrong; Range says so
  // of others when it runs.
  absl::Status CheckBounds(const Node& node) {
    int32_t values[3];
    int known = 0;
    for (int i = 0; i < 3; ++i) {
      const Output& input = node.input(i);
      const char* const names[] = {"start", "limit", "delta"};
      if (input.shape().has_rank() && input.shape().rank() != 0) {
        return InvalidArgument("For loop ", names[i], " must be a scalar, got shape ", input.shape());
      }
      if (input.node->op() != "Const") continue;
      ASSIGN_OR_RETURN(const Tensor value, GetAttr<Tensor>(input.node->def(), "value"));
      values[i] = value.scalar<int32_t>();
      ++known;
    }
    if (known < 3) return absl::OkStatus();
    const auto [start, limit, delta] = values;
    if ((delta > 0 && start <= limit) || (delta < 0 && start >= limit)) return absl::OkStatus();
    return InvalidArgument("Invalid start/limit/delta: ", start, " ", limit, " ", delta);
  }

  // A While that counts; Range says how far.
  absl::Status ExpandFor(const FunctionCall& call) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const NameAttrList body, GetAttr<NameAttrList>(node.def(), "body"));
    ASSIGN_OR_RETURN(std::vector<DType> types, GetAttr<std::vector<DType>>(node.def(), "T"));
    RETURN_IF_ERROR(CheckBounds(node));
    ASSIGN_OR_RETURN(const std::vector<BodyArg> args, Args(node, 0));
    NameAttrList cond_made, body_made;
    cond_made.set_name(absl::StrCat("_condition_of_", node.name()));
    body_made.set_name(absl::StrCat("_body_of_", node.name()));
    ASSIGN_OR_RETURN(tensorflow::FunctionDef condition, ForCondition(types, cond_made.name()));
    ASSIGN_OR_RETURN(tensorflow::FunctionDef round, ForBody(bodies_.library(), body, types, body_made.name()));
    RETURN_IF_ERROR(bodies_.AddFunction(std::move(condition)));
    RETURN_IF_ERROR(bodies_.AddFunction(std::move(round)));
    const auto add = [&](absl::string_view op, absl::string_view part, std::vector<Output> inputs,
                         std::vector<AttrArg> attrs) {
      return Add(op, absl::StrCat(node.name(), "/", part), node.device(), std::move(inputs), node.control_inputs(),
                 std::move(attrs));
    };
    const Output start = args[0].value, limit = args[1].value, delta = args[2].value;
    ASSIGN_OR_RETURN(Node * zero, add("ZerosLike", "_zero", {start}, {{"T", kInt32}}));
    ASSIGN_OR_RETURN(Node * range, add("Range", "_range", {start, limit, delta}, {{"Tidx", kInt32}}));
    ASSIGN_OR_RETURN(Node * count, add("Size", "_count", {Output(range)}, {{"T", kInt32}}));
    std::vector<Output> inputs{Output(zero), Output(count), start, delta};
    for (size_t i = 3; i < args.size(); ++i) inputs.push_back(args[i].value);
    types.insert(types.begin(), 4, kInt32);
    tensorflow::AttrValue cond_attr, body_attr;
    *cond_attr.mutable_func() = cond_made;
    *body_attr.mutable_func() = body_made;
    ASSIGN_OR_RETURN(Node * loop,
                     add("While", "_loop", inputs, {{"T", types}, {"cond", cond_attr}, {"body", body_attr}}));
    bodies_.AddCall({loop, call.by_input, call.callers});
    Expansion expansion{.outputs = {}, .done = loop};
    for (int i = 0; i < node.num_outputs(); ++i) expansion.outputs.push_back(Output(loop, 4 + i));
    expansions_[call.node] = std::move(expansion);
    return absl::OkStatus();
  }

  absl::Status ExpandIf(const FunctionCall& call) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const NameAttrList then_branch, GetAttr<NameAttrList>(node.def(), "then_branch"));
    ASSIGN_OR_RETURN(const NameAttrList else_branch, GetAttr<NameAttrList>(node.def(), "else_branch"));
    ASSIGN_OR_RETURN(Output condition, Value(node, 0));
    ASSIGN_OR_RETURN(condition, Truth(node, condition, node.control_inputs()));
    ASSIGN_OR_RETURN(Node * split, AddPart(node, "Switch", "_switch", {condition, condition}, node.control_inputs()));
    return AddBranches(call, split, {{"_else", else_branch}, {"_then", then_branch}});
  }

  absl::Status ExpandCase(const FunctionCall& call) {
    const Node& node = *call.node;
    const auto& functions = node.def().attr().at("branches").list().func();
    std::vector<std::pair<std::string, NameAttrList>> branches;
    for (const NameAttrList& f : functions) branches.emplace_back(absl::StrCat("_branch_", branches.size()), f);
    ASSIGN_OR_RETURN(const Output index, Value(node, 0));
    ASSIGN_OR_RETURN(Node * split, AddPart(node, "_SwitchN", "_switch", {index, index}, node.control_inputs(),
                                           {{"num_outs", static_cast<int64_t>(branches.size())}}));
    return AddBranches(call, split, branches);
  }

  // Adds a body for each output of `split`, of which one is alive. The arguments need no
  // Switch: the first nodes of a branch have a control input from its pivot, and are dead if
  // the pivot is.
  absl::Status AddBranches(const FunctionCall& call, Node* split,
                           const std::vector<std::pair<std::string, NameAttrList>>& branches) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const std::vector<BodyArg> args, Args(node, 1));
    std::vector<std::vector<Output>> results(node.num_outputs());
    std::vector<Output> ends;
    for (size_t b = 0; b < branches.size(); ++b) {
      const auto& [part, function] = branches[b];
      ASSIGN_OR_RETURN(Node * pivot, AddPart(node, "Identity", absl::StrCat(part, "/_pivot"),
                                             {Output(split, static_cast<int>(b))}, {}));
      ASSIGN_OR_RETURN(InlinedBody body, bodies_.Add(call, function, part, args, pivot, node.output_types()));
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

  // Finds the loop variables that the body does not change. One is always treated as changing,
  // because it drives the loop.
  absl::StatusOr<std::vector<LoopVariable>> FindVariables(const Node& node, const NameAttrList& body) {
    ASSIGN_OR_RETURN(const FunctionBody made, bodies_.Instantiate(body, absl::StrCat(node.name(), "/_body/")));
    std::vector<LoopVariable> variables(node.num_inputs());
    bool all_constant = true;
    for (size_t i = 0; i < variables.size() && i < made.results.size() && i < made.args.size(); ++i) {
      variables[i].is_constant = made.results[i] == absl::StrCat(made.args[i], ":0");
      all_constant = all_constant && variables[i].is_constant;
    }
    if (all_constant && !variables.empty()) variables[0].is_constant = false;
    return variables;
  }

  absl::Status ExpandWhile(const FunctionCall& call) {
    const Node& node = *call.node;
    ASSIGN_OR_RETURN(const NameAttrList cond, GetAttr<NameAttrList>(node.def(), "cond"));
    ASSIGN_OR_RETURN(const NameAttrList body, GetAttr<NameAttrList>(node.def(), "body"));
    ASSIGN_OR_RETURN(std::vector<LoopVariable> variables, FindVariables(node, body));
    ASSIGN_OR_RETURN(std::vector<BodyArg> values, Args(node, 0));
    // A loop without variables gets one that drives it.
    if (values.empty()) {
      ASSIGN_OR_RETURN(Node * token, AddPart(node, "Const", "_token", {}, node.control_inputs(),
                                             {{"dtype", kBool}, {"value", Tensor::Scalar<bool>(true)}}));
      values.push_back({Output(token), false});
      variables.resize(1);
    }
    const int count = static_cast<int>(variables.size());
    std::vector<BodyArg> at_cond, at_body;
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
      // The second input, the NextIteration, is set later.
      ASSIGN_OR_RETURN(v.merge, AddPart(node, "Merge", absl::StrCat("_merge_", i), {Output(v.enter), Output(v.enter)},
                                        {}, {{"N", 2}}));
      at_cond.push_back({Output(v.merge), true});
      if (driver == nullptr) driver = &v;
    }
    const bool has_token = node.num_inputs() == 0;
    if (has_token) at_cond.clear();
    ASSIGN_OR_RETURN(InlinedBody test, bodies_.Add(call, cond, "_cond", at_cond, driver->merge, {}));
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
    ASSIGN_OR_RETURN(InlinedBody round, bodies_.Add(call, body, "_body", at_body, pivot, node.output_types()));
    if (has_token) round.results.push_back(Output(pivot));
    Expansion expansion;
    for (int i = 0; i < count; ++i) {
      LoopVariable& v = variables[i];
      if (v.is_constant) {
        // The value leaves after the last iteration, and is dead if the loop is.
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
  FunctionInliner bodies_;
  absl::flat_hash_map<const Node*, Expansion> expansions_;
};

}  // namespace

std::optional<int> MissingArgument(const absl::Status& status) {
  const absl::optional<absl::Cord> text = status.GetPayload(kMissingArgument);
  int index;
  if (!text.has_value() || !absl::SimpleAtoi(std::string(*text), &index)) return std::nullopt;
  return index;
}

absl::Status InlineCalls(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits,
                         std::shared_ptr<const Callers> callers) {
  return Inlining(graph, targets, limits, std::move(callers)).Run();
}

absl::Status InlineFunctions(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits) {
  RETURN_IF_ERROR(InlineCalls(graph, targets, limits));
  return EmbedFunctions(graph, limits.max_carried_bytes);
}

}  // namespace thalweg
