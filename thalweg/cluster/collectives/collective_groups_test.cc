// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/collective_groups.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/collectives/buffer_rendezvous.h"
#include "thalweg/cluster/collectives/task_collectives.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Name(int task, int device = 0) {
  return absl::StrCat("/job:w/replica:0/task:", task, "/device:CPU:", device);
}

tensorflow::CompleteGroupRequest Joining(int task, int size, uint64_t incarnation = 1) {
  tensorflow::CompleteGroupRequest request;
  request.set_group_key(1);
  request.set_group_size(size);
  request.set_device_type("CPU");
  request.mutable_device_attributes()->set_name(Name(task));
  request.mutable_device_attributes()->set_incarnation(incarnation);
  return request;
}

// A call, and how it has ended, if it has.
struct Answer {
  Cancellation cancellation;
  tensorflow::CompleteGroupResponse group;
  tensorflow::CompleteInstanceResponse instance;
  std::optional<absl::Status> status;

  Answer& Join(CollectiveGroups& groups, const tensorflow::CompleteGroupRequest& request) {
    groups.Join({.cancellation = &cancellation}, request, &group, [this](const absl::Status& s) { status = s; });
    return *this;
  }
  Answer& Broadcast(CollectiveGroups& groups, int task, bool is_source) {
    tensorflow::CompleteInstanceRequest request;
    request.set_group_key(1);
    request.set_instance_key(7);
    request.set_type(1);
    request.set_device(Name(task));
    request.set_is_source(is_source);
    groups.Declare({.cancellation = &cancellation}, request, &instance, [this](const absl::Status& s) { status = s; });
    return *this;
  }
};

TEST(CollectiveGroup, RanksAreThoseOfTensorFlow) {
  std::vector<tensorflow::DeviceAttributes> devices;
  for (const std::string& name : {Name(2, 10), Name(10), Name(2, 2), Name(0)}) devices.emplace_back().set_name(name);
  const auto group = CollectiveGroup::Of(devices);
  ASSERT_TRUE(group.ok()) << group.status();
  std::vector<std::string> names;
  for (const auto& member : group->members) names.push_back(member.device);
  // Tasks by their text, devices by their number.
  EXPECT_THAT(names, ElementsAre(Name(0), Name(10), Name(2, 2), Name(2, 10)));
  EXPECT_THAT(group->members_per_task, ElementsAre(1, 1, 2));
  EXPECT_EQ(group->RankOf(Name(10)), 1);
  EXPECT_EQ(group->RankOf(Name(1)), -1);
  devices[0].set_name("/cpu:0");
  EXPECT_FALSE(CollectiveGroup::Of(devices).ok());
}

TEST(CollectiveGroups, AnswerWhenAllAreThere) {
  CollectiveGroups groups;
  Answer first, gone, second, again, other;
  first.Join(groups, Joining(0, 2));
  EXPECT_FALSE(first.status.has_value());
  EXPECT_THAT(groups.DescribeWaits(absl::InfiniteFuture()), ElementsAre(HasSubstr("for 1 of 2 members")));
  // One that goes away was never there.
  first.cancellation.Cancel(absl::CancelledError("gone"));
  EXPECT_EQ(first.status, absl::CancelledError("gone"));
  gone.Join(groups, Joining(1, 2));
  EXPECT_FALSE(gone.status.has_value());
  second.Join(groups, Joining(0, 2));
  EXPECT_EQ(gone.status, absl::OkStatus());
  EXPECT_EQ(second.status, absl::OkStatus());
  EXPECT_EQ(second.group.device_attributes_size(), 2);
  EXPECT_EQ(second.group.num_tasks(), 2);
  EXPECT_EQ(again.Join(groups, Joining(1, 2)).status, absl::OkStatus());
  EXPECT_EQ(other.Join(groups, Joining(2, 2)).status->code(), absl::StatusCode::kInternal);
}

