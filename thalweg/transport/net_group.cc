// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_group.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/transport/net_group_peer.h"

namespace thalweg {
namespace {

constexpr int kNetWorkers = 2;  // one drives while the other runs what follows an operation
// How long operations that have begun may go on after a member is lost, and how long a message that has begun may take
// after its operation has failed.
constexpr absl::Duration kDrain = absl::Milliseconds(800);
// How long a member whose connection for values is closed may take to tell the reason.
constexpr absl::Duration kReasonWait = absl::Milliseconds(100);
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);

absl::StatusOr<size_t> CheckNetCall(const HostCall& call, int ranks) {
  if (call.slices != 0) return InvalidArgument("A ", NameOf(call.operation), " runs on one host only");
  const bool moves_between_hosts =
      (call.operation == HostOperation::kAllReduce && !call.rank_order) || call.operation == HostOperation::kBroadcast;
  if (call.between_hosts && !moves_between_hosts) {
    return InvalidArgument("A ", NameOf(call.operation), " does not run between hosts only");
  }
  return CheckCall(call, ranks);
}

}  // namespace

// A call of Start(), or of Fail() if there is no operation.
struct NetGroup::Command {
  std::unique_ptr<NetOperation> operation;
  absl::Status why;
  int64_t step = 0;
};

absl::StatusOr<std::unique_ptr<NetGroup>> NetGroup::Join(NetEndpoint& endpoint, const NetGroupOptions& options) {
  ASSIGN_OR_RETURN(std::vector<NetPeer> sockets, JoinNetMembers(endpoint, {.group = options.name,
                                                                           .rank = options.rank,
                                                                           .addresses = options.addresses,
                                                                           .names = options.names,
                                                                           .deadline = absl::Now() + options.timeout,
                                                                           .cancellation = options.cancellation}));
  return std::unique_ptr<NetGroup>(new NetGroup(options, std::move(sockets)));
}

NetGroup::NetGroup(const NetGroupOptions& options, std::vector<NetPeer> sockets)
    : rank_(options.rank),
      ranks_(static_cast<int>(options.addresses.size())),
      names_(options.names),
      name_([this](int rank) { return Name(rank); }),
      by_host_(GroupByHost(options.hosts.empty() ? std::vector<std::string>(ranks_) : options.hosts)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      early_(ranks_) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) {
      peers_.push_back(nullptr);
      continue;
    }
    auto peer = std::make_unique<Peer>();
    peer->control = std::move(sockets[rank].control);
    peer->values = std::move(sockets[rank].values);
    peers_.push_back(std::move(peer));
  }
  for (int i = 0; i < kNetWorkers; ++i) workers_.push_back(std::make_unique<Thread>("net-group", [this] { Work(); }));
}

NetGroup::~NetGroup() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) LOG(ERROR) << "Cannot stop a group";
  workers_.clear();
}

std::string NetGroup::Name(int rank) const {
  if (rank >= static_cast<int>(names_.size())) return absl::StrCat("rank ", rank);
  return absl::StrCat("rank ", rank, " (", names_[rank], ")");
}

absl::StatusOr<NetGroup::Memory> NetGroup::Allocate(size_t) {
  return ResourceExhausted("Members of a group between hosts share no memory");
}

absl::Status NetGroup::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

absl::Status NetGroup::Run(const HostCall& call) {
  absl::Status result;
  Notification over;
  Start(call, [&](const absl::Status& status) {
    result = status;
    over.Notify();
  });
  over.WaitForNotification();
  return result;
}

void NetGroup::Start(const HostCall& call, Done done) {
  const absl::StatusOr<size_t> bytes = CheckNetCall(call, ranks_);
  if (!bytes.ok()) {
    Fail(bytes.status(), call.step);
    return done(bytes.status());
  }
  auto operation = std::make_unique<NetOperation>(call, *bytes, std::move(done), rank_, ranks_);
  MutexLock lock(&mutex_);
  commands_.push_back({.operation = std::move(operation)});
  if (!driving_) return changed_.Signal();
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) LOG(ERROR) << "Cannot wake a group";
}

