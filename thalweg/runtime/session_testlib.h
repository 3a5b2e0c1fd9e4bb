// SPDX-License-Identifier: Apache-2.0
// Shared by tests of sessions: a session in this process, an op that blocks until the
// test continues it, and loops.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {

// A DirectSession that takes the outputs of a graph, as the client's Session does:
//
//   ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
//   ASSERT_OK_AND_ASSIGN(const auto out, session->Run({y}, {{x, Tensor::Scalar(1.f)}}));
//
// The graph may grow between runs; it must outlive the session.
class TestSession {
 public:
  // A tensor, or a node that runs for its side effect: one without outputs, or Target().
  struct Fetch {
    Fetch(Output output);                                   // NOLINT: implicit by design
    Fetch(std::string tensor) : name(std::move(tensor)) {}  // NOLINT
    Fetch(const char* tensor) : name(tensor) {}             // NOLINT
    static Fetch Target(std::string node);
    std::string name;
    bool is_node = false;
  };
  struct Feed {
    Feed(Output output, Tensor value) : name(output.name()), value(std::move(value)) {}
    Feed(std::string name, Tensor value) : name(std::move(name)), value(std::move(value)) {}
    std::string name;
    Tensor value;
  };

  static absl::StatusOr<std::unique_ptr<TestSession>> Create(const Graph& graph,
                                                             const DirectSessionOptions& options = {});
  // Results are in the order of the fetches. The result of a node is an empty Tensor.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds = {},
                                          const StepOptions& options = {}, tensorflow::RunMetadata* metadata = nullptr);
  absl::Status Close() { return session_.Close(); }

 private:
  TestSession(const Graph& graph, const DirectSessionOptions& options) : graph_(graph), session_(options) {}
  absl::Status ExtendIfGrown();

  const Graph& graph_;
  int known_nodes_ = 0;
  DirectSession session_;
};

// The op TestGate(x) -> x waits here until the step is cancelled or the test calls
// `done`.
struct Gate {
  Notification entered;
  AsyncKernel::Done done;
};
// The gate that the next TestGate enters. Set it before the step.
extern std::atomic<Gate*> the_gate;

// How many times the op TestStuck(x) -> x has started, has ended, and has ended because
// nobody had cancelled it for 20 s. It has no side effects, so it also runs during constant
// folding.
extern std::atomic<int> stuck_begun, stuck_ended, stuck_abandoned;

// Add nodes to a GraphDef. Graphs with loops must be imported, because of their back
// edges.
tensorflow::NodeDef* AddDef(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
                            const std::vector<std::string>& inputs);
// With an attribute "T".
void AddTyped(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
              const std::vector<std::string>& inputs, DType type);
void AddConst(tensorflow::GraphDef& def, const std::string& name, const Tensor& value,
              const std::vector<std::string>& inputs = {});
// From int32 to float.
void AddCast(tensorflow::GraphDef& def, const std::string& name, const std::string& input);

// The graph that tf.while_loop builds of
//   while (i < limit) { acc = acc + body(i); i = i + 1 }
// under names that begin with `p`. i, an int32, begins as `zero`, acc, a float,
// as `start`; `body` adds nodes to `def` and returns the name of the term. The
// result is p/exit_acc.
void AddLoop(tensorflow::GraphDef& def, const std::string& p, const std::string& zero, const std::string& start,
             const std::string& limit, const std::function<std::string(const std::string& i)>& body);

}  // namespace thalweg
