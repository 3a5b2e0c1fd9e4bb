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

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using Kind = NetMove::Kind;

constexpr int kNetWorkers = 2;  // one drives while the other runs what follows an operation
// Values up to this size are exchanged by recursive doubling: its messages are longer than the ring's, but fewer.
constexpr size_t kDoublingBytes = size_t{64} << 10;
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
constexpr size_t kMaxFailedSteps = 1000, kMaxFailedKeys = 10000;
constexpr size_t kMaxControlBytes = size_t{64} << 20;  // that wait to be sent to a member

bool IsNetInline(HostOperation operation, size_t bytes) {
  if (operation == HostOperation::kBarrier || bytes == 0) return true;
  return bytes <= kNetInlineBytes && (operation == HostOperation::kAllReduce || operation == HostOperation::kBroadcast);
}

template <typename T>
absl::string_view AsBytes(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

// A member's arrival at an operation.
struct NetGroup::Arrival {
  NetArrival what;
  std::string values;  // if they are small
};

// One operation of this member while it is in progress.
struct NetGroup::Operation {
  struct Move {
    NetMove what;
    char* data = nullptr;  // first byte
    size_t bytes = 0;
    size_t done = 0;  // bytes that were sent, received or merged
  };

  HostCall call;
  Done done;
  size_t bytes = 0;
  bool is_inline = false;
  absl::Time start = absl::Now();
  std::vector<std::unique_ptr<Arrival>> arrivals;  // by rank
  int arrived = 0;
  bool begun = false;
  std::vector<Move> moves;
  std::vector<std::deque<int>> sends, receives;  // by rank: moves that are not complete, in order
  size_t moves_left = 0;
  int frames_out = 0;   // that are sent in part
  bool ending = false;  // has failed, and waits for those frames
  absl::Time ending_since;
  absl::Status status;

  // Bytes up to which a move may go on: those that the move which it follows has moved.
  size_t Limit(const Move& move) const { return move.what.after < 0 ? move.bytes : moves[move.what.after].done; }
};

struct NetGroup::Peer {
  FileHandle control, values;
  bool control_closed = false;
  bool left = false;  // it will not arrive at more operations
  bool reading_control = false;
  bool values_closed = false;
  absl::Time values_closed_at;

  std::string control_in, control_out;
  size_t early_bytes = 0;  // of arrivals at operations that have not been started here

  // The frame that is being sent.
  struct {
    bool active = false;
    NetDataFrame frame;
    size_t header_left = 0;
    size_t left = 0;
    Operation* operation = nullptr;
    int move = 0;
  } out;
  bool blocked = false;  // the connection takes no more bytes now

  // The frame that is being received.
  struct {
    NetDataFrame frame;
    size_t header_have = 0;
    bool active = false;  // the header is complete and was checked
    size_t left = 0;
    Operation* operation = nullptr;  // nullptr: the bytes are dropped
    int move = 0;
    size_t unmerged = 0;  // bytes in `scratch`
  } in;
  std::unique_ptr<char[]> scratch;
};

// A call of Start(), or of Fail() if there is no operation.
struct NetGroup::Command {
  std::unique_ptr<Operation> operation;
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
      order_(RingOrder(options.hosts.empty() ? std::vector<std::string>(ranks_) : options.hosts)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
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
  auto operation = std::make_unique<Operation>();
  operation->call = call;
  operation->done = std::move(done);
  const absl::StatusOr<size_t> bytes = CheckCall(call, ranks_);
  if (!bytes.ok()) {
    Fail(bytes.status(), call.step);
    return operation->done(bytes.status());
  }
  operation->bytes = *bytes;
  operation->is_inline = IsNetInline(call.operation, *bytes);
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
    std::vector<std::unique_ptr<Operation>> ended = std::exchange(ended_, {});
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
    for (int rank = 0; rank < ranks_; ++rank) {
      if (peers_[rank] != nullptr && !peers_[rank]->blocked) SendValues(rank);
    }
    CheckTimes();
    if (!ended_.empty() || stop_) return;
    Poll();
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
      FailStep(command.step, command.why);
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

void NetGroup::Poll() {
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
  if (poll(polled.data(), polled.size(), PollMillis()) <= 0) return;
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
  std::vector<Operation*> late;
  for (const auto& operation : operations_) {
    if (!operation->ending && now > operation->start + operation->call.timeout) late.push_back(operation.get());
  }
  for (Operation* const operation : late) {
    // The first one may have ended the others.
    const bool is_there = std::any_of(operations_.begin(), operations_.end(),
                                      [&](const auto& other) { return other.get() == operation && !other->ending; });
    if (is_there) FailStep(operation->call.step, Overdue(*operation));
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
  if (lost_ && now > lost_at_ + kDrain) {
    while (!operations_.empty()) End(*operations_.front(), lost_why_, /*at_once=*/true);
  }
  if (lost_ && operations_.empty() && !shut_) {
    // The other members need not wait for values that do not come.
    shut_ = true;
    for (const auto& peer : peers_) {
      if (peer != nullptr) shutdown(peer->values.get(), SHUT_WR);
    }
  }
}

// Announces an operation of this member.
void NetGroup::Arrive(std::unique_ptr<Operation> operation) {
  Operation& o = *operation;
  const HostCall& call = o.call;
  o.arrivals.resize(ranks_);
  operations_.push_back(std::move(operation));
  if (lost_) return End(o, lost_why_, true);
  if (const auto it = failed_steps_.find(call.step); it != failed_steps_.end()) return End(o, it->second, true);
  if (!by_key_.emplace(call.key, &o).second) {
    return End(o, InvalidArgument("Operation ", call.key, " is under way already"), true);
  }
  auto own = std::make_unique<Arrival>();
  own->what = {.key = call.key,
               .step = call.step,
               .elements = static_cast<uint64_t>(call.elements),
               .operation = static_cast<uint32_t>(call.operation),
               .tag = call.tag,
               .root = call.root,
               .element_bytes = call.element_bytes,
               .rank_order = call.rank_order};
  const bool gives_values =
      o.is_inline && o.bytes > 0 && (call.operation == HostOperation::kAllReduce || call.root == rank_);
  if (gives_values) own->values.assign(static_cast<const char*>(call.values), o.bytes);
  const NetArrival what = own->what;
  const std::string values = own->values;
  o.arrivals[rank_] = std::move(own);
  o.arrived = 1;
  if (const auto it = early_.find(call.key); it != early_.end()) {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (it->second[rank] == nullptr) continue;
      peers_[rank]->early_bytes -= sizeof(Arrival) + it->second[rank]->values.size();
      o.arrivals[rank] = std::move(it->second[rank]);
      ++o.arrived;
    }
    early_.erase(it);
  }
  SendControlToAll(NetControlFrame::kArrive, AsBytes(what), values);
  // Sending may have found that a member is lost, which ends operations that have not begun.
  const auto still = by_key_.find(what.key);
  if (still != by_key_.end() && o.arrived == ranks_) ArrivedAll(*still->second);
}

// Checks, when all members have arrived, that they agree.
absl::Status NetGroup::CheckArrivals(const Operation& o) const {
  const auto describe = [](const NetArrival& a) {
    return absl::StrCat(" brings ", a.elements, " elements of ", a.element_bytes, " bytes to operation ", a.operation,
                        " of type ", a.tag & 0xff, ", reduction ", a.tag >> 8, ", with root ", a.root,
                        a.rank_order != 0 ? ", in the order of ranks" : "");
  };
  const std::string first = describe(o.arrivals[0]->what);
  for (int rank = 1; rank < ranks_; ++rank) {
    const std::string text = describe(o.arrivals[rank]->what);
    if (text != first) {
      return InvalidArgument("Members of a group do not agree: ", Name(rank), text, ", but ", Name(0), first);
    }
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool gives = o.is_inline && (o.call.operation == HostOperation::kAllReduce || o.call.root == rank);
    if (o.arrivals[rank]->values.size() != (gives ? o.bytes : 0)) {
      return InvalidArgument(Name(rank), " has sent ", o.arrivals[rank]->values.size(), " bytes of values, expected ",
                             gives ? o.bytes : 0);
    }
  }
  return absl::OkStatus();
}

void NetGroup::ArrivedAll(Operation& o) {
  if (const absl::Status checked = CheckArrivals(o); !checked.ok()) return FailStep(o.call.step, checked);
  if (!o.is_inline) return Begin(o);
  MergeInline(o);
  End(o, absl::OkStatus(), true);
}

// For small values: every member merges the values of all members itself, in the order of ranks.
void NetGroup::MergeInline(Operation& o) {
  if (o.bytes == 0) return;
  const HostCall& call = o.call;
  if (call.operation == HostOperation::kBroadcast) {
    if (call.root != rank_) std::memcpy(call.values, o.arrivals[call.root]->values.data(), o.bytes);
    return;
  }
  // Strings of so many bytes are aligned like any memory of malloc.
  std::memcpy(call.values, o.arrivals[0]->values.data(), o.bytes);
  std::vector<std::max_align_t> aligned(o.bytes / sizeof(std::max_align_t) + 1);
  for (int rank = 1; rank < ranks_; ++rank) {
    std::memcpy(aligned.data(), o.arrivals[rank]->values.data(), o.bytes);
    call.merge(call.values, aligned.data(), call.elements);
  }
  if (call.finish != nullptr) call.finish(call.values, call.elements, ranks_);
}

void NetGroup::Begin(Operation& o) {
  const HostCall& call = o.call;
  const NetAlgorithm algorithm = call.rank_order && call.operation == HostOperation::kAllReduce ? NetAlgorithm::kChain
                                 : o.bytes <= kDoublingBytes ? NetAlgorithm::kDoubling
                                                             : NetAlgorithm::kRing;
  const NetPlan plan{.operation = call.operation,
                     .algorithm = algorithm,
                     .root = call.root,
                     .elements = call.elements,
                     .alignment = std::max<int64_t>(1, 64 / call.element_bytes),
                     .order = order_};
  const bool apart = call.operation == HostOperation::kAllToAll;
  o.begun = true;
  o.sends.resize(ranks_);
  o.receives.resize(ranks_);
  for (const NetMove& move : ScheduleNetMoves(plan, rank_)) {
    const bool sends = move.kind == Kind::kSend;
    char* const base = static_cast<char*>(apart && !sends ? call.results : call.values);
    (sends ? o.sends : o.receives)[move.peer].push_back(static_cast<int>(o.moves.size()));
    o.moves.push_back({.what = move,
                       .data = base + move.begin * call.element_bytes,
                       .bytes = static_cast<size_t>(move.count) * call.element_bytes});
  }
  o.moves_left = o.moves.size();
  if (apart && o.bytes > 0) {
    const size_t part = o.bytes / ranks_;
    std::memcpy(static_cast<char*>(call.results) + rank_ * part, static_cast<char*>(call.values) + rank_ * part, part);
  }
  if (ranks_ == 1 && call.finish != nullptr && Merges(call.operation)) call.finish(call.values, call.elements, 1);
  EndIfComplete(o);
}

void NetGroup::EndIfComplete(Operation& o) {
  if (o.moves_left > 0) return;
  End(o, o.ending ? o.status : absl::OkStatus(), true);
}

// Ends an operation. If a frame of it was sent in part, its memory is needed until the rest is sent, unless `at_once`:
// then the connection is closed.
void NetGroup::End(Operation& o, const absl::Status& status, bool at_once) {
  if (!o.ending) {
    o.status = status;
    if (const auto it = by_key_.find(o.call.key); it != by_key_.end() && it->second == &o) by_key_.erase(it);
    if (!status.ok() && o.begun) {
      failed_keys_.insert(o.call.key);
      failed_keys_by_age_.push_back(o.call.key);
      if (failed_keys_by_age_.size() > kMaxFailedKeys) {
        failed_keys_.erase(failed_keys_by_age_.front());
        failed_keys_by_age_.pop_front();
      }
    }
    for (const auto& peer : peers_) {
      if (peer != nullptr && peer->in.operation == &o) peer->in.operation = nullptr;
    }
  }
  if (o.frames_out > 0 && !at_once) {
    o.ending = true;
    o.ending_since = absl::Now();
    return;
  }
  for (int rank = 0; rank < ranks_ && o.frames_out > 0; ++rank) {
    Peer* const peer = peers_[rank].get();
    if (peer == nullptr || !peer->out.active || peer->out.operation != &o) continue;
    shutdown(peer->values.get(), SHUT_RDWR);
    peer->out.active = false;
    --o.frames_out;
    ValuesClosed(rank);
  }
  const auto it =
      std::find_if(operations_.begin(), operations_.end(), [&](const auto& other) { return other.get() == &o; });
  ended_.push_back(std::move(*it));
  operations_.erase(it);
}

absl::Status NetGroup::Overdue(const Operation& o) const {
  std::vector<std::string> late;
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool waits = o.begun ? !o.receives[rank].empty() || !o.sends[rank].empty() : o.arrivals[rank] == nullptr;
    if (waits) late.push_back(Name(rank));
  }
  return DeadlineExceeded("Rank ", rank_, " has waited for ", absl::FormatDuration(o.call.timeout), " for ",
                          absl::StrJoin(late, ", "), " in an operation of ", o.call.elements, " elements");
}

void NetGroup::FailStep(int64_t step, const absl::Status& why) {
  if (step == 0) return Lose(why, /*at_once=*/true);
  if (!failed_steps_.emplace(step, why).second) return;
  if (failed_steps_.size() > kMaxFailedSteps) failed_steps_.erase(failed_steps_.begin());
  for (auto it = early_.begin(); it != early_.end();) {
    bool of_step = false;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Arrival* const arrival = it->second[rank].get();
      if (arrival == nullptr || arrival->what.step != step) continue;
      peers_[rank]->early_bytes -= sizeof(Arrival) + arrival->values.size();
      it->second[rank] = nullptr;
      of_step = true;
    }
    const bool empty =
        of_step && std::all_of(it->second.begin(), it->second.end(), [](const auto& a) { return a == nullptr; });
    if (empty) {
      early_.erase(it++);
    } else {
      ++it;
    }
  }
  const NetFailure failure{.step = step, .code = static_cast<uint32_t>(why.code())};
  SendControlToAll(NetControlFrame::kFail, AsBytes(failure),
                   absl::string_view(why.message()).substr(0, kNetMaxMessage));
  std::vector<Operation*> failed;
  for (const auto& operation : operations_) {
    if (operation->call.step == step && !operation->ending) failed.push_back(operation.get());
  }
  for (Operation* const operation : failed) End(*operation, why, /*at_once=*/false);
}

// The group is over. Operations at which a member that has left did not arrive end, and so do all if `at_once`. The
// others get a little time: a member may have left because it was done.
void NetGroup::Lose(const absl::Status& why, bool at_once) {
  if (!lost_) {
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
    early_.clear();
    for (const auto& peer : peers_) {
      if (peer != nullptr) peer->early_bytes = 0;
    }
  }
  std::vector<Operation*> over;
  for (const auto& operation : operations_) {
    bool hopeless = at_once;
    for (int rank = 0; rank < ranks_ && !operation->begun; ++rank) {
      hopeless = hopeless || (peers_[rank] != nullptr && peers_[rank]->left && operation->arrivals[rank] == nullptr);
    }
    if (hopeless) over.push_back(operation.get());
  }
  for (Operation* const operation : over) End(*operation, operation->ending ? operation->status : lost_why_, true);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (peers_[rank] != nullptr && peers_[rank]->values_closed) EndNeeding(rank);
  }
}

