// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/job.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/launch/job_sources.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "TF_CONFIG: ps 0 a:1, worker 0 b:2; worker 0 chief", or the error.
std::string Describe(const std::vector<std::string>& args, const Job::Environment& environment) {
  const absl::StatusOr<Job> job = Job::From(args, environment);
  if (!job.ok()) {
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << job.status();
    return std::string(job.status().message());
  }
  const auto tasks = absl::StrJoin(job->cluster.tasks(), ", ", [&](std::string* out, const TaskId& task) {
    absl::StrAppend(out, task.job, " ", task.index, " ", *job->cluster.Address(task));
  });
  return absl::StrCat(job->source, ": ", tasks, "; ", job->task.job, " ", job->task.index,
                      job->is_chief() ? " chief" : "");
}

std::string TfConfig(const std::string& json) { return Describe({}, {{"TF_CONFIG", json}}); }

TEST(JobTest, FlagsComeFirst) {
  const Job::Environment other{{"TF_CONFIG", "{}"}};
  EXPECT_EQ(Describe({"--ps_hosts=a:1,b:2", "-worker_hosts", "c:3,d:4", "--is_sync", "--job_name=worker",
                      "--task_index=1", "--steps", "7"},
                     other),
            "flags: ps 0 a:1, ps 1 b:2, worker 0 c:3, worker 1 d:4; worker 1");
  EXPECT_EQ(Describe({"--ps_hosts=a:1", "--worker_hosts=c:3", "--job_name=worker"}, other),
            "flags: ps 0 a:1, worker 0 c:3; worker 0 chief");
  EXPECT_EQ(Describe({"--chief_hosts=b:2", "--worker_hosts=c:3", "--job_name=worker"}, other),
            "flags: chief 0 b:2, worker 0 c:3; worker 0");
  EXPECT_EQ(Describe({"--chief_hosts=b:2", "--worker_hosts=c:3", "--job_name=chief"}, other),
            "flags: chief 0 b:2, worker 0 c:3; chief 0 chief");
  // Scripts pass on empty values of flags that they did not get. Arguments behind -- belong to others.
  EXPECT_EQ(Describe({"--ps_hosts=", "--job_name", "", "--", "--task_index=9"}, {}),
            ": worker 0 localhost:0; worker 0 chief");
}

TEST(JobTest, AChiefIsTheLastOfTheWorkers) {
  const auto number = [](const std::string& chief, const std::string& task) {
    const auto job =
        Job::From({}, {{"TF_CONFIG", absl::StrCat("{\"cluster\": {\"ps\": [\"a:1\"], ", chief,
                                                  "\"worker\": [\"b:2\", \"c:3\"]}, \"task\": ", task, "}")}});
    return job.ok() ? absl::StrCat(job->worker_index(), " of ", job->num_workers()) : job.status().ToString();
  };
  EXPECT_EQ(number("", R"({"type": "worker", "index": 1})"), "1 of 2");
  for (const std::string type : {"chief", "master"}) {
    const std::string chief = absl::StrCat("\"", type, "\": [\"d:4\"], ");
    EXPECT_EQ(number(chief, R"({"type": "worker", "index": 1})"), "1 of 3");
    EXPECT_EQ(number(chief, absl::StrCat("{\"type\": \"", type, "\", \"index\": 0}")), "2 of 3");
    EXPECT_EQ(number(chief, R"({"type": "ps", "index": 0})"), "-1 of 3");
    EXPECT_EQ(number(chief, R"({"type": "evaluator", "index": 0})"), "-1 of 3");
  }
  EXPECT_EQ(Job::From({}, {})->num_workers(), 1);
}

