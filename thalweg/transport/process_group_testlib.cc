// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/process_group_testlib.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "thalweg/transport/host_group.h"
#include "thalweg/transport/net_group.h"

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

void ForMembersOf(GroupKind kind, int ranks, const std::function<void(ProcessGroup&)>& body) {
  const std::string name = NewGroupName();
  const Endpoints endpoints(kind == GroupKind::kTcp ? ranks : 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (kind == GroupKind::kTcp) {
        const auto group =
            NetGroup::Join(*endpoints.endpoints[rank], {.name = name, .rank = rank, .addresses = endpoints.addresses});
        ASSERT_TRUE(group.ok()) << group.status();
        body(**group);
      } else {
        const auto group =
            HostGroup::Join({.name = name, .rank = rank, .ranks = ranks, .arena_bytes = size_t{64} << 20});
        ASSERT_TRUE(group.ok()) << group.status();
        body(**group);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace thalweg
