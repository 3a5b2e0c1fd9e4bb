// SPDX-License-Identifier: Apache-2.0
// Loops as no library would build them. Where TensorFlow takes them, the values
// are what it computes.
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/attr.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/server/server.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// i counts from 0 to 3 in the loop "f"; tests add to it.
class HandMadeLoops : public testing::Test {
 protected:
  HandMadeLoops() {
    AddConst(def_, "zero", Tensor::Scalar<float>(0));
    AddConst(def_, "one", Tensor::Scalar<float>(1));
    AddConst(def_, "two", Tensor::Scalar<float>(2));
    AddConst(def_, "three", Tensor::Scalar<float>(3));
  }

  void Add(const std::string &name, const std::string &op, const std::vector<std::string> &inputs) {
    AddTyped(def_, name, op, inputs, kFloat);
  }
  void Enter(const std::string &name, const std::string &input, bool is_constant = false,
             const std::string &frame = "f", const std::string &op = "Enter") {
    Add(name, op, {input});
    tensorflow::NodeDef &node = *def_.mutable_node(def_.node_size() - 1);
    SetAttr(node, "frame_name", frame);
    SetAttr(node, "is_constant", is_constant);
  }
  void Merge(const std::string &name, const std::vector<std::string> &inputs) {
    Add(name, "Merge", inputs);
    int64_t n = 0;
    for (const std::string &input : inputs) n += input[0] != '^';
    SetAttr(*def_.mutable_node(def_.node_size() - 1), "N", n);
  }
  void Count(const std::vector<std::string> &merged = {"i/enter", "i/next"}) {
    Enter("i/enter", "zero");
    Enter("i/limit", "three", true);
    Enter("i/one", "one", true);
    Merge("i", merged);
    Add("i/less", "Less", {"i", "i/limit"});
    AddDef(def_, "go_on", "LoopCond", {"i/less"});
    Add("i/switch", "Switch", {"i", "go_on"});
    Add("i/exit", "Exit", {"i/switch"});
    Add("i/plus", "AddV2", {"i/switch:1", "i/one"});
    Add("i/next", "NextIteration", {"i/plus"});
  }
  // Adds a loop variable that starts as 0 and continues as `next`; its final value is z/exit.
  void Carry(const std::vector<std::string> &next) {
    Enter("z/enter", "zero");
    std::vector<std::string> merged = {"z/enter"};
    merged.insert(merged.end(), next.begin(), next.end());
    Merge("z", merged);
    Add("z/switch", "Switch", {"z", "go_on"});
    Add("z/exit", "Exit", {"z/switch"});
  }
  // A loop "g" in it, in which j counts from i to 3; z/next is the sum of those.
  void Nest() {
    Enter("j/one", "i/one", true, "g");
    Enter("j/limit", "i/limit", true, "g");
    Enter("j/enter", "i/switch:1", false, "g");
    Merge("j", {"j/enter", "j/next"});
    Add("j/less", "Less", {"j", "j/limit"});
    AddDef(def_, "j/go_on", "LoopCond", {"j/less"});
    Add("j/switch", "Switch", {"j", "j/go_on"});
    Add("j/exit", "Exit", {"j/switch"});
    Add("j/plus", "AddV2", {"j/switch:1", "j/one"});
    Add("j/next", "NextIteration", {"j/plus"});
    Add("z/plus", "AddV2", {"z/switch:1", "j/exit"});
    Add("z/next", "NextIteration", {"z/plus"});
  }
  void Variable() {
    tensorflow::NodeDef &v = *AddDef(def_, "v", "VariableV2", {});
    SetAttr(v, "dtype", kFloat);
    SetAttr(v, "shape", Shape());
    AddConst(def_, "seven", Tensor::Scalar<float>(7));
    Add("init", "Assign", {"v", "seven"});
  }

  // One input of the node, or its op, is another one.
  static void Rewire(std::mt19937 &random, tensorflow::NodeDef &node, const std::string &other) {
    const int inputs = node.input_size();
    switch (random() % 4) {
      case 0:
        if (inputs > 0) node.set_input(static_cast<int>(random() % inputs), other);
        break;
      case 1:
        if (inputs > 0) node.set_input(static_cast<int>(random() % inputs), other + ":1");
        break;
      case 2:
        node.add_input("^" + other);
        break;
      case 3:
        if (inputs == 1 && node.op() != "LoopCond") {
          const char *const ops[] = {"Exit", "NextIteration", "Identity", "Neg", "RefExit", "RefNextIteration"};
          node.set_op(ops[random() % 6]);
          node.mutable_attr()->erase("frame_name");
          node.mutable_attr()->erase("is_constant");
        } else if (node.op() == "Merge") {
          node.set_op("AddV2");
          node.mutable_attr()->erase("N");
        } else if (node.op() == "AddV2") {
          node.set_op("Merge");
          SetAttr(node, "N", 2);
        }
        break;
    }
  }