void NetGroup::Fail(const absl::Status& why, int64_t step) {
  MutexLock lock(&mutex_);
  if (step == 0 && status_.ok()) status_ = why;
  commands_.push_back({.why = why, .step = step});
  if (!driving_) return changed_.Signal();
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) LOG(ERROR) << "Cannot wake a group";
}

// One thread drives. When operations have ended, it lets another one drive and runs their `done`, which may take long.
void NetGroup::Work() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (driving_ && !(closing_ && stop_)) changed_.Wait(&mutex_);
      if (closing_ && stop_) return;
      driving_ = true;
    }
    Drive();
    std::vector<std::unique_ptr<NetOperation>> ended = std::exchange(ended_, {});
    {
      MutexLock lock(&mutex_);
      driving_ = false;
      if (closing_) {
        changed_.SignalAll();
      } else if (!operations_.empty() || !commands_.empty()) {
        changed_.Signal();
      }
    }
    for (auto& operation : ended) operation->done(operation->status);
  }
}

// Returns when operations have ended, or the group has.
void NetGroup::Drive() {
  for (;;) {
    TakeCommands();
    EndHopeless();
    bool more = false;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (peers_[rank] != nullptr && !peers_[rank]->blocked) more = SendValues(rank) || more;
    }
    CheckTimes();
    if (!ended_.empty() || stop_) return;
    Poll(more ? 0 : PollMillis());
  }
}

void NetGroup::TakeCommands() {
  std::vector<Command> commands;
  bool closing = false;
  {
    MutexLock lock(&mutex_);
    commands.swap(commands_);
    closing = closing_;
  }
  for (Command& command : commands) {
    if (command.operation != nullptr) {
      Arrive(std::move(command.operation));
    } else if (command.step == 0) {
      Lose(command.why, /*at_once=*/true);
    } else {
      FailStep(command.step, command.why, /*tell=*/true);
    }
  }
  if (!closing) return;
  if (!operations_.empty()) {
    Lose(Cancelled("Rank ", rank_, " has left the group with operations under way"), /*at_once=*/true);
  }
  MutexLock lock(&mutex_);
  stop_ = true;
}

int NetGroup::PollMillis() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& operation : operations_) {
    next = std::min(next,
                    operation->ending ? operation->ending_since + kDrain : operation->start + operation->call.timeout);
  }
  if (lost_ && !operations_.empty()) next = std::min(next, lost_at_ + kDrain);
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->values_closed && !lost_) next = std::min(next, peer->values_closed_at + kReasonWait);
  }
  if (next == absl::InfiniteFuture()) return -1;
  return static_cast<int>(absl::ToInt64Milliseconds(std::clamp(next - absl::Now(), absl::ZeroDuration(), kLookEvery))) +
         1;
}

void NetGroup::Poll(int millis) {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
  std::vector<std::pair<int, NetChannel>> which = {{-1, NetChannel::kControl}};
  for (int rank = 0; rank < ranks_; ++rank) {
    const Peer* const peer = peers_[rank].get();
    if (peer == nullptr) continue;
    if (!peer->control_closed) {
      polled.push_back(
          {peer->control.get(), static_cast<int16_t>(POLLIN | (peer->control_out.empty() ? 0 : POLLOUT)), 0});
      which.emplace_back(rank, NetChannel::kControl);
    }
    const int events = (CanReceive(rank) ? POLLIN : 0) | (peer->blocked ? POLLOUT : 0);
    if (!peer->values_closed && events != 0) {
      polled.push_back({peer->values.get(), static_cast<int16_t>(events), 0});
      which.emplace_back(rank, NetChannel::kValues);
    }
  }
  if (poll(polled.data(), polled.size(), millis) <= 0) return;
  if (polled[0].revents != 0) {
    uint64_t count = 0;
    if (read(wake_.get(), &count, sizeof(count)) < 0 && !WouldBlock()) LOG(ERROR) << "Cannot read an event";
  }
  // Control frames first: they may begin operations whose values are there already.
  for (const NetChannel channel : {NetChannel::kControl, NetChannel::kValues}) {
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || which[i].second != channel) continue;
      const int rank = which[i].first;
      if (channel == NetChannel::kControl) {
        if (polled[i].revents & POLLOUT) FlushControl(rank);
        if (polled[i].revents & ~POLLOUT) ReadControl(rank);
      } else {
        if (polled[i].revents & (POLLOUT | POLLERR | POLLHUP)) peers_[rank]->blocked = false;
        if (polled[i].revents & ~POLLOUT) ReceiveValues(rank);
      }
    }
  }
}