// Ends the operations that need a member whose connection is closed.
void NetGroup::EndNeeding(int rank) {
  std::vector<Operation*> over;
  for (const auto& operation : operations_) {
    if (operation->begun && (!operation->receives[rank].empty() || !operation->sends[rank].empty()))
      over.push_back(operation.get());
  }
  for (Operation* const operation : over) End(*operation, operation->ending ? operation->status : lost_why_, true);
}

void NetGroup::ValuesClosed(int rank) {
  Peer& peer = *peers_[rank];
  if (peer.values_closed) return;
  peer.values_closed = true;
  peer.values_closed_at = absl::Now();
  peer.blocked = false;
  if (peer.out.active) {
    peer.out.active = false;
    Operation& o = *peer.out.operation;
    if (--o.frames_out == 0 && o.ending) End(o, o.status, true);
  }
  if (!peer.control_closed) ReadControl(rank);  // it may tell the reason
  if (lost_) EndNeeding(rank);
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
  if (peer.reading_control) return;  // called for a frame that is being read
  peer.reading_control = true;
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
        peer.reading_control = false;
        return Lose(taken, /*at_once=*/true);
      }
      at += sizeof(frame) + frame.bytes;
    }
    peer.control_in.erase(0, at);
  }
  peer.reading_control = false;
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
    FailStep(failure.step, why);
  }
  return absl::OkStatus();
}

