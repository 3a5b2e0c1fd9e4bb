// SPDX-License-Identifier: Apache-2.0
// The master of a server in this process, which sessions of this process call directly: without a
// socket, without encoding tensors, and on their own thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/master/master.h"
#include "thalweg/monitor/traffic.h"
#include "thalweg/rpc/call_gate.h"

namespace thalweg {

struct InProcessMasterOptions {
  std::string address;       // "localhost:2222", as sessions name the server
  Master* master = nullptr;  // borrowed until WaitForCalls() has returned
  CallGate* gate = nullptr;  // borrowed likewise; counts the calls, and refuses them while the server drains
  // Count the calls by method, as those from other processes are counted.
  std::shared_ptr<CallCounts> run_step = std::make_shared<CallCounts>();
  std::shared_ptr<CallCounts> run_callable = std::make_shared<CallCounts>();
};

// Thread-safe. Sessions hold it beyond the end of its server; then it has no master, and they call
// the address instead, where another server may have started.
class InProcessMaster {
 public:
  // Adds the master to those of this process.
  static std::shared_ptr<InProcessMaster> Register(InProcessMasterOptions options);
  // nullptr if no server of this process has the address.
  static std::shared_ptr<InProcessMaster> Find(absl::string_view address);

  // Use of the master for one call. While it lives, the master does.
  class Use {
   public:
    explicit Use(InProcessMaster* master) : used_(master != nullptr && master->Enter() ? master : nullptr) {}
    ~Use() {
      if (used_ != nullptr) used_->Leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return used_ != nullptr; }  // false if the server ends or has ended
    const InProcessMasterOptions* operator->() const { return &used_->options_; }

   private:
    InProcessMaster* const used_;
  };

  // The server ends: there are no new uses from now on.
  void Close();
  // Waits for the uses that have begun. REQUIRES: Close() was called, and their calls end.
  void WaitForCalls();

 private:
  explicit InProcessMaster(InProcessMasterOptions options);
  bool Enter();
  void Leave();

  const InProcessMasterOptions options_;
  const int process_;  // a forked child has this object, but not the server's threads
  std::atomic<bool> closed_{false};
  std::atomic<int> active_{0};
  Mutex mutex_;
  CondVar ended_;
};

}  // namespace thalweg
