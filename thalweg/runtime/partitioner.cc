// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/partitioner.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/later_attrs.h"
#include "thalweg/kernel/rendezvous.h"

namespace thalweg {
namespace {

using tensorflow::NodeDef;

class Partitioning {
 public:
  Partitioning(Graph graph, const Signature& signature, const PartitionOptions& options)
      : graph_(std::move(graph)), signature_(signature), options_(options) {}

  absl::StatusOr<std::vector<GraphPart>> Run() {
    MoveFeeds();
    RETURN_IF_ERROR(AssignParts());
    RETURN_IF_ERROR(FindLoops());
    for (const auto& node : graph_.nodes()) {
      if (node->op() == "_Arg") {
        RETURN_IF_ERROR(AddFeed(*node));
      } else if (node->op() == "_Retval") {
        RETURN_IF_ERROR(AddFetch(*node));
      } else {
        NodeDef* def = AddNode(part_of_[node->id()], node->def());
        Connect(*node, def);
      }
    }
    return std::move(parts_);
  }

 private:
  // The control loop of a frame in one part.
  struct ControlLoop {
    std::string merge;  // runs once per iteration, the last included
    std::string go_on;  // a value that is dead after the last iteration
  };

  // Moves a feed to the task that uses it, if there is only one.
  void MoveFeeds() {
    const auto consumers = Consumers(graph_);
    for (const auto& node : graph_.nodes()) {
      if (node->op() != "_Arg" || consumers[node->id()].empty()) continue;
      std::set<std::string> tasks;
      for (const Node* consumer : consumers[node->id()]) tasks.insert(TaskOfNode(*consumer));
      if (tasks.size() == 1) node->set_device(consumers[node->id()][0]->device());
    }
  }

  static std::string TaskOfNode(const Node& node) {
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(node.device());
    return name.ok() ? TaskOf(*name) : "";
  }

  absl::Status AssignParts() {
    part_of_.resize(graph_.num_nodes());
    for (const auto& node : graph_.nodes()) {
      std::string task = TaskOfNode(*node);
      if (task.empty()) return Internal("node '", node->name(), "' was not placed: '", node->device(), "'");
      const auto [it, is_new] = part_by_task_.try_emplace(task, static_cast<int>(parts_.size()));
      if (is_new) {
        parts_.emplace_back();
        parts_.back().task = std::move(task);
        *parts_.back().graph.mutable_versions() = graph_.versions();
        part_device_.push_back(node->device());
      }
      part_of_[node->id()] = it->second;
    }
    return absl::OkStatus();
  }

  // Finds the loops that span several tasks, and adds a control loop for each of them to every task.
  absl::Status FindLoops() {
    if (parts_.size() == 1) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
    ASSIGN_OR_RETURN(frames_, FindFrames(graph_, order));
    if (frames_.frames.size() == 1) return absl::OkStatus();
    loop_cond_.resize(frames_.frames.size());
    std::vector<std::set<int>> parts_of_frame(frames_.frames.size());
    for (const auto& node : graph_.nodes()) {
      const int frame = frames_.of_node[node->id()];
      if (node->op() == "LoopCond") loop_cond_[frame] = node.get();
      // The output of an Enter belongs to the loop: it is sent from its task in every iteration.
      const int inside = IsEnter(*node) ? frames_.of_outputs[node->id()] : frame;
      for (int f = inside; f > 0; f = frames_.frames[f].parent) parts_of_frame[f].insert(part_of_[node->id()]);
    }
    control_loops_.resize(frames_.frames.size());
    for (size_t f = 1; f < frames_.frames.size(); ++f) {  // parents come first
      if (parts_of_frame[f].size() < 2) continue;
      if (loop_cond_[f] == nullptr) {
        return InvalidArgument("Loop '", frames_.frames[f].name, "' spans several tasks and has no LoopCond");
      }
      for (const int part : parts_of_frame[f]) RETURN_IF_ERROR(AddControlLoop(static_cast<int>(f), part));
    }
    return absl::OkStatus();
  }

