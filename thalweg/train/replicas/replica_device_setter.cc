// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/replica_device_setter.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {
namespace {

std::optional<int64_t> BytesOf(const PartialShape& shape, DType dtype) {
  const std::optional<Shape> known = shape.AsShape();
  if (!known.has_value()) return std::nullopt;
  return known->num_elements() * static_cast<int64_t>(ElementSize(dtype));
}

// 0 for nodes that are not variables (tables, for example) and for unknown shapes.
int64_t BytesOf(const NewOperation& op) {
  const auto dtype = op.Attr<DType>("dtype");
  const auto shape = op.Attr<PartialShape>("shape");
  if (!dtype.ok() || !shape.ok()) return 0;
  return BytesOf(*shape, *dtype).value_or(0);
}

DeviceName ParsedOrEmpty(const std::string& device) {
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(device);
  return name.ok() ? *name : DeviceName();
}

struct Chooser {
  std::string Choose(const NewOperation& op) const {
    if (std::find(ps_ops.begin(), ps_ops.end(), op.op()) == ps_ops.end()) return worker_device;
    // If an inner scope names another job, a task of ours means nothing there.
    const DeviceName inner = ParsedOrEmpty(op.device());
    if (!ps_device.job || (inner.job && inner.job != ps_device.job)) return ps_device.ToString();
    const int chosen = strategy(op, static_cast<int>(tasks.size()));
    if (chosen < 0 || chosen >= static_cast<int>(tasks.size())) {
      return absl::StrCat("the strategy chose parameter server ", chosen, " of ", tasks.size(), " for ", op.name());
    }
    DeviceName device = ps_device;
    device.task = tasks[chosen];
    return device.ToString();
  }

  std::vector<int> tasks;  // tasks of the ps job
  DeviceName ps_device;
  std::string worker_device;
  std::vector<std::string> ps_ops;
  PlacementStrategy strategy;
};

std::string WorkerDevice(const ReplicaDeviceSetterOptions& options) {
  if (!options.worker_device.empty()) return options.worker_device;
  if (options.worker.has_value()) {
    return absl::StrCat("/job:", options.worker->job, "/task:", options.worker->index);
  }
  return "/job:worker";
}

std::string Readable(int64_t bytes) {
  if (bytes < 10000) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KB", "MB", "GB", "TB"}) {
    if (value < 1000) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

}  // namespace

PlacementStrategy RoundRobin() {
  return [next = std::make_shared<int>(0)](const NewOperation&, int tasks) { return (*next)++ % tasks; };
}

PlacementStrategy BalancedByBytes() {
  return [held = std::make_shared<std::vector<int64_t>>()](const NewOperation& op, int tasks) {
    held->resize(tasks, 0);
    // An inner scope may have chosen already.
    const DeviceName inner = ParsedOrEmpty(op.device());
    const auto least = std::min_element(held->begin(), held->end()) - held->begin();
    const int chosen = inner.task && *inner.task < tasks ? *inner.task : static_cast<int>(least);
    (*held)[chosen] += BytesOf(op);
    return chosen;
  };
}

std::vector<std::string> StandardPsOps() {
  return {"Variable",
          "VariableV2",
          "AutoReloadVariable",
          "MutableHashTable",
          "MutableHashTableV2",
          "MutableHashTableOfTensors",
          "MutableHashTableOfTensorsV2",
          "MutableDenseHashTable",
          "MutableDenseHashTableV2",
          "VarHandleOp",
          "BoostedTreesEnsembleResourceHandleOp",
          "BoostedTreesQuantileStreamResourceHandleOp",
          "ResourceConditionalAccumulator"};
}

Scope::DeviceFunction ReplicaDeviceSetter(const ReplicaDeviceSetterOptions& options) {
  const absl::StatusOr<DeviceName> ps = DeviceName::Parse(options.ps_device);
  // The scope says what is wrong with it.
  if (!ps.ok()) return [device = options.ps_device](const NewOperation&) { return device; };
  Chooser chooser{.ps_device = *ps,
                  .worker_device = WorkerDevice(options),
                  .ps_ops = options.ps_ops,
                  .strategy = options.strategy ? options.strategy : BalancedByBytes()};
  if (options.cluster.empty()) {
    for (int i = 0; i < options.ps_tasks; ++i) chooser.tasks.push_back(i);
  } else {
    for (const TaskId& task : options.cluster.tasks()) {
      if (task.job == ps->job) chooser.tasks.push_back(task.index);
    }
  }
  if (chooser.tasks.empty()) return [](const NewOperation&) { return std::string(); };
  return [chooser = std::move(chooser)](const NewOperation& op) { return chooser.Choose(op); };
}

VariablePlacement ExplainVariables(const Graph& graph) {
  VariablePlacement placement;
  std::map<std::string, VariablePlacement::Task> tasks;
  std::vector<Var> all = GlobalVariables(graph);
  for (const Var& v : LocalVariables(graph)) all.push_back(v);
  for (const Var& v : all) {
    const std::string& device = v.ref.node->device();
    placement.variables.push_back({v.name(), device, v.shape().ToString(), BytesOf(v.shape(), v.dtype())});
    DeviceName task = ParsedOrEmpty(device);
    task.replica.reset();
    VariablePlacement::Task& held = tasks[TaskOf(task)];
    held.name = TaskOf(task);
    ++held.variables;
    held.bytes += placement.variables.back().bytes.value_or(0);
  }
  for (auto& [name, task] : tasks) placement.tasks.push_back(std::move(task));
  return placement;
}

std::string VariablePlacement::ToString() const {
  size_t task_width = 8, name_width = 8, shape_width = 5;
  int64_t total = 0;
  for (const Task& t : tasks) {
    task_width = std::max(task_width, t.name.size());
    total += t.bytes;
  }
  for (const Variable& v : variables) {
    name_width = std::max(name_width, v.name.size());
    shape_width = std::max(shape_width, v.shape.size());
  }
  const auto place = [](const std::string& device) { return device.empty() ? "anywhere" : device; };
  std::string text = absl::StrFormat("%-*s  %9s  %10s  %5s\n", task_width, "task", "variables", "bytes", "share");
  for (const Task& t : tasks) {
    absl::StrAppendFormat(&text, "%-*s  %9d  %10s  %4.0f%%\n", task_width, place(t.name), t.variables,
                          Readable(t.bytes),
                          total == 0 ? 0.0 : 100.0 * static_cast<double>(t.bytes) / static_cast<double>(total));
  }
  absl::StrAppendFormat(&text, "\n%-*s  %-*s  %10s  %s\n", name_width, "variable", shape_width, "shape", "bytes",
                        "device");
  for (const Variable& v : variables) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  %10s  %s\n", name_width, v.name, shape_width, v.shape,
                          v.bytes ? Readable(*v.bytes) : "?", place(v.device));
  }
  return text;
}

}  // namespace thalweg
