// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/script_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/server/script_message.h"

namespace thalweg {
namespace {

// Memory for a message is taken as its bytes arrive: first so much, then so much more
// at once.
constexpr uint64_t kFirstBytes = 1 << 12, kPieceBytes = 1 << 20;
constexpr char kCancelled[] = "The call of a Python function was cancelled";

absl::Status Gone(absl::string_view why) {
  return Unavailable("The program that has the Python function is gone: ", why);
}
absl::Status Gone() { return Gone("it has ended or closed the connection"); }
bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK; }

// Sends bytes over `socket`, and with the first of them a file if there is one (`file` >= 0). Returns how many bytes
// the socket took.
ssize_t SendWithFile(int socket, absl::string_view bytes, int file) {
  iovec data{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(int));
  }
  while (true) {
    const ssize_t n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0 || errno != EINTR) return n;
  }
}

// Hands a file over to the process at the other end of `socket`.
absl::Status SendFile(int socket, int file) {
  if (SendWithFile(socket, "C", file) >= 0) return absl::OkStatus();
  if (WouldBlock())
    return Unavailable("The program that has the Python function does not read its calls: its socket is full");
  return Gone(std::strerror(errno));
}

}  // namespace

// A call that has not ended. Its result, its cancellation or the end of the program ends it.
struct ScriptChannel::Waiting {
  ScriptCall call;
  Done done;
  Cancellation* cancellation = nullptr;
  Cancellation::CallbackId registration{};
  std::atomic<bool> ended{false};

  void End(ScriptResults results) {
    if (ended.exchange(true)) return;
    cancellation->TryDeregister(registration);
    done(std::move(results));
  }
};

// One thread of the program, and the call that it works on. The program answers before
// it gets another call, so that what arrives belongs to that one.
class ScriptChannel::Connection final : public SocketLoop::Source, public std::enable_shared_from_this<Connection> {
 public:
  Connection(SocketLoop* loop, FileHandle socket, std::shared_ptr<Control> control)
      : loop_(loop), socket_(std::move(socket)), control_(std::move(control)) {}

  absl::Status Add() {
    ASSIGN_OR_RETURN(id_, loop_->Add(socket_.get(), shared_from_this()));
    return absl::OkStatus();
  }
  // REQUIRES: no call is under way.
  void Start(std::shared_ptr<Waiting> call);
  void Ready() override;
  // The loop lets go of it, and the program's thread ends.
  void Detach() {
    loop_->Remove(id_, socket_.get());
    shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  // The memory for the inputs of a call. Nullptr if there is none.
  SharedMemory* PrepareMemory(const ScriptCall& call);
  // True if all of it has been sent.
  absl::StatusOr<bool> Write();
  // True if all of the result is there.
  absl::StatusOr<bool> Read();
  void GoOn();

  SocketLoop* const loop_;
  const FileHandle socket_;
  const std::shared_ptr<Control> control_;
  uint64_t id_ = 0;  // in the loop

  // Used by one thread at a time: first the one that starts the call, then the one that finds the
  // socket ready. The calls to the loop order the two.
  std::shared_ptr<Waiting> call_;
  std::string message_;
  size_t sent_ = 0;
  std::string result_;
  uint64_t received_ = 0;
  // Large tensors of calls and results, both sides' (script_message.h).
  std::shared_ptr<SharedMemory> memory_;
  bool memory_is_new_ = false;  // the program does not have it yet
  size_t last_results_ = 0;     // memory that the last results took, or would have taken
};

// The socket over which connections are handed to the program, and all connections.
class ScriptChannel::Control final : public SocketLoop::Source, public std::enable_shared_from_this<Control> {
 public:
  Control(SocketLoop* loop, Timer* timer, FileHandle socket, absl::Duration stall_limit)
      : loop_(loop), timer_(timer), socket_(std::move(socket)), stall_limit_(stall_limit) {}

  absl::Status Start();
  void Call(std::shared_ptr<Waiting> call);
  // The connection has the result of its call, and takes another.
  void Release(std::shared_ptr<Connection> connection, const std::shared_ptr<Waiting>& call);
  // The program closes it, or has sent something, which it never does.
  void Ready() override { Close(Gone()); }
  void Close(const absl::Status& why);