  // Adds the loop of the header comment: it follows the condition, which may be computed in another task.
  absl::Status AddControlLoop(int frame, int part) {
    const Frame& loop = frames_.frames[frame];
    ASSIGN_OR_RETURN(const int64_t parallel_iterations, GetAttr<int64_t>(loop.enters[0]->def(), "parallel_iterations"));
    const std::string base = graph_.UniqueName(absl::StrCat("_cloop_", frame, "_", part));
    const auto add = [&](const char* what, const char* op, const std::vector<std::string>& inputs) -> NodeDef* {
      NodeDef def;
      def.set_name(absl::StrCat(base, "/", what));
      def.set_op(op);
      def.set_device(part_device_[part]);
      for (const std::string& input : inputs) def.add_input(input);
      return AddNode(part, std::move(def));
    };
    NodeDef* start = add("start", "Const", {});
    SetAttr(*start, "dtype", kBool);
    SetAttr(*start, "value", Tensor::Scalar(true));
    if (loop.parent > 0) start->add_input(absl::StrCat("^", BodyOf(loop.parent, part)));
    NodeDef* enter = add("enter", "Enter", {absl::StrCat(base, "/start")});
    SetAttr(*enter, "T", kBool);
    SetAttr(*enter, "frame_name", loop.name);
    SetAttr(*enter, "is_constant", false);
    SetAttr(*enter, "parallel_iterations", parallel_iterations);
    NodeDef* merge = add("again", "Merge", {absl::StrCat(base, "/enter"), absl::StrCat(base, "/next")});
    SetAttr(*merge, "T", kBool);
    SetAttr(*merge, "N", int64_t{2});
    control_loops_[frame][part] = {.merge = absl::StrCat(base, "/again"), .go_on = absl::StrCat(base, "/switch:1")};
    const Node& condition = *loop_cond_[frame];
    const std::string cond = part_of_[condition.id()] == part
                                 ? NameOf(condition)
                                 : Across(Output(loop_cond_[frame], 0), part, part_device_[part], frame);
    NodeDef* go_on = add("switch", "Switch", {absl::StrCat(base, "/again"), cond});
    SetAttr(*go_on, "T", kBool);
    NodeDef* next = add("next", "NextIteration", {absl::StrCat(base, "/switch:1")});
    SetAttr(*next, "T", kBool);
    return absl::OkStatus();
  }

  // A node of a partition that runs in the iterations of a frame but not after the last one. A
  // nested loop starts from it.
  const std::string& BodyOf(int frame, int part) {
    std::string& name = bodies_[{frame, part}];
    if (!name.empty()) return name;
    NodeDef body;
    body.set_name(graph_.ReserveName(absl::StrCat("_cloop_", frame, "_", part, "/body")));
    body.set_op("Identity");
    body.set_device(part_device_[part]);
    body.add_input(control_loops_[frame].at(part).go_on);
    SetAttr(body, "T", kBool);
    name = body.name();
    AddNode(part, std::move(body));
    return name;
  }

  NodeDef* AddNode(int part, NodeDef def) {
    if (const OpSchema* schema = graph_.FindSchema(def.op())) RemoveLaterDefaults(schema->def, def);
    NodeDef* added = parts_[part].graph.add_node();
    *added = std::move(def);
    return added;
  }

  static std::string InputName(const std::string& node, int index) {
    return index == 0 ? node : absl::StrCat(node, ":", index);
  }

  void Connect(const Node& node, NodeDef* def) {
    const int part = part_of_[node.id()];
    for (const Output& input : node.inputs()) def->add_input(InputFor(input, part, node));
    for (const Node* control : node.control_inputs()) def->add_input(After(*control, part, node.device()));
  }

  std::string InputFor(const Output& input, int part, const Node& consumer) {
    if (part_of_[input.node->id()] == part) {
      return InputName(NameOf(*input.node), input.index);
    }
    if (IsRef(input.dtype())) {
      const std::vector<Output> others = OtherInputs(consumer);
      if (!others.empty() || !consumer.control_inputs().empty()) return ReadAcross(input, others, consumer);
    }
    return Across(input, part, consumer.device(), OutputFrame(*input.node));
  }

  // A control input for a node of `part` that is to run after `source`.
  std::string After(const Node& source, int part, const std::string& device) {
    return absl::StrCat("^", part_of_[source.id()] == part ? NameOf(source) : ControlAcross(source, part, device));
  }

  // The inputs that a node waits for, except the variables that it reads and values that are
  // available from the start. A Merge runs when its first input arrives.
  static std::vector<Output> OtherInputs(const Node& node) {
    std::vector<Output> others;
    if (IsMerge(node)) return others;
    for (const Output& input : node.inputs()) {
      const bool is_given =
          input.node->op() == "_Arg" || (input.node->op() == "Const" && input.node->control_inputs().empty());
      if (!IsRef(input.dtype()) && !is_given) others.push_back(input);
    }
    return others;
  }

