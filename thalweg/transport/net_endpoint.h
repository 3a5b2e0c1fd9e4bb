// SPDX-License-Identifier: Apache-2.0
// NetEndpoint: where a task listens for other members of its groups between hosts
// (transport/net_group.h), and how members connect.
//
// The address of an endpoint contains a random token. Tasks give it only to members of their
// groups (cluster/collectives/collective_groups.h). A connection that does not begin with the
// token is closed. The token is not encrypted on the wire: like gRPC without TLS, it protects
// against mistakes and strangers, but not against those who can read the network.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"
#include "thalweg/transport/net_frames.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// "HOST PORT TOKEN", with the token as 32 hexadecimal digits.
struct NetAddress {
  std::string host;
  int port = 0;
  std::string token;  // kNetTokenBytes bytes

  std::string ToString() const;
  static absl::StatusOr<NetAddress> Parse(absl::string_view text);
};

// Thread-safe.
class NetEndpoint {
 public:
  // Listens on a free port of these hosts, names or addresses, of which at least one must be this machine's. Others
  // connect to `reach_at`.
  static absl::StatusOr<std::unique_ptr<NetEndpoint>> Listen(const std::vector<std::string>& hosts,
                                                             const std::string& reach_at);
  ~NetEndpoint();

  const NetAddress& address() const { return address_; }

  struct Connection {
    NetHello hello;
    FileHandle socket;
    absl::Time since;
  };
  // Takes the connections that members of the group have made since.
  std::vector<Connection> Take(const std::string& group);
  // Waits until another connection has come, `millis` at most.
  void Wait(int millis);

 private:
  NetEndpoint(NetAddress address, std::vector<FileHandle> listeners);
  void Accept();

  const NetAddress address_;
  const std::vector<FileHandle> listeners_;
  FileHandle stop_;  // an eventfd that ends Accept()

  Mutex mutex_;
  CondVar changed_;
  std::deque<Connection> waiting_ ABSL_GUARDED_BY(mutex_);  // for a member of this process; oldest first
  std::unique_ptr<Thread> thread_;
};

struct NetPeer {
  FileHandle control, values;  // not blocking; not valid for the member itself
};

struct NetJoin {
  std::string group;  // at most kNetNameBytes characters
  int rank = 0;
  std::vector<NetAddress> addresses;  // by rank
  std::vector<std::string> names;     // by rank, for errors; optional
  absl::Time deadline;
  const Cancellation* cancellation = nullptr;
};
// Connects to all other members, and waits until they have connected. DEADLINE_EXCEEDED names the missing ranks.
// INVALID_ARGUMENT if members disagree on the size of the group or share a rank.
absl::StatusOr<std::vector<NetPeer>> JoinNetMembers(NetEndpoint& endpoint, const NetJoin& join);

}  // namespace thalweg