 private:
  absl::StatusOr<std::shared_ptr<Connection>> Connect();
  // While calls are queued, looks from time to time whether any function ends.
  void WatchQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckQueue();
  std::string DescribeRunning() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SocketLoop* const loop_;
  Timer* const timer_;
  const FileHandle socket_;
  const absl::Duration stall_limit_;
  uint64_t id_ = 0;  // in the loop

  Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  int num_connections_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::shared_ptr<Waiting>> running_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Connection>> idle_ ABSL_GUARDED_BY(mutex_);  // the last one was used last
  std::deque<std::shared_ptr<Waiting>> queued_ ABSL_GUARDED_BY(mutex_);
  bool watched_ ABSL_GUARDED_BY(mutex_) = false;        // an alarm for CheckQueue() is set
  int64_t last_end_nanos_ ABSL_GUARDED_BY(mutex_) = 0;  // when a function ended, or calls began to queue
};

void ScriptChannel::Connection::Start(std::shared_ptr<Waiting> call) {
  call_ = std::move(call);
  message_ = EncodeCall(call_->call, PrepareMemory(call_->call));
  call_->call.inputs.clear();
  sent_ = received_ = 0;
  GoOn();
}

SharedMemory* ScriptChannel::Connection::PrepareMemory(const ScriptCall& call) {
  // Room for results as large as the last ones.
  const size_t need = MemoryOfInputs(call) + last_results_;
  if (need == 0 || (memory_ != nullptr && memory_->bytes() >= need)) return memory_.get();
  absl::StatusOr<std::shared_ptr<SharedMemory>> memory = SharedMemory::Create(std::bit_ceil(need));
  if (!memory.ok()) return nullptr;  // the inputs go through the socket
  memory_ = *std::move(memory);
  memory_is_new_ = true;
  return memory_.get();
}

void ScriptChannel::Connection::GoOn() {
  const absl::StatusOr<bool> sent = Write();
  if (!sent.ok()) return control_->Close(sent.status());
  loop_->Wait(id_, socket_.get(), /*write=*/!*sent);
}

absl::StatusOr<bool> ScriptChannel::Connection::Write() {
  while (sent_ < message_.size()) {
    const int file = memory_is_new_ ? memory_->fd() : -1;
    const ssize_t n = SendWithFile(socket_.get(), absl::string_view(message_).substr(sent_), file);
    if (n < 0 && WouldBlock()) return false;
    if (n < 0) return Gone(std::strerror(errno));
    memory_is_new_ = false;
    sent_ += n;
  }
  if (message_.capacity() > kPieceBytes) message_ = std::string();
  return true;
}

absl::StatusOr<bool> ScriptChannel::Connection::Read() {
  uint64_t size = kFirstBytes;  // size of the whole message, once it is known
  while (true) {
    if (received_ >= sizeof(size)) {
      std::memcpy(&size, result_.data(), sizeof(size));
      if (size > UINT64_MAX - sizeof(size)) return InvalidArgument("A result of the program has ", size, " bytes");
      size += sizeof(size);
      if (received_ > size) return InvalidArgument("The program has sent more than a result");
      if (received_ == size) return true;
    }
    result_.resize(std::min(size, received_ == 0 ? kFirstBytes : received_ + kPieceBytes));
    const ssize_t n = recv(socket_.get(), result_.data() + received_, result_.size() - received_, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && WouldBlock()) return false;
    if (n < 0) return Gone(std::strerror(errno));
    if (n == 0) return Gone();
    received_ += n;
  }
}

void ScriptChannel::Connection::Ready() {
  if (call_ == nullptr) return control_->Close(Gone());  // nothing was asked for
  const absl::StatusOr<bool> whole = Read();
  if (!whole.ok()) return control_->Close(whole.status());
  if (!*whole) return GoOn();
  absl::StatusOr<ScriptAnswer> answer =
      DecodeAnswer(absl::string_view(result_).substr(sizeof(uint64_t), received_ - sizeof(uint64_t)), memory_.get());
  if (result_.size() > kPieceBytes) result_ = std::string();
  if (!answer.ok()) answer = ScriptAnswer{.results = {answer.status()}, .memory_used = true};
  last_results_ = answer->memory;
  if (memory_ != nullptr && (answer->memory_used || memory_->bytes() > kMostKeptMemory)) memory_ = nullptr;
  const std::shared_ptr<Waiting> call = std::exchange(call_, nullptr);
  control_->Release(shared_from_this(), call);
  call->End(std::move(answer->results));
}

absl::Status ScriptChannel::Control::Start() {
  int domain = 0, type = 0;
  socklen_t bytes = sizeof(int);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_UNIX ||
      getsockopt(socket_.get(), SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM) {
    return InvalidArgument("The file descriptor ", socket_.get(), " is not a stream socket of the Unix domain");
  }
  ASSIGN_OR_RETURN(id_, loop_->Add(socket_.get(), shared_from_this()));
  loop_->Wait(id_, socket_.get(), /*write=*/false);
  return absl::OkStatus();
}

void ScriptChannel::Control::Call(std::shared_ptr<Waiting> call) {
  std::shared_ptr<Connection> connection;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = closed_;
    if (status.ok() && idle_.empty() && num_connections_ == kMaxConnections) {
      if (queued_.empty()) last_end_nanos_ = NowNanos();
      queued_.push_back(std::move(call));
      if (!watched_) WatchQueue();
      return;
    }
    if (status.ok()) running_.insert(call);
    if (status.ok() && !idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    } else if (status.ok()) {
      ++num_connections_;
    }
  }
  if (!status.ok()) return call->End({status});
  if (connection == nullptr) {
    absl::StatusOr<std::shared_ptr<Connection>> made = Connect();
    if (!made.ok()) return Close(made.status());
    connection = *std::move(made);
  }
  connection->Start(std::move(call));
}

