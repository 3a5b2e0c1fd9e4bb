// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/task_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/kernel/resource_report.h"
#include "thalweg/runtime/local_devices.h"
#include "thalweg/server/status_pages.h"

namespace thalweg {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A resource that knows the workers of synchronous steps, as the roster does.
class Workers : public Resource, public ReportedResource {
 public:
  static constexpr char kTypeName[] = "Workers";
  std::string Describe() const override { return "workers"; }
  void Report(ResourceReport* report) const override {
    MutexLock lock(&mutex_);
    report->members = members_;
  }
  void Set(int64_t worker, const ResourceReport::Member& member) {
    MutexLock lock(&mutex_);
    members_[worker] = member;
  }

 private:
  mutable Mutex mutex_;
  std::map<int64_t, ResourceReport::Member> members_ ABSL_GUARDED_BY(mutex_);
};

class TaskReporterTest : public ::testing::Test {
 protected:
  TaskReporterTest()
      : monitor_("/job:ps/replica:0/task:0"),
        devices_({.job = "ps", .task = 0}),
        variable_(std::make_shared<Variable>("v", kFloat)) {
    EXPECT_TRUE(cluster_.AddTask({"ps", 0}, "localhost:2222").ok());
    options_ = {.monitor = &monitor_,
                .devices = devices_.devices(),
                .cluster = cluster_,
                .traffic = [] { return std::vector<const Traffic*>(); },
                .sessions = [](TaskStatus*) {},
                .whole_job = [](const GetMonitorRequest&) { return JobStatus(); },
                .sample = false};
  }
  void AddVariable() {
    ASSERT_TRUE(devices_.devices()[0]->resources().Create("", "v", variable_).ok());
    variable_->Assign(Tensor::Zeros(kFloat, Shape({25})));
  }
  static TaskStatus StatusOf(const TaskReporter& reporter) {
    TaskStatus status;
    reporter.Fill(GetMonitorRequest(), &status);
    return status;
  }

