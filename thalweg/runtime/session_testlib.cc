// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/session_testlib.h"

#include <memory>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class GateKernel : public AsyncKernel {
  void ComputeAsync(KernelContext& c, Done done) override {
    auto shared = std::make_shared<Done>(std::move(done));
    auto ended = std::make_shared<std::atomic<bool>>(false);
    c.set_output(0, c.input(0));
    const auto id = c.step().cancellation->Register([shared, ended](const absl::Status& why) {
      if (!ended->exchange(true)) (*shared)(why);
    });
    if (!id.has_value()) {
      (*shared)(c.step().cancellation->status());
      return;
    }
    Gate* gate = the_gate.load();
    gate->done = [shared, ended](const absl::Status& status) {
      if (!ended->exchange(true)) (*shared)(status);
    };
    gate->entered.Notify();
  }
};
const OpRegistration kGate = Op("TestGate")
                                 .Input("x: T")
                                 .Output("y: T")
                                 .Attr("T: type")
                                 .Stateful()
                                 .Shape(shapes::LikeInput0)
                                 .Kernel<GateKernel>();

absl::Status Stuck(KernelContext& c) {
  ++stuck_begun;
  Notification cancelled;
  const auto id = c.step().cancellation->Register([&](const absl::Status&) { cancelled.Notify(); });
  if (id.has_value() && !cancelled.WaitForNotificationWithTimeout(absl::Seconds(20))) {
    c.step().cancellation->Deregister(*id);
    ++stuck_abandoned;
    ++stuck_ended;
    return absl::InternalError("nobody has cancelled it");
  }
  ++stuck_ended;
  return c.step().cancellation->status();
}
const OpRegistration kStuck =
    Op("TestStuck").Input("x: T").Output("y: T").Attr("T: type").Shape(shapes::LikeInput0).Compute(Stuck);

void AddEnter(tensorflow::GraphDef& def, const std::string& name, const std::string& input, const std::string& frame,
              DType type, bool is_constant = false) {
  tensorflow::NodeDef* node = AddDef(def, name, "Enter", {input});
  SetAttr(*node, "T", type);
  SetAttr(*node, "frame_name", frame);
  SetAttr(*node, "is_constant", is_constant);
}

}  // namespace

TestSession::Fetch::Fetch(Output output) : is_node(output.node->num_outputs() == 0) {
  name = is_node ? output.node->name() : output.name();
}

TestSession::Fetch TestSession::Fetch::Target(std::string node) {
  Fetch fetch(std::move(node));
  fetch.is_node = true;
  return fetch;
}

absl::StatusOr<std::unique_ptr<TestSession>> TestSession::Create(const Graph& graph,
                                                                 const DirectSessionOptions& options) {
  RETURN_IF_ERROR(graph.build_status());
  std::unique_ptr<TestSession> session(new TestSession(graph, options));
  RETURN_IF_ERROR(session->ExtendIfGrown());
  return session;
}

absl::Status TestSession::ExtendIfGrown() {
  if (known_nodes_ == graph_.num_nodes()) return absl::OkStatus();
  RETURN_IF_ERROR(session_.Extend(graph_.Export(known_nodes_)));
  known_nodes_ = graph_.num_nodes();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> TestSession::Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds,
                                                     const StepOptions& options, tensorflow::RunMetadata* metadata) {
  RETURN_IF_ERROR(ExtendIfGrown());
  Signature signature;
  std::vector<Tensor> values, results;
  for (const Fetch& fetch : fetches) (fetch.is_node ? signature.targets : signature.fetches).push_back(fetch.name);
  for (const Feed& feed : feeds) {
    signature.feeds.push_back(feed.name);
    values.push_back(feed.value);
  }
  RETURN_IF_ERROR(session_.Run(signature, options, values, &results, metadata));
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (fetches[i].is_node) results.insert(results.begin() + static_cast<ptrdiff_t>(i), Tensor());
  }
  return results;
}

std::atomic<Gate*> the_gate{nullptr};
std::atomic<int> stuck_begun{0}, stuck_ended{0}, stuck_abandoned{0};

tensorflow::NodeDef* AddDef(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
                            const std::vector<std::string>& inputs) {
  tensorflow::NodeDef* node = def.add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  return node;
}

void AddTyped(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
              const std::vector<std::string>& inputs, DType type) {
  SetAttr(*AddDef(def, name, op, inputs), "T", type);
}

void AddConst(tensorflow::GraphDef& def, const std::string& name, const Tensor& value,
              const std::vector<std::string>& inputs) {
  tensorflow::NodeDef* node = AddDef(def, name, "Const", inputs);
  SetAttr(*node, "dtype", value.dtype());
  SetAttr(*node, "value", value);
}

void AddLoop(tensorflow::GraphDef& def, const std::string& p, const std::string& zero, const std::string& start,
             const std::string& limit, const std::function<std::string(const std::string& i)>& body) {
  AddEnter(def, p + "/enter_i", zero, p, kInt32);
  AddEnter(def, p + "/enter_acc", start, p, kFloat);
  AddEnter(def, p + "/limit", limit, p, kInt32, true);
  SetAttr(*AddDef(def, p + "/merge_i", "Merge", {p + "/enter_i", p + "/next_i"}), "T", kInt32);
  SetAttr(*AddDef(def, p + "/merge_acc", "Merge", {p + "/enter_acc", p + "/next_acc"}), "T", kFloat);
  SetAttr(*def.mutable_node(def.node_size() - 2), "N", 2);
  SetAttr(*def.mutable_node(def.node_size() - 1), "N", 2);
  AddTyped(def, p + "/less", "Less", {p + "/merge_i", p + "/limit"}, kInt32);
  AddDef(def, p + "/cond", "LoopCond", {p + "/less"});
  AddTyped(def, p + "/switch_i", "Switch", {p + "/merge_i", p + "/cond"}, kInt32);
  AddTyped(def, p + "/switch_acc", "Switch", {p + "/merge_acc", p + "/cond"}, kFloat);
  AddTyped(def, p + "/pivot", "Identity", {p + "/switch_i:1"}, kInt32);
  AddConst(def, p + "/one", Tensor::Scalar<int32_t>(1), {"^" + p + "/pivot"});
  AddTyped(def, p + "/i_plus", "AddV2", {p + "/pivot", p + "/one"}, kInt32);
  const std::string term = body(p + "/pivot");
  AddTyped(def, p + "/acc_plus", "AddV2", {p + "/switch_acc:1", term}, kFloat);
  AddTyped(def, p + "/next_i", "NextIteration", {p + "/i_plus"}, kInt32);
  AddTyped(def, p + "/next_acc", "NextIteration", {p + "/acc_plus"}, kFloat);
  AddTyped(def, p + "/exit_acc", "Exit", {p + "/switch_acc"}, kFloat);
}

void AddCast(tensorflow::GraphDef& def, const std::string& name, const std::string& input) {
  tensorflow::NodeDef* node = AddDef(def, name, "Cast", {input});
  SetAttr(*node, "SrcT", kInt32);
  SetAttr(*node, "DstT", kFloat);
}

}  // namespace thalweg
