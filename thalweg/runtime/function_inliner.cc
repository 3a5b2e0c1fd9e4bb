// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/function_inliner.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/graph/unusable_node.h"

namespace thalweg {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NameAttrList;
using tensorflow::NodeDef;

// By id: whether a node depends on a Switch or Enter.
std::vector<bool> AfterControlFlow(const Graph& graph, const std::vector<Node*>& order) {
  std::vector<bool> after(graph.num_nodes(), false);
  for (const Node* node : order) {
    bool is_after = IsSwitch(*node) || IsEnter(*node);
    for (const Output& input : node->inputs()) is_after = is_after || after[input.node->id()];
    for (const Node* control : node->control_inputs()) is_after = is_after || after[control->id()];
    after[node->id()] = is_after;
  }
  return after;
}

// Checks the types of arguments and results. An empty `outputs` accepts any results.
absl::Status CheckTypes(const FunctionBody& body, const std::string& name, const std::vector<BodyArg>& args,
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
      return InvalidArgument("result ", i, " of function '", name, "' is of type ", body.result_types[i], ", expected ",
                             outputs[i]);
    }
  }
  return absl::OkStatus();
}

// Connects the copy of a body's node: arguments are replaced by their values, other inputs by copies. A node
// that depends on no guarded value gets a control input from the pivot.
void Connect(const Node& node, Node* copy, const std::vector<Node*>& copies,
             const absl::flat_hash_map<const Node*, const BodyArg*>& arg_of, Node* pivot) {
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

// The node's own device request, completed by that of the call.
absl::Status SetDevice(const Node& call, Node* node) {
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

}  // namespace

absl::StatusOr<std::shared_ptr<const Callers>> CallersIn(const std::string& function,
                                                         std::shared_ptr<const Callers> outer, bool for_gradient) {
  // Depth is limited because node names grow with it. Building a gradient copies the library, hence the
  // second limit.
  constexpr int kMaxDepth = 1000;
  constexpr int kMaxGradients = 32;
  for (const Callers* c = outer.get(); c != nullptr; c = c->outer.get()) {
    if (c->function != function) continue;
    std::string circle = function;
    for (const Callers* d = outer.get(); d != c; d = d->outer.get()) circle = absl::StrCat(d->function, " -> ", circle);
    return Unimplemented("functions call each other in a circle: ", function, " -> ", circle);
  }
  Callers callers{function, outer, 1, for_gradient ? 1 : 0};
  if (outer != nullptr) {
    callers.depth += outer->depth;
    callers.gradients += outer->gradients;
  }
  if (callers.depth > kMaxDepth) {
    return ResourceExhausted("calls of functions are nested more than ", kMaxDepth, " deep, at '", function, "'");
  }
  if (callers.gradients > kMaxGradients) {
    return ResourceExhausted("gradients of functions are nested more than ", kMaxGradients, " deep, at '", function,
                             "'");
  }
  return std::make_shared<const Callers>(std::move(callers));
}

bool IsCallOp(absl::string_view op) {
  static const auto* const kOps = new absl::flat_hash_set<std::string>{"PartitionedCall",
                                                                       "StatefulPartitionedCall",
                                                                       "If",
                                                                       "StatelessIf",
                                                                       "Case",
                                                                       "StatelessCase",
                                                                       "While",
                                                                       "StatelessWhile",
                                                                       "For",
                                                                       "RemoteCall",
                                                                       "SymbolicGradient"};
  return kOps->contains(op);
}

FunctionInliner::FunctionInliner(Graph& graph, std::vector<std::string>* targets, const InlineLimits& limits,
                                 std::shared_ptr<const Callers> callers)
    : graph_(graph), targets_(*targets), limits_(limits), callers_(std::move(callers)) {
  for (const FunctionDef& function : graph.library().function()) functions_[function.signature().name()] = &function;
}

absl::Status FunctionInliner::Start() {
  for (const auto& node : graph_.nodes()) {
    if (IsCall(*node)) calls_.push_back({node.get(), false, callers_});
  }
  if (calls_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
  const std::vector<bool> after_control_flow = AfterControlFlow(graph_, order);
  for (FunctionCall& call : calls_) call.by_input = after_control_flow[call.node->id()];
  return scratch_.AddFunctions(graph_.library());
}

bool FunctionInliner::IsCall(const Node& node) const { return IsCallOp(node.op()) || functions_.contains(node.op()); }

absl::Status FunctionInliner::AddFunction(FunctionDef function) {
  tensorflow::FunctionDefLibrary library;
  *library.add_function() = function;
  RETURN_IF_ERROR(scratch_.AddFunctions(library));
  added_.push_back(std::make_unique<const FunctionDef>(std::move(function)));
  functions_[added_.back()->signature().name()] = added_.back().get();
  return absl::OkStatus();
}

absl::Status FunctionInliner::CheckSize(int more) const {
  if (graph_.num_nodes() + more <= limits_.max_nodes) return absl::OkStatus();
  return ResourceExhausted("with the bodies of its functions, the graph has more than ", limits_.max_nodes, " nodes");
}

absl::StatusOr<FunctionBody> FunctionInliner::Instantiate(const NameAttrList& function,
                                                          const std::string& prefix) const {
  const auto it = functions_.find(function.name());
  if (it == functions_.end()) return NotFound("Function ", function.name(), " is not defined.");
  return thalweg::Instantiate(*it->second, function.attr(), scratch_, prefix);
}

absl::StatusOr<InlinedBody> FunctionInliner::Add(const FunctionCall& call, const NameAttrList& function,
                                                 absl::string_view part, const std::vector<BodyArg>& args, Node* pivot,
                                                 const std::vector<DType>& output_types) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Callers> callers, CallersIn(function.name(), call.callers));
  ASSIGN_OR_RETURN(const FunctionBody made, Instantiate(function, absl::StrCat(call.node->name(), "/", part, "/")));
  RETURN_IF_ERROR(CheckTypes(made, function.name(), args, output_types));
  RETURN_IF_ERROR(CheckSize(made.def.node_size()));
  bytes_ += static_cast<int64_t>(made.def.ByteSizeLong());
  if (bytes_ > limits_.max_bytes) {
    return ResourceExhausted("the bodies of the graph's functions have more than ", limits_.max_bytes, " bytes");
  }
  RETURN_IF_ERROR(Append(scratch_.Import(made.def), absl::StrCat("; in function '", function.name(), "'")));
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(scratch_));
  ASSIGN_OR_RETURN(const Frames frames, FindFrames(scratch_, order));
  const std::vector<bool> after_control_flow = AfterControlFlow(scratch_, order);

  ArgMap arg_of;
  for (size_t i = 0; i < args.size(); ++i) arg_of[scratch_.FindNode(made.args[i])] = &args[i];
  ASSIGN_OR_RETURN(const std::vector<Node*> copies, CopyNeeded(made, arg_of));
  for (const auto& node : scratch_.nodes()) {
    if (Node* copy = copies[node->id()]) {
      if (HasShapeError(*node))
        return Append(WhyUnusable(*node), absl::StrCat("; in function '", function.name(), "'"));
      Connect(*node, copy, copies, arg_of, pivot);
      RETURN_IF_ERROR(SetDevice(*call.node, copy));
      if (IsCall(*copy)) {
        // The pivot gives nodes without other inputs their frame and their deadness.
        if (pivot != nullptr && frames.of_node[node->id()] == 0) copy->AddControlInput(pivot);
        calls_.push_back({copy, after_control_flow[node->id()], callers});
      }
    }
  }
  ASSIGN_OR_RETURN(InlinedBody body, FindEnds(made, frames, copies));
  for (size_t i = 0; i < made.results.size(); ++i) {
    ASSIGN_OR_RETURN(const Output result, scratch_.FindOutput(made.results[i]));
    const auto arg = arg_of.find(result.node);
    if (arg == arg_of.end()) {
      body.results.push_back(Output(copies[result.node->id()], result.index));
    } else if (pivot == nullptr || arg->second->guarded) {
      body.results.push_back(arg->second->value);
    } else {
      ASSIGN_OR_RETURN(const Output out, Guard(*call.node, absl::StrCat(call.node->name(), "/", part, "/_result_", i),
                                               arg->second->value, pivot));
      body.results.push_back(out);
    }
  }
  scratch_.Retain(std::vector<bool>(scratch_.num_nodes(), false));  // empties it for the next body
  return body;
}

