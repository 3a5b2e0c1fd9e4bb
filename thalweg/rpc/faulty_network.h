// SPDX-License-Identifier: Apache-2.0
// Calls over a network with faults (base/faults/network_faults.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/faults/network_faults.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/base/timer.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {

// The network as one client sees it. Thread-safe.
//
// The model is TCP's: nothing is lost silently. A call that is lost ends with
// UNAVAILABLE, as when its connection breaks, before or after the server has got
// it. What is sent while the two ends are cut off from each other arrives when they
// can reach each other again, even if its caller has given up meanwhile; after
// kTcpTimeout without an acknowledgement the call ends with UNAVAILABLE.
class FaultyNetwork {
 public:
  static constexpr absl::Duration kTcpTimeout = absl::Seconds(10);
  // Makes the call; once more if it is duplicated.
  using Send = std::function<void(const CallOptions& options, RpcChannel::Done done)>;

  // `from` is the "host:port" of this end, "" for one that is not a server.
  explicit FaultyNetwork(std::string from) : from_(std::move(from)), pool_("faulty-network", kThreads) {}
  ~FaultyNetwork();  // ends the calls that are left, with CANCELLED
  FaultyNetwork(const FaultyNetwork&) = delete;
  FaultyNetwork& operator=(const FaultyNetwork&) = delete;

  void Call(std::shared_ptr<NetworkFaults> faults, const std::string& to, const CallOptions& options, Send send,
            RpcChannel::Done done);

 private:
  static constexpr int kThreads = 8;  // an end of a call may run kernels
  class FaultyCall;

  const std::string from_;
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  CondVar ended_;  // the last call
  std::set<std::shared_ptr<FaultyCall>> calls_ ABSL_GUARDED_BY(mutex_);
  ThreadPool pool_;  // where calls end
  Timer timer_;      // ends first
};

}  // namespace thalweg