absl::StatusOr<std::shared_ptr<ScriptChannel::Connection>> ScriptChannel::Control::Connect() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ResourceExhausted("Cannot connect to the program: ", std::strerror(errno));
  }
  FileHandle own(ends[0]);
  const FileHandle theirs(ends[1]);
  auto connection = std::make_shared<Connection>(loop_, std::move(own), shared_from_this());
  RETURN_IF_ERROR(connection->Add());
  {
    MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    connections_.push_back(connection);
  }
  RETURN_IF_ERROR(SendFile(socket_.get(), theirs.get()));
  return connection;
}

void ScriptChannel::Control::Release(std::shared_ptr<Connection> connection, const std::shared_ptr<Waiting>& call) {
  std::shared_ptr<Waiting> next;
  {
    MutexLock lock(&mutex_);
    running_.erase(call);
    last_end_nanos_ = NowNanos();
    while (!queued_.empty() && next == nullptr) {
      if (!queued_.front()->ended) next = std::move(queued_.front());  // the others were cancelled
      queued_.pop_front();
    }
    if (next == nullptr) {
      if (closed_.ok()) idle_.push_back(std::move(connection));
      return;
    }
    running_.insert(next);
  }
  connection->Start(std::move(next));
}

void ScriptChannel::Control::WatchQueue() {
  constexpr int kChecks = 10;  // in the time of the limit
  watched_ = true;
  timer_->Set(absl::Now() + stall_limit_ / kChecks, [weak = weak_from_this()] {
    if (const auto control = weak.lock()) control->CheckQueue();
  });
}

void ScriptChannel::Control::CheckQueue() {
  std::deque<std::shared_ptr<Waiting>> failed;
  std::string why;
  {
    MutexLock lock(&mutex_);
    watched_ = false;
    std::erase_if(queued_, [](const auto& call) { return call->ended.load(); });
    if (queued_.empty()) return;
    const absl::Duration stalled = absl::Nanoseconds(NowNanos() - last_end_nanos_);
    why = absl::StrCat(
        "waits for one of the ", running_.size(), " calls that may run at a time to end, and none has for ",
        absl::FormatDuration(absl::Trunc(stalled, absl::Milliseconds(1))), ". These run: ", DescribeRunning(),
        ". Functions that wait for each other must not be more than ", kMaxConnections, " at a time.");
    if (stalled < stall_limit_) {
      if (stalled >= absl::Minutes(1))
        LOG(WARNING) << "The Python function " << queued_.front()->call.token << " " << why;
      return WatchQueue();
    }
    failed.swap(queued_);
  }
  for (const auto& call : failed) call->End({ResourceExhausted("The Python function ", call->call.token, " ", why)});
}

// The functions that run, and how often.
std::string ScriptChannel::Control::DescribeRunning() const {
  constexpr size_t kMaxNames = 5;
  std::map<std::string, int> counts;
  for (const auto& call : running_) ++counts[call->call.token];
  std::vector<std::string> texts;
  for (const auto& [token, count] : counts) {
    if (texts.size() < kMaxNames) texts.push_back(absl::StrCat(count, " of ", token));
  }
  if (counts.size() > kMaxNames) texts.push_back(absl::StrCat(counts.size() - kMaxNames, " other functions"));
  return absl::StrJoin(texts, ", ");
}

void ScriptChannel::Control::Close(const absl::Status& why) {
  std::vector<std::shared_ptr<Connection>> connections, idle;
  absl::flat_hash_set<std::shared_ptr<Waiting>> running;
  std::deque<std::shared_ptr<Waiting>> queued;
  {
    MutexLock lock(&mutex_);
    if (!closed_.ok()) return;
    closed_ = why;
    connections.swap(connections_);
    idle.swap(idle_);
    running.swap(running_);
    queued.swap(queued_);
  }
  loop_->Remove(id_, socket_.get());
  for (const auto& connection : connections) connection->Detach();
  for (const auto& call : running) call->End({why});
  for (const auto& call : queued) call->End({why});
}

ScriptChannel::ScriptChannel() : loop_("script") {}

absl::StatusOr<std::shared_ptr<ScriptChannel>> ScriptChannel::Create(FileHandle socket, absl::Duration stall_limit) {
  std::shared_ptr<ScriptChannel> channel(new ScriptChannel());
  channel->control_ = std::make_shared<Control>(&channel->loop_, &channel->timer_, std::move(socket), stall_limit);
  RETURN_IF_ERROR(channel->control_->Start());
  return channel;
}

ScriptChannel::~ScriptChannel() { control_->Close(Cancelled("The server has stopped")); }

void ScriptChannel::Call(ScriptCall call, Cancellation& cancellation, Done done) {
  if (const absl::Status status = CheckCall(call); !status.ok()) return done({status});
  auto waiting = std::make_shared<Waiting>();
  waiting->call = std::move(call);
  waiting->done = std::move(done);
  waiting->cancellation = &cancellation;
  const auto registration = cancellation.Register([waiting](const absl::Status&) {
    if (!waiting->ended.exchange(true)) waiting->done({Cancelled(kCancelled)});
  });
  if (!registration) return waiting->done({Cancelled(kCancelled)});
  // Nobody reads it before the call is given to the control: not even the callback.
  waiting->registration = *registration;
  control_->Call(std::move(waiting));
}

}  // namespace thalweg