  // The node in the reader's partition with the value of the variable `source`, read when the
  // other inputs of the reader are ready. If values are pushed, the send waits for those
  // inputs; if they are fetched, the receive does.
  std::string ReadAcross(const Output& source, const std::vector<Output>& others, const Node& reader) {
    const int from = part_of_[source.node->id()], to = part_of_[reader.id()];
    const bool pushed = options_.pushes != nullptr && options_.pushes(parts_[from].task, parts_[to].task);
    std::vector<std::string> waits;
    for (const Output& other : others) {
      if (pushed) {
        waits.push_back(After(*other.node, from, source.node->device()));
      } else {
        const std::string input = InputFor(other, to, reader);
        waits.push_back(absl::StrCat("^", input.substr(0, input.rfind(':'))));
      }
    }
    for (const Node* control : reader.control_inputs()) {
      waits.push_back(After(*control, pushed ? from : to, pushed ? source.node->device() : reader.device()));
    }
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    const Transfer transfer = AddTransfer(*source.node, InputName(NameOf(*source.node), source.index),
                                          RemoveRef(source.dtype()), to, reader.device(), OutputFrame(*source.node));
    NodeDef& waiting = pushed ? transfer.send : transfer.recv;
    for (const std::string& wait : waits) waiting.add_input(wait);
    return transfer.recv.name();
  }

  int OutputFrame(const Node& node) const { return frames_.of_outputs.empty() ? 0 : frames_.of_outputs[node.id()]; }

  // The node in `part` with the value of `source`, which is in another partition. All readers of a
  // partition share one transfer.
  std::string Across(const Output& source, int part, const std::string& device, int frame) {
    const auto [it, is_new] = received_.try_emplace(std::tuple(source.node->id(), source.index, part), "");
    if (!is_new) return it->second;
    const std::string value = InputName(NameOf(*source.node), source.index);
    it->second = AddTransfer(*source.node, value, RemoveRef(source.dtype()), part, device, frame).recv.name();
    return it->second;
  }

  // The node in `part` that runs after `source`, which is in another partition. An empty tensor is sent as
  // the signal. The node is dead if the signal is, in a branch that is not taken or after the last iteration.
  // That takes an Identity, because a control edge from a receive says only that something has arrived.
  std::string ControlAcross(const Node& source, int part, const std::string& device) {
    const auto [it, is_new] = received_.try_emplace(std::tuple(source.id(), -1, part), "");
    if (!is_new) return it->second;
    const int from = part_of_[source.id()];
    NodeDef signal;
    signal.set_name(graph_.ReserveName(absl::StrCat(source.name(), "/_signal")));
    signal.set_op("Const");
    signal.set_device(source.device());
    SetAttr(signal, "dtype", kFloat);
    SetAttr(signal, "value", Tensor(kFloat, Shape({0})));
    signal.add_input(absl::StrCat("^", NameOf(source)));
    const std::string name = signal.name();
    AddNode(from, std::move(signal));
    const NodeDef& recv = AddTransfer(source, name, kFloat, part, device, OutputFrame(source)).recv;
    NodeDef arrived;
    arrived.set_name(graph_.ReserveName(absl::StrCat(source.name(), "/_arrived", options_.suffix)));
    arrived.set_op("Identity");
    arrived.set_device(device);
    arrived.add_input(recv.name());
    SetAttr(arrived, "T", kFloat);
    it->second = arrived.name();
    AddNode(part, std::move(arrived));
    return it->second;
  }

  struct Transfer {
    NodeDef& send;
    NodeDef& recv;
  };

  Transfer AddTransfer(const Node& source, const std::string& value, DType type, int part, const std::string& device,
                       int frame) {
    const std::string edge = absl::StrCat("edge_", next_edge_++, "_", source.name());
    NodeDef send;
    send.set_name(graph_.ReserveName(absl::StrCat(source.name(), "/_send", options_.suffix)));
    send.set_op("_Send");
    send.set_device(source.device());
    send.add_input(value);
    SetAttr(send, "T", type);
    SetEnds(send, edge, source.device(), device, false);

    NodeDef recv;
    recv.set_name(graph_.ReserveName(absl::StrCat(source.name(), "/_recv", options_.suffix)));
    recv.set_op("_Recv");
    recv.set_device(device);
    SetAttr(recv, "tensor_type", type);
    SetEnds(recv, edge, source.device(), device, false);
    // The control input makes the receive part of the loop, so that it runs once per iteration.
    if (frame > 0) recv.add_input(absl::StrCat("^", control_loops_[frame].at(part).merge));
    return {*AddNode(part_of_[source.id()], std::move(send)), *AddNode(part, std::move(recv))};
  }

