#include "thalweg/client/session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

#define ASSERT_OK(expression) ASSERT_TRUE((expression).ok()) << (expression)
#define ASSERT_OK_AND_ASSIGN(lhs, expression)                                                        \
  auto THALWEG_CONCAT(result_, __LINE__) = (expression);                                             \
  ASSERT_TRUE(THALWEG_CONCAT(result_, __LINE__).ok()) << THALWEG_CONCAT(result_, __LINE__).status(); \
  lhs = *std::move(THALWEG_CONCAT(result_, __LINE__))

// Waits until the step is cancelled or the test opens the gate.
struct Gate {
  Notification entered;
  AsyncKernel::Done done;
};
std::atomic<Gate*> the_gate{nullptr};

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

TEST(Session, FetchesAConstant) {
  Graph graph;
  const Scope s = graph.root();
  const Output hello = Const(s, std::string("Hello, Thalweg!"));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({hello}));
  EXPECT_EQ(out[0].scalar<std::string>(), "Hello, Thalweg!");
}

TEST(Session, FeedsAndFetches) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 2});
  const Output w = Const(s, {{1.f, 2.f}, {3.f, 4.f}});
  const Output y = MatMul(s, x, w);
  const Output z = Add(s, y, y);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({z, y}, {{x, Tensor::Of<float>({1, 2}, {1, 1})}}));
  EXPECT_THAT(out[0].flat<float>(), ElementsAre(8, 12));
  EXPECT_THAT(out[1].flat<float>(), ElementsAre(4, 6));
  // An inner tensor may be fed too: then x is not needed.
  ASSERT_OK_AND_ASSIGN(const auto inner, session->Run({z}, {{y, Tensor::Of<float>({1, 2}, {5, 6})}}));
  EXPECT_THAT(inner[0].flat<float>(), ElementsAre(10, 12));
}

TEST(Session, TheGraphMayGrow) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s, 2.f);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({a}).status());
  const Output b = Mul(s, a, a);
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({b}));
  EXPECT_EQ(out[0].scalar<float>(), 4);
}

TEST(Session, VariablesKeepTheirValues) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithOpName("v").Add("VariableV2", {}, {{"shape", Shape({2})}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, {1.f, 2.f})});
  const Output add = s.Add("AssignAdd", {v->out(), Const(s, {10.f, 20.f})});
  const Output read = Identity(s, v->out());
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const absl::Status early = session->Run({read}).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("Attempting to use uninitialized value v"));
  EXPECT_THAT(std::string(early.message()), HasSubstr("[[{{node Identity}}]]"));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto before, session->Run({read}));
  ASSERT_OK(session->Run({add}).status());
  ASSERT_OK_AND_ASSIGN(const auto after, session->Run({v->out()}));
  EXPECT_THAT(after[0].flat<float>(), ElementsAre(11, 22));
  // What was read before is a snapshot.
  EXPECT_THAT(before[0].flat<float>(), ElementsAre(1, 2));
}

TEST(Session, TargetsRunAndYieldNothing) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output group = NoOp(s.WithControlDependencies({init}));
  const Output c = Const(s, 5.f);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({group, c}));
  EXPECT_FALSE(out[0].has_value());
  EXPECT_EQ(out[1].scalar<float>(), 5);
  ASSERT_OK(session->Run({Identity(s, v->out())}).status());
}

TEST(Session, ControlDependenciesOrderUpdatesAndReads) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output add = s.Add("AssignAdd", {v->out(), Const(s, 1.f)});
  const Output read = Identity(s.WithControlDependencies({add}), v->out());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  for (int i = 2; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
    EXPECT_EQ(out[0].scalar<float>(), i);
  }
}

// cond(p): x + 1 if p else x * 10
Output Cond(const Scope& s, Output p, Output x) {
  Node* sw = s.Add("Switch", {x, p});
  const Output no = Mul(s, sw->out(0), Const(s.WithControlDependencies({Identity(s, sw->out(0))}), 10.f));
  const Output yes = Add(s, sw->out(1), Const(s.WithControlDependencies({Identity(s, sw->out(1))}), 1.f));
  return s.Add("Merge", {std::vector<Output>{no, yes}});
}