// Guards an argument that the body returns unchanged: the result must be dead or delayed when the body is.
absl::StatusOr<Output> FunctionInliner::Guard(const Node& call, const std::string& name, Output value, Node* pivot) {
  RETURN_IF_ERROR(CheckSize(1));
  NodeDef def;
  def.set_name(name);
  def.set_op("Identity");
  def.set_device(call.device());
  SetAttr(def, "T", RemoveRef(value.dtype()));
  ASSIGN_OR_RETURN(Node * identity, graph_.AddNode(std::move(def), {value}, {pivot}));
  return Output(identity);
}

// Copies the nodes that results and effects need. The result is indexed by node id in the scratch graph.
// Fails if the graph already has a node with one of the names.
absl::StatusOr<std::vector<Node*>> FunctionInliner::CopyNeeded(const FunctionBody& made, const ArgMap& arg_of) {
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
    if (!needed[node->id()]) continue;
    if (graph_.FindNode(node->name()) != nullptr) {
      return InvalidArgument("a node of a function that is called would have the name of another: '", node->name(),
                             "'");
    }
    copies[node->id()] = graph_.AddCopy(*node);
  }
  return copies;
}

// Finds the nodes after which the body is done: its effects and its results. Nodes inside a loop of the body
// cannot be waited for from outside. They need not be: the loop's results or effects depend on them.
absl::StatusOr<InlinedBody> FunctionInliner::FindEnds(const FunctionBody& made, const Frames& frames,
                                                      const std::vector<Node*>& copies) {
  InlinedBody body;
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

}  // namespace thalweg