void NetGroup::CheckTimes() {
  const absl::Time now = absl::Now();
  for (;;) {
    const auto late = std::find_if(operations_.begin(), operations_.end(), [&](const auto& operation) {
      return !operation->ending && now > operation->start + operation->call.timeout;
    });
    if (late == operations_.end()) break;
    FailStep((*late)->call.step, (*late)->Overdue(name_), /*tell=*/true);
    if (lost_) break;
  }
  for (int rank = 0; rank < ranks_ && !lost_; ++rank) {
    const Peer* const peer = peers_[rank].get();
    if (peer != nullptr && peer->values_closed && now > peer->values_closed_at + kReasonWait) {
      Lose(Unavailable("The connection to ", Name(rank), " broke"));
    }
  }
  const bool stuck = std::any_of(operations_.begin(), operations_.end(), [&](const auto& operation) {
    return operation->ending && now > operation->ending_since + kDrain;
  });
  if (stuck) Lose(Unavailable("A member of the group takes no values any more"), /*at_once=*/true);
  EndHopeless();
  if (lost_ && operations_.empty() && !shut_) {
    // The other members need not wait for values that do not come.
    shut_ = true;
    for (const auto& peer : peers_) {
      if (peer != nullptr) shutdown(peer->values.get(), SHUT_WR);
    }
  }
}

// Announces an operation of this member.
void NetGroup::Arrive(std::unique_ptr<NetOperation> operation) {
  NetOperation& o = *operation;
  const HostCall& call = o.call;
  operations_.push_back(std::move(operation));
  if (lost_) return End(o, lost_why_, true);
  if (const absl::Status* const why = failed_steps_.Find(call.step); why != nullptr) return End(o, *why, true);
  if (!by_key_.emplace(call.key, &o).second) {
    return End(o, InvalidArgument("Operation ", call.key, " is under way already"), true);
  }
  auto own = std::make_unique<NetArrived>(o.OwnArrival());
  SendControlToAll(NetControlFrame::kArrive, AsBytes(own->what), own->values);
  o.arrivals[rank_] = std::move(own);
  o.arrived = 1;
  for (auto& [rank, arrival] : early_.Take(call.key)) {
    o.arrivals[rank] = std::move(arrival);
    ++o.arrived;
  }
  if (o.arrived == ranks_) ArrivedAll(o);
}

void NetGroup::ArrivedAll(NetOperation& o) {
  if (const absl::Status checked = o.CheckArrivals(name_); !checked.ok()) {
    return FailStep(o.call.step, checked, /*tell=*/true);
  }
  if (o.is_inline) {
    o.MergeInline();
    return End(o, absl::OkStatus(), true);
  }
  o.Begin(by_host_);
  EndIfComplete(o);
}

void NetGroup::EndIfComplete(NetOperation& o) {
  if (o.moves_left > 0) return;
  End(o, o.ending ? o.status : absl::OkStatus(), true);
}

