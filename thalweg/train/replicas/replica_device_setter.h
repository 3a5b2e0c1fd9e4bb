// SPDX-License-Identifier: Apache-2.0
// Where operations of a replicated model go: variables to the parameter
// servers, everything else to the worker.
//
//   const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster, .worker = {"worker", 0}}));
//
// Workers that build the same model in the same order place its variables the
// same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// Chooses one of `tasks` parameter servers, from 0, for an operation, which has
// the device that inner scopes ask for. It may keep a state: it is called once
// per operation, in the order in which they are made.
using PlacementStrategy = std::function<int(const NewOperation& operation, int tasks)>;

// In turn, whatever their sizes.
PlacementStrategy RoundRobin();
// The one that has the fewest bytes so far.
PlacementStrategy BalancedByBytes();

// Op types that parameter servers hold.
std::vector<std::string> StandardPsOps();

struct ReplicaDeviceSetterOptions {
  ClusterSpec cluster;           // says how many parameter servers there are...
  std::optional<TaskId> worker;  // this task
  int ps_tasks = 0;              // ...if it is empty, this
  std::string ps_device = "/job:ps";
  std::string worker_device;  // that of `worker`, if empty; else "/job:worker"
  std::vector<std::string> ps_ops = StandardPsOps();
  PlacementStrategy strategy;  // BalancedByBytes(), if empty
};

// For Scope::WithDevice. What inner scopes name stands. Without parameter
// servers it chooses nothing. For one graph: it keeps count.
Scope::DeviceFunction ReplicaDeviceSetter(const ReplicaDeviceSetterOptions& options);

// Which task holds which variables, slots included, and how many bytes.
struct VariablePlacement {
  // One variable.
  struct Variable {
    std::string name;
    std::string device;  // as asked for; "" is anywhere
    std::string shape;
    std::optional<int64_t> bytes;  // none: the shape is not known
  };
  // One task.
  struct Task {
    std::string name;  // "/job:ps/task:0"
    int variables = 0;
    int64_t bytes = 0;
  };
  std::vector<Variable> variables;  // in the order they were made
  std::vector<Task> tasks;          // by name

  // Two tables: tasks, then variables.
  std::string ToString() const;
};
// Where the variables of a graph are.
VariablePlacement ExplainVariables(const Graph& graph);

}  // namespace thalweg