TEST(JobTest, WrongFlagsAreNamed) {
  EXPECT_EQ(Describe({"--ps_hosts=a:1", "--job_name=ps"}, {}),
            "--worker_hosts is missing: expected host:port,host:port beside --job_name=ps --ps_hosts=a:1");
  EXPECT_EQ(Describe({"--task_index=0"}, {}),
            "--worker_hosts is missing: expected host:port,host:port beside --task_index=0");
  EXPECT_EQ(Describe({"--ps_hosts=a:1", "--worker_hosts=b:2"}, {}),
            "--job_name is missing: expected one of ps, worker");
  EXPECT_EQ(Describe({"--worker_hosts=a:1,b:2", "--job_name=worker"}, {}),
            "--task_index is missing: expected 0 to 1, as job \"worker\" has 2 tasks");
  EXPECT_EQ(Describe({"--worker_hosts=a:1,b:2", "--job_name=worker", "--task_index=x"}, {}),
            "--task_index=x: expected a number that is not negative");
  EXPECT_THAT(Describe({"--worker_hosts=a:1,b:2", "--job_name=worker", "--task_index=2"}, {}),
              HasSubstr("--job_name=worker --task_index=2: "));
  EXPECT_THAT(Describe({"--worker_hosts=a:1,b:2", "--job_name=boss"}, {}), HasSubstr("--job_name=boss"));
  EXPECT_THAT(Describe({"--worker_hosts=a,b:2", "--job_name=worker"}, {}), HasSubstr("--worker_hosts=a,b:2: "));
  EXPECT_EQ(Describe({"--chief_hosts=a:1,b:2", "--job_name=chief"}, {}),
            "--chief_hosts=a:1,b:2: expected one address, got 2");
  EXPECT_EQ(Describe({"--worker_hosts"}, {}), "--worker_hosts needs a value");
}

TEST(JobTest, TfConfigHasListsOrMaps) {
  EXPECT_EQ(TfConfig(R"({"cluster": {"ps": ["a:1"], "worker": ["b:2", "c:3"]},
                         "task": {"type": "worker", "index": 1}, "environment": "cloud"})"),
            "TF_CONFIG: ps 0 a:1, worker 0 b:2, worker 1 c:3; worker 1");
  EXPECT_EQ(
      TfConfig(R"({"cluster": {"ps": ["a:1"], "worker": {"3": "b:2"}}, "task": {"type": "worker", "index": "3"}})"),
      "TF_CONFIG: ps 0 a:1, worker 3 b:2; worker 3");
  EXPECT_EQ(TfConfig(R"({"cluster": {"master": ["a:1"], "worker": ["b:2"]}, "task": {"type": "master", "index": 0}})"),
            "TF_CONFIG: master 0 a:1, worker 0 b:2; master 0 chief");
  EXPECT_EQ(TfConfig(R"({"cluster": {"chief": ["a:1"], "worker": ["b:2"]}, "task": {"type": "evaluator"}})"),
            "TF_CONFIG: chief 0 a:1, worker 0 b:2; evaluator 0");
  EXPECT_EQ(TfConfig("{}"), "TF_CONFIG: worker 0 localhost:0; worker 0 chief");
}

TEST(JobTest, TfConfigOfASparseTfJob) {
  EXPECT_EQ(TfConfig(R"({"sparseCluster": {"worker": {"2": "b:2"}, "ps": ["a:1", "c:3"]},
                         "task": {"type": "worker", "index": 2}})"),
            "TF_CONFIG: ps 0 a:1, ps 1 c:3, worker 2 b:2; worker 2");
  // A parameter server sees itself alone, in the first place.
  EXPECT_EQ(TfConfig(R"({"sparseCluster": {"worker": {}, "ps": ["c:3"]}, "task": {"type": "ps", "index": 1}})"),
            "TF_CONFIG: ps 1 c:3; ps 1");
}

TEST(JobTest, WrongTfConfigIsExplained) {
  EXPECT_THAT(TfConfig("{"), HasSubstr("TF_CONFIG={: expected an object in JSON"));
  EXPECT_THAT(TfConfig("[1]"), HasSubstr("expected an object in JSON"));
  EXPECT_THAT(TfConfig(R"({"cluster": 3})"), HasSubstr("\"cluster\": expected a map from jobs to their tasks"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": "a:1"}})"), HasSubstr("job \"ps\": expected a list of addresses"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": [7]}})"), HasSubstr("task 0 of job \"ps\": expected \"host:port\""));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": ["a"]}})"), HasSubstr("\"a\" as a host-port pair"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": {"x": "a:1"}}})"),
              HasSubstr("a key of job \"ps\" is not a valid task index"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": ["a:1"]}})"), HasSubstr("\"task\" is missing"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": ["a:1"]}, "task": {"index": 0}})"),
              HasSubstr("\"type\" of \"task\" is missing"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": -1}})"),
              HasSubstr("\"index\" of \"task\" is not a valid task index"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1.5}})"),
              HasSubstr("\"index\" of \"task\" is not a valid task index"));
  EXPECT_THAT(TfConfig(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("TF_CONFIG={\"cluster\""));
}

