// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/process_group_testlib.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/host_group.h"
#include "thalweg/transport/net_group.h"
#include "thalweg/transport/two_level.h"

namespace thalweg {

std::string NewGroupName() {
  static std::atomic<int> next = 0;
  return absl::StrCat("test-", getpid(), "-", ++next);
}

void AddDoubles(void* into, const void* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<double*>(into)[i] += static_cast<const double*>(from)[i];
}
void DivideDoubles(void* values, int64_t n, int members) {
  for (int64_t i = 0; i < n; ++i) static_cast<double*>(values)[i] /= members;
}

HostCall CallOf(HostOperation operation, uint64_t key, std::vector<double>& values) {
  return {.operation = operation,
          .key = key,
          .elements = static_cast<int64_t>(values.size()),
          .element_bytes = sizeof(double),
          .values = values.data(),
          .merge = AddDoubles,
          .timeout = absl::Seconds(20)};
}

double ValueOf(int rank, int64_t i) { return 1000. * rank + static_cast<double>(i % 1000); }
std::vector<double> ValuesOf(int rank, int64_t n) {
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = ValueOf(rank, i);
  return values;
}
double SumOf(int ranks, int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += ValueOf(rank, i);
  return sum;
}

Endpoints::Endpoints(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    auto endpoint = NetEndpoint::Listen({"127.0.0.1"}, "127.0.0.1");
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    addresses.push_back((*endpoint)->address());
    endpoints.push_back(*std::move(endpoint));
  }
}

absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinGroup(GroupKind kind, const std::string& name, int rank, int ranks,
                                                        NetEndpoint* endpoint, const std::vector<NetAddress>& addresses,
                                                        absl::Duration timeout) {
  std::vector<std::string> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(absl::StrCat(kind == GroupKind::kTcp ? r : r / 2));
  std::unique_ptr<ProcessGroup> on_host, all;
  const RanksByHost by_host =
      kind == GroupKind::kSharedMemory ? GroupByHost(std::vector<std::string>(ranks, "host")) : GroupByHost(hosts);
  if (const std::vector<int>& neighbours = RanksOnHostOf(by_host, rank);
      kind == GroupKind::kSharedMemory || neighbours.size() > 1) {
    const auto at = std::find(neighbours.begin(), neighbours.end(), rank) - neighbours.begin();
    ASSIGN_OR_RETURN(on_host, HostGroup::Join({.name = absl::StrCat(name, "-", neighbours[0]),
                                               .rank = static_cast<int>(at),
                                               .ranks = static_cast<int>(neighbours.size()),
                                               .shown_ranks = neighbours,
                                               .arena_bytes = size_t{64} << 20,
                                               .timeout = timeout}));
  }
  if (kind == GroupKind::kSharedMemory) return on_host;
  ASSIGN_OR_RETURN(
      all, NetGroup::Join(*endpoint,
                          {.name = name, .rank = rank, .addresses = addresses, .hosts = hosts, .timeout = timeout}));
  if (kind == GroupKind::kTcp) return all;
  return std::make_unique<TwoLevelGroup>(std::move(on_host), std::move(all), by_host);
}

void ForMembersOf(GroupKind kind, int ranks, const std::function<void(ProcessGroup&)>& body) {
  const std::string name = NewGroupName();
  const Endpoints endpoints(kind == GroupKind::kSharedMemory ? 0 : ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      NetEndpoint* const endpoint = kind == GroupKind::kSharedMemory ? nullptr : endpoints.endpoints[rank].get();
      const auto group = JoinGroup(kind, name, rank, ranks, endpoint, endpoints.addresses);
      ASSERT_TRUE(group.ok()) << group.status();
      body(**group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace thalweg