TEST(Session, Conditionals) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  const Output x = Placeholder(s, kFloat, Shape());
  const Output y = Cond(s, p, x);
  const Output twice = Cond(s, p, y);  // deadness is set anew
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK_AND_ASSIGN(const auto yes,
                         session->Run({y, twice}, {{p, Tensor::Scalar(true)}, {x, Tensor::Scalar(3.f)}}));
    EXPECT_EQ(yes[0].scalar<float>(), 4);
    EXPECT_EQ(yes[1].scalar<float>(), 5);
    ASSERT_OK_AND_ASSIGN(const auto no,
                         session->Run({y, twice}, {{p, Tensor::Scalar(false)}, {x, Tensor::Scalar(3.f)}}));
    EXPECT_EQ(no[0].scalar<float>(), 30);
    EXPECT_EQ(no[1].scalar<float>(), 300);
  }
}

TEST(Session, TheGradientOfAConditionalFollowsTheBranch) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  const Output x = Placeholder(s, kFloat, Shape());
  const std::vector<Gradient> dx = Gradients(s, {Cond(s, p, x)}, {x});
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto yes,
                       session->Run({dx[0].values}, {{p, Tensor::Scalar(true)}, {x, Tensor::Scalar(3.f)}}));
  EXPECT_EQ(yes[0].scalar<float>(), 1);
  ASSERT_OK_AND_ASSIGN(const auto no,
                       session->Run({dx[0].values}, {{p, Tensor::Scalar(false)}, {x, Tensor::Scalar(3.f)}}));
  EXPECT_EQ(no[0].scalar<float>(), 10);
}

TEST(Session, FetchingADeadTensorIsAnError) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  Node* sw = s.Add("Switch", {Const(s, 1.f), p});
  const Output y = Neg(s, sw->out(1));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const absl::Status status = session->Run({y}, {{p, Tensor::Scalar(false)}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Neg:0 was not valid"));
  ASSERT_OK(session->Run({y}, {{p, Tensor::Scalar(true)}}).status());
}

// Builds what tf.while_loop builds in a GraphDef: imported, since loops point
// back. while (i < n) { i = i + 1; acc = acc + step(i) }
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
              const std::vector<std::string>& inputs = {}) {
  tensorflow::NodeDef* node = AddDef(def, name, "Const", inputs);
  SetAttr(*node, "dtype", value.dtype());
  SetAttr(*node, "value", value);
}

void AddEnter(tensorflow::GraphDef& def, const std::string& name, const std::string& input, const std::string& frame,
              DType type, bool is_constant = false) {
  tensorflow::NodeDef* node = AddDef(def, name, "Enter", {input});
  SetAttr(*node, "T", type);
  SetAttr(*node, "frame_name", frame);
  SetAttr(*node, "is_constant", is_constant);
}

// A loop `p` that counts from 0 to the int32 tensor `limit` and adds up, in
// float, what `body` makes of the counter. Its result is p/exit_acc.
void AddLoop(tensorflow::GraphDef& def, const std::string& p, const std::string& zero, const std::string& start,
             const std::string& limit, const std::function<std::string(const std::string& pivot)>& body) {
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

tensorflow::NodeDef* AddCast(tensorflow::GraphDef& def, const std::string& name, const std::string& input) {
  tensorflow::NodeDef* node = AddDef(def, name, "Cast", {input});
  SetAttr(*node, "SrcT", kInt32);
  SetAttr(*node, "DstT", kFloat);
  return node;
}

TEST(Session, Loops) {
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(100));
  SetAttr(*AddDef(def, "n", "Placeholder", {}), "dtype", kInt32);
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    AddCast(def, "w/term", i);
    return "w/term";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  for (const int n : {0, 1, 2, 10, 1000}) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"w/exit_acc:0"}, {{"n:0", Tensor::Scalar<int32_t>(n)}}));
    EXPECT_EQ(out[0].scalar<float>(), 100.f + n * (n - 1) / 2) << n;
  }
}

