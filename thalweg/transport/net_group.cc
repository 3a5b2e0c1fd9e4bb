// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/net_group.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using Kind = NetMove::Kind;

constexpr int kNetWorkers = 2;  // one drives while the other runs what follows an operation
// Bytes that are received before they are merged. They stay in a core's cache.
constexpr size_t kMergeBytes = size_t{128} << 10;
// A member passes values on once it has so many, or all of them.
constexpr size_t kPieceBytes = size_t{64} << 10;
// Bytes that are sent or received before other connections have their turn.
constexpr size_t kQuantumBytes = size_t{1} << 20;
// How long operations that have begun may go on after a member is lost, and how long a message that has begun may take
// after its operation has failed.
constexpr absl::Duration kDrain = absl::Milliseconds(800);
// How long a member whose connection for values is closed may take to tell the reason.
constexpr absl::Duration kReasonWait = absl::Milliseconds(100);
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
constexpr size_t kMaxControlBytes = size_t{64} << 20;  // that wait to be sent to a member

template <typename T>
absl::string_view AsBytes(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

struct NetGroup::Peer {
  FileHandle control, values;
  bool control_closed = false;
  bool left = false;  // it will not arrive at more operations
  bool values_closed = false;
  absl::Time values_closed_at;

  std::string control_in, control_out;

  // The frame that is being sent.
  struct {
    bool active = false;
    NetDataFrame frame;
    size_t header_left = 0;
    size_t left = 0;
    NetOperation* operation = nullptr;
    int move = 0;
  } out;
  bool blocked = false;  // the connection takes no more bytes now

  // The frame that is being received.
  struct {
    NetDataFrame frame;
    size_t header_have = 0;
    bool active = false;  // the header is complete and was checked
    size_t left = 0;
    NetOperation* operation = nullptr;  // nullptr: the bytes are dropped
    int move = 0;
    size_t unmerged = 0;  // bytes in `scratch`
  } in;
  std::unique_ptr<char[]> scratch;
};

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
      order_(RingOrder(options.hosts.empty() ? std::vector<std::string>(ranks_) : options.hosts)),
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
  const absl::StatusOr<size_t> bytes = CheckCall(call, ranks_);
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
  o.Begin(order_);
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

void NetGroup::SendControlToAll(uint32_t type, absl::string_view body, absl::string_view rest) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (peers_[rank] != nullptr) SendControl(rank, type, body, rest);
  }
}

void NetGroup::SendControl(int rank, uint32_t type, absl::string_view body, absl::string_view rest) {
  Peer& peer = *peers_[rank];
  if (peer.control_closed) return;
  const NetControlFrame frame{.type = type, .bytes = static_cast<uint32_t>(body.size() + rest.size())};
  absl::StrAppend(&peer.control_out, AsBytes(frame), body, rest);
  FlushControl(rank);
  if (peer.control_out.size() > kMaxControlBytes && !lost_) {
    Lose(Unavailable(Name(rank), " takes no messages any more"));
  }
}

// A connection that breaks is noticed when it is read.
void NetGroup::FlushControl(int rank) {
  Peer& peer = *peers_[rank];
  while (!peer.control_out.empty()) {
    const ssize_t n =
        send(peer.control.get(), peer.control_out.data(), peer.control_out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) {
      if (n < 0 && !WouldBlock()) peer.control_out.clear();
      return;
    }
    peer.control_out.erase(0, static_cast<size_t>(n));
  }
}

