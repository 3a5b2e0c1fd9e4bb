// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/http_port.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <list>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/own_addresses.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {
namespace {

constexpr int kBlockingThreads = 4;                         // equal whole-job questions share one round
constexpr size_t kMaxSilent = 128;                          // clients that have not sent a request yet
constexpr size_t kMaxTaking = 64;                           // clients that have not taken their answer yet
constexpr unsigned kMaxClients = 384;                       // all clients
constexpr size_t kClientBytes = 16384;                      // memory for the head of a request
constexpr int64_t kRequestNanos = 1'000'000'000;            // to send a request
constexpr int64_t kAnswerNanos = 10'000'000'000;            // to take the answer
constexpr absl::Duration kSweep = absl::Milliseconds(200);  // between two looks at the clients

// Takes the same time whether the texts agree or not, so that the token cannot be guessed
// letter by letter.
bool SameSecret(absl::string_view a, absl::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  }
  return difference == 0;
}

// Whether the client has sent something that was not read yet. Then the machine is busy, and not the client slow.
bool HasUnread(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

std::string MachineName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::AsciiStrToLower(name);
}

// Without the port: "localhost" of "localhost:8080", "[::1]" of "[::1]:8080".
std::string HostOf(absl::string_view host_port) {
  const size_t end = absl::StartsWith(host_port, "[") ? host_port.find(']') + 1 : host_port.find(':');
  return absl::AsciiStrToLower(host_port.substr(0, end));
}

void LogError(void*, const char* format, va_list arguments) {
  char text[256];
  vsnprintf(text, sizeof(text), format, arguments);
  VLOG(1) << "HTTP: " << absl::StripAsciiWhitespace(text);
}

}  // namespace

// libmicrohttpd's thread accepts, reads and writes. It calls Access() when a request has
// arrived, and runs handlers that do not block.
class HttpPort::State {
 public:
  explicit State(HttpPortOptions options)
      : options_(std::move(options)),
        own_names_{"localhost", MachineName(), HostOf(options_.address)},
        pool_(std::make_unique<ThreadPool>("http", kBlockingThreads)) {}
  ~State();

  absl::Status Listen();
  int port() const { return port_; }

 private:
  // A connection, from its beginning to its end.
  struct Client {
    int fd = -1;
    int64_t since_nanos = 0;  // when it connected or, later, sent its request
    bool silent = true;       // has not sent a request
    bool takes = false;       // its answer is being sent
    bool cut = false;
    std::list<Client>::iterator place;
  };
  // A request that is being answered.
  struct Exchange {
    HttpRequest request;
    HttpResponse response;
    bool started = false;  // a thread of the pool answers it, or has
  };

  static void ClientChanged(void* self, MHD_Connection* connection, void** client, MHD_ConnectionNotificationCode what);
  static MHD_Result Access(void* self, MHD_Connection* connection, const char* url, const char* method,
                           const char* version, const char* data, size_t* size, void** exchange);
  static void Completed(void*, MHD_Connection*, void** exchange, MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(std::exchange(*exchange, nullptr));
  }
  static MHD_Result AddParameter(void* request, MHD_ValueKind, const char* name, const char* value) {
    static_cast<HttpRequest*>(request)->query[name] = value == nullptr ? "" : value;
    return MHD_YES;
  }

  // The answer to a request that must not reach the handler; code 200 if it may.
  HttpResponse Refusal(MHD_Connection* connection, absl::string_view method, const HttpRequest& request) const;
  bool IsOwnName(absl::string_view host) const;
  HttpResponse Answer(const HttpRequest& request) const;
  // Answers on a thread of the pool. False if the port is closing.
  bool AnswerLater(MHD_Connection* connection, Exchange* exchange);
  MHD_Result Send(MHD_Connection* connection, const HttpResponse& response);
  // Notes that an answer is on its way. With too many of them, the oldest client is cut off.
  void BeginsToTake(MHD_Connection* connection);
  static void Cut(Client& client) {
    if (!std::exchange(client.cut, true)) shutdown(client.fd, SHUT_RDWR);
  }
  void Sweep();

  const HttpPortOptions options_;
  const std::vector<std::string> own_names_;
  MHD_Daemon* daemon_ = nullptr;
  int port_ = 0;

  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // In the order in which they connected. libmicrohttpd closes a connection after it is
  // removed from here.
  std::list<Client> clients_ ABSL_GUARDED_BY(mutex_);
  size_t silent_ ABSL_GUARDED_BY(mutex_) = 0;  // clients that have not sent a request
  size_t taking_ ABSL_GUARDED_BY(mutex_) = 0;  // clients whose answers are being sent, without those that were cut off
  std::unique_ptr<ThreadPool> pool_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> sweeper_;
};