  absl::StatusOr<std::vector<float>> RunOn(const std::string &target, const std::vector<Fetch> &fetches,
                                           absl::Duration timeout) {
    Graph graph;
    RETURN_IF_ERROR(graph.Import(def_));
    ASSIGN_OR_RETURN(const auto session, Session::Create(graph, {.target = target}));
    if (graph.FindNode("init") != nullptr) {
      RETURN_IF_ERROR(session->Run({Fetch::Target("init")}, {}, {.timeout = timeout}).status());
    }
    std::vector<float> values;
    for (int step = 0; step < 3; ++step) {
      ASSIGN_OR_RETURN(const auto out, session->Run(fetches, {}, {.timeout = timeout}));
      values.clear();
      for (const Tensor &value : out) values.push_back(value.has_value() ? value.scalar<float>() : -1000.f);
    }
    return values;
  }
  // In this process and on a server, which must agree.
  absl::StatusOr<std::vector<float>> Run(const std::vector<Fetch> &fetches,
                                         absl::Duration timeout = absl::Seconds(20)) {
    const auto local = RunOn("", fetches, timeout);
    const auto server = Server::StartLocal();
    if (!server.ok()) return server.status();
    const auto remote = RunOn((*server)->target(), fetches, timeout);
    EXPECT_EQ(local.status().code(), remote.status().code()) << local.status() << "\n" << remote.status();
    if (!local.ok() || !remote.ok()) return local.ok() ? remote : local;
    EXPECT_EQ(*local, *remote);
    return remote;
  }

  tensorflow::GraphDef def_;
};

TEST_F(HandMadeLoops, Count) {
  Count();
  EXPECT_THAT(*Run({"i/exit:0"}), ElementsAre(3));
}

// A value of a loop is one for every iteration.
TEST_F(HandMadeLoops, WhatIsInsideCannotBeFetched) {
  Count();
  for (const char *inside : {"i:0", "i/enter:0", "i/one:0", "i/plus:0", "i/switch:1", "i/next:0"}) {
    const auto out = Run({"i/exit:0", inside});
    EXPECT_THAT(out, Fails(StatusCode::kInvalidArgument, absl::StrCat("'", inside, "'")));
    EXPECT_THAT(out, Fails(StatusCode::kInvalidArgument, "loop 'f'"));
  }
  EXPECT_THAT(Run({Fetch::Target("i/plus")}), IsOk());
}

TEST_F(HandMadeLoops, TheNextIterationComesFirst) {
  Count({"i/next", "i/enter"});
  EXPECT_THAT(*Run({"i/exit:0"}), ElementsAre(3));
}

TEST_F(HandMadeLoops, AMergeOfThree) {
  Count();
  Carry({"z/next0", "z/next1"});
  Enter("two/enter", "two", true);
  Add("first", "Less", {"i", "i/one"});
  Add("branch", "Switch", {"z/switch:1", "first"});
  Add("branch0", "AddV2", {"branch:0", "two/enter"});
  Add("branch1", "AddV2", {"branch:1", "i/one"});
  Add("z/next0", "NextIteration", {"branch0"});
  Add("z/next1", "NextIteration", {"branch1"});
  EXPECT_THAT(*Run({"z/exit:0"}), ElementsAre(1 + 2 + 2));
}

TEST_F(HandMadeLoops, OneNextIterationForSeveralMerges) {
  Count();
  Carry({"i/next"});
  EXPECT_THAT(*Run({"z/exit:0", "i/exit:0"}), ElementsAre(3, 3));
}

TEST_F(HandMadeLoops, WithoutALoopCond) {
  Count();
  for (tensorflow::NodeDef &node : *def_.mutable_node()) {
    if (node.op() != "LoopCond") continue;
    node.set_op("Identity");
    SetAttr(node, "T", kBool);
  }
  EXPECT_THAT(*Run({"i/exit:0"}), ElementsAre(3));
}

TEST_F(HandMadeLoops, WithoutABackEdge) {
  Enter("enter", "one");
  Add("exit", "Exit", {"enter"});
  EXPECT_THAT(*Run({"exit:0"}), ElementsAre(1));
}