void NetGroup::ReadControl(int rank) {
  Peer& peer = *peers_[rank];
  bool closed = false;
  // A bounded number, so that no member keeps this thread to itself.
  for (int i = 0; i < 16 && !closed; ++i) {
    char buffer[16 << 10];
    const ssize_t n = recv(peer.control.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) break;
    if (n <= 0) {
      closed = true;
    } else {
      peer.control_in.append(buffer, static_cast<size_t>(n));
    }
    size_t at = 0;
    while (peer.control_in.size() - at >= sizeof(NetControlFrame)) {
      NetControlFrame frame;
      std::memcpy(&frame, peer.control_in.data() + at, sizeof(frame));
      absl::Status taken;
      if (frame.bytes > sizeof(NetArrival) + std::max(kNetInlineBytes, kNetMaxMessage)) {
        taken = InvalidArgument(Name(rank), " announces a control message of ", frame.bytes, " bytes");
      } else if (peer.control_in.size() - at - sizeof(frame) < frame.bytes) {
        break;
      } else {
        taken =
            TakeControlFrame(rank, frame, absl::string_view(peer.control_in).substr(at + sizeof(frame), frame.bytes));
      }
      if (!taken.ok()) {
        peer.control_closed = true;
        shutdown(peer.control.get(), SHUT_RD);
        peer.control_in.clear();
        return Lose(taken, /*at_once=*/true);
      }
      at += sizeof(frame) + frame.bytes;
    }
    peer.control_in.erase(0, at);
  }
  if (!closed) return;
  peer.control_closed = true;
  peer.left = true;
  Lose(Unavailable("A member of the group has died, or has left it: ", Name(rank)));
}

absl::Status NetGroup::TakeControlFrame(int rank, const NetControlFrame& frame, absl::string_view body) {
  if (frame.type == NetControlFrame::kArrive) return TakeArrival(rank, body);
  NetFailure failure;
  if (frame.type != NetControlFrame::kFail || body.size() < sizeof(failure)) {
    return InvalidArgument(Name(rank), " has sent a control message of type ", frame.type, " and ", body.size(),
                           " bytes");
  }
  std::memcpy(&failure, body.data(), sizeof(failure));
  body.remove_prefix(sizeof(failure));
  const absl::Status why(static_cast<absl::StatusCode>(std::clamp<uint32_t>(failure.code, 1, 16)), body);
  if (failure.step == 0) {
    peers_[rank]->left = true;
    Lose(why);
  } else {
    FailStep(failure.step, why, /*tell=*/false);
  }
  return absl::OkStatus();
}

absl::Status NetGroup::TakeArrival(int rank, absl::string_view body) {
  auto arrival = std::make_unique<NetArrived>();
  if (body.size() < sizeof(NetArrival) || body.size() > sizeof(NetArrival) + kNetInlineBytes) {
    return InvalidArgument(Name(rank), " announces an operation in ", body.size(), " bytes");
  }
  std::memcpy(&arrival->what, body.data(), sizeof(NetArrival));
  arrival->values = std::string(body.substr(sizeof(NetArrival)));
  const uint64_t key = arrival->what.key;
  const auto it = by_key_.find(key);
  if (failed_steps_.Find(arrival->what.step) != nullptr) return absl::OkStatus();
  if (it == by_key_.end()) return lost_ ? absl::OkStatus() : early_.Add(rank, std::move(arrival), name_);
  NetOperation& o = *it->second;
  if (o.arrivals[rank] != nullptr) return InvalidArgument(Name(rank), " arrives twice at operation ", key);
  o.arrivals[rank] = std::move(arrival);
  if (++o.arrived == ranks_) ArrivedAll(o);
  return absl::OkStatus();
}

// Chooses the next values to send to a member: those of the oldest operation that has enough of them.
bool NetGroup::NextFrame(int rank) {
  Peer& peer = *peers_[rank];
  for (const auto& operation : operations_) {
    if (!operation->begun || operation->ending || operation->sends[rank].empty()) continue;
    const int index = operation->sends[rank].front();
    const NetOperation::Move& move = operation->moves[index];
    const size_t ready = operation->Limit(move) - move.done;
    if (ready < std::min(kPieceBytes, move.bytes - move.done)) continue;
    const size_t most =
        std::max<size_t>(1, kNetFrameBytes / operation->call.element_bytes) * operation->call.element_bytes;
    const size_t bytes = std::min(ready / operation->call.element_bytes * operation->call.element_bytes, most);
    if (bytes == 0) continue;
    const auto offset = static_cast<uint64_t>(move.what.begin) * operation->call.element_bytes + move.done;
    peer.out = {.active = true,
                .frame = {.key = operation->call.key, .offset = offset, .bytes = bytes},
                .header_left = sizeof(NetDataFrame),
                .left = bytes,
                .operation = operation.get(),
                .move = index};
    ++operation->frames_out;
    return true;
  }
  return false;
}

