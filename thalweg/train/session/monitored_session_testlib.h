// SPDX-License-Identifier: Apache-2.0
// A model and a fixture for tests of MonitoredTrainingSession.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/session/monitored_session.h"
#include "thalweg/train/train_testlib.h"

namespace thalweg {

// Moves w, which is on the last parameter server, towards x; steps are counted
// on the first.
struct ScalarModel {
  explicit ScalarModel(int ps = 0, int worker = 0) {
    const auto on = [&](const std::string& task) { return ps > 0 ? s.WithDevice("/job:" + task) : s; };
    const Scope here = on(absl::StrCat("worker/task:", worker));
    global_step = GetOrCreateGlobalStep(on("ps/task:0"));
    w = MakeVariable(on(absl::StrCat("ps/task:", ps - 1)), "w", {}, {.initializer = initializers::Zeros()});
    x = PlaceholderWithDefault(here.WithOpName("x"), Const(here, 3.0f), PartialShape(Shape()));
    loss = Square(here.WithOpName("loss"), Sub(here, w, x));
    train_op = GradientDescent({.learning_rate = 0.25})->Minimize(here, loss, {.global_step = global_step});
  }
  Graph graph;
  Scope s = graph.root();
  Var global_step, w;
  Output x, loss, train_op;
};

class MonitoredSessionTest : public FolderTest {
 protected:
  // Steps until the end; the number of them.
  static int Train(MonitoredTrainingSession& session, const ScalarModel& m) {
    int steps = 0;
    while (!session.ShouldStop()) {
      const auto out = session.Run({m.train_op, m.loss});
      EXPECT_TRUE(out.ok()) << out.status();
      if (!out.ok()) break;
      ++steps;
    }
    return steps;
  }
  // The events of all files.
  std::vector<tensorflow::Event> Events() const {
    std::vector<tensorflow::Event> events;
    for (const std::string& name : Files()) {
      if (!absl::StartsWith(name, "events.")) continue;
      const auto reader = *data::RecordReader::Open(Path(name));
      std::string record;
      while (*reader->Next(&record)) EXPECT_TRUE(events.emplace_back().ParseFromString(record));
    }
    return events;
  }
  static int64_t StepOf(Session& session, const ScalarModel& m) {
    const auto value = session.Run({m.global_step});
    return value.ok() ? (*value)[0].scalar<int64_t>() : -1;
  }
};

}  // namespace thalweg