// Nodes that wait for an Exit use its first value.
TEST_F(HandMadeLoops, AnExitOfSeveralIterations) {
  Count();
  Add("exit", "Exit", {"i"});
  Add("body", "Exit", {"i/plus"});
  Add("negated", "Neg", {"body"});
  EXPECT_THAT(*Run({"exit:0", "body:0", "negated:0", "i/exit:0"}), ElementsAre(0, 1, -1, 3));
}

TEST_F(HandMadeLoops, ALoopInALoopSharesConstants) {
  Count();
  Carry({"z/next"});
  Nest();
  EXPECT_THAT(*Run({"z/exit:0", "i/exit:0"}), ElementsAre(9, 3));
}

// z is what it was two iterations before.
TEST_F(HandMadeLoops, ANextIterationOfANextIteration) {
  Count();
  Carry({"z/next2"});
  Add("z/plus", "AddV2", {"i/plus", "i/one"});
  Add("z/next", "NextIteration", {"z/plus"});
  Add("z/alias", "Identity", {"z/next"});
  Add("z/next2", "NextIteration", {"z/alias"});
  EXPECT_THAT(*Run({"z/exit:0", "i/exit:0"}), ElementsAre(3, 3));
}

// The value is never dead, so the loop does not end.
TEST_F(HandMadeLoops, ANextIterationOfAConstant) {
  Count();
  Carry({"z/next"});
  Add("z/alias", "Identity", {"i/one"});
  Add("z/next", "NextIteration", {"z/alias"});
  EXPECT_THAT(Run({"z/exit:0", "i/exit:0"}, absl::Milliseconds(200)), Fails(StatusCode::kDeadlineExceeded, ""));
}

TEST_F(HandMadeLoops, WhatReadsANextIterationBeginsInTheSecondOne) {
  Count();
  Carry({"z/next"});
  Add("negated", "Neg", {"i/next"});
  Add("z/next", "NextIteration", {"negated"});
  Add("sum", "AddV2", {"i/next", "i"});
  Add("sum/exit", "Exit", {"sum"});
  Add("next/exit", "Exit", {"i/next"});
  EXPECT_THAT(*Run({"z/exit:0", "sum/exit:0", "next/exit:0", "i/exit:0"}), ElementsAre(-2, 2, 1, 3));
}

TEST_F(HandMadeLoops, AndSoDoesWhatWaitsForOne) {
  Count();
  Add("waits", "Neg", {"i", "^i/next"});
  Add("exit", "Exit", {"waits"});
  EXPECT_THAT(*Run({"exit:0", "i/exit:0"}), ElementsAre(-1, 3));
}

TEST_F(HandMadeLoops, ANextIterationComesRoundInItsOwnLoop) {
  Enter("enter", "one");
  Add("next", "NextIteration", {"enter"});
  Merge("merge", {"next"});
  Merge("mixed", {"zero", "next"});
  EXPECT_THAT(Run({"merge:0"}), Fails(StatusCode::kInvalidArgument, "{{node merge}} has inputs from different frames"));
  EXPECT_THAT(Run({"mixed:0"}), Fails(StatusCode::kInvalidArgument, "{{node mixed}} has inputs from different frames"));
}

TEST_F(HandMadeLoops, AMergeThatWaitsForANextIteration) {
  Enter("enter", "one");
  Add("next", "NextIteration", {"enter"});
  Merge("merge", {"zero", "^next"});
  EXPECT_THAT(Run({"merge:0"}), Fails(StatusCode::kInvalidArgument, "{{node merge}} has inputs from different frames"));
}

TEST_F(HandMadeLoops, AMergeThatWaitsForItself) {
  Count({"i/enter", "i/next", "^i/next"});
  EXPECT_THAT(Run({"i/exit:0"}), Fails(StatusCode::kInvalidArgument, "contains a cycle"));
}

TEST_F(HandMadeLoops, AVariableLeavesAsAValue) {
  Variable();
  Enter("ref", "v", false, "f", "RefEnter");
  Add("exit", "Exit", {"ref"});
  Add("negated", "Neg", {"exit"});
  Add("ref/exit", "RefExit", {"ref"});
  Add("ref/negated", "Neg", {"ref/exit"});
  EXPECT_THAT(*Run({"exit:0", "negated:0", "ref/negated:0"}), ElementsAre(7, -7, -7));
}

TEST_F(HandMadeLoops, AVariableComesRoundAsAValue) {
  Variable();
  Count();
  Carry({"z/next"});
  Enter("ref", "v", true, "f", "RefEnter");
  Add("z/next", "NextIteration", {"ref", "^i/plus"});
  EXPECT_THAT(*Run({"z/exit:0", "i/exit:0"}), ElementsAre(7, 3));
}

