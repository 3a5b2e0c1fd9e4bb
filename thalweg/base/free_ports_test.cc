// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/free_ports.h"

#include <set>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

TEST(FreePorts, DifferAndAreBelowThoseOfConnections) {
  const auto ports = FreePorts(50);
  ASSERT_TRUE(ports.ok()) << ports.status();
  EXPECT_EQ(std::set<int>(ports->begin(), ports->end()).size(), 50u);
  for (const int port : *ports) {
    EXPECT_GE(port, 10000);
    EXPECT_LT(port, 30000);
  }
}

TEST(FreePorts, FromAGivenOneOn) {
  const auto any = FreePorts(1);
  ASSERT_TRUE(any.ok()) << any.status();
  const auto given = FreePorts(1, any->front());
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->front(), any->front());
}

}  // namespace
}  // namespace thalweg