absl::Status NetGroup::TakeArrival(int rank, absl::string_view body) {
  auto arrival = std::make_unique<Arrival>();
  if (body.size() < sizeof(NetArrival) || body.size() > sizeof(NetArrival) + kNetInlineBytes) {
    return InvalidArgument(Name(rank), " announces an operation in ", body.size(), " bytes");
  }
  std::memcpy(&arrival->what, body.data(), sizeof(NetArrival));
  arrival->values = std::string(body.substr(sizeof(NetArrival)));
  const uint64_t key = arrival->what.key;
  const auto it = by_key_.find(key);
  if (failed_steps_.contains(arrival->what.step) || (lost_ && it == by_key_.end())) return absl::OkStatus();
  std::unique_ptr<Arrival>* place = nullptr;
  if (it != by_key_.end()) {
    place = &it->second->arrivals[rank];
  } else {
    auto& early = early_[key];
    early.resize(ranks_);
    place = &early[rank];
  }
  if (*place != nullptr) return InvalidArgument(Name(rank), " arrives twice at operation ", key);
  const size_t size = sizeof(Arrival) + arrival->values.size();
  *place = std::move(arrival);
  if (it == by_key_.end()) {
    peers_[rank]->early_bytes += size;
    if (peers_[rank]->early_bytes > kNetMaxEarlyBytes) {
      return ResourceExhausted(Name(rank), " has arrived at too many operations that rank ", rank_, " has not begun");
    }
    return absl::OkStatus();
  }
  Operation& o = *it->second;
  if (++o.arrived == ranks_) ArrivedAll(o);
  return absl::OkStatus();
}