TEST(Session, NestedLoops) {
  // sum over i < n of sum over j < i of j
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(0));
  SetAttr(*AddDef(def, "n", "Placeholder", {}), "dtype", kInt32);
  AddLoop(def, "outer", "zero", "start", "n", [&](const std::string& i) {
    AddConst(def, "outer/zero_i", Tensor::Scalar<int32_t>(0), {"^outer/pivot"});
    AddConst(def, "outer/zero_f", Tensor::Scalar<float>(0), {"^outer/pivot"});
    AddLoop(def, "inner", "outer/zero_i", "outer/zero_f", i, [&](const std::string& j) {
      AddCast(def, "inner/term", j);
      return "inner/term";
    });
    return "inner/exit_acc";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  for (const int n : {0, 1, 2, 3, 7, 20}) {
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += static_cast<float>(i * (i - 1) / 2);
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"outer/exit_acc:0"}, {{"n:0", Tensor::Scalar<int32_t>(n)}}));
    EXPECT_EQ(out[0].scalar<float>(), expected) << n;
  }
}

TEST(Session, ALoopThatWaitsGoesOn) {
  // Each iteration passes a gate that the test opens from its own thread.
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(0));
  AddConst(def, "n", Tensor::Scalar<int32_t>(5));
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    AddCast(def, "w/cast", i);
    AddTyped(def, "w/gate", "TestGate", {"w/cast"}, kFloat);
    return "w/gate";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < 6; ++i) gates.push_back(std::make_unique<Gate>());
  the_gate = gates[0].get();
  std::thread opener([&] {
    for (int i = 0; i < 5; ++i) {
      gates[i]->entered.WaitForNotification();
      the_gate = gates[i + 1].get();
      gates[i]->done(absl::OkStatus());
    }
  });
  const auto out = session->Run({"w/exit_acc:0"});
  opener.join();
  ASSERT_OK(out.status());
  EXPECT_EQ((*out)[0].scalar<float>(), 0 + 1 + 2 + 3 + 4);
}

TEST(Session, AWaitHoldsUpOnlyWhatDependsOnIt) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 0.f)});
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  const Output sum = Add(s, gated, Const(s, 1.f));
  // Comes after the gate in the graph, and does not need it.
  const Output bump = s.Add("AssignAdd", {v->out(), Const(s, 1.f)});
  const Output read = Identity(s, v->out());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  Gate gate;
  the_gate = &gate;
  std::thread runner([&] {
    const auto out = session->Run({sum, bump});
    ASSERT_OK(out.status());
    EXPECT_EQ((*out)[0].scalar<float>(), 4);
  });
  gate.entered.WaitForNotification();
  // The update happens while the step waits.
  for (float value = 0; value != 1;) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
    value = out[0].scalar<float>();
  }
  gate.done(absl::OkStatus());
  runner.join();
}

