// What tests of sessions share: a gate that steps wait at, and loops.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {

// Where the op TestGate(x) -> x stands: until the step is cancelled or the test
// calls `done`.
struct Gate {
  Notification entered;
  AsyncKernel::Done done;
};
// The gate that the next TestGate enters. Set it before the step.
extern std::atomic<Gate*> the_gate;

// How often the op TestStuck(x) -> x has begun. It has no effects, so that it
// runs while constants are folded, and goes on only when it is cancelled.
extern std::atomic<int> stuck_begun;

// Nodes of a GraphDef. Loops are imported, since they point back.
tensorflow::NodeDef* AddDef(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
                            const std::vector<std::string>& inputs);
// With an attribute "T".
void AddTyped(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
              const std::vector<std::string>& inputs, DType type);
void AddConst(tensorflow::GraphDef& def, const std::string& name, const Tensor& value,
              const std::vector<std::string>& inputs = {});
// From int32 to float.
void AddCast(tensorflow::GraphDef& def, const std::string& name, const std::string& input);

// What tf.while_loop builds of
//   while (i < limit) { acc = acc + body(i); i = i + 1 }
// under names that begin with `p`. i, an int32, begins as `zero`, acc, a float,
// as `start`; `body` adds nodes to `def` and returns the name of the term. The
// result is p/exit_acc.
void AddLoop(tensorflow::GraphDef& def, const std::string& p, const std::string& zero, const std::string& start,
             const std::string& limit, const std::function<std::string(const std::string& i)>& body);

}  // namespace thalweg