TEST(CollectiveGroups, MayBecomeOthersWhenSessionsHaveEnded) {
  CollectiveGroups groups;
  Answer a, b, c, d, e;
  a.Join(groups, Joining(0, 1));
  EXPECT_EQ(a.status, absl::OkStatus());
  EXPECT_TRUE(groups.Unchecked(1).empty());
  groups.MarkOld();
  EXPECT_EQ(groups.Unchecked(1).size(), 1u);
  groups.Checked(1, groups.Unchecked(1), true);
  EXPECT_TRUE(groups.Unchecked(1).empty());
  // Another size, then a task that has restarted.
  b.Join(groups, Joining(0, 2));
  EXPECT_FALSE(b.status.has_value());
  c.Join(groups, Joining(1, 2));
  EXPECT_EQ(b.status, absl::OkStatus());
  d.Join(groups, Joining(1, 2, 99));
  EXPECT_FALSE(d.status.has_value());
  groups.Close(absl::UnavailableError("ends"));
  EXPECT_EQ(d.status, absl::UnavailableError("ends"));
  EXPECT_EQ(e.Join(groups, Joining(0, 2)).status, absl::UnavailableError("ends"));
}

TEST(CollectiveGroups, EndForMembersThatWaitAndThoseThatComeLater) {
  CollectiveGroups groups;
  Answer there, waiting, late;
  there.Join(groups, Joining(0, 2));
  EXPECT_FALSE(there.status.has_value());
  groups.EndGroup(2, Aborted("another group"));
  EXPECT_FALSE(there.status.has_value());
  groups.EndGroup(1, Aborted("a member has a new session"));
  EXPECT_TRUE(absl::IsAborted(there.status.value()));
  EXPECT_TRUE(absl::IsAborted(late.Join(groups, Joining(1, 2)).status.value()));
  EXPECT_THAT(waiting.Broadcast(groups, 1, false).status->ToString(), HasSubstr("a member has a new session"));
}

TEST(BufferRendezvous, EndsTheStepsOfAGroup) {
  BufferRendezvous buffers;
  std::vector<std::string> log;
  const auto take = [&](int64_t step, const std::string& key) {
    buffers.TakeAsync(step, key, nullptr, [&log, key](const absl::Status& status, const Tensor&) {
      log.push_back(absl::StrCat(key, " ", status.message()));
    });
  };
  take(1, "7:1:0:0");
  take(2, "failure:7:1:0:0:2");
  take(3, "77:1:0:0");
  buffers.AbortGroup(7, Aborted("ended"));
  EXPECT_THAT(log, testing::UnorderedElementsAre("7:1:0:0 ended", "failure:7:1:0:0:2 ended"));
  log.clear();
  take(4, "failure:7:1:0:0:1");
  take(4, "failure:8:1:0:0:1");
  EXPECT_THAT(log, ElementsAre("failure:7:1:0:0:1 ended"));
  log.clear();
  buffers.AbortAll(Cancelled("over"));
}

TEST(CollectiveGroups, FindTheSourceOfABroadcast) {
  CollectiveGroups groups;
  Answer a, b, early, source, receiver, second;
  EXPECT_EQ(early.Broadcast(groups, 0, true).status->code(), absl::StatusCode::kAborted);
  a.Join(groups, Joining(0, 2));
  b.Join(groups, Joining(1, 2));
  receiver.Broadcast(groups, 0, false);
  EXPECT_FALSE(receiver.status.has_value());
  source.Broadcast(groups, 1, true);
  EXPECT_EQ(receiver.status, absl::OkStatus());
  EXPECT_EQ(receiver.instance.source_rank(), 1);
  EXPECT_EQ(second.Broadcast(groups, 0, true).status->code(), absl::StatusCode::kInternal);
}

// A graph may have instance keys that are computed anew in every step.
TEST(GraphCollectives, RemembersTheNewestInstances) {
  GraphCollectives graph("/job:w/replica:0/task:0", nullptr, "/job:w/replica:0/task:0");
  const int n = static_cast<int>(GraphCollectives::kMaxSources) + 1000;
  for (int i = 0; i < n; ++i) graph.AddSource(1, i, "CPU:0", i % 7);
  EXPECT_EQ(graph.FindSource(1, 0, "CPU:0"), std::nullopt);
  EXPECT_EQ(graph.FindSource(1, 999, "CPU:0"), std::nullopt);
  EXPECT_EQ(graph.FindSource(1, 1000, "CPU:0"), 1000 % 7);
  EXPECT_EQ(graph.FindSource(1, n - 1, "CPU:0"), (n - 1) % 7);
  graph.AddSource(2, 5, "CPU:0", 3);
  graph.Forget(1);
  EXPECT_EQ(graph.FindSource(1, n - 1, "CPU:0"), std::nullopt);
  EXPECT_EQ(graph.FindSource(2, 5, "CPU:0"), 3);
}

}  // namespace
}  // namespace thalweg
