// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/membership.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/fake_workers_testlib.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A worker, which runs the discovery, and two parameter servers. Each has a device with its own
// name.
class MembershipTest : public testing::Test {
 protected:
  static constexpr const char* kSelf = "/job:worker/replica:0/task:0";
  static constexpr const char* kPs0 = "/job:ps/replica:0/task:0";
  static constexpr const char* kPs1 = "/job:ps/replica:0/task:1";

  MembershipTest() {
    for (const char* task : {kSelf, kPs0, kPs1}) {
      workers_->at(task).get_status = [this, task](const CallOptions& options, tensorflow::GetStatusResponse* response,
                                                   Worker::Done done) {
        waited_for_[task] = options.wait_for_ready;
        response->add_device_attributes()->set_name("/job:other/replica:0/task:9/device:CPU:0");
        response->mutable_thalweg()->set_takes_pushes(std::string(task) != kPs1);
        done(absl::OkStatus());
      };
    }
  }
  absl::StatusOr<ClusterDevices> Discover(Cancellation* cancellation = nullptr,
                                          const std::vector<std::string>& filters = {}) {
    std::vector<DeviceName> names;
    for (const std::string& filter : filters) names.push_back(*DeviceName::Parse(filter));
    Notification ended;
    absl::StatusOr<ClusterDevices> result = absl::UnknownError("no answer");
    membership_.Discover({.cancellation = cancellation}, timer_, workers_, kSelf, names,
                         [&](absl::StatusOr<ClusterDevices> devices) {
                           result = std::move(devices);
                           ended.Notify();
                         });
    ended.WaitForNotification();
    return result;
  }
  static std::vector<std::string> TasksOf(const ClusterDevices& devices) {
    std::vector<std::string> tasks;
    for (const ClusterDevices::Task& task : devices.tasks) tasks.push_back(task.name);
    return tasks;
  }

  const std::shared_ptr<FakeWorkers> workers_ =
      std::make_shared<FakeWorkers>(std::vector<std::string>{kSelf, kPs0, kPs1});
  std::map<std::string, bool> waited_for_;  // the tasks that were asked
  Timer timer_;
  Membership membership_;
};

TEST_F(MembershipTest, TheDevicesOfAllTasksTheOwnFirst) {
  ASSERT_OK_AND_ASSIGN(const ClusterDevices devices, Discover());
  EXPECT_THAT(TasksOf(devices), ElementsAre(kSelf, kPs0, kPs1));
  EXPECT_THAT(devices.absent, IsEmpty());
  for (const ClusterDevices::Task& task : devices.tasks) {
    ASSERT_EQ(task.devices.size(), 1);
    EXPECT_EQ(task.devices[0].name(), task.name + "/device:CPU:0") << "as this cluster calls it";
    EXPECT_EQ(task.takes_pushes, task.name != kPs1);
  }
  EXPECT_THAT(membership_.SeenTasks(), ElementsAre(kPs0, kPs1, kSelf));
}

TEST_F(MembershipTest, FiltersSayWhoIsAskedBesideItself) {
  ASSERT_OK_AND_ASSIGN(const ClusterDevices devices, Discover(nullptr, {"/job:ps/task:1"}));
  EXPECT_THAT(TasksOf(devices), ElementsAre(kSelf, kPs1));
  EXPECT_FALSE(waited_for_.contains(kPs0));
}

TEST_F(MembershipTest, OnlyATaskThatWasNeverSeenIsWaitedFor) {
  membership_.MarkSeen(kPs0);
  ASSERT_OK(Discover());
  EXPECT_FALSE(waited_for_[kPs0]);
  EXPECT_TRUE(waited_for_[kPs1]);
}

TEST_F(MembershipTest, ATaskThatWasSeenAndDoesNotAnswerHasLeft) {
  ASSERT_OK(Discover());
  workers_->at(kPs1).get_status = [](const CallOptions&, tensorflow::GetStatusResponse*, Worker::Done done) {
    done(Unavailable("gone"));
  };
  ASSERT_OK_AND_ASSIGN(const ClusterDevices devices, Discover());
  EXPECT_THAT(TasksOf(devices), ElementsAre(kSelf, kPs0));
  EXPECT_THAT(devices.absent, ElementsAre(kPs1));
}

TEST_F(MembershipTest, ATaskWithAnotherIncarnationHasRestarted) {
  uint64_t incarnation = 1;
  workers_->at(kPs0).get_status = [&](const CallOptions&, tensorflow::GetStatusResponse* response, Worker::Done done) {
    response->add_device_attributes()->set_incarnation(incarnation);
    done(absl::OkStatus());
  };
  for (const bool restarts : {false, false, true, false}) {
    if (restarts) ++incarnation;
    ASSERT_OK_AND_ASSIGN(const ClusterDevices devices, Discover());
    EXPECT_EQ(devices.restarted, restarts ? std::vector<std::string>{kPs0} : std::vector<std::string>());
  }
}

TEST_F(MembershipTest, ItsCancellationEndsAWait) {
  for (const absl::Status& why : {Cancelled("enough"), DeadlineExceeded("too late")}) {
    SCOPED_TRACE(why);
    Notification asked;
    workers_->at(kPs1).get_status = [&](const CallOptions& options, tensorflow::GetStatusResponse*, Worker::Done done) {
      EndedByCancellation(options, std::move(done));
      asked.Notify();
    };
    Cancellation cancellation;
    std::thread canceller([&] {
      asked.WaitForNotification();
      cancellation.Cancel(why);
    });
    const absl::StatusOr<ClusterDevices> devices = Discover(&cancellation);
    canceller.join();
    EXPECT_THAT(devices, Fails(why.code(), std::string(why.message())));
    if (absl::IsDeadlineExceeded(why)) {
      EXPECT_THAT(devices, Fails(why.code(), absl::StrCat("no answer from ", kPs1)));
    }
  }
}

// Names of tasks come from anyone, and travel in every answer to GetStatus.
TEST(MembershipLimits, ForgetsTheOldestOfTooManyTasks) {
  Membership membership;
  membership.MarkSeen("/job:first/replica:0/task:0");
  membership.MarkSeen(std::string(20 << 20, 'a'));
  EXPECT_THAT(membership.SeenTasks(), ElementsAre("/job:first/replica:0/task:0"));
  for (char c = 'b'; c < 'h'; ++c) membership.MarkSeen(std::string(Membership::kMaxSeenBytes / 4, c));
  EXPECT_FALSE(membership.Seen("/job:first/replica:0/task:0"));
  EXPECT_TRUE(membership.Seen(std::string(Membership::kMaxSeenBytes / 4, 'g')));
  size_t bytes = 0;
  for (const std::string& task : membership.SeenTasks()) bytes += task.size();
  EXPECT_LE(bytes, Membership::kMaxSeenBytes);
}

}  // namespace
}  // namespace thalweg
