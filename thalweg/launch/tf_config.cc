// SPDX-License-Identifier: Apache-2.0
// Clusters in JSON: TensorFlow's TF_CONFIG, as people, TFJob and cloud services
// write it, and TonY's CLUSTER_SPEC.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "thalweg/base/status.h"
#include "thalweg/launch/job_sources.h"

namespace thalweg {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

// Texts of settings may be long; an error needs their beginning.
std::string Quote(const Setting& setting) {
  constexpr size_t kMax = 400;
  return absl::StrCat(setting.name, "=", setting.value.substr(0, kMax), setting.value.size() > kMax ? "..." : "", ": ");
}

absl::StatusOr<Struct> ParseJson(const Setting& setting) {
  Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(setting.value, &parsed);
  if (!status.ok()) {
    return InvalidArgument(Quote(setting), "expected an object in JSON: ", std::string(status.message()));
  }
  return parsed;
}

const Value* Find(const Struct& object, const std::string& key) {
  const auto it = object.fields().find(key);
  return it == object.fields().end() || it->second.kind_case() == Value::kNullValue ? nullptr : &it->second;
}

// A number, or one in quotes.
absl::StatusOr<int> Index(const Value& value, const std::string& what) {
  int index = 0;
  if (value.kind_case() == Value::kNumberValue && std::abs(value.number_value()) < 1e9 &&
      value.number_value() == std::floor(value.number_value())) {
    index = static_cast<int>(value.number_value());
  } else if (value.kind_case() != Value::kStringValue || !absl::SimpleAtoi(value.string_value(), &index)) {
    index = -1;
  }
  if (index < 0) return InvalidArgument(what, " is not a valid task index: ", value.ShortDebugString());
  return index;
}

absl::Status AddTask(const std::string& job, int index, const Value& address, ClusterSpec& cluster) {
  if (address.kind_case() != Value::kStringValue) {
    return InvalidArgument("task ", index, " of job \"", job,
                           "\": expected \"host:port\", got: ", address.ShortDebugString());
  }
  return cluster.AddTask({job, index}, address.string_value());
}

absl::StatusOr<ClusterSpec> ReadCluster(const Struct& jobs) {
  ClusterSpec cluster;
  for (const auto& [job, tasks] : jobs.fields()) {
    if (tasks.kind_case() == Value::kListValue) {
      int index = 0;
      for (const Value& address : tasks.list_value().values()) {
        RETURN_IF_ERROR(AddTask(job, index++, address, cluster));
      }
    } else if (tasks.kind_case() == Value::kStructValue) {
      for (const auto& [key, address] : tasks.struct_value().fields()) {
        Value number;
        number.set_string_value(key);
        ASSIGN_OR_RETURN(const int index, Index(number, absl::StrCat("a key of job \"", job, "\"")));
        RETURN_IF_ERROR(AddTask(job, index, address, cluster));
      }
    } else if (tasks.kind_case() != Value::kNullValue) {
      return InvalidArgument("job \"", job, "\": expected a list of addresses or a map from index to address, got: ",
                             tasks.ShortDebugString());
    }
  }
  return cluster;
}

absl::StatusOr<TaskId> ReadTask(const Struct& config) {
  const Value* task = Find(config, "task");
  if (task == nullptr || task->kind_case() != Value::kStructValue) {
    return InvalidArgument("\"task\" is missing: expected {\"type\": \"worker\", \"index\": 0}");
  }
  const Value* type = Find(task->struct_value(), "type");
  if (type == nullptr || type->kind_case() != Value::kStringValue || type->string_value().empty()) {
    return InvalidArgument("\"type\" of \"task\" is missing: expected the name of a job");
  }
  TaskId id{type->string_value(), 0};
  if (const Value* index = Find(task->struct_value(), "index"); index != nullptr) {
    ASSIGN_OR_RETURN(id.index, Index(*index, "\"index\" of \"task\""));
  }
  return id;
}

absl::StatusOr<Job> ReadConfig(const Struct& config) {
  Job job{.source = "TF_CONFIG"};
  const Value* sparse = Find(config, "sparseCluster");
  const Value* cluster = sparse != nullptr ? sparse : Find(config, "cluster");
  if (cluster == nullptr || (cluster->kind_case() == Value::kStructValue && cluster->struct_value().fields().empty())) {
    // Without a cluster it describes a program that runs alone.
    job.task = {"worker", 0};
    RETURN_IF_ERROR(job.cluster.AddTask(job.task, "localhost:0"));
    return job;
  }
  if (cluster->kind_case() != Value::kStructValue) {
    return InvalidArgument("\"cluster\": expected a map from jobs to their tasks, got: ", cluster->ShortDebugString());
  }
  ASSIGN_OR_RETURN(job.cluster, ReadCluster(cluster->struct_value()));
  ASSIGN_OR_RETURN(job.task, ReadTask(config));
  // TFJob gives a parameter server of a sparse cluster a list of itself alone.
  if (const auto own = job.cluster.Address({job.task.job, 0});
      sparse != nullptr && job.task.index > 0 && job.cluster.num_tasks(job.task.job) == 1 && own.ok()) {
    ClusterSpec moved;
    for (const TaskId& task : job.cluster.tasks()) {
      RETURN_IF_ERROR(moved.AddTask(task.job == job.task.job ? job.task : task, *job.cluster.Address(task)));
    }
    job.cluster = std::move(moved);
  }
  RETURN_IF_ERROR(CheckTask(job, "\"task\""));
  return job;
}

}  // namespace

absl::StatusOr<Job> JobFromTfConfig(const Setting& tf_config) {
  ASSIGN_OR_RETURN(const Struct config, ParseJson(tf_config));
  absl::StatusOr<Job> job = ReadConfig(config);
  if (!job.ok()) return Prepend(job.status(), Quote(tf_config));
  return job;
}

absl::StatusOr<Job> JobFromTony(const Setting& cluster_spec, const Job::Environment& environment) {
  const auto name = Variable(environment, "JOB_NAME");
  const auto index = Variable(environment, "TASK_INDEX");
  if (!name) return InvalidArgument("JOB_NAME is missing: expected the job of this task beside CLUSTER_SPEC");
  if (!index) return InvalidArgument("TASK_INDEX is missing: expected the number of this task beside CLUSTER_SPEC");
  Job job{.task = {.job = name->value}, .source = "CLUSTER_SPEC"};
  ASSIGN_OR_RETURN(job.task.index, Number(*index));
  ASSIGN_OR_RETURN(const Struct jobs, ParseJson(cluster_spec));
  absl::StatusOr<ClusterSpec> cluster = ReadCluster(jobs);
  if (!cluster.ok()) return Prepend(cluster.status(), Quote(cluster_spec));
  job.cluster = *std::move(cluster);
  RETURN_IF_ERROR(CheckTask(job, absl::StrCat("JOB_NAME=", name->value, " TASK_INDEX=", index->value)));
  return job;
}

}  // namespace thalweg
