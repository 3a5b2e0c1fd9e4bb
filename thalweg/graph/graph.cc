// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/graph.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/graph/similar_op.h"
#include "thalweg/graph/unusable_node.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// The parsed input of a NodeDef: "name", "name:2" or "^name".
struct InputName {
  absl::string_view node;
  int index = 0;  // -1: control
};

InputName ParseInputName(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "^")) return {text, -1};
  const size_t colon = text.rfind(':');
  int index;
  if (colon != absl::string_view::npos && absl::SimpleAtoi(text.substr(colon + 1), &index) && index >= 0) {
    return {text.substr(0, colon), index};
  }
  return {text, 0};
}

bool ValidName(absl::string_view name) {
  const auto may_begin = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; };
  const auto may_follow = [&](char c) { return may_begin(c) || c == '/' || c == '\\' || c == '-' || c == '>'; };
  return !name.empty() && may_begin(name[0]) && std::all_of(name.begin(), name.end(), may_follow);
}

// The version of TensorFlow's graphs that is read and written here: 2.15's.
constexpr int kVersion = 1645;

absl::Status CheckVersions(const tensorflow::VersionDef& v) {
  if (v.producer() < 0) return InvalidArgument("GraphDef producer version ", v.producer(), " below min producer 0");
  if (v.min_consumer() > kVersion) {
    return InvalidArgument("GraphDef min consumer version ", v.min_consumer(), " above current version ", kVersion);
  }
  if (std::find(v.bad_consumers().begin(), v.bad_consumers().end(), kVersion) != v.bad_consumers().end()) {
    return InvalidArgument("GraphDef disallows consumer version ", kVersion);
  }
  return absl::OkStatus();
}

// Merges the versions for a graph that contains both.
void MergeVersions(const tensorflow::VersionDef& from, tensorflow::VersionDef& to) {
  to.set_producer(std::min(to.producer(), from.producer()));
  to.set_min_consumer(std::max(to.min_consumer(), from.min_consumer()));
  for (const int bad : from.bad_consumers()) {
    const auto& known = to.bad_consumers();
    if (std::find(known.begin(), known.end(), bad) == known.end()) to.add_bad_consumers(bad);
  }
}

// Says in today's words what a node of an older graph means.
void Modernize(int producer, NodeDef& def) {
  constexpr int kLastWithoutScalars = 21;  // placeholders of "any shape" had that of a scalar
  if (producer > kLastWithoutScalars || def.op() != "Placeholder") return;
  const auto shape = def.mutable_attr()->find("shape");
  if (shape == def.mutable_attr()->end()) return;
  if (shape->second.shape().dim_size() == 0) shape->second.mutable_shape()->set_unknown_rank(true);
}

// Each node once, in the order of their first places. A node may have as many
// control inputs as the graph has nodes.
std::vector<Node*> Unique(std::vector<Node*> nodes) {
  absl::flat_hash_set<const Node*> known;
  std::erase_if(nodes, [&](const Node* node) { return !known.insert(node).second; });
  return nodes;
}

// Whether an edge is the back edge of a loop, which a topological order ignores.
bool ClosesLoop(const Node& from, const Node& to) { return IsNextIteration(from) && IsMerge(to); }

bool AnyOf(const Node& n, absl::string_view a, absl::string_view b) { return n.op() == a || n.op() == b; }

// A TensorFlow client adds outputs to a conditional or loop when it takes gradients:
// too late for a node that it has sent already.
absl::string_view IntermediatesHint(const Node& n) {
  const bool may_have_more = AnyOf(n, "If", "StatelessIf") || AnyOf(n, "While", "StatelessWhile");
  return may_have_more ? " Try using tf.compat.v1.experimental.output_all_intermediates(True)." : "";
}

}  // namespace