// Sends values to a member until the connection takes no more, or the turn is over: then returns true.
bool NetGroup::SendValues(int rank) {
  Peer& peer = *peers_[rank];
  size_t sent = 0;
  while (sent < kQuantumBytes && !peer.blocked && !peer.values_closed) {
    auto& out = peer.out;
    if (!out.active && !NextFrame(rank)) break;
    NetOperation& o = *out.operation;
    NetOperation::Move& move = o.moves[out.move];
    iovec parts[2] = {{reinterpret_cast<char*>(&out.frame) + sizeof(NetDataFrame) - out.header_left, out.header_left},
                      {move.data + move.done, out.left}};
    msghdr message{};
    message.msg_iov = out.header_left > 0 ? parts : parts + 1;
    message.msg_iovlen = out.header_left > 0 ? 2 : 1;
    const ssize_t n = sendmsg(peer.values.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (!WouldBlock()) {
        ValuesClosed(rank);
        break;
      }
      peer.blocked = true;
      break;
    }
    sent += static_cast<size_t>(n);
    const size_t of_header = std::min(static_cast<size_t>(n), out.header_left);
    out.header_left -= of_header;
    out.left -= static_cast<size_t>(n) - of_header;
    move.done += static_cast<size_t>(n) - of_header;
    if (out.left > 0 || out.header_left > 0) continue;
    out.active = false;
    --o.frames_out;
    if (move.done == move.bytes) {
      o.sends[rank].pop_front();
      --o.moves_left;
    }
    if (o.ending && o.frames_out == 0) {
      End(o, o.status, true);
    } else {
      EndIfComplete(o);
    }
  }
  return sent >= kQuantumBytes;
}

// Bytes of the current frame that may be received now.
size_t NetGroup::ReceiveLimit(const Peer& peer) const {
  if (peer.in.operation == nullptr) return peer.in.left;
  const NetOperation::Move& move = peer.in.operation->moves[peer.in.move];
  return std::min(peer.in.left, peer.in.operation->Limit(move) - move.done - peer.in.unmerged);
}

// Whether bytes from a member can be used now. Values of an operation that has not begun here stay in the connection.
bool NetGroup::CanReceive(int rank) const {
  const Peer& peer = *peers_[rank];
  if (peer.in.active) return ReceiveLimit(peer) > 0;
  if (peer.in.header_have < sizeof(NetDataFrame)) return true;
  const auto it = by_key_.find(peer.in.frame.key);
  return it == by_key_.end() || it->second->begun;
}

// Checks the header of a frame. False if the operation has not begun here.
absl::StatusOr<bool> NetGroup::StartReceiving(int rank) {
  Peer& peer = *peers_[rank];
  auto& in = peer.in;
  if (in.frame.bytes == 0 || in.frame.bytes > kNetFrameBytes) {
    return InvalidArgument(Name(rank), " announces ", in.frame.bytes, " bytes of values in one message");
  }
  in.left = in.frame.bytes;
  in.unmerged = 0;
  in.operation = nullptr;
  if (peer.scratch == nullptr) peer.scratch = std::make_unique<char[]>(kMergeBytes);
  const auto it = by_key_.find(in.frame.key);
  if (it == by_key_.end()) {
    if (failed_keys_.Find(in.frame.key) == nullptr && !lost_) {
      return InvalidArgument(Name(rank), " has sent values of operation ", in.frame.key, ", which is not under way");
    }
    in.active = true;
    return true;
  }
  NetOperation& o = *it->second;
  if (!o.begun) return false;
  if (o.receives[rank].empty()) {
    return InvalidArgument(Name(rank), " has sent more values than operation ", in.frame.key, " has");
  }
  const int index = o.receives[rank].front();
  const NetOperation::Move& move = o.moves[index];
  const auto expected = static_cast<uint64_t>(move.what.begin) * o.call.element_bytes + move.done;
  // Where the sender of an all-to-all has its values, and where they belong here.
  const uint64_t offset = o.call.operation == HostOperation::kAllToAll
                              ? expected - static_cast<uint64_t>(rank) * (o.bytes / ranks_) +
                                    static_cast<uint64_t>(rank_) * (o.bytes / ranks_)
                              : expected;
  if (in.frame.offset != offset || in.frame.bytes > move.bytes - move.done ||
      in.frame.bytes % o.call.element_bytes != 0) {
    return InvalidArgument(Name(rank), " has sent ", in.frame.bytes, " bytes of values at ", in.frame.offset,
                           " of operation ", in.frame.key, ", expected at most ", move.bytes - move.done, " at ",
                           offset);
  }
  in.operation = &o;
  in.move = index;
  in.active = true;
  return true;
}

