// SPDX-License-Identifier: Apache-2.0
// Places the operations of a replicated model: variables on the parameter servers,
// everything else on the worker.
//
//   const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster, .worker = {"worker", 0}}));
//
// Workers that build the same model in the same order place its variables on the same
// tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// Chooses one of `tasks` parameter servers, numbered from 0, for an operation. Called once
// per operation, in the order in which they are added, so it may keep state.
using PlacementStrategy = std::function<int(const NewOperation& operation, int tasks)>;

// Assigns variables to the servers in turn, regardless of their sizes.
PlacementStrategy RoundRobin();
// Chooses the server that has the fewest bytes so far.
PlacementStrategy BalancedByBytes();

// The op types that go to parameter servers: variables, tables and similar state.
std::vector<std::string> StandardPsOps();

// Which jobs hold variables and run ops, and how variables are distributed.
struct ReplicaDeviceSetterOptions {
  ClusterSpec cluster;                                // its job "ps" has the parameter servers
  std::optional<TaskId> worker;                       // this task
  int ps_tasks = 0;                                   // number of parameter servers, if `cluster` is empty
  std::string ps_device = "/job:ps";                  // device of the parameter servers, without the task
  std::string worker_device;                          // empty: the device of `worker` or, without one, "/job:worker"
  std::vector<std::string> ps_ops = StandardPsOps();  // op types that go to parameter servers
  PlacementStrategy strategy;                         // empty: BalancedByBytes()
};

// A device function for Scope::WithDevice. Devices that inner scopes name take precedence.
// Without parameter servers it chooses no device. It keeps counts, so use it for one graph.
Scope::DeviceFunction ReplicaDeviceSetter(const ReplicaDeviceSetterOptions& options);

// Which task holds which variables, including the optimizer's slots, and how many bytes.
struct VariablePlacement {
  // One variable.
  struct Variable {
    std::string name;              // name of the variable
    std::string device;            // as requested; "": any
    std::string shape;             // "[784,10]"
    std::optional<int64_t> bytes;  // empty: the shape is not known
  };
  // One task.
  struct Task {
    std::string name;   // "/job:ps/task:0"
    int variables = 0;  // number of variables
    int64_t bytes = 0;  // their size
  };
  std::vector<Variable> variables;  // in the order in which they were added
  std::vector<Task> tasks;          // by name

  // Two tables as text: tasks, then variables.
  std::string ToString() const;
};
// Lists where the variables of a graph are placed.
VariablePlacement ExplainVariables(const Graph& graph);

}  // namespace thalweg
