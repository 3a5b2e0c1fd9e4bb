// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/listen_hosts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/own_addresses.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

std::vector<std::string> Hosts(const std::string& cluster, const std::string& bind = "") {
  return ListenHosts(*ClusterSpec::Parse(cluster), {"ps", 0}, bind);
}

TEST(ListenHosts, OnlyLoopbackIfAllTasksAreThere) {
  EXPECT_THAT(Hosts("ps|localhost:1,worker|localhost:2"), ElementsAre("localhost"));
  EXPECT_THAT(Hosts("ps|127.0.0.1:1;[::1]:3,worker|localhost:2"), ElementsAre("localhost"));
  EXPECT_THAT(Hosts("ps|127.0.0.2:1"), ElementsAre("localhost", "127.0.0.2"));
}

TEST(ListenHosts, AllAddressesIfTheClustersIsNotOfThisMachine) {
  EXPECT_THAT(Hosts("ps|192.0.2.1:1,worker|192.0.2.2:1"), ElementsAre("0.0.0.0"));
  EXPECT_THAT(Hosts("ps|ps-0.invalid:1,worker|192.0.2.2:1"), ElementsAre("0.0.0.0"));
}

TEST(ListenHosts, TheAddressOfTheClusterAndLoopback) {
  for (const std::string& address : OwnAddresses()) {
    if (IsLoopback(address) || address[0] == '[') continue;
    EXPECT_THAT(Hosts("ps|" + address + ":1,worker|192.0.2.2:1"), ElementsAre(address, "localhost"));
  }
}

// Other tasks may know this one by another address than its own list of them has.
TEST(ListenHosts, AllAddressesIfOnlyThisTaskIsLocal) {
  EXPECT_THAT(Hosts("ps|localhost:1,worker|192.0.2.2:1"), ElementsAre("0.0.0.0"));
}

TEST(ListenHosts, TheTargetIsOneOfThem) {
  EXPECT_EQ(TargetHost({"0.0.0.0"}), "localhost");
  EXPECT_EQ(TargetHost({"10.0.0.5", "localhost"}), "localhost");
  EXPECT_EQ(TargetHost({"10.0.0.5"}), "10.0.0.5");
}

TEST(ListenHosts, BindSaysItAll) {
  EXPECT_THAT(Hosts("ps|localhost:1", "0.0.0.0"), ElementsAre("0.0.0.0"));
  EXPECT_THAT(Hosts("ps|192.0.2.1:1", "127.0.0.1"), ElementsAre("127.0.0.1"));
}

}  // namespace
}  // namespace thalweg
