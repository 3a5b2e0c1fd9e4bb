// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/monitoring_environment.h"

#include "gtest/gtest.h"

namespace thalweg {
namespace {

TEST(MonitoringEnvironment, SetsWhatTheProgramLeavesAtItsDefault) {
  const Job::Environment environment = {{"THALWEG_HTTP", "0.0.0.0:8080"},
                                        {"THALWEG_HTTP_TOKEN", "secret"},
                                        {"THALWEG_FLIGHT_FOLDER", "/flights"},
                                        {"THALWEG_RECORDER", "off"}};
  const ServerOptions set = WithMonitoringOf(environment, {});
  EXPECT_EQ(set.http, "0.0.0.0:8080");
  EXPECT_EQ(set.http_token, "secret");
  EXPECT_EQ(set.flight_folder, "/flights");
  EXPECT_FALSE(set.recorder);
  const ServerOptions own =
      WithMonitoringOf(environment, {.http = "localhost:1", .http_token = "own", .flight_folder = "/own"});
  EXPECT_EQ(own.http, "localhost:1");
  EXPECT_EQ(own.http_token, "own");
  EXPECT_EQ(own.flight_folder, "/own");
}

TEST(MonitoringEnvironment, Links) {
  EXPECT_FALSE(WithMonitoringOf({{"THALWEG_LOCAL_LINKS", "off"}}, {}).local_links);
  EXPECT_TRUE(WithMonitoringOf({{"THALWEG_TCP_LINKS", "on"}}, {}).tcp_links);
  EXPECT_FALSE(WithMonitoringOf({{"THALWEG_TCP_LINKS", "off"}}, {}).tcp_links);
  EXPECT_EQ(WithMonitoringOf({{"THALWEG_TCP_LINKS", "maybe"}}, {}).tcp_links, ServerOptions().tcp_links);
}

TEST(MonitoringEnvironment, OffAndNothing) {
  EXPECT_EQ(WithMonitoringOf({{"THALWEG_HTTP", "off"}}, {}).http, "");
  EXPECT_EQ(WithMonitoringOf({}, {}).http, ServerOptions().http);
  EXPECT_TRUE(WithMonitoringOf({}, {}).recorder);
}

}  // namespace
}  // namespace thalweg