absl::Status HttpPort::State::Listen() {
  ASSIGN_OR_RETURN(const HostPort host_port, HostPort::Parse(options_.address));
  const std::vector<std::string> resolved = ResolveHost(host_port.host);
  std::string host = resolved.empty() ? host_port.host : resolved[0];
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(host_port.port))};
  sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(host_port.port))};
  const bool is_v6 = absl::StartsWith(host, "[");
  if (is_v6) host = host.substr(1, host.size() - 2);
  if ((is_v6 ? inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) : inet_pton(AF_INET, host.c_str(), &v4.sin_addr)) !=
      1) {
    return Unknown("Cannot serve the status page on ", options_.address, ": no such host");
  }
  const sockaddr* const address = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                         (is_v6 ? static_cast<unsigned>(MHD_USE_IPv6) : 0U);
  daemon_ = MHD_start_daemon(flags, static_cast<uint16_t>(host_port.port), nullptr, nullptr, &State::Access, this,
                             MHD_OPTION_EXTERNAL_LOGGER, &LogError, nullptr,             //
                             MHD_OPTION_SOCK_ADDR, address,                              //
                             MHD_OPTION_CONNECTION_LIMIT, kMaxClients,                   //
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kClientBytes,           //
                             MHD_OPTION_NOTIFY_CONNECTION, &State::ClientChanged, this,  //
                             MHD_OPTION_NOTIFY_COMPLETED, &State::Completed, nullptr,    //
                             MHD_OPTION_END);
  const MHD_DaemonInfo* const bound =
      daemon_ == nullptr ? nullptr : MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
  if (bound == nullptr) {
    return Unknown("Cannot serve the status page on ", options_.address, "; is the port in use?");
  }
  port_ = bound->port;
  sweeper_ = std::make_unique<Thread>("http-sweep", [this] { Sweep(); });
  return absl::OkStatus();
}

HttpPort::State::~State() {
  std::unique_ptr<ThreadPool> pool;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    pool = std::move(pool_);
  }
  pool.reset();  // libmicrohttpd cannot stop while requests are suspended
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  sweeper_.reset();
}

void HttpPort::State::ClientChanged(void* self, MHD_Connection* connection, void** client,
                                    MHD_ConnectionNotificationCode what) {
  auto* const state = static_cast<State*>(self);
  MutexLock lock(&state->mutex_);
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    auto* const known = static_cast<Client*>(*client);
    if (known->silent) --state->silent_;
    if (known->takes) --state->taking_;
    state->clients_.erase(known->place);
    return;
  }
  const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  if (state->clients_.empty()) state->changed_.SignalAll();
  state->clients_.push_back({.fd = fd, .since_nanos = NowNanos()});
  Client& added = state->clients_.back();
  added.place = std::prev(state->clients_.end());
  *client = &added;
  // A client that has a request sends it at once, so it is not the oldest that waits.
  if (++state->silent_ <= kMaxSilent) return;
  for (Client& oldest : state->clients_) {
    if (!oldest.silent || oldest.cut) continue;
    Cut(oldest);
    break;
  }
}

void HttpPort::State::Sweep() {
  MutexLock lock(&mutex_);
  while (!closing_) {
    if (clients_.empty()) {
      changed_.Wait(&mutex_);
    } else {
      changed_.WaitWithTimeout(&mutex_, kSweep);
    }
    const int64_t now = NowNanos();
    for (Client& client : clients_) {
      if (now - client.since_nanos <= (client.silent ? kRequestNanos : kAnswerNanos)) continue;
      if (!client.silent || !HasUnread(client.fd)) Cut(client);
    }
  }
}

MHD_Result HttpPort::State::Access(void* self, MHD_Connection* connection, const char* url, const char* method,
                                   const char* version, const char* data, size_t* size, void** exchange) {
  auto* const state = static_cast<State*>(self);
  auto* ex = static_cast<Exchange*>(*exchange);
  if (ex == nullptr) {  // the head of the request has arrived, and a body may follow
    *exchange = new Exchange;
    return MHD_YES;
  }
  if (ex->started) return state->Send(connection, ex->response);
  {
    auto* const client =
        static_cast<Client*>(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
    MutexLock lock(&state->mutex_);
    client->since_nanos = NowNanos();
    if (std::exchange(client->silent, false)) --state->silent_;
  }
  *size = 0;  // a body is not read
  ex->request.path = url;
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &State::AddParameter, &ex->request);
  if (const HttpResponse refusal = state->Refusal(connection, method, ex->request); refusal.code != 200) {
    return state->Send(connection, refusal);
  }
  if (state->options_.blocks != nullptr && state->options_.blocks(ex->request)) {
    return state->AnswerLater(connection, ex)
               ? MHD_YES
               : state->Send(connection, {.code = 503, .body = "The server is stopping\n"});
  }
  return state->Send(connection, state->Answer(ex->request));
}

