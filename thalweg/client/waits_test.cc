// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(Waits, AWaitHoldsUpOnlyWhatDependsOnIt) {
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

TEST(Waits, ATimeoutEndsAStepThatWaits) {
  Graph graph;
  const Scope s = graph.root();
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  Gate gate;
  the_gate = &gate;
  const absl::Status status = session->Run({gated}, {}, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST(Waits, CancellationFromOutside) {
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

TEST(Waits, ATimeoutCountsWhileAStepIsPrepared) {
  Graph graph;
  const Scope s = graph.root();
  const Output stuck = s.Add("TestStuck", {Const(s, 3.f)});
  const int before = stuck_abandoned;
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.operation_timeout = absl::Milliseconds(50)}));
  EXPECT_THAT(session->Run({stuck}), Fails(absl::StatusCode::kDeadlineExceeded, "it had 50ms"));
  EXPECT_THAT(session->Run({stuck}, {}, {.timeout = absl::Milliseconds(60)}),
              Fails(absl::StatusCode::kDeadlineExceeded, "it had 60ms"));
  EXPECT_EQ(session->Prepare({stuck}).status().code(), absl::StatusCode::kDeadlineExceeded);
  TestCluster cluster({{"worker", 1}});
  ASSERT_OK_AND_ASSIGN(auto remote, Session::Create(graph, {.target = cluster.target({"worker", 0})}));
  EXPECT_THAT(remote->Run({stuck}, {}, {.timeout = absl::Milliseconds(70)}),
              Fails(absl::StatusCode::kDeadlineExceeded, "it had 70ms"));
  while (stuck_ended < stuck_begun) std::this_thread::yield();
  EXPECT_EQ(stuck_abandoned, before) << "a timeout has not cancelled the preparation of its step";
}

TEST(Waits, NothingBeginsThatIsCancelledAlready) {
  Graph graph;
  const Scope s = graph.root();
  const Output stuck = s.Add("TestStuck", {Const(s, 3.f)});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const int before = stuck_begun;
  EXPECT_EQ(session->Run({stuck}, {}, {.cancellation = &cancellation}).status(), absl::CancelledError("enough"));
  EXPECT_EQ(stuck_begun, before);
}

TEST(Waits, CloseEndsThePreparationOfAStep) {
  Graph graph;
  const Scope s = graph.root();
  const Output stuck = s.Add("TestStuck", {Const(s, 3.f)});
  TestCluster cluster({{"worker", 1}});
  for (const std::string& target : {std::string(), cluster.target({"worker", 0})}) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = target}));
    const int before = stuck_begun;
    absl::Status status;
    std::thread runner([&] { status = session->Run({stuck}).status(); });
    while (stuck_begun == before) std::this_thread::yield();
    ASSERT_OK(session->Close());
    runner.join();
    EXPECT_THAT(status, Fails(absl::StatusCode::kCancelled, "Session::Close()"));
  }
}

TEST(Waits, CloseCancelsWhatRuns) {
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

// Nobody sends what it waits for.
TEST(Waits, ForWhatNobodySends) {
  Graph graph;
  const Scope s = graph.root();
  const std::string device = "/job:localhost/replica:0/task:0/device:CPU:0";
  const Output received = s.WithOpName("received")
                              .Add("_Recv", {},
                                   {{"tensor_type", kFloat},
                                    {"tensor_name", "nothing"},
                                    {"send_device", device},
                                    {"send_device_incarnation", 1},
                                    {"recv_device", device}});
  const Output gated = s.Add("TestGate", {Const(s, 3.f)});
  const Output y = Neg(s, received);
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  EXPECT_THAT(session->Run({y}, {}, {.timeout = absl::Milliseconds(50)}),
              Fails(absl::StatusCode::kDeadlineExceeded, ""));
  Gate gate;
  the_gate = &gate;
  absl::Status status;
  std::thread runner([&] { status = session->Run({y, gated}).status(); });
  gate.entered.WaitForNotification();
  ASSERT_OK(session->Close());
  runner.join();
  EXPECT_THAT(status, Fails(absl::StatusCode::kCancelled, "Session::Close()"));
}

TEST(Waits, CloseCancelsCallablesAndEndsThem) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {});
  const Output gated = s.Add("TestGate", {x}), twice = Add(s, x, x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto waits, session->Prepare({gated}, {x}));
  ASSERT_OK_AND_ASSIGN(const auto other, session->Prepare({twice}, {x}));
  const Tensor value = Tensor::Scalar(3.f);
  Gate gate;
  the_gate = &gate;
  absl::Status status;
  std::thread runner([&] { status = waits.Run({value}).status(); });
  // Short steps that the end overtakes anywhere: done, cancelled or refused.
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      const auto out = other.Run({value});
      if (out.ok()) {
        ASSERT_EQ((*out)[0].scalar<float>(), 6);
      } else {
        ASSERT_TRUE(absl::IsCancelled(out.status()) || absl::IsFailedPrecondition(out.status())) << out.status();
      }
    }
  });
  gate.entered.WaitForNotification();
  ASSERT_OK(session->Close());
  runner.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(other.Run({value}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(waits.Run({value}).status().code(), absl::StatusCode::kFailedPrecondition);
  stop = true;
  busy.join();
}

TEST(Waits, TheFirstErrorEndsTheStepAndNamesTheNode) {
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

}  // namespace
}  // namespace thalweg