// A node of an unknown op type may have any outputs.
DType Output::dtype() const {
  return node != nullptr && index < node->num_outputs() ? node->output_type(index) : kInvalid;
}
const PartialShape& Output::shape() const {
  static const PartialShape* const kUnknownShape = new PartialShape;
  return node != nullptr && index < node->num_outputs() ? node->output_shape(index) : *kUnknownShape;
}
std::string Output::name() const { return node == nullptr ? "" : absl::StrCat(node->name(), ":", index); }

void Node::AddControlInput(Node* node) {
  if (std::find(control_inputs_.begin(), control_inputs_.end(), node) == control_inputs_.end()) {
    control_inputs_.push_back(node);
  }
}

Node::Node(Graph* graph) : graph_(graph), def_(std::make_unique<NodeDef>()) {}
Node::Node(const Node& other, Graph* graph)
    : graph_(graph),
      def_(std::make_unique<NodeDef>(*other.def_)),
      schema_(other.schema_),
      inputs_(other.inputs_),
      control_inputs_(other.control_inputs_),
      input_types_(other.input_types_),
      output_types_(other.output_types_),
      output_shapes_(other.output_shapes_),
      context_(other.context_) {}
Node::~Node() = default;

const std::string& Node::name() const { return def_->name(); }
const std::string& Node::op() const { return def_->op(); }
const std::string& Node::device() const { return def_->device(); }
void Node::set_device(std::string device) { def_->set_device(std::move(device)); }
bool Node::is_stateful() const { return schema_ == nullptr || schema_->def.is_stateful(); }

Graph::Graph()
    : library_(std::make_unique<tensorflow::FunctionDefLibrary>()),
      versions_(std::make_unique<tensorflow::VersionDef>()),
      build_status_(std::make_shared<absl::Status>()) {
  versions_->set_producer(kVersion);
}
Graph::Graph(Graph&& other) noexcept : Graph() { *this = std::move(other); }
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(nodes_, other.nodes_);
  std::swap(by_name_, other.by_name_);
  std::swap(name_counters_, other.name_counters_);
  std::swap(reserved_names_, other.reserved_names_);
  std::swap(library_, other.library_);
  std::swap(function_schemas_, other.function_schemas_);
  std::swap(versions_, other.versions_);
  std::swap(collections_, other.collections_);
  std::swap(seed_, other.seed_);
  std::swap(num_seeded_, other.num_seeded_);
  std::swap(build_status_, other.build_status_);
  for (const auto& node : nodes_) node->graph_ = this;
  for (const auto& node : other.nodes_) node->graph_ = &other;
  return *this;
}
Graph::~Graph() = default;

Scope Graph::root() { return Scope(this); }

