// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/debug_nodes.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

struct Watched {
  std::string node = "x";
  int slot = 0;
  std::vector<std::string> ops = {"DebugIdentity"};
  std::string url = "file:///tmp/dumps";
  bool tolerant = false;
};

tensorflow::DebugOptions OptionsOf(const Watched& watched) {
  tensorflow::DebugOptions options;
  auto& watch = *options.add_debug_tensor_watch_opts();
  watch.set_node_name(watched.node);
  watch.set_output_slot(watched.slot);
  for (const std::string& op : watched.ops) watch.add_debug_ops(op);
  if (!watched.url.empty()) watch.add_debug_urls(watched.url);
  watch.set_tolerate_debug_op_creation_failures(watched.tolerant);
  return options;
}

// A string "s", a float "x" and its negative "y".
class DebugNodesTest : public testing::Test {
 protected:
  DebugNodesTest() {
    const Scope s = graph_.root().WithDevice("/job:worker/replica:0/task:0/device:CPU:0");
    Const(s.WithOpName("s"), "text");
    Neg(s.WithOpName("y"), Const(s.WithOpName("x"), 1.0f));
    before_ = graph_.num_nodes();
  }
  absl::Status Insert(const Watched& watched) { return InsertDebugNodes(OptionsOf(watched), graph_); }
  // Into a copy, since a failed attempt leaves nodes behind.
  absl::Status InsertElsewhere(const Watched& watched) const {
    Graph copy = graph_.Clone();
    return InsertDebugNodes(OptionsOf(watched), copy);
  }
  std::vector<std::string> added() const {
    std::vector<std::string> names;
    for (int i = before_; i < graph_.num_nodes(); ++i) names.push_back(graph_.node(i)->name());
    return names;
  }

  Graph graph_;
  int before_ = 0;
};

TEST_F(DebugNodesTest, WatchesAnOutput) {
  ASSERT_OK(Insert({.ops = {"DebugIdentity", "DebugNumericSummary(lower_bound=-1.5; mute_if_healthy=true)"}}));
  EXPECT_THAT(added(),
              UnorderedElementsAre("__copy_x_0", "__dbg_x:0_0_DebugIdentity", "__dbg_x:0_1_DebugNumericSummary"));
  const tensorflow::NodeDef& summary = graph_.node(graph_.num_nodes() - 1)->def();
  EXPECT_EQ(summary.attr().at("lower_bound").f(), -1.5);
  EXPECT_TRUE(summary.attr().at("mute_if_healthy").b());
  EXPECT_EQ(summary.attr().at("device_name").s(), "/job:worker/replica:0/task:0/device:CPU:0");
}

TEST_F(DebugNodesTest, WatchesEverything) {
  ASSERT_OK(Insert({.node = "*", .slot = -1}));
  EXPECT_EQ(added().size(), 6);
}

TEST_F(DebugNodesTest, NothingToWatch) {
  EXPECT_THAT(Insert({.node = "elsewhere"}), IsOk());
  EXPECT_THAT(Insert({.ops = {}}), IsOk());
  EXPECT_THAT(Insert({.url = ""}), IsOk());
  EXPECT_FALSE(WatchesTensors(OptionsOf({.url = ""})));
  EXPECT_THAT(added(), IsEmpty());
}

TEST_F(DebugNodesTest, RefusesMalformedWatches) {
  constexpr auto kFailed = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(InsertElsewhere({.slot = -1}), Fails(kFailed, "has output_slot -1: expected -1 for \"*\""));
  EXPECT_THAT(InsertElsewhere({.node = "*"}), Fails(kFailed, "has output_slot 0"));
  EXPECT_THAT(InsertElsewhere({.slot = -7}), Fails(kFailed, "has output_slot -7"));
  EXPECT_THAT(InsertElsewhere({.ops = {"Exit"}}), Fails(kFailed, "Unknown debug op 'Exit'"));
  EXPECT_THAT(InsertElsewhere({.ops = {"DebugIdentity(a=1"}}), Fails(kFailed, "Malformed debug op name"));
  EXPECT_THAT(InsertElsewhere({.ops = {"DebugNumericSummary(lower_bound)"}}), Fails(kFailed, "expected name=value"));
  EXPECT_THAT(InsertElsewhere({.ops = {"DebugNanCount(lower_bound=1)"}}), Fails(kFailed, "lower_bound=1"));
  EXPECT_THAT(InsertElsewhere({.node = "s", .ops = {"DebugNanCount"}}),
              Fails(kFailed, "DebugNanCount does not take string"));
  EXPECT_THAT(InsertElsewhere({.url = "grpc://localhost:1"}),
              Fails(absl::StatusCode::kUnimplemented, "grpc://localhost:1"));
}

TEST_F(DebugNodesTest, ToleratesOpsThatDoNotFit) {
  ASSERT_OK(Insert({.node = "s", .ops = {"DebugIdentity", "DebugNanCount"}, .tolerant = true}));
  EXPECT_THAT(added(), UnorderedElementsAre("__copy_s_0", "__dbg_s:0_0_DebugIdentity"));
}

}  // namespace
}  // namespace thalweg
