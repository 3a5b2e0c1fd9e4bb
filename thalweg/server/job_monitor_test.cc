// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/job_monitor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "thalweg/base/notification.h"

namespace thalweg {
namespace {

// A port of this machine that takes connections and never answers, like that of a stopped process.
class SilentPort {
 public:
  SilentPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(fd_); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int fd_;
  int port_ = 0;
};

// The monitor of ps 0 in a job whose worker is stopped.
class JobMonitorTest : public ::testing::Test {
 protected:
  void Start(JobMonitor::Own own) {
    ClusterSpec cluster;
    ASSERT_TRUE(cluster.AddTask({"ps", 0}, "localhost:1").ok());
    ASSERT_TRUE(cluster.AddTask({"worker", 0}, worker_.address()).ok());
    monitor_ = std::make_unique<JobMonitor>(cluster, TaskId{"ps", 0}, &client_, std::move(own));
  }
  static GetMonitorRequest Steps(int n) {
    GetMonitorRequest request;
    request.set_trace_steps(n);
    return request;
  }

  SilentPort worker_;
  RpcClient client_;
  std::unique_ptr<JobMonitor> monitor_;
};

TEST_F(JobMonitorTest, ATaskThatDoesNotAnswerIsDown) {
  static_assert(JobMonitor::kTimeout < absl::Seconds(1), "the page shows it within a second");
  Start([](const GetMonitorRequest&, TaskStatus* status) {
    status->set_name("ps 0");
    status->set_state("up");
  });
  for (int round = 1; round <= 2; ++round) {
    const JobStatus job = monitor_->Ask(Steps(round));
    ASSERT_EQ(job.tasks_size(), 2);
    EXPECT_EQ(job.tasks(0).state(), "up");
    EXPECT_EQ(job.tasks(1).name(), "worker 0");
    EXPECT_EQ(job.tasks(1).state(), "down");
    EXPECT_EQ(job.tasks(1).address(), worker_.address());
    EXPECT_EQ(job.tasks(1).missed_answers(), round);
    EXPECT_LT(job.tasks(1).seconds_silent(), 0) << "it has never answered";
  }
}

TEST_F(JobMonitorTest, ARoundDoesNotWaitForOthers) {
  Notification first_asked, second_asked;
  bool at_once = false;
  Start([&](const GetMonitorRequest& request, TaskStatus*) {
    if (request.trace_steps() == 2) return second_asked.Notify();
    first_asked.Notify();
    at_once = second_asked.WaitForNotificationWithTimeout(absl::Minutes(1));
  });
  std::thread first([&] { monitor_->Ask(Steps(1)); });
  first_asked.WaitForNotification();
  monitor_->Ask(Steps(2));
  first.join();
  EXPECT_TRUE(at_once) << "the second round began after the first";
}

TEST_F(JobMonitorTest, StopEndsARound) {
  Notification asked;
  Start([&](const GetMonitorRequest&, TaskStatus*) { asked.Notify(); });
  std::thread stopper([&] {
    asked.WaitForNotification();
    monitor_->Stop();
  });
  const JobStatus job = monitor_->Ask(Steps(1));
  stopper.join();
  EXPECT_THAT(job.tasks(1).error(), ::testing::HasSubstr("CANCELLED"));
}

}  // namespace
}  // namespace thalweg