bool HttpPort::State::AnswerLater(MHD_Connection* connection, Exchange* exchange) {
  MutexLock lock(&mutex_);
  if (closing_) return false;
  exchange->started = true;
  MHD_suspend_connection(connection);
  pool_->Schedule([this, connection, exchange] {
    exchange->response = Answer(exchange->request);
    MHD_resume_connection(connection);
  });
  return true;
}

HttpResponse HttpPort::State::Refusal(MHD_Connection* connection, absl::string_view method,
                                      const HttpRequest& request) const {
  const auto header = [&](const char* name) {
    const char* const value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return absl::string_view(value == nullptr ? "" : value);
  };
  if (!options_.token.empty()) {
    absl::string_view given = header("Authorization");
    const auto parameter = request.query.find("token");
    if (!absl::ConsumePrefix(&given, "Bearer ")) given = parameter == request.query.end() ? "" : parameter->second;
    if (!SameSecret(given, options_.token)) return {.code = 401, .body = "This port needs a token\n"};
  } else if (const std::string host = HostOf(header("Host")); !IsOwnName(host)) {
    return {.code = 403,
            .body = absl::StrCat("Requests for the host \"", host,
                                 "\" are refused. Use an IP address, localhost or the name of this machine, or set a "
                                 "token (--http_token)\n")};
  }
  if (method != "GET" && method != "HEAD") return {.code = 405, .body = "Only GET is served here\n"};
  return {};
}

bool HttpPort::State::IsOwnName(absl::string_view host) const {
  in_addr address{};
  if (host.empty() || absl::StartsWith(host, "[") || inet_pton(AF_INET, std::string(host).c_str(), &address) == 1) {
    return true;
  }
  for (const std::string& name : own_names_) {
    if (host == name) return true;
  }
  return false;
}

HttpResponse HttpPort::State::Answer(const HttpRequest& request) const {
  HttpResponse response;
  const absl::Status caught = CatchExceptions([&] { response = options_.handler(request); });
  return caught.ok() ? response : HttpResponse{.code = 500, .body = "The request failed\n"};
}

void HttpPort::State::BeginsToTake(MHD_Connection* connection) {
  auto* const client =
      static_cast<Client*>(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  MutexLock lock(&mutex_);
  client->since_nanos = NowNanos();
  if (std::exchange(client->takes, true) || ++taking_ <= kMaxTaking) return;
  Client* oldest = nullptr;
  for (Client& other : clients_) {
    if (!other.takes || other.cut || &other == client) continue;
    if (oldest == nullptr || other.since_nanos < oldest->since_nanos) oldest = &other;
  }
  if (oldest == nullptr) return;
  Cut(*oldest);
  oldest->takes = false;  // it does not count any more
  --taking_;
}

MHD_Result HttpPort::State::Send(MHD_Connection* connection, const HttpResponse& response) {
  BeginsToTake(connection);
  // libmicrohttpd copies the body and does not change it.
  MHD_Response* const answer = MHD_create_response_from_buffer(
      response.body.size(), const_cast<char*>(response.body.data()), MHD_RESPMEM_MUST_COPY);
  if (answer == nullptr) return MHD_NO;
  const std::pair<const char*, const char*> headers[] = {
      {"Content-Type", response.type.c_str()},
      {"Cache-Control", "no-store"},
      {"Connection", "close"},
      {"X-Content-Type-Options", "nosniff"},
      // The page needs nothing from elsewhere, and nothing else may show it in a frame.
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"},
  };
  for (const auto& [name, value] : headers) MHD_add_response_header(answer, name, value);
  if (response.code == 401) MHD_add_response_header(answer, "WWW-Authenticate", "Bearer");
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(response.code), answer);
  MHD_destroy_response(answer);
  return queued;
}

HttpPort::HttpPort(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpPort::~HttpPort() = default;
int HttpPort::port() const { return state_->port(); }

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Start(HttpPortOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  RETURN_IF_ERROR(state->Listen());
  return std::unique_ptr<HttpPort>(new HttpPort(std::move(state)));
}

}  // namespace thalweg