TEST_F(HandMadeLoops, AnEnterAloneOnItsTask) {
  Count();
  for (tensorflow::NodeDef &node : *def_.mutable_node()) {
    const bool far = node.op() == "Const" || node.name() == "i/one" || node.name() == "i/enter";
    node.set_device(far ? "/job:worker/task:0" : "/job:worker/task:1");
  }
  TestCluster cluster({{"worker", 2}});
  for (const int task : {0, 1}) {
    EXPECT_THAT(*RunOn(cluster.target({"worker", task}), {"i/exit:0"}, absl::Seconds(20)), ElementsAre(3));
  }
}

TEST_F(HandMadeLoops, ALoopOfSeveralTasksNeedsALoopCond) {
  Enter("enter", "one");
  Add("inside", "Identity", {"enter"});
  Add("exit", "Exit", {"inside"});
  for (tensorflow::NodeDef &node : *def_.mutable_node()) {
    const bool far = node.name() == "inside" || node.name() == "exit";
    node.set_device(far ? "/job:worker/task:1" : "/job:worker/task:0");
  }
  TestCluster cluster({{"worker", 2}});
  EXPECT_THAT(RunOn(cluster.target({"worker", 0}), {"exit:0"}, absl::Seconds(20)),
              Fails(StatusCode::kInvalidArgument, "Loop 'f' spans several tasks and has no LoopCond"));
}

TEST_F(HandMadeLoops, WhatLeavesCannotEnterAgain) {
  Count();
  Enter("again", "i/exit", true);
  Add("sum", "AddV2", {"i", "again"});
  Add("exit", "Exit", {"sum"});
  EXPECT_THAT(Run({"exit:0"}),
              Fails(StatusCode::kInvalidArgument, "loop 'f' needs a value that depends on its own result"));
}

// The result must be a value or an error.
class RewiredLoops : public HandMadeLoops {
 protected:
  RewiredLoops() {
    Variable();
    Count();
    Carry({"z/next"});
    Nest();
    Enter("ref", "v", true, "f", "RefEnter");
    Add("ref/negated", "Neg", {"ref", "^i/plus"});
    Add("ref/exit", "Exit", {"ref/negated"});
    good_ = def_;
  }

  tensorflow::NodeDef &AnyNode() { return *def_.mutable_node(static_cast<int>(random_() % def_.node_size())); }
  void RewireSome() {
    def_ = good_;
    for (int n = static_cast<int>(random_() % 4); n >= 0; --n) Rewire(random_, AnyNode(), AnyNode().name());
  }
  void RunSome(const std::string &target) {
    const Fetch fetch = random_() % 2 == 0 ? Fetch(AnyNode().name() + ":0") : Fetch::Target(AnyNode().name());
    RunOn(target, {"i/exit:0", fetch}, absl::Milliseconds(50)).IgnoreError();
    RunOn(target, {"z/exit:0"}, absl::Milliseconds(50)).IgnoreError();
  }

  const int seed_ = testing::UnitTest::GetInstance()->random_seed();
  std::mt19937 random_{static_cast<unsigned>(seed_)};
  tensorflow::GraphDef good_;
};

TEST_F(RewiredLoops, InThisProcess) {
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", seed_, ", graph ", i));
    RewireSome();
    RunSome("");
  }
}

TEST_F(RewiredLoops, AcrossTasks) {
  TestCluster cluster({{"worker", 2}});
  for (int i = 0; i < 50; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", seed_, ", graph ", i));
    RewireSome();
    for (tensorflow::NodeDef &node : *def_.mutable_node()) {
      node.set_device(random_() % 4 == 0 ? "/job:worker/task:1" : "/job:worker/task:0");
    }
    RunSome(cluster.target({"worker", 0}));
  }
}

// Only function bodies may have such attributes.
TEST_F(HandMadeLoops, AnEnterWithAPlaceholderForAnAttr) {
  Variable();
  Enter("ref", "v", false, "f", "RefEnter");
  (*def_.mutable_node(def_.node_size() - 1)->mutable_attr())["is_constant"].set_placeholder("p");
  Add("exit", "RefExit", {"ref"});
  Graph graph;
  EXPECT_THAT(graph.Import(def_), Fails(StatusCode::kInvalidArgument, "attr 'is_constant' of node 'ref'"));
}

}  // namespace
}  // namespace thalweg