absl::StatusOr<Node*> Graph::AddNode(NodeDef def, std::vector<Output> inputs, std::vector<Node*> control_inputs) {
  if (!ValidName(def.name())) return InvalidArgument("Node name '", def.name(), "' is not valid");
  if (by_name_.contains(def.name())) return InvalidArgument("Node '", def.name(), "' is not unique");
  const OpSchema* schema = FindSchema(def.op());
  if (schema == nullptr) {
    return NotFound("Op type not registered '", def.op(), "'; node '", def.name(), "'", SuggestSimilarOp(def.op()));
  }
  AddDefaultAttrs(schema->def, def);
  RETURN_IF_ERROR(CheckAttrs(schema->def, def));
  ASSIGN_OR_RETURN(NodeTypes types, ComputeTypes(schema->def, def));

  auto node = std::unique_ptr<Node>(new Node(this));
  node->id_ = num_nodes();
  def.clear_input();
  *node->def_ = std::move(def);
  node->schema_ = schema;
  node->inputs_ = std::move(inputs);
  node->control_inputs_ = Unique(std::move(control_inputs));
  node->input_types_ = std::move(types.inputs);
  node->output_types_ = std::move(types.outputs);
  node->output_shapes_.resize(node->output_types_.size());
  RETURN_IF_ERROR(CheckEdges(*node));
  RETURN_IF_ERROR(InferShapes(node.get()));
  by_name_[node->name()] = node.get();
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

absl::Status Graph::CheckEdges(const Node& node) const {
  for (const Node* control : node.control_inputs_) {
    if (!Owns(*control)) {
      return InvalidArgument("Node '", node.name(), "': control input '", control->name(),
                             "' belongs to another graph");
    }
  }
  if (node.inputs_.size() != node.input_types_.size()) {
    return InvalidArgument("Node '", node.name(), "' (", node.op(), ") has ", node.inputs_.size(), " inputs, expected ",
                           node.input_types_.size());
  }
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Output& source = node.inputs_[i];
    if (source.node == nullptr) return InvalidArgument("Input ", i, " of node '", node.name(), "' is missing");
    if (!Owns(*source.node)) {
      return InvalidArgument("Node '", node.name(), "': tensor '", source.name(), "' belongs to another graph");
    }
    if (source.node->schema_ == nullptr) continue;  // its outputs are unknown
    if (source.index < 0 || source.index >= source.node->num_outputs()) {
      return InvalidArgument("Node '", node.name(), "': Connecting to invalid output ", source.index,
                             " of source node ", source.node->name(), " which has ", source.node->num_outputs(),
                             " outputs.", IntermediatesHint(*source.node));
    }
    if (node.schema_ == nullptr) continue;  // takes what it gets
    const DType got = source.dtype();
    const DType want = node.input_types_[i];
    if (got != want && RemoveRef(got) != want) {
      const absl::string_view hint =
          IsRef(want) && got == RemoveRef(want) ? " The variable itself is expected, not a value." : "";
      return InvalidArgument("Input ", i, " of node ", node.name(), " was passed ", got, " from ", source.name(),
                             " incompatible with expected ", want, ".", hint);
    }
  }
  return absl::OkStatus();
}

absl::Status Graph::InferShapes(Node* node) {
  if (node->schema_ == nullptr || node->schema_->shape == nullptr) return absl::OkStatus();
  ShapeContext context(*node);
  const absl::Status status = node->schema_->shape(context);
  if (!status.ok()) {
    return Append(status, absl::StrCat("; shapes of node '", node->name(), "' (", node->op(), ")"));
  }
  for (int i = 0; i < node->num_outputs(); ++i) node->output_shapes_[i] = context.TakeOutput(i);
  return absl::OkStatus();
}

absl::Status Graph::Import(const GraphDef& def) {
  RETURN_IF_ERROR(CheckVersions(def.versions()));
  const int first = num_nodes();
  const int functions = library_->function_size();
  const int gradients = library_->gradient_size();
  const int registered = library_->registered_gradients_size();
  absl::Status status = AddFunctions(def.library());
  if (status.ok()) status = Link(def, first);
  if (!status.ok()) {
    for (int i = num_nodes() - 1; i >= first; --i) by_name_.erase(nodes_[i]->name());
    nodes_.resize(first);
    while (library_->function_size() > functions) {
      function_schemas_.erase(library_->function(library_->function_size() - 1).signature().name());
      library_->mutable_function()->RemoveLast();
    }
    library_->mutable_gradient()->DeleteSubrange(gradients, library_->gradient_size() - gradients);
    library_->mutable_registered_gradients()->DeleteSubrange(registered,
                                                             library_->registered_gradients_size() - registered);
    return status;
  }
  MergeVersions(def.versions(), *versions_);
  return absl::OkStatus();
}

