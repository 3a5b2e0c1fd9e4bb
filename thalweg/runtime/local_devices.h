// SPDX-License-Identifier: Apache-2.0
// The devices of one task in one process, and the threads they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "thalweg/base/intra_op_pool.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/kernel/device.h"

namespace thalweg {

struct LocalDevicesOptions {
  std::string job = "localhost";
  int task = 0;
  int cpus = 1;     // devices CPU:0, CPU:1, ...
  int threads = 0;  // size of the intra-op pool and of the inter-op pool; 0: one per core

  static constexpr int kMaxCpus = 1024, kMaxThreads = 1024;
  // INVALID_ARGUMENT, with the limits, if a number is out of range.
  absl::Status Check() const;
};

// Constant after construction.
class LocalDevices {
 public:
  // REQUIRES: options.Check().ok()
  explicit LocalDevices(const LocalDevicesOptions& options);

  Device* Find(const std::string& full_name) const;  // nullptr if there is none
  const std::vector<std::shared_ptr<Device>>& devices() const { return devices_; }
  // The same devices under the name of task `task` of `job`, with shared or with separate
  // resources. For sessions with their own cluster definition or isolated state. The
  // views use the threads of this object.
  std::vector<std::shared_ptr<Device>> ViewAs(const std::string& job, int task, bool share_resources);
  ThreadPool& pool() { return pool_; }

 private:
  IntraOpPool intra_op_pool_;
  ThreadPool pool_;
  std::vector<std::shared_ptr<Device>> devices_;
};

}  // namespace thalweg