// Chooses the next values to send to a member: those of the oldest operation that has enough of them.
bool NetGroup::NextFrame(int rank) {
  Peer& peer = *peers_[rank];
  for (const auto& operation : operations_) {
    if (!operation->begun || operation->ending || operation->sends[rank].empty()) continue;
    const int index = operation->sends[rank].front();
    const Operation::Move& move = operation->moves[index];
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

// Sends values to a member until the connection takes no more. Returns whether any byte was sent.
bool NetGroup::SendValues(int rank) {
  Peer& peer = *peers_[rank];
  size_t sent = 0;
  while (sent < kQuantumBytes && !peer.blocked && !peer.values_closed) {
    auto& out = peer.out;
    if (!out.active && !NextFrame(rank)) break;
    Operation& o = *out.operation;
    Operation::Move& move = o.moves[out.move];
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
  return sent > 0;
}

// Bytes of the current frame that may be received now.
size_t NetGroup::ReceiveLimit(const Peer& peer) const {
  if (peer.in.operation == nullptr) return peer.in.left;
  const Operation::Move& move = peer.in.operation->moves[peer.in.move];
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
    if (!failed_keys_.contains(in.frame.key) && !lost_) {
      return InvalidArgument(Name(rank), " has sent values of operation ", in.frame.key, ", which is not under way");
    }
    in.active = true;
    return true;
  }
  Operation& o = *it->second;
  if (!o.begun) return false;
  if (o.receives[rank].empty()) {
    return InvalidArgument(Name(rank), " has sent more values than operation ", in.frame.key, " has");
  }
  const int index = o.receives[rank].front();
  const Operation::Move& move = o.moves[index];
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
  Operation& o = *in.operation;
  Operation::Move& move = o.moves[in.move];
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

// Receives values from a member as long as there are any. Returns whether any byte was received.
bool NetGroup::ReceiveValues(int rank) {
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
      } else if (const Operation::Move& move = in.operation->moves[in.move]; move.what.kind == Kind::kMerge) {
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
  return received > 0;
}

}  // namespace thalweg
