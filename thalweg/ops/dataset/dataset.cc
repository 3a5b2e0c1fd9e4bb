#include "thalweg/ops/dataset/dataset.h"

#include "thalweg/base/status.h"
#include "thalweg/kernel/evaluate.h"

namespace thalweg {

absl::StatusOr<std::shared_ptr<const Dataset>> DatasetIn(const Tensor& tensor) {
  if (tensor.dtype() != kVariant || tensor.rank() != 0) {
    return InvalidArgument("Dataset tensor must be a scalar of dtype DT_VARIANT.");
  }
  auto dataset = std::dynamic_pointer_cast<const Dataset>(tensor.scalar<Variant>().shared());
  if (dataset == nullptr) return InvalidArgument("Tensor must be a Dataset object.");
  return dataset;
}

Tensor TensorOf(std::shared_ptr<const Dataset> dataset) { return Tensor::Scalar(Variant(std::move(dataset))); }

absl::Status SetDataset(KernelContext& c, int64_t cardinality, Dataset::Start start) {
  c.set_output(0, TensorOf(std::make_shared<const Dataset>(c.node().op(), cardinality, std::move(start))));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> IntArgument(KernelContext& c, int i, absl::string_view name) {
  const Tensor& t = c.input(i);
  if (t.num_elements() != 1 || t.rank() != 0) return InvalidArgument(name, " must be a scalar");
  return t.dtype() == kInt32 ? t.scalar<int32_t>() : t.scalar<int64_t>();
}

absl::StatusOr<std::string> StringArgument(KernelContext& c, int i, absl::string_view name) {
  const Tensor& t = c.input(i);
  if (t.num_elements() != 1 || t.rank() != 0) return InvalidArgument(name, " must be a scalar");
  return t.scalar<std::string>();
}

absl::StatusOr<std::shared_ptr<const CarriedFunction>> CarriedFunction::Read(const tensorflow::NodeDef& node,
                                                                             absl::string_view attr) {
  const std::string body_attr = absl::StrCat("_graph_of_", attr);
  if (!HasAttr(node, body_attr)) return NotFound("there is no body for the function of attr '", attr, "'");
  ASSIGN_OR_RETURN(const std::string bytes, GetAttr<std::string>(node, body_attr));
  tensorflow::GraphDef def;
  if (!def.ParseFromString(bytes)) return InvalidArgument("attr '", body_attr, "' is no GraphDef");
  auto function = std::make_shared<CarriedFunction>();
  RETURN_IF_ERROR(function->graph_.Import(def));
  std::vector<Node*> stack;
  for (const auto& n : function->graph_.nodes()) {
    if (IsEnter(*n) || IsNextIteration(*n) || IsExit(*n))
      return Unimplemented("a loop in a function that a dataset calls: '", n->name(), "'");
    const bool is_arg = n->op() == "_Arg", is_result = n->op() == "_Retval";
    if (n->name() == "_effects") stack.push_back(n.get());
    if (!is_arg && !is_result) continue;
    ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(n->def(), "index"));
    const size_t count = static_cast<size_t>(function->graph_.num_nodes());
    if (index < 0 || index >= static_cast<int64_t>(count)) return InvalidArgument("argument number ", index);
    if (is_arg) {
      function->args_.resize(std::max<size_t>(function->args_.size(), index + 1));
      if (function->args_[index] != nullptr) return InvalidArgument("two arguments have the number ", index);
      function->args_[index] = n.get();
    } else {
      function->results_.resize(std::max<size_t>(function->results_.size(), index + 1));
      function->results_[index] = n->input(0);
      stack.push_back(n->input(0).node);
    }
  }
  std::vector<bool> needed(function->graph_.num_nodes(), false);
  while (!stack.empty()) {
    Node* const n = stack.back();
    stack.pop_back();
    if (needed[n->id()]) continue;
    needed[n->id()] = true;
    for (const Output& input : n->inputs()) stack.push_back(input.node);
    stack.insert(stack.end(), n->control_inputs().begin(), n->control_inputs().end());
  }
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(function->graph_));
  for (Node* n : order) {
    if (needed[n->id()] && n->op() != "_Arg") function->order_.push_back(n);
  }
  return function;
}