  TaskMonitor monitor_;
  LocalDevices devices_;
  ClusterSpec cluster_;
  std::shared_ptr<Variable> variable_;
  TaskReporterOptions options_;
};

// A whole update runs under the lock of its variable, and a scrape does not wait for it.
TEST_F(TaskReporterTest, DoesNotWaitForVariables) {
  AddVariable();
  const TaskReporter reporter(options_);
  {
    MutexLock update(&variable_->mutex());
    EXPECT_EQ(StatusOf(reporter).uninitialized_variables(), 0);
  }
  EXPECT_EQ(StatusOf(reporter).variable_bytes(), 100);
  MutexLock update(&variable_->mutex());
  const TaskStatus status = StatusOf(reporter);
  EXPECT_EQ(status.variables(), 1);
  EXPECT_EQ(status.uninitialized_variables(), 0);
  EXPECT_EQ(status.variable_bytes(), 100);  // as of the last time
}

TEST_F(TaskReporterTest, IsReadyWhenThereAreVariablesWithValues) {
  const TaskReporter reporter(options_);
  RpcClient client;
  JobMonitor job(cluster_, {"ps", 0}, &client,
                 [&](const GetMonitorRequest& request, TaskStatus* status) { reporter.Fill(request, status); });
  const HttpResponse none = ServeStatusPage({.path = "/readyz"}, job, reporter);
  EXPECT_EQ(none.code, 503);
  EXPECT_THAT(none.body, HasSubstr("No task has variables yet"));
  AddVariable();
  absl::SleepFor(absl::Milliseconds(1));
  HttpResponse ready;
  // The answer to the first request serves for a moment.
  while ((ready = ServeStatusPage({.path = "/readyz"}, job, reporter)).code != 200) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(ready.body, "ready\n");
}

TEST_F(TaskReporterTest, DumpsIntoTheDefaultFolderAreBounded) {
  const TempFolder temporary;
  setenv("TMPDIR", temporary.path().c_str(), 1);
  options_.flight_folder = DefaultFlightFolder();
  EXPECT_THAT(options_.flight_folder, StartsWith(temporary.path()));
  TaskReporter reporter(options_);
  absl::StatusOr<std::string> path = reporter.Dump();
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(*path, EndsWith(absl::StrCat("/ps-0-", getpid(), "-0.json")));
  struct stat made {};
  ASSERT_EQ(stat(options_.flight_folder.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777U, 0700U);
  for (int i = 0; i < 100; ++i) {
    const std::string old = absl::StrCat(options_.flight_folder, "/old-", i, ".json");
    ASSERT_TRUE(PosixFileSystem().WriteStringToFile(old, "{}").ok());
  }
  path = reporter.Dump();
  ASSERT_TRUE(path.ok()) << path.status();
  const auto files = PosixFileSystem().ListDirectory(options_.flight_folder);
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->size(), TaskReporter::kMaxDefaultFiles);
  EXPECT_TRUE(PosixFileSystem().ReadFileToString(*path).ok());
  // Somebody else's link is not followed.
  const TempFolder elsewhere;
  setenv("TMPDIR", elsewhere.path().c_str(), 1);
  options_.flight_folder = DefaultFlightFolder();
  ASSERT_EQ(symlink(temporary.path().c_str(), options_.flight_folder.c_str()), 0);
  EXPECT_EQ(TaskReporter(options_).Dump().status().code(), absl::StatusCode::kPermissionDenied);
  unsetenv("TMPDIR");
}

TEST_F(TaskReporterTest, TellsWhoLeavesTheTrainingIsExpelledAndComesBack) {
  const auto workers = std::make_shared<Workers>();
  ASSERT_TRUE(devices_.devices()[0]->resources().Create("", "workers", workers).ok());
  options_.sample = true;
  const TaskReporter reporter(options_);
  const auto sampled = [&] {
    // Of two samples, the second began after this call did.
    for (double value = 1; value <= 2; ++value) {
      monitor_.SetScalar("sampled", value);
      TaskStatus status;
      do {
        absl::SleepFor(absl::Milliseconds(5));
        status.Clear();
        monitor_.Fill(&status);
      } while (status.scalars(0).values_size() == 0 || status.scalars(0).values(0) != value);
    }
  };
  workers->Set(0, {});
  workers->Set(1, {});
  workers->Set(2, {.present = false, .expelled = true, .left_nanos = NowNanos() - 5'000'000'000});
  sampled();
  workers->Set(1, {.present = false, .left_nanos = NowNanos()});
  sampled();
  workers->Set(1, {});
  sampled();
  const TaskStatus status = StatusOf(reporter);
  std::vector<std::string> events;
  for (const MonitorEvent& event : status.events()) events.push_back(absl::StrCat(event.kind(), ": ", event.text()));
  EXPECT_THAT(events, ElementsAre("worker expelled: worker 2 held up the others: the training goes on without it",
                                  "worker left: worker 1 has ended its part of the training",
                                  "worker back: worker 1 takes part in the training again"));
  ASSERT_EQ(status.members_size(), 3);
  EXPECT_EQ(status.members(1).state(), "present");
  EXPECT_EQ(status.members(2).worker(), "worker 2");
  EXPECT_EQ(status.members(2).state(), "expelled");
  EXPECT_GE(status.members(2).seconds(), 5);
}

// SyncReplicas gives the chief the last number.
TEST_F(TaskReporterTest, TheChiefHasTheNameOfItsTask) {
  ASSERT_TRUE(cluster_.AddTask({"chief", 0}, "localhost:2223").ok());
  ASSERT_TRUE(cluster_.AddTask({"worker", 0}, "localhost:2224").ok());
  options_.cluster = cluster_;
  const auto workers = std::make_shared<Workers>();
  ASSERT_TRUE(devices_.devices()[0]->resources().Create("", "workers", workers).ok());
  workers->Set(0, {});
  workers->Set(1, {});
  const TaskStatus status = StatusOf(TaskReporter(options_));
  ASSERT_EQ(status.members_size(), 2);
  EXPECT_EQ(status.members(0).worker(), "worker 0");
  EXPECT_EQ(status.members(1).worker(), "chief 0");
}

TEST_F(TaskReporterTest, ThreadsSayWhatTheyWaitFor) {
  EXPECT_THAT(TaskReporter(options_).DescribeThreads(), HasSubstr("a lock, or work (futex)"));
}

}  // namespace
}  // namespace thalweg
