// SPDX-License-Identifier: Apache-2.0
#include "thalweg/rpc/tcp_connector.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/proto/link.pb.h"
#include "thalweg/rpc/message.h"
#include "thalweg/transport/tcp_connect.h"

namespace thalweg {
namespace {

constexpr absl::Duration kDialTimeout = absl::Seconds(5);
// Pauses double from the first to the second. A server that does not know the method is asked again after the
// second: another one may have taken its place.
constexpr absl::Duration kFirstPause = absl::Milliseconds(500);
constexpr absl::Duration kLongPause = absl::Minutes(1);

}  // namespace

absl::StatusOr<std::shared_ptr<Link>> TcpConnector::Connect(Link::Handlers handlers) {
  FileHandle socket;
  {
    MutexLock lock(&mutex_);
    socket = std::exchange(socket_, FileHandle());
    if (socket.valid() && !IsConnected(socket.get())) socket = FileHandle();
    if (!socket.valid()) {
      if (closed_ || connecting_ || absl::Now() < retry_) return Unavailable("There is no TCP link now");
      connecting_ = true;
    }
  }
  if (!socket.valid()) {
    ask_([self = shared_from_this()](const absl::Status& status, grpc::ByteBuffer& answer) {
      self->Answered(status, answer);
    });
    return Unavailable("There is no TCP link yet");
  }
  std::shared_ptr<Link> link = TcpLink::Create(loop_, std::move(socket), std::move(handlers));
  RETURN_IF_ERROR(link->Start(Link::Side::kConnected));
  return link;
}

void TcpConnector::Answered(const absl::Status& status, grpc::ByteBuffer& answer) {
  LinkOffer offer;
  absl::Status parsed = status;
  if (parsed.ok()) parsed = ParseMessage(answer, &offer);
  if (!parsed.ok()) return Failed(parsed);
  MutexLock lock(&mutex_);  // Close() waits for this
  if (closed_) return;
  loop_->Post([self = shared_from_this(), port = offer.port(), token = offer.token()] { self->Dial(port, token); });
}

void TcpConnector::Dial(int port, const std::string& token) {
  const absl::StatusOr<HostPort> server = HostPort::Parse(address_);
  if (!server.ok()) return Failed(server.status());
  absl::StatusOr<FileHandle> socket = DialTcp(server->host, port, token, absl::Now() + kDialTimeout, closed_);
  if (!socket.ok()) return Failed(socket.status());
  bool first = false;
  {
    MutexLock lock(&mutex_);
    connecting_ = false;
    pause_ = absl::ZeroDuration();
    // If the link is lost at once, it is not opened again at once.
    retry_ = absl::Now() + kFirstPause;
    if (!closed_) socket_ = *std::move(socket);
    first = !std::exchange(logged_, true);
  }
  if (first) LOG(INFO) << "Calls to " << address_ << " go over TCP, to port " << port;
}

void TcpConnector::Failed(const absl::Status& why) {
  bool first = false;
  {
    MutexLock lock(&mutex_);
    connecting_ = false;
    pause_ = absl::IsUnimplemented(why) ? kLongPause : std::clamp(pause_ * 2, kFirstPause, kLongPause);
    retry_ = absl::Now() + pause_;
    // The server offers links but they do not get through.
    const bool unexpected = !closed_ && !absl::IsUnimplemented(why) && !absl::IsCancelled(why);
    first = unexpected && !std::exchange(logged_, true);
  }
  if (first) LOG(INFO) << "Calls to " << address_ << " go over gRPC, as a TCP link cannot be opened: " << why.message();
  VLOG(1) << "No TCP link to " << address_ << ": " << why;
}

void TcpConnector::Close() {
  FileHandle socket;
  MutexLock lock(&mutex_);
  closed_ = true;
  socket = std::exchange(socket_, FileHandle());
}

}  // namespace thalweg
