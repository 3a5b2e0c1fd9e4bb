// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/evaluate.h"

#include "google/protobuf/stubs/common.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// One node at a time over a table of slots, one per output.
class Evaluation {
 public:
  Evaluation(const absl::flat_hash_map<Output, Tensor>& feeds, Device& device, Cancellation* cancellation = nullptr)
      : feeds_(feeds), device_(device) {
    step_.cancellation = cancellation == nullptr ? &never_ : cancellation;
    step_.resources = &step_resources_;
  }

  absl::Status Need(const Output& output) {
    if (feeds_.contains(output)) return absl::OkStatus();
    return Run(*output.node);
  }

  absl::Status Run(const Node& node) {
    if (outputs_.contains(&node)) return absl::OkStatus();
    if (IsControlFlow(node)) return Unimplemented("control flow in Evaluate: '", node.name(), "'");
    for (const Output& input : node.inputs()) RETURN_IF_ERROR(Need(input));
    for (const Node* control : node.control_inputs()) RETURN_IF_ERROR(Run(*control));
    std::vector<Slot> slots(node.num_inputs() + node.num_outputs());
    for (int i = 0; i < node.num_inputs(); ++i) {
      RETURN_IF_ERROR(NodeError(Fill(node.input(i), IsRef(node.input_type(i)), &slots[i]), node));
    }
    return RunWith(node, std::move(slots));
  }

  // `slots`: inputs, then room for the outputs.
  absl::Status RunWith(const Node& node, std::vector<Slot> slots) {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, KernelRegistry::Global().Make(node, device_));
    if (kernel->is_async()) return Unimplemented("a waiting op in Evaluate: '", node.name(), "'");
    std::vector<int32_t> indices(node.num_inputs());
    for (int i = 0; i < node.num_inputs(); ++i) indices[i] = i;
    const KernelContext::Call call{.inputs = indices.data(),
                                   .num_inputs = node.num_inputs(),
                                   .first_output = node.num_inputs(),
                                   .num_outputs = node.num_outputs(),
                                   .node = &node,
                                   .device = &device_};
    KernelContext context(&step_, slots.data(), &call);
    absl::Status computed;
    // If memory is short, an exception: of the kernel, or of a library that it calls.
    const absl::Status thrown = CatchExceptions([&] { computed = kernel->Compute(context); });
    computed.Update(thrown);
    RETURN_IF_ERROR(NodeError(computed, node));
    outputs_[&node] = std::vector<Slot>(slots.begin() + node.num_inputs(), slots.end());
    kernels_.push_back(std::move(kernel));  // owns the variables in the slots
    return absl::OkStatus();
  }

  absl::Status Fill(const Output& source, bool as_variable, Slot* slot) {
    if (const auto it = feeds_.find(source); it != feeds_.end()) {
      slot->tensor = it->second;
      return absl::OkStatus();
    }
    *slot = outputs_[source.node][source.index];
    if (slot->variable != nullptr && !as_variable) return ReadVariable(*slot->variable, &slot->tensor);
    return absl::OkStatus();
  }

 private:
  const absl::flat_hash_map<Output, Tensor>& feeds_;
  Device& device_;
  Step step_;
  Cancellation never_;
  ResourceManager step_resources_;
  absl::flat_hash_map<const Node*, std::vector<Slot>> outputs_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// Escapes bytes that are not UTF-8, because messages travel in UTF-8 fields.
absl::Status Printable(const absl::Status& status) {
  const absl::string_view text = status.message();
  if (google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()))) return status;
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    byte < 0x80 ? absl::StrAppend(&escaped, absl::string_view(&c, 1))
                : absl::StrAppend(&escaped, "\\x", absl::Hex(byte, absl::kZeroPad2));
  }
  absl::Status result(status.code(), escaped);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace

absl::Status NodeError(const absl::Status& status, const Node& node) {
  if (status.ok()) return status;
  return Append(Printable(status), absl::StrCat("\n\t [[{{node ", node.name(), "}}]]"));
}

absl::Status ReadVariable(const Variable& variable, Tensor* value) {
  *value = variable.Read();
  if (value->has_value()) return absl::OkStatus();
  return FailedPrecondition("Attempting to use uninitialized value ", variable.name());
}

absl::StatusOr<std::vector<Tensor>> RunNode(const Node& node, const std::vector<Tensor>& inputs, Device& device,
                                            Cancellation* cancellation) {
  const absl::flat_hash_map<Output, Tensor> no_feeds;
  Evaluation evaluation(no_feeds, device, cancellation);
  std::vector<Slot> slots(node.num_inputs() + node.num_outputs());
  for (size_t i = 0; i < inputs.size(); ++i) slots[i].tensor = inputs[i];
  RETURN_IF_ERROR(evaluation.RunWith(node, std::move(slots)));
  std::vector<Tensor> outputs;
  for (int i = 0; i < node.num_outputs(); ++i) {
    Slot slot;
    RETURN_IF_ERROR(evaluation.Fill(Output(const_cast<Node*>(&node), i), /*as_variable=*/false, &slot));
    outputs.push_back(std::move(slot.tensor));
  }
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph, const absl::flat_hash_map<Output, Tensor>& feeds,
                                             const std::vector<Output>& fetches, Device& device) {
  Evaluation evaluation(feeds, device);
  std::vector<Tensor> values;
  for (const Output& fetch : fetches) {
    RETURN_IF_ERROR(evaluation.Need(fetch));
    Slot slot;
    if (fetch.node->num_outputs() > 0) RETURN_IF_ERROR(evaluation.Fill(fetch, /*as_variable=*/false, &slot));
    values.push_back(std::move(slot.tensor));
  }
  return values;
}

}  // namespace thalweg