// Takes bytes that have been received: into the scratch memory if they are merged or dropped, else into their place.
void NetGroup::Received(int rank, size_t bytes) {
  Peer& peer = *peers_[rank];
  auto& in = peer.in;
  in.left -= bytes;
  if (in.left == 0) {
    in.active = false;
    in.header_have = 0;
  }
  if (in.operation == nullptr) return;
  NetOperation& o = *in.operation;
  NetOperation::Move& move = o.moves[in.move];
  if (move.what.kind == Kind::kMerge) {
    in.unmerged += bytes;
    const size_t size = o.call.element_bytes;
    const size_t whole = in.unmerged / size * size;
    if (whole > 0) {
      o.call.merge(move.data + move.done, peer.scratch.get(), static_cast<int64_t>(whole / size));
      if (move.what.finish && o.call.finish != nullptr) {
        o.call.finish(move.data + move.done, static_cast<int64_t>(whole / size), ranks_);
      }
      std::memmove(peer.scratch.get(), peer.scratch.get() + whole, in.unmerged - whole);
      in.unmerged -= whole;
      move.done += whole;
    }
  } else {
    move.done += bytes;
  }
  if (in.left == 0) in.operation = nullptr;
  if (move.done < move.bytes) return;
  o.receives[rank].pop_front();
  --o.moves_left;
  EndIfComplete(o);
}

// Receives values from a member as long as there are any, or until its turn is over.
void NetGroup::ReceiveValues(int rank) {
  Peer& peer = *peers_[rank];
  auto& in = peer.in;
  size_t received = 0;
  while (received < kQuantumBytes && !peer.values_closed) {
    if (!in.active && in.header_have == sizeof(NetDataFrame)) {
      const absl::StatusOr<bool> started = StartReceiving(rank);
      if (!started.ok()) {
        shutdown(peer.values.get(), SHUT_RD);
        Lose(started.status(), /*at_once=*/true);
        ValuesClosed(rank);
        break;
      }
      if (!*started) break;
    }
    // The rest of a frame and the header of the next one are read together.
    iovec parts[2];
    int count = 0;
    size_t payload = 0;
    if (in.active) {
      payload = ReceiveLimit(peer);
      if (payload == 0) break;
      char* place = peer.scratch.get();
      if (in.operation == nullptr) {
        payload = std::min(payload, kMergeBytes);
      } else if (const NetOperation::Move& move = in.operation->moves[in.move]; move.what.kind == Kind::kMerge) {
        place += in.unmerged;
        payload = std::min(payload, kMergeBytes - in.unmerged);
      } else {
        place = move.data + move.done;
      }
      parts[count++] = {place, payload};
    }
    const bool with_header = !in.active || payload == in.left;
    const size_t header_at = in.active ? 0 : in.header_have;
    NetDataFrame next = in.frame;
    if (with_header) parts[count++] = {reinterpret_cast<char*>(&next) + header_at, sizeof(next) - header_at};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t n = recvmsg(peer.values.get(), &message, MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) break;
    if (n <= 0) {
      ValuesClosed(rank);
      break;
    }
    received += static_cast<size_t>(n);
    const size_t of_payload = std::min(static_cast<size_t>(n), payload);
    const size_t of_header = static_cast<size_t>(n) - of_payload;
    if (of_payload > 0) Received(rank, of_payload);
    if (of_header > 0) {
      in.frame = next;
      in.header_have = header_at + of_header;
    }
    if (static_cast<size_t>(n) < payload) break;  // the connection is empty
  }
}

}  // namespace thalweg
