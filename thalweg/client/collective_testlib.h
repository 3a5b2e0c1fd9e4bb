// SPDX-License-Identifier: Apache-2.0
// Workers with a session each that compute together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "thalweg/base/logging.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {

inline constexpr char kLeader[] = "/job:worker/replica:0/task:0";

// How the members of a group exchange values.
// kTwoLevels: members 0 and 1 share memory, so do 2 and 3, and so on; between these hosts they use TCP.
enum class MembersUse { kSharedMemory, kTcp, kTwoLevels, kGrpc };

inline ServerOptions OptionsFor(MembersUse use) {
  const bool two_levels = use == MembersUse::kTwoLevels;
  return {.local_links = two_levels || use == MembersUse::kSharedMemory,
          .collective_links = two_levels || use == MembersUse::kTcp};
}
inline int TasksPerHost(MembersUse use) { return use == MembersUse::kTwoLevels ? 2 : 0; }
inline std::string NameOfMembersUse(const testing::TestParamInfo<MembersUse>& info) {
  switch (info.param) {
    case MembersUse::kSharedMemory:
      return "SharedMemory";
    case MembersUse::kTcp:
      return "Tcp";
    case MembersUse::kTwoLevels:
      return "TwoLevels";
    case MembersUse::kGrpc:
      return "Grpc";
  }
  return "";
}

inline TaskId WorkerTask(int i) { return {"worker", i}; }

// One worker's client: a graph of its own with one collective, a session on its
// own server.
struct Member {
  using Build = std::function<Output(const Scope&, Output)>;

  Member(TestCluster& cluster, int task, const Build& build, std::string leader = kLeader) {
    const Scope s = graph.root().WithDevice(absl::StrCat("/job:worker/task:", task));
    x = Placeholder(s, kFloat, PartialShape());
    y = build(s, x);
    // Between graphs: a session uses its own task only.
    auto made = Session::Create(graph, {.target = cluster.target(WorkerTask(task)),
                                        .device_filters = {absl::StrCat("/job:worker/task:", task)},
                                        .collective_leader = std::move(leader)});
    CHECK(made.ok()) << made.status();
    session = *std::move(made);
  }
  absl::StatusOr<Tensor> Run(const Tensor& value) {
    const auto out = session->Run({y}, {{x, value}}, {.timeout = absl::Seconds(30)});
    if (!out.ok()) return out.status();
    return (*out)[0];
  }

  Graph graph;
  Output x, y;
  std::unique_ptr<Session> session;
};

inline std::vector<std::unique_ptr<Member>> Members(TestCluster& cluster, int n, const Member::Build& build) {
  std::vector<std::unique_ptr<Member>> members;
  for (int i = 0; i < n; ++i) members.push_back(std::make_unique<Member>(cluster, i, build));
  return members;
}

// All run a step at the same time.
inline std::vector<absl::StatusOr<Tensor>> RunAll(const std::vector<std::unique_ptr<Member>>& members,
                                                  const std::function<Tensor(int)>& value) {
  std::vector<absl::StatusOr<Tensor>> results(members.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = members[i]->Run(value(static_cast<int>(i))); });
  }
  for (std::thread& t : threads) t.join();
  return results;
}

inline Member::Build Sum(int members, const CollectiveReduceOptions& reduce = {}) {
  return [=](const Scope& s, Output x) { return CollectiveReduce(s, x, {.group_size = members}, reduce); };
}

}  // namespace thalweg