TEST(JobTest, Tony) {
  Job::Environment tony{{"CLUSTER_SPEC", R"({"ps": ["a:1"], "worker": ["b:2"]})"},
                        {"JOB_NAME", "worker"},
                        {"TASK_INDEX", "0"},
                        {"SLURM_PROCID", "0"}};
  EXPECT_EQ(Describe({}, tony), "CLUSTER_SPEC: ps 0 a:1, worker 0 b:2; worker 0 chief");
  tony["TASK_INDEX"] = "1";
  EXPECT_THAT(Describe({}, tony), HasSubstr("JOB_NAME=worker TASK_INDEX=1: "));
  tony["TASK_INDEX"] = "one";
  EXPECT_EQ(Describe({}, tony), "TASK_INDEX=one: expected a number that is not negative");
  tony.erase("TASK_INDEX");
  EXPECT_THAT(Describe({}, tony), HasSubstr("TASK_INDEX is missing"));
  tony.erase("JOB_NAME");
  EXPECT_THAT(Describe({}, tony), HasSubstr("JOB_NAME is missing"));
}

TEST(JobTest, NodeListsOfSlurm) {
  const auto expand = [](const std::string& text) { return *ExpandNodeList({"X", text}); };
  EXPECT_THAT(expand("node1"), ElementsAre("node1"));
  EXPECT_THAT(expand("n[1-3,07],other"), ElementsAre("n1", "n2", "n3", "n07", "other"));
  EXPECT_THAT(expand("n[08-10]"), ElementsAre("n08", "n09", "n10"));
  EXPECT_THAT(expand("r[1-2]n[0-1]-ib"), ElementsAre("r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib"));
  for (const char* bad : {"", "n[1-", "n[2-1]", "n[x]", "a,,b", "n[]"}) {
    EXPECT_THAT(std::string(ExpandNodeList({"X", bad}).status().message()),
                HasSubstr(absl::StrCat("X=", bad, ": expected names of nodes")));
  }
}

TEST(JobTest, Slurm) {
  Job::Environment slurm{{"SLURM_PROCID", "2"},           {"SLURM_NTASKS", "3"}, {"SLURM_JOB_NODELIST", "n[1-2]"},
                         {"SLURM_TASKS_PER_NODE", "2,1"}, {"SLURM_NODEID", "1"}, {"THALWEG_BASE_PORT", "5000"}};
  EXPECT_EQ(Describe({}, slurm), "Slurm: ps 0 n1:5000, worker 0 n1:5001, worker 1 n2:5000; worker 1");
  EXPECT_EQ(Describe({"--num_ps=2", "--base_port=6000"}, slurm),
            "Slurm: ps 0 n1:6000, ps 1 n1:6001, worker 0 n2:6000; worker 0 chief");
  slurm["SLURM_DISTRIBUTION"] = "cyclic";
  slurm["SLURM_NODEID"] = "0";
  EXPECT_EQ(Describe({}, slurm), "Slurm: ps 0 n1:5000, worker 0 n2:5000, worker 1 n1:5001; worker 1");
  slurm["SLURM_NODEID"] = "1";
  EXPECT_THAT(Describe({}, slurm), HasSubstr("SLURM_NODEID=1 does not go with SLURM_PROCID=2"));
  slurm.erase("SLURM_NODEID");
  slurm.erase("SLURM_TASKS_PER_NODE");
  slurm.erase("SLURM_DISTRIBUTION");
  EXPECT_EQ(Describe({}, slurm), "Slurm: ps 0 n1:5000, worker 0 n1:5001, worker 1 n2:5000; worker 1");
  // Steps have a part of the job's nodes, and may have ports of their own.
  slurm.insert(
      {{"SLURM_STEP_NODELIST", "n2"}, {"SLURM_STEP_TASKS_PER_NODE", "3"}, {"SLURM_STEP_RESV_PORTS", "7000-7002"}});
  slurm.erase("THALWEG_BASE_PORT");
  EXPECT_EQ(Describe({}, slurm), "Slurm: ps 0 n2:7000, worker 0 n2:7001, worker 1 n2:7002; worker 1");
}

