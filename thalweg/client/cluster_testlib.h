// A cluster whose tasks are all in this process, each a real server on a port.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thalweg/client/server.h"
#include "thalweg/client/session.h"

namespace thalweg {

class TestCluster {
 public:
  // So many tasks of each job; all are started, but for those in `later`.
  explicit TestCluster(const std::map<std::string, int>& jobs, const std::vector<TaskId>& later = {},
                       const ServerOptions& options = {});

  void Start(const TaskId& task);
  void Stop(const TaskId& task) { servers_.erase(task); }
  Server& server(const TaskId& task) { return *servers_.at(task); }
  std::string target(const TaskId& task) { return server(task).target(); }
  const ClusterSpec& spec() const { return spec_; }

 private:
  const ServerOptions options_;
  ClusterSpec spec_;
  std::map<TaskId, std::unique_ptr<Server>> servers_;
};

}  // namespace thalweg