// Three passes: make the nodes, connect them (inputs may come later in the
// list, and loops point back), then check and infer in topological order.
absl::Status Graph::Link(const GraphDef& def, int first) {
  for (const NodeDef& node_def : def.node()) {
    if (!ValidName(node_def.name())) return InvalidArgument("Node name '", node_def.name(), "' is not valid");
    if (by_name_.contains(node_def.name())) return InvalidArgument("Node '", node_def.name(), "' is not unique");
    auto node = std::unique_ptr<Node>(new Node(this));
    node->id_ = num_nodes();
    *node->def_ = node_def;
    node->def_->clear_input();
    Modernize(def.versions().producer(), *node->def_);
    node->schema_ = FindSchema(node_def.op());
    if (node->schema_ != nullptr) {
      AddDefaultAttrs(node->schema_->def, *node->def_);
      RETURN_IF_ERROR(CheckAttrs(node->schema_->def, *node->def_));
      ASSIGN_OR_RETURN(NodeTypes types, ComputeTypes(node->schema_->def, *node->def_));
      node->input_types_ = std::move(types.inputs);
      node->output_types_ = std::move(types.outputs);
      node->output_shapes_.resize(node->output_types_.size());
    }
    by_name_[node->name()] = node.get();
    nodes_.push_back(std::move(node));
  }
  for (int i = 0; i < def.node_size(); ++i) {
    Node* node = nodes_[first + i].get();
    std::vector<Node*> controls;
    for (const std::string& text : def.node(i).input()) {
      const InputName input = ParseInputName(text);
      Node* source = FindNode(input.node);
      if (source == nullptr) return InvalidArgument("Node '", node->name(), "': Unknown input node '", text, "'");
      if (input.index < 0) {
        controls.push_back(source);
      } else if (!controls.empty()) {
        return InvalidArgument("Node '", node->name(), "': Control dependencies must come after regular dependencies");
      } else {
        node->inputs_.push_back(Output(source, input.index));
      }
    }
    node->control_inputs_ = Unique(std::move(controls));
    if (node->schema_ == nullptr) node->input_types_.assign(node->inputs_.size(), kInvalid);
  }
  // An unknown op has as many outputs as are used.
  for (int i = first; i < num_nodes(); ++i) {
    for (const Output& source : nodes_[i]->inputs_) {
      Node* from = source.node;
      if (from->schema_ == nullptr && source.index >= from->num_outputs()) {
        if (source.index > 1 << 16)
          return InvalidArgument("Node '", nodes_[i]->name(), "': output index ", source.index);
        from->output_types_.resize(source.index + 1, kInvalid);
        from->output_shapes_.resize(source.index + 1);
      }
    }
  }
  ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*this));
  for (Node* node : order) {
    if (node->id() < first) continue;
    RETURN_IF_ERROR(CheckEdges(*node));
    const absl::Status shapes = InferShapes(node);
    if (shapes.ok()) continue;
    // As in TensorFlow, only the steps that need the node fail.
    SetAttr(*node->def_, kShapeError, std::string(shapes.message()));
    node->schema_ = nullptr;
  }
  return absl::OkStatus();
}

GraphDef Graph::Export(int first) const {
  GraphDef def;
  for (int id = first; id < num_nodes(); ++id) {
    const Node* node = nodes_[id].get();
    NodeDef* out = def.add_node();
    *out = *node->def_;
    for (const Output& input : node->inputs_) {
      out->add_input(input.index == 0 ? input.node->name() : input.name());
    }
    for (const Node* control : node->control_inputs_) out->add_input(absl::StrCat("^", control->name()));
  }
  if (library_->ByteSizeLong() > 0) *def.mutable_library() = *library_;
  *def.mutable_versions() = *versions_;
  return def;
}

absl::Status Graph::ImportGraphDef(absl::string_view bytes) {
  GraphDef def;
  if (!def.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument(bytes.size(), " bytes that are not a GraphDef");
  }
  return Import(def);
}

std::string Graph::SerializeAsGraphDef() const { return Export().SerializeAsString(); }

std::string Graph::ToString() const {
  std::string text;
  google::protobuf::TextFormat::PrintToString(Export(), &text);
  return text;
}

bool Graph::Owns(const Node& node) const { return node.id() < num_nodes() && nodes_[node.id()].get() == &node; }