// One node after the other over a table of slots. A node with a dead input is
// dead, but for Merge, whose kernel chooses.
class CarriedCall {
 public:
  CarriedCall(std::shared_ptr<const CarriedFunction> function, Device& device)
      : function_(std::move(function)), device_(device) {
    first_slot_.resize(function_->graph_.num_nodes());
    int slots = 0;
    for (const auto& node : function_->graph_.nodes()) {
      first_slot_[node->id()] = slots;
      slots += node->num_outputs();
    }
    slots_.resize(slots);
    dead_.resize(function_->graph_.num_nodes());
  }

  absl::Status Init() {
    for (const Node* node : function_->order_) {
      Instruction instruction{.node = node};
      ASSIGN_OR_RETURN(instruction.kernel, KernelRegistry::Global().Make(*node, device_));
      if (instruction.kernel->is_async()) {
        return Unimplemented("an op that waits in a function that a dataset calls: '", node->name(), "'");
      }
      for (const Output& input : node->inputs()) {
        instruction.inputs.push_back(first_slot_[input.node->id()] + input.index);
      }
      instructions_.push_back(std::move(instruction));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Element> Run(Iteration& iteration, Element args) {
    if (args.size() != function_->args_.size()) {
      return InvalidArgument("a function of ", function_->args_.size(), " arguments was given ", args.size());
    }
    for (size_t i = 0; i < args.size(); ++i) {
      const Node* const arg = function_->args_[i];
      if (arg == nullptr) continue;
      if (args[i].dtype() != arg->output_type(0)) {
        return InvalidArgument("argument ", i, " is of type ", args[i].dtype(), ", expected ", arg->output_type(0));
      }
      slots_[first_slot_[arg->id()]] = Slot{.tensor = std::move(args[i])};
    }
    for (const Instruction& instruction : instructions_) RETURN_IF_ERROR(Execute(instruction, iteration.step));
    Element results;
    for (const Output& result : function_->results_) {
      if (result.node == nullptr) return Internal("a function lacks a result");
      const Slot& slot = slots_[first_slot_[result.node->id()] + result.index];
      results.push_back(slot.tensor);
      if (slot.variable != nullptr) RETURN_IF_ERROR(ReadVariable(*slot.variable, &results.back()));
      if (!results.back().has_value()) return InvalidArgument("result ", results.size() - 1, " has no value");
    }
    for (Slot& slot : slots_) slot = Slot();
    return results;
  }

 private:
  struct Instruction {
    const Node* node;
    std::unique_ptr<Kernel> kernel;
    std::vector<int32_t> inputs;
  };

  absl::Status Execute(const Instruction& instruction, Step& step) {
    const Node& node = *instruction.node;
    const int first = first_slot_[node.id()];
    bool dead = false, all_dead = node.num_inputs() > 0;
    for (const int32_t input : instruction.inputs) {
      dead = dead || slots_[input].dead;
      all_dead = all_dead && slots_[input].dead;
    }
    if (IsMerge(node)) dead = all_dead;
    for (const Node* control : node.control_inputs()) dead = dead || dead_[control->id()];
    dead_[node.id()] = dead;
    if (dead) {
      for (int i = 0; i < node.num_outputs(); ++i) slots_[first + i] = Slot{.dead = true};
      return absl::OkStatus();
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      Slot& slot = slots_[instruction.inputs[i]];
      if (slot.variable != nullptr && !IsRef(node.input_type(i))) {
        RETURN_IF_ERROR(NodeError(ReadVariable(*slot.variable, &slot.tensor), node));
      }
    }
    for (int i = 0; i < node.num_outputs(); ++i) slots_[first + i] = Slot();
    const KernelContext::Call call{.inputs = instruction.inputs.data(),
                                   .num_inputs = node.num_inputs(),
                                   .first_output = first,
                                   .num_outputs = node.num_outputs(),
                                   .node = &node,
                                   .device = &device_};
    KernelContext context(&step, slots_.data(), &call);
    return NodeError(instruction.kernel->Compute(context), node);
  }

  const std::shared_ptr<const CarriedFunction> function_;
  Device& device_;
  std::vector<int> first_slot_;  // by node
  std::vector<Slot> slots_;
  std::vector<bool> dead_;
  std::vector<Instruction> instructions_;
};

absl::StatusOr<CarriedFunction::Instance> CarriedFunction::Instantiate(std::shared_ptr<const CarriedFunction> function,
                                                                       Device& device) {
  auto call = std::make_unique<CarriedCall>(std::move(function), device);
  RETURN_IF_ERROR(call->Init());
  return [call = std::move(call)](Iteration& iteration, Element args) { return call->Run(iteration, std::move(args)); };
}

}  // namespace thalweg
