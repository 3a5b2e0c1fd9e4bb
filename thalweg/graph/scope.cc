// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/scope.h"

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/similar_op.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {

// The part of a scope that its nodes remember, for operators on their outputs.
struct ScopeContext {
  std::string prefix;                          // ends in '/' unless empty
  std::vector<Scope::DeviceFunction> devices;  // outermost first
};

namespace {

using tensorflow::NodeDef;
using tensorflow::OpDef;

template <typename T>
void SetIfUnset(NodeDef& def, const std::string& name, const T& value) {
  if (!name.empty() && !HasAttr(def, name)) SetAttr(def, name, value);
}

// Sets the attributes that one argument implies.
void InferAttrs(const OpDef::ArgDef& arg, const OpInput& input, NodeDef& def) {
  if (!arg.number_attr().empty()) SetIfUnset(def, arg.number_attr(), static_cast<int64_t>(input.outputs.size()));
  if (!arg.type_list_attr().empty()) {
    std::vector<DType> types;
    for (const Output& o : input.outputs) types.push_back(RemoveRef(o.dtype()));
    SetIfUnset(def, arg.type_list_attr(), types);
  } else if (!arg.type_attr().empty() && !input.outputs.empty()) {
    SetIfUnset(def, arg.type_attr(), RemoveRef(input.outputs[0].dtype()));
  }
}

const ScopeContext& RootContext() {
  static const ScopeContext* const kRoot = new ScopeContext;
  return *kRoot;
}

// The error of a scope without operands. The graph's status has the error that led to it.
const absl::Status& NoOperands() {
  static const absl::Status* const kError = new absl::Status(InvalidArgument("an operator has no operand"));
  return *kError;
}

}  // namespace

const std::string& NewOperation::name() const { return def_.name(); }
const std::string& NewOperation::op() const { return def_.op(); }
const std::string& NewOperation::device() const { return def_.device(); }
template <typename T>
absl::StatusOr<T> NewOperation::Attr(absl::string_view name) const {
  return GetAttr<T>(def_, name);
}
template absl::StatusOr<int64_t> NewOperation::Attr(absl::string_view) const;
template absl::StatusOr<float> NewOperation::Attr(absl::string_view) const;
template absl::StatusOr<bool> NewOperation::Attr(absl::string_view) const;
template absl::StatusOr<std::string> NewOperation::Attr(absl::string_view) const;
template absl::StatusOr<DType> NewOperation::Attr(absl::string_view) const;
template absl::StatusOr<PartialShape> NewOperation::Attr(absl::string_view) const;

std::pair<int64_t, int64_t> SeedPair(int64_t graph_seed, int64_t op_seed) {
  constexpr int64_t kRange = (int64_t{1} << 31) - 1;
  const auto in_range = [](int64_t seed) { return (seed % kRange + kRange) % kRange; };
  const std::pair<int64_t, int64_t> seeds = {in_range(graph_seed), in_range(op_seed)};
  return seeds == std::pair<int64_t, int64_t>() ? std::make_pair(int64_t{0}, kRange) : seeds;
}

OpInput::OpInput(Output output) : outputs{output} {}
OpInput::OpInput(std::vector<Output> outputs) : outputs(std::move(outputs)), is_list(true) {}
OpInput::OpInput(const OpInput&) = default;
OpInput::OpInput(OpInput&&) noexcept = default;
OpInput& OpInput::operator=(const OpInput&) = default;
OpInput& OpInput::operator=(OpInput&&) noexcept = default;
OpInput::~OpInput() = default;

Scope::Scope(Graph* graph) : graph_(graph) {}
Scope::Scope(const Scope&) = default;
Scope::Scope(Scope&&) noexcept = default;
Scope& Scope::operator=(const Scope&) = default;
Scope& Scope::operator=(Scope&&) noexcept = default;
Scope::~Scope() = default;

Scope Scope::OfOperands(std::initializer_list<Output> operands) {
  const Node* last = nullptr;
  for (const Output& operand : operands) {
    if (operand.node != nullptr && (last == nullptr || operand.node->id() > last->id())) last = operand.node;
  }
  Scope s(last == nullptr ? nullptr : &last->graph());
  if (last != nullptr) s.context_ = last->context();
  return s;
}

void Scope::Adopt(Output output) const {
  if (output.node != nullptr) output.node->context_ = context_;
}

const std::string& Scope::prefix() const { return (context_ == nullptr ? RootContext() : *context_).prefix; }
std::string Scope::FullName(absl::string_view name) const { return absl::StrCat(prefix(), name); }
const absl::Status& Scope::status() const { return graph_ == nullptr ? NoOperands() : *graph_->build_status_; }
void Scope::Fail(const absl::Status& status) const {
  if (graph_ != nullptr) graph_->build_status_->Update(status);
}
Graph& Scope::graph() const {
  CHECK(graph_ != nullptr) << "the scope of an operator without operands has no graph";
  return *graph_;
}

Scope Scope::SubScope(absl::string_view name) const {
  return InScope(graph().ReserveName(absl::StrCat(prefix(), name)));
}

Scope Scope::InScope(absl::string_view full_name) const {
  Scope s = *this;
  auto context = context_ == nullptr ? std::make_shared<ScopeContext>() : std::make_shared<ScopeContext>(*context_);
  context->prefix = full_name.empty() ? "" : absl::StrCat(full_name, "/");
  s.context_ = std::move(context);
  s.op_name_.clear();
  return s;
}

Scope Scope::WithOpName(absl::string_view name) const {
  Scope s = *this;
  s.op_name_ = std::string(name);
  return s;
}

Scope Scope::Argument(absl::string_view name) const {
  return op_name_.empty() ? *this : WithOpName(absl::StrCat(op_name_, "/", name));
}

Scope Scope::WithDevice(absl::string_view device) const {
  return WithDevice([device = std::string(device)](const NewOperation&) { return device; });
}

Scope Scope::WithDevice(DeviceFunction choose) const {
  Scope s = *this;
  auto context = context_ == nullptr ? std::make_shared<ScopeContext>() : std::make_shared<ScopeContext>(*context_);
  context->devices.push_back(std::move(choose));
  s.context_ = std::move(context);
  return s;
}

Scope Scope::WithControlDependencies(const std::vector<Output>& operations) const {
  Scope s = *this;
  for (const Output& o : operations) {
    if (o.node != nullptr) s.control_.push_back(o.node);
  }
  return s;
}

Scope Scope::WithoutControlDependencies() const {
  Scope s = *this;
  s.control_.clear();
  return s;
}

Scope Scope::ColocateWith(Output operation) const {
  Scope s = *this;
  if (operation.node == nullptr) return s;
  if (!graph_->Owns(*operation.node)) {
    Fail(InvalidArgument("ColocateWith: operation '", operation.node->name(), "' belongs to another graph"));
  }
  s.colocate_.push_back(absl::StrCat("loc:@", operation.node->name()));
  return s;
}

absl::StatusOr<std::string> Scope::DeviceFor(const NodeDef& def) const {
  if (!colocate_.empty()) {
    const Node* node = graph_->FindNode(absl::StripPrefix(colocate_[0], "loc:@"));
    if (node != nullptr) return node->device();
  }
  // From the inside out: a function sees, as the device of the operation, what
  // the scopes within it ask for.
  DeviceName device;
  const std::vector<DeviceFunction>& devices = (context_ == nullptr ? RootContext() : *context_).devices;
  for (auto choose = devices.rbegin(); choose != devices.rend(); ++choose) {
    std::string chosen;
    if (device.empty()) {
      chosen = (*choose)(NewOperation(def));
    } else {
      NodeDef placed = def;
      placed.set_device(device.ToString());
      chosen = (*choose)(NewOperation(placed));
    }
    ASSIGN_OR_RETURN(const DeviceName outer, DeviceName::Parse(chosen));
    device = outer.MergedWith(device);
  }
  return device.ToString();
}

// An operation that takes seeds and was given none has the graph's.
void Scope::SetSeeds(const OpDef& op, NodeDef& def) const {
  if (!graph_->seed().has_value()) return;
  const auto takes = [&](absl::string_view name) {
    return std::any_of(op.attr().begin(), op.attr().end(), [&](const auto& attr) { return attr.name() == name; });
  };
  const auto given = [&](absl::string_view name) { return GetAttr<int64_t>(def, name).value_or(0) != 0; };
  if (!takes("seed") || !takes("seed2") || given("seed") || given("seed2")) return;
  const auto [seed, seed2] = SeedPair(*graph_->seed(), graph_->num_seeded_++);
  SetAttr(def, "seed", seed);
  SetAttr(def, "seed2", seed2);
}

// Order matters: the name is taken and attributes are inferred from the inputs before the device is chosen, because
// device functions see them; Graph::AddNode() then completes and checks the node.
absl::StatusOr<Node*> Scope::TryAdd(absl::string_view op, const std::vector<OpInput>& inputs,
                                    std::vector<AttrArg> attrs) const {
  const OpSchema* schema = graph_->FindSchema(op);
  if (schema == nullptr) return NotFound("Op type not registered '", op, "'", SuggestSimilarOp(op));
  if (schema->def.input_arg_size() != static_cast<int>(inputs.size())) {
    return InvalidArgument(op, " takes ", schema->def.input_arg_size(), " arguments, got ", inputs.size());
  }
  NodeDef def;
  def.set_op(std::string(op));
  def.set_name(graph_->UniqueName(absl::StrCat(prefix(), op_name_.empty() ? op : absl::string_view(op_name_))));
  for (AttrArg& attr : attrs) (*def.mutable_attr())[attr.name] = std::move(attr.mutable_value());
  SetSeeds(schema->def, def);
  if (!colocate_.empty()) SetAttr(def, "_class", colocate_);

  std::vector<Output> flat;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const Output& o : inputs[i].outputs) {
      if (o.node == nullptr)
        return InvalidArgument(op, ": argument '", schema->def.input_arg(i).name(), "' is missing");
    }
    InferAttrs(schema->def.input_arg(i), inputs[i], def);
    flat.insert(flat.end(), inputs[i].outputs.begin(), inputs[i].outputs.end());
  }
  ASSIGN_OR_RETURN(const std::string device, DeviceFor(def));
  def.set_device(device);
  ASSIGN_OR_RETURN(Node* const node, graph_->AddNode(std::move(def), std::move(flat), control_));
  node->context_ = context_;
  return node;
}

Node* Scope::Add(absl::string_view op, std::vector<OpInput> inputs, std::vector<AttrArg> attrs) const {
  if (!ok()) return nullptr;
  absl::StatusOr<Node*> node = TryAdd(op, inputs, std::move(attrs));
  if (node.ok()) return *node;
  Fail(node.status());
  return nullptr;
}

}  // namespace thalweg
