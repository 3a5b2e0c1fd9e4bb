// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/synthesized_functions.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/unusable_node.h"
#include "thalweg/runtime/function_body.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NameAttrList;
using tensorflow::NodeDef;

// "node:output:index", as functions name tensors.
std::string TensorName(const Output& output) {
  const Node& node = *output.node;
  const absl::StatusOr<NodeTypes> types = ComputeTypes(node.schema()->def, node.def());
  int arg = 0;
  while (types->output_starts[arg + 1] <= output.index) ++arg;
  return absl::StrCat(node.name(), ":", node.schema()->def.output_arg(arg).name(), ":",
                      output.index - types->output_starts[arg]);
}

// The function from `args`, which are nodes _Arg, to `results`.
FunctionDef ToFunction(const Graph& graph, const std::string& name, const std::vector<Output>& args,
                       const std::vector<Output>& results) {
  FunctionDef function;
  function.mutable_signature()->set_name(name);
  absl::flat_hash_map<const Node*, std::string> arg_names;
  for (const Output& arg : args) {
    auto* const def = function.mutable_signature()->add_input_arg();
    def->set_name(absl::StrCat("arg_", arg_names.size()));
    def->set_type(static_cast<tensorflow::DataType>(arg.dtype()));
    arg_names[arg.node] = def->name();
  }
  const auto tensor_name = [&](const Output& output) {
    const auto it = arg_names.find(output.node);
    return it == arg_names.end() ? TensorName(output) : it->second;
  };
  for (const auto& node : graph.nodes()) {
    if (node->op() == "_Arg" || node->op() == "_Retval") continue;
    NodeDef* const def = function.add_node_def();
    *def = node->def();
    def->clear_input();
    for (const Output& input : node->inputs()) def->add_input(tensor_name(input));
    for (const Node* control : node->control_inputs()) {
      if (!arg_names.contains(control)) def->add_input(absl::StrCat("^", control->name()));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    auto* const def = function.mutable_signature()->add_output_arg();
    def->set_name(absl::StrCat("result_", i));
    def->set_type(static_cast<tensorflow::DataType>(RemoveRef(results[i].dtype())));
    (*function.mutable_ret())[def->name()] = tensor_name(results[i]);
  }
  return function;
}

Output AddArg(const Scope& s, DType type) { return s.Add("_Arg", {}, {{"T", type}, {"index", 0}}); }

std::vector<Output> AddArgs(const Scope& s, const std::vector<DType>& types) {
  std::vector<Output> args;
  for (const DType type : types) args.push_back(AddArg(s, type));
  return args;
}

// k, n, start and delta, then the loop's own variables.
std::vector<Output> ForArgs(const Scope& s, const std::vector<DType>& types) {
  std::vector<Output> args = AddArgs(s, {kInt32, kInt32, kInt32, kInt32});
  for (const Output& arg : AddArgs(s, types)) args.push_back(arg);
  return args;
}

const FunctionDef* Find(const Graph& library, const std::string& name) {
  for (const FunctionDef& function : library.library().function()) {
    if (function.signature().name() == name) return &function;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<FunctionDef> GradientFunction(const Graph& library, const NameAttrList& f, const std::string& name,
                                             std::shared_ptr<const Callers> callers) {
  const FunctionDef* const function = Find(library, f.name());
  if (function == nullptr) return NotFound("Function ", f.name(), " is not defined.");
  ASSIGN_OR_RETURN(const FunctionBody body, Instantiate(*function, f.attr(), library, ""));
  Graph graph;
  RETURN_IF_ERROR(graph.AddFunctions(library.library()));
  RETURN_IF_ERROR(graph.Import(body.def));
  RETURN_IF_ERROR(CheckShapes(graph));
  const Scope s = graph.root();
  std::vector<Node*> results;  // nodes that remain when the calls in the body are inlined
  for (const std::string& result : body.results) {
    ASSIGN_OR_RETURN(const Output y, graph.FindOutput(result));
    results.push_back(s.Add("_Retval", {y}, {{"index", 0}}));
  }
  RETURN_IF_ERROR(s.status());
  std::vector<std::string> targets;
  RETURN_IF_ERROR(InlineCalls(graph, &targets, {}, std::move(callers)));
  std::vector<Output> ys, xs;
  for (const Node* result : results) ys.push_back(result->input(0));
  for (const std::string& arg : body.args) xs.push_back(Output(graph.FindNode(arg)));
  const std::vector<Output> dys = AddArgs(s, body.result_types);
  const std::vector<Gradient> gradients = Gradients(s, ys, xs, dys);
  std::vector<Output> dxs;
  for (size_t i = 0; i < xs.size(); ++i) {
    dxs.push_back(s.ok() && gradients[i] ? ToDense(s, gradients[i]) : Output(s.Add("ZerosLike", {xs[i]})));
  }
  RETURN_IF_ERROR(Append(s.status(), absl::StrCat("; in the gradient of function '", f.name(), "'")));
  std::vector<Output> args = xs;
  args.insert(args.end(), dys.begin(), dys.end());
  return ToFunction(graph, name, args, dxs);
}

absl::StatusOr<FunctionDef> ForCondition(const std::vector<DType>& types, const std::string& name) {
  Graph graph;
  const Scope s = graph.root();
  const std::vector<Output> args = ForArgs(s, types);
  const Output more = s.Add("Less", {args[0], args[1]});
  RETURN_IF_ERROR(s.status());
  return ToFunction(graph, name, args, {more});
}

absl::StatusOr<FunctionDef> ForBody(const Graph& library, const NameAttrList& f, const std::vector<DType>& types,
                                    const std::string& name) {
  Graph graph;
  RETURN_IF_ERROR(graph.AddFunctions(library.library()));
  const Scope s = graph.root();
  std::vector<Output> args = ForArgs(s, types);
  const Output one = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(1)}});
  const Output next = s.Add("AddV2", {args[0], one});
  const Output offset = s.Add("Mul", {args[0], args[3]});
  const Output i = s.Add("AddV2", {args[2], offset});
  RETURN_IF_ERROR(s.status());
  NodeDef call;
  call.set_name("body");
  call.set_op(f.name());
  *call.mutable_attr() = f.attr();
  std::vector<Output> inputs{i};
  inputs.insert(inputs.end(), args.begin() + 4, args.end());
  ASSIGN_OR_RETURN(Node * round, graph.AddNode(std::move(call), std::move(inputs), {}));
  if (round->num_outputs() != static_cast<int>(types.size())) {
    return InvalidArgument("For loop body returned ", round->num_outputs(), " arguments. Expected: ", types.size(),
                           "; function '", f.name(), "'");
  }
  std::vector<Output> results{next, args[1], args[2], args[3]};
  for (size_t k = 0; k < types.size(); ++k) results.push_back(round->out(static_cast<int>(k)));
  return ToFunction(graph, name, args, results);
}

}  // namespace thalweg