  void SetEnds(NodeDef& def, const std::string& name, const std::string& from, const std::string& to,
               bool client_terminated) const {
    SetAttr(def, "tensor_name", name);
    SetAttr(def, "send_device", from);
    SetAttr(def, "send_device_incarnation", static_cast<int64_t>(options_.incarnation(from)));
    SetAttr(def, "recv_device", to);
    SetAttr(def, "client_terminated", client_terminated);
  }

  std::string KeyOf(const std::string& name, const std::string& device) const {
    return RendezvousKey{.source_device = device,
                         .source_incarnation = options_.incarnation(device),
                         .destination_device = device,
                         .edge = name}
        .ToString();
  }

  // The name that TensorFlow gives to the node of a feed or fetch; it appears in errors.
  static std::string EndName(absl::string_view prefix, const std::string& tensor) {
    const size_t colon = tensor.rfind(':');
    return colon == std::string::npos ? absl::StrCat(prefix, tensor, "_0")
                                      : absl::StrCat(prefix, tensor.substr(0, colon), "_", tensor.substr(colon + 1));
  }

  // The name of a node in its partition.
  std::string NameOf(const Node& node) const {
    if (node.op() != "_Arg") return node.name();
    return EndName("_recv_", signature_.feeds[*GetAttr<int64_t>(node.def(), "index")]);
  }

  absl::Status AddFeed(const Node& arg) {
    ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(arg.def(), "index"));
    const std::string& tensor = signature_.feeds[index];
    NodeDef recv;
    recv.set_name(NameOf(arg));
    recv.set_op("_Recv");
    recv.set_device(arg.device());
    SetAttr(recv, "tensor_type", arg.output_type(0));
    // Both ends name the device of the node, because the client has no device.
    SetEnds(recv, tensor, arg.device(), arg.device(), true);
    const int part = part_of_[arg.id()];
    AddNode(part, std::move(recv));
    parts_[part].feeds.emplace_back(static_cast<int>(index), KeyOf(tensor, arg.device()));
    return absl::OkStatus();
  }

  absl::Status AddFetch(const Node& retval) {
    ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(retval.def(), "index"));
    // A tensor that is fetched twice is sent twice, under two names.
    const auto name = signature_.fetches.begin() + index;
    const bool again = std::find(signature_.fetches.begin(), name, *name) != name;
    const std::string tensor = again ? absl::StrCat(*name, "/", index) : *name;
    const int part = part_of_[retval.id()];
    NodeDef send;
    send.set_name(graph_.ReserveName(EndName("_send_", tensor)));
    send.set_op("_Send");
    send.set_device(retval.device());
    send.add_input(InputFor(retval.input(0), part, retval));
    SetAttr(send, "T", RemoveRef(retval.input_type(0)));
    SetEnds(send, tensor, retval.device(), retval.device(), true);
    AddNode(part, std::move(send));
    parts_[part].fetches.emplace_back(static_cast<int>(index), KeyOf(tensor, retval.device()));
    return absl::OkStatus();
  }

  Graph graph_;
  const Signature& signature_;
  const PartitionOptions& options_;
  std::vector<GraphPart> parts_;
  std::vector<std::string> part_device_;  // a device of each part
  absl::flat_hash_map<std::string, int> part_by_task_;
  std::vector<int> part_of_;                                   // by node id
  std::map<std::tuple<int, int, int>, std::string> received_;  // (node, output or -1, part): where it has arrived
  int next_edge_ = 1;
  Frames frames_;                                          // empty if there is one part
  std::vector<Node*> loop_cond_;                           // by frame
  std::vector<std::map<int, ControlLoop>> control_loops_;  // by frame, then part
  std::map<std::pair<int, int>, std::string> bodies_;      // by frame and part
};

}  // namespace

absl::StatusOr<std::vector<GraphPart>> Partition(Graph graph, const Signature& signature,
                                                 const PartitionOptions& options) {
  return Partitioning(std::move(graph), signature, options).Run();
}

}  // namespace thalweg