TEST(JobTest, WrongSlurmVariablesAreNamed) {
  const Job::Environment good{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "n1"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    Job::Environment environment = good;
    environment[name] = value;
    return Describe({}, environment);
  };
  EXPECT_THAT(with("SLURM_NTASKS", ""), HasSubstr("SLURM_NTASKS is missing"));
  EXPECT_THAT(with("SLURM_JOB_NODELIST", ""), HasSubstr("SLURM_JOB_NODELIST is missing"));
  EXPECT_THAT(with("SLURM_NTASKS", "two"), HasSubstr("SLURM_NTASKS=two: expected a number"));
  EXPECT_THAT(with("SLURM_PROCID", "2"), HasSubstr("SLURM_PROCID=2: expected less than 2"));
  EXPECT_THAT(with("SLURM_TASKS_PER_NODE", "1,1"), HasSubstr("SLURM_TASKS_PER_NODE=1,1 has 2 nodes"));
  EXPECT_THAT(with("SLURM_TASKS_PER_NODE", "1(y2)"), HasSubstr("SLURM_TASKS_PER_NODE=1(y2): expected numbers"));
  EXPECT_THAT(with("SLURM_TASKS_PER_NODE", "3"), HasSubstr("SLURM_NTASKS=2, but the nodes have 3 tasks"));
  EXPECT_THAT(with("THALWEG_NUM_PS", "2"), HasSubstr("THALWEG_NUM_PS=2: of 2 tasks at least one has to be a worker"));
  EXPECT_THAT(with("THALWEG_BASE_PORT", "70000"), HasSubstr("THALWEG_BASE_PORT=70000: expected a port"));
}

TEST(JobTest, Mpi) {
  Job::Environment mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"SLURM_PROCID", "0"},  // rank of the daemon that mpirun has started
                       {"THALWEG_BASE_PORT", "5000"}};
  EXPECT_EQ(Describe({}, mpi), "MPI: ps 0 localhost:5000, worker 0 localhost:5001; worker 0 chief");
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THAT(Describe({}, mpi), HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE=1 of OMPI_COMM_WORLD_SIZE=2 tasks"));
  EXPECT_EQ(Describe({"--hosts=a,b:1"}, mpi), "MPI: ps 0 a:5000, worker 0 b:5000; worker 0 chief");
  EXPECT_THAT(Describe({"--hosts=a:2,b"}, mpi), HasSubstr("--hosts=a:2,b has 3 tasks, OMPI_COMM_WORLD_SIZE=2"));
  EXPECT_THAT(Describe({"--hosts=a:x"}, mpi), HasSubstr("--hosts=a:x: expected host:tasks"));
  EXPECT_EQ(Describe({"--base_port=1"}, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}),
            "MPI: worker 0 localhost:1; worker 0 chief");
  EXPECT_THAT(Describe({}, {{"PMIX_RANK", "0"}}), HasSubstr("The number of tasks is missing beside PMIX_RANK=0"));
}

TEST(JobTest, PortsFollowFromTheJob) {
  Job::Environment mpi{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMIX_NAMESPACE", "one"}};
  const std::string one = Describe({}, mpi);
  EXPECT_EQ(Describe({}, mpi), one);
  mpi["PMIX_NAMESPACE"] = "two";
  EXPECT_NE(Describe({}, mpi), one);
}

TEST(ExitCodeTest, SaysWhetherToTryAgain) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ExitCode(InvalidArgument("wrong")), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "INVALID_ARGUMENT: wrong\n");
  EXPECT_EQ(ExitCode(Internal("")), 13);
  EXPECT_EQ(ExitCode(Unavailable("")), 142);
  EXPECT_EQ(ExitCode(Aborted("")), 138);
  EXPECT_EQ(ExitCode(DeadlineExceeded("")), 132);
}

}  // namespace
}  // namespace thalweg
