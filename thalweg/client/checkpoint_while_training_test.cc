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

// A counter on each of two parameter servers, each of which a node saves.
class CheckpointWhileTrainingTest : public testing::Test {
 protected:
  CheckpointWhileTrainingTest() {
    for (int i = 0; i < 2; ++i) {
      const Scope s = graph_.root().WithDevice(absl::StrCat("/job:ps/task:", i));
      const Output v = RefVariable(s.WithOpName(absl::StrCat("v", i)), kFloat, {1000});
      init_.push_back(Assign(s, v, Const(s, Tensor(kFloat, {1000}))));
      update_.push_back(AssignAdd(s, v, OnesLike(s, v)));
      save_.push_back(Fetch::Target(Save(s, Const(s, Path(i)), Const(s, std::vector<std::string>{"v"}),
                                         Const(s, std::vector<std::string>{""}), {v})));
    }
  }
  ~CheckpointWhileTrainingTest() override { SetFailPointHandler(nullptr); }

  static std::string Path(int i) { return absl::StrCat(testing::TempDir(), "/while_training-", i); }
  // How many updates the files have.
  static std::vector<float> Saved() {
    std::vector<float> counts;
    for (int i = 0; i < 2; ++i) {
      const auto reader = BundleReader::Open(PosixFileSystem(), Path(i));
      EXPECT_THAT(reader.status(), IsOk());
      if (!reader.ok()) return {};
      const auto value = (*reader)->Read("v");
      EXPECT_THAT(value.status(), IsOk());
      if (value.ok()) counts.push_back(value->flat<float>()[999]);
    }
    return counts;
  }

  Graph graph_;
  std::vector<Fetch> init_, update_, save_;
  TestCluster cluster_{{{"ps", 2}, {"worker", 2}}};
};

// The save does not end until the others have trained.
TEST_F(CheckpointWhileTrainingTest, StepsEndWhileTheFilesAreBeingWritten) {
  ASSERT_OK_AND_ASSIGN(auto chief, Session::Create(graph_, {.target = cluster_.target({"worker", 0})}));
  ASSERT_OK_AND_ASSIGN(auto worker, Session::Create(graph_, {.target = cluster_.target({"worker", 1})}));
  ASSERT_OK(chief->Run(init_).status());
  ASSERT_OK(worker->Run(update_).status());
  ASSERT_OK(chief->Run(update_).status());
  BlockingCounter writing(2);
  Notification trained;
  SetFailPointHandler([&, hits = std::make_shared<std::atomic<int>>(0)](absl::string_view point, absl::string_view) {
    if (point != "disk.write") return absl::OkStatus();
    if (hits->fetch_add(1) < 2) writing.DecrementCount();
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

TEST_F(CheckpointWhileTrainingTest, EachCheckpointIsOneMoment) {
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