TEST(Session, ATimeoutEndsAStepThatWaits) {
  Graph graph;
  const Scope s = graph.root();
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  Gate gate;
  the_gate = &gate;
  const absl::Status status = session->Run({gated}, {}, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST(Session, ATimeoutEndsALoopWithoutEnd) {
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(0));
  AddConst(def, "n", Tensor::Scalar<int32_t>(2000000000));
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    AddCast(def, "w/term", i);
    return "w/term";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const absl::Status status = session->Run({"w/exit_acc:0"}, {}, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST(Session, CancellationFromOutside) {
  Graph graph;
  const Scope s = graph.root();
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  Gate gate;
  the_gate = &gate;
  Cancellation cancellation;
  std::thread canceller([&] {
    gate.entered.WaitForNotification();
    cancellation.Cancel(absl::CancelledError("enough"));
  });
  const absl::Status status = session->Run({gated}, {}, {.cancellation = &cancellation}).status();
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "enough");
}

TEST(Session, CloseCancelsWhatRuns) {
  Graph graph;
  const Scope s = graph.root();
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  const Output c = Const(s, 1.f);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  Gate gate;
  the_gate = &gate;
  absl::Status status;
  std::thread runner([&] { status = session->Run({gated}).status(); });
  gate.entered.WaitForNotification();
  ASSERT_OK(session->Close());
  runner.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Session::Close()"));
  EXPECT_EQ(session->Run({c}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Session, TheFirstErrorEndsTheStepAndNamesTheNode) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1});
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  const Output bad = Reshape(s.WithOpName("bad"), x, {3});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  Gate gate;
  the_gate = &gate;
  const absl::Status status = session->Run({gated, bad}, {{x, Tensor::Vector<float>({1, 2})}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("Input to reshape is a tensor with 2 values, but the requested shape has 3\n\t [[{{node bad}}]]"));
}

TEST(Session, BadSignatures) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {-1, 784});
  const Output y = Neg(s.WithOpName("y"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const auto error = [&](const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds) {
    return session->Run(fetches, feeds).status();
  };
  const Tensor good(kFloat, {1, 784});
  EXPECT_EQ(error({}, {}), absl::InvalidArgumentError("Must specify at least one target to fetch or execute."));
  EXPECT_EQ(error({"zz:0"}, {}), absl::NotFoundError("FetchOutputs node zz:0: not found"));
  EXPECT_EQ(error({"y:3"}, {{x, good}}),
            absl::InvalidArgumentError("FetchOutputs y:3: output index too large, must be < 1"));
  EXPECT_EQ(error({y}, {{"nonode:0", good}}), absl::NotFoundError("FeedInputs: unable to find feed output nonode:0"));
  EXPECT_EQ(error({y}, {{x, good}, {x, good}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error({y}, {{x, Tensor(kInt32, {1, 784})}}),
            absl::InvalidArgumentError("Feed 'x:0' is of type int32, expected float"));
  EXPECT_EQ(error({y}, {{x, Tensor(kFloat, {784})}}),
            absl::InvalidArgumentError("Feed 'x:0' has shape [784], expected [?,784]"));
  EXPECT_THAT(std::string(error({y}, {}).message()),
              HasSubstr("You must feed a value for placeholder tensor 'x' with dtype float"));
  ASSERT_OK(error({y}, {{x, good}}));
}

TEST(Session, AnUnknownOpFailsOnlyTheRunsThatNeedIt) {
  tensorflow::GraphDef def;
  AddConst(def, "c", Tensor::Scalar<float>(1));
  AddDef(def, "strange", "NoSuchOp", {"c"});
  AddTyped(def, "after", "Neg", {"strange"}, kFloat);
  AddTyped(def, "fine", "Neg", {"c"}, kFloat);
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"fine:0"}));
  EXPECT_EQ(out[0].scalar<float>(), -1);
  const absl::Status status = session->Run({"after:0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'NoSuchOp'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'strange'"));
}

TEST(Session, AGraphWithAnErrorDoesNotStart) {
  Graph graph;
  const Scope s = graph.root();
  MatMul(s.WithOpName("bad"), Const(s, {1.f}), Const(s, {{1.f}}));
  const absl::Status status = Session::Create(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bad"));
}

TEST(Session, SeveralDevices) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s.WithDevice("/cpu:1"), 1.f);
  const Output b = Neg(s.WithDevice("/device:CPU:1").WithOpName("b"), a);
  const Output c = Neg(s.WithOpName("c"), b);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.cpu_devices = 2}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({c}));
  EXPECT_EQ(out[0].scalar<float>(), 1);
  ASSERT_OK_AND_ASSIGN(const auto placed, session->ExplainPlacement({c}));
  const auto find = [&](const std::string& name) {
    return *std::find_if(placed.begin(), placed.end(), [&](const Placed& p) { return p.node == name; });
  };
  EXPECT_EQ(find("b").device, "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_THAT(find("b").reason, HasSubstr("asked for /device:CPU:1"));
  EXPECT_EQ(find("c").device, "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(find("c").reason, "default");
}

TEST(Session, AnImpossibleDeviceIsAnErrorUnlessPlacementIsSoft) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Neg(s.WithDevice("/device:GPU:0").WithOpName("x"), Const(s, 1.f));
  ASSERT_OK_AND_ASSIGN(auto hard, Session::Create(graph));
  const absl::Status status = hard->Run({x}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Cannot assign a device for operation x"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/device:GPU:0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:localhost/replica:0/task:0/device:CPU:0"));
  ASSERT_OK_AND_ASSIGN(auto soft, Session::Create(graph, {.allow_soft_placement = true}));
  ASSERT_OK(soft->Run({x}).status());
}

