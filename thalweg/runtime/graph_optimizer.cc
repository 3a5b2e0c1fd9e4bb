// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/graph_optimizer.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/memory.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/kernel/evaluate.h"

namespace thalweg {
namespace {

bool IsEdge(const Node& node) { return node.op() == "_Arg" || node.op() == "_Retval"; }

// Same inputs, same outputs, and no notice of when or how often it runs.
bool IsPure(const Node& node) {
  return node.schema() != nullptr && !node.is_stateful() && !IsControlFlow(node) && !IsEdge(node) &&
         node.op() != "Placeholder" && node.op() != "PlaceholderV2" &&
         std::none_of(node.input_types().begin(), node.input_types().end(),
                      [](DType t) { return IsRef(t) || t == kResource || t == kVariant; }) &&
         std::none_of(node.output_types().begin(), node.output_types().end(),
                      [](DType t) { return IsRef(t) || t == kResource || t == kVariant; }) &&
         std::none_of(node.inputs().begin(), node.inputs().end(), [](const Output& o) { return IsRef(o.dtype()); });
}

bool IsFoldable(const Node& node, const Frames& frames, const std::string& device_type) {
  if (!IsPure(node) || node.op() == "Const" || node.num_outputs() == 0) return false;
  if (frames.of_node[node.id()] != 0 || !node.control_inputs().empty()) return false;
  if (!KernelRegistry::Global().Has(node.op(), device_type)) return false;
  // These are left to the step, as in TensorFlow.
  if (node.num_inputs() == 0 || node.op() == "PlaceholderWithDefault") return false;
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [](const Output& o) { return o.node->op() == "Const" && o.node->control_inputs().empty(); });
}

// Host memory in blocks of at most some size. A kernel that wants a larger one
// fails, before it has computed anything.
class BoundedAllocator : public Allocator {
 public:
  void set_max_bytes(int64_t bytes) { max_bytes_ = static_cast<size_t>(bytes); }
  void* Allocate(size_t bytes) override { return bytes > max_bytes_ ? nullptr : HostAllocator().Allocate(bytes); }
  void Deallocate(void* memory, size_t bytes) override { HostAllocator().Deallocate(memory, bytes); }
  AllocatorStats Stats() const override { return HostAllocator().Stats(); }

 private:
  size_t max_bytes_ = 0;
};

// The maximum size of a node's value and of each allocation on the way to it. 0 if an input
// that is encoded with repeated values is too large to be expanded.
int64_t MaxBytes(const Node& node, const GraphOptimizerOptions& options) {
  int64_t encoded = 0;
  for (const Output& input : node.inputs()) {
    const auto bytes = static_cast<int64_t>(input.node->def().ByteSizeLong());
    const auto stride = static_cast<int64_t>(std::max<size_t>(1, Buffer::Stride(input.dtype())));
    const int64_t max_elements = std::max(options.max_constant_bytes, bytes) / stride;
    if (input.shape().num_elements() > max_elements) return 0;
    encoded += bytes;
  }
  return std::min(std::max(options.max_new_bytes, encoded), options.max_constant_bytes);
}

// The attributes in an order that does not depend on the map.
std::string AttrKey(const Node& node) {
  std::map<std::string, std::string> attrs;
  for (const auto& [name, value] : node.def().attr()) {
    if (name == "_class" || name == "_output_shapes") continue;
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream stream(&bytes);
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);
      value.SerializeToCodedStream(&coded);
    }
    attrs[name] = std::move(bytes);
  }
  std::string key;
  for (const auto& [name, bytes] : attrs) absl::StrAppend(&key, name, "=", bytes.size(), ":", bytes, ";");
  return key;
}

// Points a node's inputs at what stands for them, by id.
void ReplaceInputs(const std::vector<Node*>& instead, Node* node) {
  for (int i = 0; i < node->num_inputs(); ++i) {
    const Output& input = node->input(i);
    if (Node* other = instead[input.node->id()]) node->set_input(i, Output(other, input.index));
  }
  const std::vector<Node*>& controls = node->control_inputs();
  if (std::none_of(controls.begin(), controls.end(), [&](const Node* n) { return instead[n->id()] != nullptr; }))
    return;
  std::vector<Node*> replaced;
  absl::flat_hash_set<const Node*> seen;
  for (Node* control : controls) {
    Node* const other = instead[control->id()] == nullptr ? control : instead[control->id()];
    if (seen.insert(other).second) replaced.push_back(other);
  }
  node->set_control_inputs(std::move(replaced));
}

}  // namespace