Node* Graph::FindNode(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

absl::StatusOr<Output> Graph::FindOutput(absl::string_view name) const {
  const InputName parsed = ParseInputName(name);
  Node* node = parsed.index < 0 ? nullptr : FindNode(parsed.node);
  if (node == nullptr) return NotFound("there is no tensor '", name, "' in the graph: no such node");
  if (node->schema() != nullptr && parsed.index >= node->num_outputs()) {
    return InvalidArgument("tensor '", name, "': output index too large, must be < ", node->num_outputs());
  }
  return Output(node, parsed.index);
}

std::string Graph::UniqueName(absl::string_view base) {
  std::string name(base);
  while (by_name_.contains(name) || reserved_names_.contains(name))
    name = absl::StrCat(base, "_", ++name_counters_[std::string(base)]);
  return name;
}

std::string Graph::ReserveName(absl::string_view base) {
  std::string name = UniqueName(base);
  reserved_names_.insert(name);
  return name;
}

absl::Status Graph::AddFunctions(const tensorflow::FunctionDefLibrary& library) {
  for (const tensorflow::FunctionDef& function : library.function()) {
    const std::string& name = function.signature().name();
    if (OpRegistry::Global().Find(name) != nullptr) {
      return InvalidArgument("Cannot add function '", name, "' because an op with the same name already exists.");
    }
    if (function_schemas_.contains(name)) {
      // A client sends its whole library with every extension.
      const auto& known = library_->function();
      const auto same =
          std::find_if(known.begin(), known.end(), [&](const auto& f) { return f.signature().name() == name; });
      if (!google::protobuf::util::MessageDifferencer::Equals(*same, function)) {
        return InvalidArgument("Cannot add function '", name,
                               "' because a different function with the same name already exists.");
      }
      continue;
    }
    auto schema = std::make_shared<OpSchema>();
    schema->def = function.signature();
    schema->def.set_is_stateful(true);  // because its body may be
    function_schemas_[name] = std::move(schema);
    *library_->add_function() = function;
  }
  for (const auto& gradient : library.gradient()) {
    const auto& known = library_->gradient();
    const bool is_new = std::none_of(known.begin(), known.end(),
                                     [&](const auto& g) { return g.function_name() == gradient.function_name(); });
    if (is_new) *library_->add_gradient() = gradient;
  }
  for (const auto& gradient : library.registered_gradients()) {
    const auto& known = library_->registered_gradients();
    const bool is_new = std::none_of(known.begin(), known.end(),
                                     [&](const auto& g) { return g.gradient_func() == gradient.gradient_func(); });
    if (is_new) *library_->add_registered_gradients() = gradient;
  }
  return absl::OkStatus();
}

const OpSchema* Graph::FindSchema(absl::string_view op) const {
  if (const OpSchema* schema = OpRegistry::Global().Find(op)) return schema;
  const auto it = function_schemas_.find(op);
  return it == function_schemas_.end() ? nullptr : it->second.get();
}

void Graph::AddToCollection(absl::string_view collection, absl::string_view node) {
  std::vector<std::string>& names = collections_[collection];
  if (std::find(names.begin(), names.end(), node) == names.end()) names.emplace_back(node);
}

const std::vector<std::string>& Graph::Collection(absl::string_view name) const {
  static const std::vector<std::string>* const kNone = new std::vector<std::string>;
  const auto it = collections_.find(name);
  return it == collections_.end() ? *kNone : it->second;
}

void Graph::Retain(const std::vector<bool>& keep) {
  std::vector<std::unique_ptr<Node>> kept;
  for (auto& node : nodes_) {
    if (keep[node->id()]) {
      kept.push_back(std::move(node));
    } else {
      by_name_.erase(node->name());
    }
  }
  nodes_ = std::move(kept);
  for (int i = 0; i < num_nodes(); ++i) nodes_[i]->id_ = i;
}

Node* Graph::AddCopy(const Node& node) {
  nodes_.push_back(std::unique_ptr<Node>(new Node(node, this)));
  Node* copy = nodes_.back().get();
  copy->id_ = num_nodes() - 1;
  by_name_[copy->name()] = copy;
  return copy;
}

Graph Graph::Clone() const {
  Graph copy;
  *copy.library_ = *library_;
  copy.function_schemas_ = function_schemas_;
  *copy.versions_ = *versions_;
  copy.name_counters_ = name_counters_;
  copy.reserved_names_ = reserved_names_;
  copy.collections_ = collections_;
  copy.seed_ = seed_;
  copy.num_seeded_ = num_seeded_;
  copy.nodes_.reserve(nodes_.size());
  for (const auto& node : nodes_) {
    copy.nodes_.push_back(std::unique_ptr<Node>(new Node(*node, &copy)));
    copy.nodes_.back()->id_ = node->id_;
    copy.by_name_[node->name()] = copy.nodes_.back().get();
  }
  for (auto& node : copy.nodes_) {
    for (Output& input : node->inputs_) input.node = copy.nodes_[input.node->id()].get();
    for (Node*& control : node->control_inputs_) control = copy.nodes_[control->id()].get();
  }
  return copy;
}

absl::StatusOr<std::vector<Node*>> TopologicalOrder(const Graph& graph) {
  std::vector<int> pending(graph.num_nodes(), 0);
  std::vector<std::vector<Node*>> consumers(graph.num_nodes());
  for (const auto& node : graph.nodes()) {
    const auto add = [&](const Node* from) {
      ++pending[node->id()];
      consumers[from->id()].push_back(node.get());
    };
    for (const Output& input : node->inputs()) {
      if (!ClosesLoop(*input.node, *node)) add(input.node);
    }
    for (const Node* control : node->control_inputs()) add(control);
  }
  // The smallest ready id first: the order of creation where it is one.
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    if (pending[i] == 0) ready.push(i);
  }
  std::vector<Node*> order;
  order.reserve(graph.num_nodes());
  while (!ready.empty()) {
    Node* node = graph.node(ready.top());
    ready.pop();
    order.push_back(node);
    for (Node* consumer : consumers[node->id()]) {
      if (--pending[consumer->id()] == 0) ready.push(consumer->id());
    }
  }
  if (static_cast<int>(order.size()) == graph.num_nodes()) return order;
  // Follow unmet inputs until a node repeats: that one is on a cycle.
  const Node* at = nullptr;
  for (int i = 0; at == nullptr; ++i) {
    if (pending[i] > 0) at = graph.node(i);
  }
  absl::flat_hash_set<const Node*> seen;
  while (seen.insert(at).second) {
    const Node* next = nullptr;
    for (const Output& input : at->inputs()) {
      if (pending[input.node->id()] > 0 && !ClosesLoop(*input.node, *at)) next = input.node;
    }
    for (const Node* control : at->control_inputs()) {
      if (pending[control->id()] > 0) next = control;
    }
    at = next;
  }
  return InvalidArgument("Graph is invalid, contains a cycle with ", graph.num_nodes() - order.size(),
                         " nodes that is not a loop; one of them: '", at->name(), "' (", at->op(), ")");
}

std::vector<std::vector<Node*>> Consumers(const Graph& graph) {
  std::vector<std::vector<Node*>> consumers(graph.num_nodes());
  for (const auto& node : graph.nodes()) {
    const auto add = [&](const Node* from) {
      auto& list = consumers[from->id()];
      if (list.empty() || list.back() != node.get()) list.push_back(node.get());
    };
    for (const Output& input : node->inputs()) add(input.node);
    for (const Node* control : node->control_inputs()) add(control);
  }
  return consumers;
}

bool IsSwitch(const Node& n) { return AnyOf(n, "Switch", "RefSwitch") || n.op() == "_SwitchN"; }
bool IsMerge(const Node& n) { return AnyOf(n, "Merge", "RefMerge"); }
bool IsEnter(const Node& n) { return AnyOf(n, "Enter", "RefEnter"); }
bool IsExit(const Node& n) { return AnyOf(n, "Exit", "RefExit"); }
bool IsNextIteration(const Node& n) { return AnyOf(n, "NextIteration", "RefNextIteration"); }
bool IsControlFlow(const Node& n) {
  return IsSwitch(n) || IsMerge(n) || IsEnter(n) || IsExit(n) || IsNextIteration(n) || n.op() == "LoopCond";
}

}  // namespace thalweg