// Ends an operation, once. If a frame of it was sent in part, its memory is needed until the rest is sent, unless
// `at_once`: then the connection is closed. Operations that need the connection end in EndHopeless().
void NetGroup::End(NetOperation& o, const absl::Status& status, bool at_once) {
  if (o.over) return;
  if (!o.ending) {
    o.status = status;
    const auto it = by_key_.find(o.call.key);
    const bool announced = it != by_key_.end() && it->second == &o;
    if (announced) by_key_.erase(it);
    // Members that have heard of all arrivals may have begun, although this one has not.
    if (!status.ok() && (announced || o.begun)) failed_keys_.Add(o.call.key, true);
    for (const auto& peer : peers_) {
      if (peer != nullptr && peer->in.operation == &o) peer->in.operation = nullptr;
    }
  }
  if (o.frames_out > 0 && !at_once) {
    o.ending = true;
    o.ending_since = absl::Now();
    return;
  }
  o.over = true;
  const auto it =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& other) { return other.get() == &o; });
  ended_.push_back(std::move(*it));
  operations_.erase(it);
  for (int rank = 0; rank < ranks_; ++rank) {
    Peer* const peer = peers_[rank].get();
    if (peer == nullptr || !peer->out.active || peer->out.operation != &o) continue;
    shutdown(peer->values.get(), SHUT_RDWR);
    ValuesClosed(rank);
  }
}

// `tell`: the step has failed here, and the other members do not know. They tell nobody else: a member that cannot be
// told is lost, which ends the group.
void NetGroup::FailStep(int64_t step, const absl::Status& why, bool tell) {
  if (step == 0) return Lose(why, /*at_once=*/true);
  if (!failed_steps_.Add(step, why)) return;
  early_.ForgetStep(step);
  if (tell) {
    const NetFailure failure{.step = step, .code = static_cast<uint32_t>(why.code())};
    SendControlToAll(NetControlFrame::kFail, AsBytes(failure),
                     absl::string_view(why.message()).substr(0, kNetMaxMessage));
  }
  for (;;) {
    const auto failed = std::find_if(operations_.begin(), operations_.end(), [&](const auto& operation) {
      return operation->call.step == step && !operation->ending;
    });
    if (failed == operations_.end()) return;
    End(**failed, why, /*at_once=*/false);
  }
}

// The group is over. EndHopeless() ends the operations.
void NetGroup::Lose(const absl::Status& why, bool at_once) {
  lost_at_once_ = lost_at_once_ || at_once;
  if (lost_) return;
  lost_ = true;
  lost_at_ = absl::Now();
  {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = why;
    lost_why_ = status_;
  }
  const NetFailure failure{.step = 0, .code = static_cast<uint32_t>(lost_why_.code())};
  SendControlToAll(NetControlFrame::kFail, AsBytes(failure),
                   absl::string_view(lost_why_.message()).substr(0, kNetMaxMessage));
  early_.Clear();
}

// After the group is lost: ends the operations at which a member that has left did not arrive, and those that need a
// connection that is closed. The others get a little time: a member may have left because it was done.
void NetGroup::EndHopeless() {
  if (!lost_) return;
  const bool all = lost_at_once_ || absl::Now() > lost_at_ + kDrain;
  const auto hopeless = [&](const std::unique_ptr<NetOperation>& o) {
    if (all) return true;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Peer* const peer = peers_[rank].get();
      if (peer == nullptr) continue;
      if (o->begun ? peer->values_closed && o->Needs(rank) : peer->left && o->arrivals[rank] == nullptr) return true;
    }
    return false;
  };
  // Each end may close connections that others need.
  for (;;) {
    const auto it = std::find_if(operations_.begin(), operations_.end(), hopeless);
    if (it == operations_.end()) return;
    End(**it, lost_why_, /*at_once=*/true);
  }
}

// Poll() reads the reason from the other connection. EndHopeless() ends the operations that need this one.
void NetGroup::ValuesClosed(int rank) {
  Peer& peer = *peers_[rank];
  if (peer.values_closed) return;
  peer.values_closed = true;
  peer.values_closed_at = absl::Now();
  peer.blocked = false;
  if (!peer.out.active) return;
  peer.out.active = false;
  NetOperation& o = *peer.out.operation;
  if (--o.frames_out == 0 && o.ending) End(o, o.status, true);
}

}  // namespace thalweg
