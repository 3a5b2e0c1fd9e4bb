// SPDX-License-Identifier: Apache-2.0
// Groups for tests: the members are threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/transport/net_endpoint.h"
#include "thalweg/transport/process_group.h"

namespace thalweg {

// kTwoLevels: ranks 0 and 1 share memory, so do 2 and 3, and so on; these hosts are connected by TCP.
enum class GroupKind { kSharedMemory, kTcp, kTwoLevels };
inline std::string NameOfGroupKind(GroupKind kind) {
  return kind == GroupKind::kTcp ? "Tcp" : kind == GroupKind::kTwoLevels ? "TwoLevels" : "SharedMemory";
}

std::string NewGroupName();

void AddDoubles(void* into, const void* from, int64_t n);
void DivideDoubles(void* values, int64_t n, int members);

// A call with the values and a timeout of 20 s.
HostCall CallOf(HostOperation operation, uint64_t key, std::vector<double>& values);

// Element i of member r before an operation, all of them, and the sum of all members' elements.
double ValueOf(int rank, int64_t i);
std::vector<double> ValuesOf(int rank, int64_t n);
double SumOf(int ranks, int64_t i);

// Endpoints on loopback, one per member, and their addresses.
struct Endpoints {
  explicit Endpoints(int ranks);
  std::vector<std::unique_ptr<NetEndpoint>> endpoints;
  std::vector<NetAddress> addresses;
};

// Joins member `rank` of a group of that kind. `addresses` has those of all members, unless they share memory.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinGroup(GroupKind kind, const std::string& name, int rank, int ranks,
                                                        NetEndpoint* endpoint, const std::vector<NetAddress>& addresses,
                                                        absl::Duration timeout = absl::Seconds(60));

// Runs `body` for every member of a group, each on a thread of its own.
void ForMembersOf(GroupKind kind, int ranks, const std::function<void(ProcessGroup&)>& body);

}  // namespace thalweg
