// SPDX-License-Identifier: Apache-2.0
// NetGroup: processes, usually on several hosts, that run collective operations over TCP.
//
//   ASSIGN_OR_RETURN(auto endpoint, NetEndpoint::Listen({"0.0.0.0"}, "host1"));
//   ... exchange endpoint->address() with the other members ...
//   ASSIGN_OR_RETURN(auto group, NetGroup::Join(*endpoint, {.name = "job-7", .rank = rank, .addresses = addresses}));
//   RETURN_IF_ERROR(group->Run({.operation = HostOperation::kAllReduce, .key = 1, .elements = n,
//                               .element_bytes = 4, .values = values, .merge = AddFloats}));
//
// Every two members have two connections of their own (transport/net_frames.h). A member announces that it has arrived
// at an operation to all others, together with the values if they are small. Large values move once all members have
// arrived and agree, as transport/net_schedule.h says: they are sent from the memory of the call, received into it, and
// merged in pieces that fit into a core's cache.
//
// Unlike in a HostGroup, a step that fails ends only its own operations: those of other steps continue. Whoever fails
// tells the reason to all members before it closes its connections. After a member has died or left, operations that
// have begun still finish if their values have been sent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/transport/net_endpoint.h"
#include "thalweg/transport/net_frames.h"
#include "thalweg/transport/net_operation.h"
#include "thalweg/transport/process_group.h"

namespace thalweg {

struct NetGroupOptions {
  std::string name;  // the same for all members; at most kNetNameBytes characters
  int rank = 0;
  std::vector<NetAddress> addresses;           // by rank
  std::vector<std::string> names;              // members' names for error messages, by rank; optional
  std::vector<std::string> hosts;              // by rank; optional. Members of one host are neighbours in the ring
  absl::Duration timeout = absl::Seconds(60);  // for all members to join
  const Cancellation* cancellation = nullptr;  // cancels Join(); borrowed
};

// Thread-safe.
class NetGroup : public ProcessGroup {
 public:
  // Waits until all members are connected. After the timeout, returns DEADLINE_EXCEEDED and names the missing ranks.
  // `endpoint` is this member's, and is used only until the function returns.
  static absl::StatusOr<std::unique_ptr<NetGroup>> Join(NetEndpoint& endpoint, const NetGroupOptions& options);
  ~NetGroup() override;
  NetGroup(const NetGroup&) = delete;
  NetGroup& operator=(const NetGroup&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  // Operations need no particular memory: always RESOURCE_EXHAUSTED.
  absl::StatusOr<Memory> Allocate(size_t bytes) override;
  absl::Status Run(const HostCall& call) override;
  void Start(const HostCall& call, Done done) override;
  void Fail(const absl::Status& why, int64_t step) override;
  absl::Status status() const override;

 private:
  struct Peer;
  struct Command;

  NetGroup(const NetGroupOptions& options, std::vector<NetPeer> sockets);

  // One thread at a time drives the group: it alone touches the state below `driver state`.
  void Work();
  void Drive();
  void TakeCommands();
  int PollMillis() const;
  void Poll(int millis);
  void CheckTimes();

  void Arrive(std::unique_ptr<NetOperation> operation);
  void ArrivedAll(NetOperation& operation);
  void EndIfComplete(NetOperation& operation);
  void End(NetOperation& operation, const absl::Status& status, bool at_once);

  void FailStep(int64_t step, const absl::Status& why, bool tell);
  void Lose(const absl::Status& why, bool at_once = false);
  void EndHopeless();
  void ValuesClosed(int rank);

  void SendControl(int rank, uint32_t type, absl::string_view body, absl::string_view rest);
  void SendControlToAll(uint32_t type, absl::string_view body, absl::string_view rest);
  void FlushControl(int rank);
  void ReadControl(int rank);
  absl::Status TakeControlFrame(int rank, const NetControlFrame& frame, absl::string_view body);
  absl::Status TakeArrival(int rank, absl::string_view body);

  bool NextFrame(int rank);
  bool SendValues(int rank);
  bool CanReceive(int rank) const;
  size_t ReceiveLimit(const Peer& peer) const;
  void ReceiveValues(int rank);
  absl::StatusOr<bool> StartReceiving(int rank);
  void Received(int rank, size_t bytes);

  std::string Name(int rank) const;  // for errors

  const int rank_, ranks_;
  const std::vector<std::string> names_;
  const NetNames name_;
  const RanksByHost by_host_;
  FileHandle wake_;  // an eventfd that ends the poll of the thread that drives

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool driving_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);

  // Driver state.
  bool stop_ = false;
  std::vector<std::unique_ptr<Peer>> peers_;               // by rank; nullptr for this member
  std::vector<std::unique_ptr<NetOperation>> operations_;  // in the order in which they were started
  absl::flat_hash_map<uint64_t, NetOperation*> by_key_;    // the operations that have not ended
  EarlyArrivals early_;
  std::vector<std::unique_ptr<NetOperation>> ended_;  // whose `done` must run
  NewestKeys<int64_t, absl::Status> failed_steps_{1000};
  NewestKeys<uint64_t, bool> failed_keys_{
      10000};  // keys of operations that were announced: peers may still send values
  bool lost_ = false;
  bool lost_at_once_ = false;  // operations get no time to finish
  bool shut_ = false;          // nothing more is sent
  absl::Time lost_at_;
  absl::Status lost_why_;

  std::vector<std::unique_ptr<Thread>> workers_;
};

}  // namespace thalweg