TEST(Session, StepStatisticsWhenAsked) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {2});
  const Output y = Neg(s.WithOpName("y"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  RunMetadata metadata;
  const Tensor value = Tensor::Vector<float>({1, 2});
  ASSERT_OK(session->Run({y}, {{x, value}}, {.trace = true, .output_partition_graphs = true}, &metadata).status());
  ASSERT_EQ(metadata.step_stats().dev_stats_size(), 1);
  const auto& stats = metadata.step_stats().dev_stats(0);
  EXPECT_EQ(stats.device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  ASSERT_EQ(stats.node_stats_size(), 1);
  EXPECT_EQ(stats.node_stats(0).node_name(), "y");
  EXPECT_GT(stats.node_stats(0).all_start_micros(), absl::ToUnixMicros(absl::Now()) - 60'000'000);
  EXPECT_EQ(stats.node_stats(0).output(0).tensor_description().allocation_description().requested_bytes(), 8);
  ASSERT_EQ(metadata.partition_graphs_size(), 1);
  RunMetadata without;
  ASSERT_OK(session->Run({y}, {{x, value}}, {}, &without).status());
  EXPECT_EQ(without.ByteSizeLong(), 0);
}

TEST(Session, CallablesAndManyThreads) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {});
  const Output y = Add(s, Mul(s, x, x), Const(s, 1.f));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const Session::Callable callable, session->Prepare({y}, {x}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const float v = static_cast<float>(t * 100 + i % 100);
        const auto out = callable.Run({Tensor::Scalar(v)});
        ASSERT_OK(out.status());
        ASSERT_EQ((*out)[0].scalar<float>(), v * v + 1);
        const auto same = session->Run({y}, {{x, Tensor::Scalar(v)}});
        ASSERT_EQ((*same)[0].scalar<float>(), v * v + 1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(callable.Run({}).status().code(), absl::StatusCode::kInvalidArgument);
}

// A warm step takes no memory from the system.
TEST(Session, AWarmStepAsksTheSystemForNoMemory) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 64});
  Output y = x;
  for (int i = 0; i < 10; ++i) y = Relu(s, MatMul(s, y, Const(s, Tensor::Zeros(kFloat, {64, 64}))));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto callable, session->Prepare({y}, {x}));
  const Tensor value = Tensor::Zeros(kFloat, {32, 64});
  for (int i = 0; i < 10; ++i) ASSERT_OK(callable.Run({value}).status());
  const AllocatorStats before = HostAllocator().Stats();
  for (int i = 0; i < 1000; ++i) ASSERT_OK(callable.Run({value}).status());
  const AllocatorStats after = HostAllocator().Stats();
  EXPECT_EQ(after.system_calls, before.system_calls);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_GT(after.allocations, before.allocations);
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Session, MemoryDoesNotGrowOverManySteps) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kSteps = 20'000;  // they are slow, and watch memory themselves
#else
  constexpr int kSteps = 1'000'000;
#endif
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {4});
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape({4})}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, {0.f, 0.f, 0.f, 0.f})});
  const Output add = s.Add("AssignAdd", {v->out(), Mul(s, x, x)});
  const Output sum = ReduceSum(s, Identity(s.WithControlDependencies({add}), v->out()));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({sum}, {x}));
  const Tensor value = Tensor::Vector<float>({1, 0, 0, 0});
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_OK(step.Run({value}).status());
  };
  run(kSteps / 10);
  const int64_t before = ResidentBytes();
  run(kSteps);
  EXPECT_LT(ResidentBytes() - before, 4 << 20);
}

}  // namespace
}  // namespace thalweg