// Runs each node whose inputs are all constants, in topological order, so that constants spread in one pass. The
// original nodes stay; RemoveDead() removes those that nothing uses.
absl::StatusOr<int> FoldConstants(Graph& graph, Device& device, const GraphOptimizerOptions& options,
                                  Cancellation* cancellation) {
  const ScopedFlushDenormals flush;  // as in a step
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
  ASSIGN_OR_RETURN(const Frames frames, FindFrames(graph, order));
  const std::vector<std::vector<Node*>> consumers = Consumers(graph);
  BoundedAllocator memory;
  Device bounded(device.parsed_name(), &device.intra_op_pool(), &memory);
  absl::flat_hash_map<const Node*, Tensor> values;
  int count = 0;
  for (Node* node : order) {
    if (cancellation != nullptr) RETURN_IF_ERROR(cancellation->status());
    if (!IsFoldable(*node, frames, device.type())) continue;
    const int64_t max_bytes = MaxBytes(*node, options);
    if (max_bytes == 0) continue;
    std::vector<Tensor> inputs;
    for (const Output& input : node->inputs()) {
      Tensor& value = values[input.node];
      if (!value.has_value()) {
        ASSIGN_OR_RETURN(value, GetAttr<Tensor>(input.node->def(), "value"));
      }
      inputs.push_back(value);
    }
    memory.set_max_bytes(max_bytes + static_cast<int64_t>(sizeof(Buffer)));
    const absl::StatusOr<std::vector<Tensor>> outputs = RunNode(*node, inputs, bounded, cancellation);
    if (!outputs.ok()) continue;  // the step will report the error
    int64_t bytes = 0;
    for (const Tensor& t : *outputs) bytes += t.TotalBytes();
    if (bytes > max_bytes) continue;
    std::vector<Output> constants;
    for (int i = 0; i < node->num_outputs(); ++i) {
      tensorflow::NodeDef def;
      def.set_name(graph.UniqueName(absl::StrCat(node->name(), i == 0 ? "/_folded" : absl::StrCat("/_folded_", i))));
      def.set_op("Const");
      def.set_device(node->device());
      SetAttr(def, "dtype", node->output_type(i));
      SetAttr(def, "value", (*outputs)[i]);
      ASSIGN_OR_RETURN(Node * constant, graph.AddNode(std::move(def), {}, {}));
      values[constant] = (*outputs)[i];
      constants.push_back(Output(constant));
    }
    for (Node* consumer : consumers[node->id()]) {
      for (int i = 0; i < consumer->num_inputs(); ++i) {
        if (consumer->input(i).node == node) consumer->set_input(i, constants[consumer->input(i).index]);
      }
    }
    ++count;
  }
  return count;
}

// In topological order, so that the inputs of a node are merged before it is compared. The key is everything that
// determines the value: op, device, attributes, inputs and control inputs.
absl::StatusOr<int> MergeCommonSubexpressions(Graph& graph) {
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
  std::vector<Node*> instead(graph.num_nodes(), nullptr);  // by id: the node that does the same
  using Key = std::tuple<std::string, std::string, std::string, std::vector<std::pair<int, int>>, std::vector<int>>;
  std::map<Key, Node*> seen;
  int count = 0;
  for (Node* node : order) {
    ReplaceInputs(instead, node);
    if (!IsPure(*node)) continue;
    std::vector<std::pair<int, int>> inputs;
    for (const Output& input : node->inputs()) inputs.emplace_back(input.node->id(), input.index);
    if (node->schema()->def.is_commutative()) std::sort(inputs.begin(), inputs.end());
    std::vector<int> controls;
    for (const Node* control : node->control_inputs()) controls.push_back(control->id());
    std::sort(controls.begin(), controls.end());
    Key key(node->op(), node->device(), AttrKey(*node), std::move(inputs), std::move(controls));
    const auto [it, is_new] = seen.try_emplace(std::move(key), node);
    if (is_new) continue;
    instead[node->id()] = it->second;
    ++count;
  }
  return count;
}

// Marks what results, targets and nodes that run for their effect need, and removes the rest.
int RemoveDead(Graph& graph, const std::vector<std::string>& targets) {
  std::vector<bool> keep(graph.num_nodes(), false);
  std::vector<Node*> stack;
  const auto need = [&](Node* node) {
    if (!keep[node->id()]) {
      keep[node->id()] = true;
      stack.push_back(node);
    }
  };
  for (const auto& node : graph.nodes()) {
    if (IsEdge(*node) || (node->is_stateful() && node->num_outputs() == 0)) need(node.get());
  }
  for (const std::string& target : targets) {
    if (Node* node = graph.FindNode(target)) need(node);
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Output& input : node->inputs()) need(input.node);
    for (Node* control : node->control_inputs()) need(control);
  }
  const int before = graph.num_nodes();
  graph.Retain(keep);
  return before - graph.num_nodes();
}

absl::Status Optimize(Graph& graph, const std::vector<std::string>& targets, Device& device,
                      const GraphOptimizerOptions& options, Cancellation* cancellation) {
  if (options.fold_constants) {
    RETURN_IF_ERROR(FoldConstants(graph, device, options, cancellation).status());
  }
  if (options.merge_common_subexpressions) {
    RETURN_IF_ERROR(MergeCommonSubexpressions(graph).status());
  }
  RemoveDead(graph, targets);
  return absl::OkStatus();
}

}  // namespace thalweg
