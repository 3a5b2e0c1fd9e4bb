// SPDX-License-Identifier: Apache-2.0
// Checkpoints that SaveV2 writes of variables, as in TensorFlow's programs, while other workers train.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// A counter on each of two parameter servers. Each saves its own (sharded), or the first saves both.
class CheckpointWhileTrainingTest : public testing::TestWithParam<bool> {
 protected:
  CheckpointWhileTrainingTest() {
    std::vector<Output> counters;
    for (int i = 0; i < 2; ++i) {
      const Scope s = Ps(i);
      counters.push_back(RefVariable(s.WithOpName(absl::StrCat("v", i)), kFloat, {1000}));
      init_.push_back(Assign(s, counters[i], Const(s, Tensor::Zeros(kFloat, {1000}))));
      update_.push_back(AssignAdd(s, counters[i], OnesLike(s, counters[i])));
    }
    if (GetParam()) {
      AddSave(0, {"v0"}, {counters[0]});
      AddSave(1, {"v1"}, {counters[1]});
    } else {
      AddSave(0, {"v0", "v1"}, counters);
    }
  }
  ~CheckpointWhileTrainingTest() override { SetFailPointHandler(nullptr); }

  Scope Ps(int i) { return graph_.root().WithDevice(absl::StrCat("/job:ps/task:", i)); }
  static std::string Path(int i) { return absl::StrCat(testing::TempDir(), "/while_training-", i); }
  void AddSave(int ps, const std::vector<std::string>& names, const std::vector<Output>& values) {
    const Scope s = Ps(ps);
    save_.push_back(Fetch::Target(
        Save(s, Const(s, Path(ps)), Const(s, names), Const(s, std::vector<std::string>(names.size())), values)));
  }
  // How many updates the files have.
  static std::vector<float> Saved() {
    std::vector<float> counts;
    for (int i = 0; i < 2; ++i) {
      const auto reader = BundleReader::Open(PosixFileSystem(), Path(GetParam() ? i : 0));
      EXPECT_THAT(reader.status(), IsOk());
      if (!reader.ok()) return {};
      const auto value = (*reader)->Read(absl::StrCat("v", i));
      EXPECT_THAT(value.status(), IsOk());
      if (value.ok()) counts.push_back(value->flat<float>()[999]);
    }
    return counts;
  }

  Graph graph_;
  std::vector<Fetch> init_, update_, save_;
  TestCluster cluster_{{{"ps", 2}, {"worker", 2}}};
};

INSTANTIATE_TEST_SUITE_P(Sharded, CheckpointWhileTrainingTest, testing::Bool());

// The save does not end until the others have trained.
TEST_P(CheckpointWhileTrainingTest, StepsEndWhileTheFilesAreBeingWritten) {
  ASSERT_OK_AND_ASSIGN(auto chief, Session::Create(graph_, {.target = cluster_.target({"worker", 0})}));
  ASSERT_OK_AND_ASSIGN(auto worker, Session::Create(graph_, {.target = cluster_.target({"worker", 1})}));
  ASSERT_OK(chief->Run(init_).status());
  ASSERT_OK(worker->Run(update_).status());
  ASSERT_OK(chief->Run(update_).status());
  const int files = GetParam() ? 2 : 1;
  BlockingCounter writing(files);
  Notification trained;
  SetFailPointHandler([&, hits = std::make_shared<std::atomic<int>>(0)](absl::string_view point, absl::string_view) {
    if (point != "disk.write") return absl::OkStatus();
    if (hits->fetch_add(1) < files) writing.DecrementCount();
    trained.WaitForNotification();
    return absl::OkStatus();
  });
  Notification saved;
  Thread saves("save", [&] {
    EXPECT_THAT(chief->Run(save_).status(), IsOk());
    saved.Notify();
  });
  writing.Wait();
  absl::Status status;
  for (int i = 0; i < 3 && status.ok(); ++i) status = worker->Run(update_, {}, {.timeout = absl::Seconds(60)}).status();
  EXPECT_THAT(status, IsOk());
  EXPECT_FALSE(saved.HasBeenNotified());
  trained.Notify();
  saved.WaitForNotification();
  EXPECT_THAT(Saved(), testing::ElementsAre(2, 2));
}

// Parameter server 0 has two files to write, and 1 needs a tensor from 0 for its own. It does not wait for either of
// them.
TEST(CheckpointOfSeveralFilesTest, ATaskThatWritesHoldsNothingBack) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  Graph graph;
  std::vector<Fetch> init, save;
  const auto ps = [&](int i) { return graph.root().WithDevice(absl::StrCat("/job:ps/task:", i)); };
  const auto path = [](int i) { return absl::StrCat(testing::TempDir(), "/several_files-", i); };
  const Output names = RefVariable(ps(0), kString, {1});
  init.push_back(Assign(ps(0), names, Const(ps(0), std::vector<std::string>{"v"})));
  for (const int i : {0, 1, 2}) {
    const Scope s = ps(i / 2);
    const Output v = RefVariable(s, kFloat, {1000});
    init.push_back(Assign(s, v, Const(s, Tensor::Zeros(kFloat, {1000}))));
    save.push_back(Fetch::Target(Save(s, Const(s, path(i)), names, Const(s, std::vector<std::string>(1)), {v})));
  }
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run(init).status());
  // Nobody writes before both tasks do.
  Notification both_write;
  SetFailPointHandler([&, hits = std::make_shared<std::atomic<int>>(0)](absl::string_view point, absl::string_view) {
    if (point != "disk.write") return absl::OkStatus();
    if (hits->fetch_add(1) + 1 == 2) both_write.Notify();
    return both_write.WaitForNotificationWithTimeout(absl::Seconds(60))
               ? absl::OkStatus()
               : absl::InternalError("the other task does not write");
  });
  EXPECT_THAT(session->Run(save).status(), IsOk());
  SetFailPointHandler(nullptr);
  for (const int i : {0, 1, 2}) EXPECT_THAT(BundleReader::Open(PosixFileSystem(), path(i)).status(), IsOk());
}

TEST_P(CheckpointWhileTrainingTest, EachCheckpointIsOneMoment) {
  ASSERT_OK_AND_ASSIGN(auto chief, Session::Create(graph_, {.target = cluster_.target({"worker", 0})}));
  ASSERT_OK_AND_ASSIGN(auto worker, Session::Create(graph_, {.target = cluster_.target({"worker", 1})}));
  ASSERT_OK(chief->Run(init_).status());
  std::atomic<bool> done = false;
  Thread trains("train", [&] {
    while (!done) EXPECT_THAT(worker->Run(update_).status(), IsOk());
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(chief->Run(save_).status(), IsOk());
    const std::vector<float> counts = Saved();
    EXPECT_TRUE(counts.size() == 2 && counts[0] == counts[1]) << testing::PrintToString(counts);
  }
  done = true;
}

}  // namespace
}  // namespace thalweg
