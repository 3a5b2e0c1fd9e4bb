// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/http_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/base/notification.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int ConnectTo(int port, int flags = 0, int buffer = 0) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (buffer > 0) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  if (fd >= 0 && errno == EINPROGRESS) return fd;
  close(fd);
  return -1;
}

// Everything that comes before the connection is closed.
std::string Rest(int fd) {
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<size_t>(n));
  return answer;
}

// Sends bytes and returns the answer.
std::string Exchange(int port, const std::string& bytes) {
  const int fd = ConnectTo(port);
  if (fd < 0) return "no connection";
  (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string answer = Rest(fd);
  close(fd);
  return answer;
}

std::string Get(int port, const std::string& target, const std::string& headers = "") {
  return Exchange(port, absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n"));
}

class HttpPortTest : public ::testing::Test {
 protected:
  void Start(const std::string& token = "") {
    auto started = HttpPort::Start(
        {.address = "localhost:0",
         .token = token,
         .handler =
             [this](const HttpRequest& request) {
               if (request.path == "/slow") released_.WaitForNotification();
               if (request.path == "/meet") Meet();
               std::string body = absl::StrCat("path ", request.path);
               if (request.path == "/large") body.resize(1 << 20);
               for (const auto& [name, value] : request.query) {
                 absl::StrAppend(&body, " ", name, "=", value);
               }
               return HttpResponse{.body = body};
             },
         .blocks = [](const HttpRequest& request) { return request.path == "/slow" || request.path == "/meet"; }});
    ASSERT_TRUE(started.ok()) << started.status();
    port_ = *std::move(started);
  }
  // Returns when kMeeting requests have come.
  void Meet() {
    if (++met_ == kMeeting) all_met_.Notify();
    EXPECT_TRUE(all_met_.WaitForNotificationWithTimeout(absl::Minutes(1))) << met_ << " of " << kMeeting << " requests";
  }

  static constexpr int kMeeting = 4;
  std::atomic<int> met_ = 0;
  Notification all_met_;
  Notification released_;  // lets "/slow" be answered
  std::unique_ptr<HttpPort> port_;
};

TEST_F(HttpPortTest, ServesPathsAndDecodedQueries) {
  Start();
  const std::string answer = Get(port_->port(), "/trace?steps=5&a=b%20c");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("path /trace a=b c steps=5"));
  EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'"));
}

TEST_F(HttpPortTest, RefusesAPortInUseAndABadAddress) {
  Start();
  const auto handler = [](const HttpRequest&) { return HttpResponse(); };
  const auto second = HttpPort::Start({.address = absl::StrCat("localhost:", port_->port()), .handler = handler});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("localhost:", port_->port())));
  EXPECT_FALSE(HttpPort::Start({.address = "nonsense", .handler = handler}).ok());
}

TEST_F(HttpPortTest, NeedsItsToken) {
  Start("se+cret");
  EXPECT_THAT(Get(port_->port(), "/"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(port_->port(), "/?token=se"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(port_->port(), "/", "Authorization: Bearer wrong!!\r\n"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(port_->port(), "/", "Authorization: Bearer se+cret\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port_->port(), "/?token=se%2Bcret"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpPortTest, OnlyReads) {
  Start();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_THAT(
        Exchange(port_->port(), absl::StrCat(method, " / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")),
        Not(HasSubstr("path /")))
        << method;
  }
  EXPECT_THAT(Exchange(port_->port(), "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Not(HasSubstr("path /")));
}

TEST_F(HttpPortTest, SurvivesHostileRequests) {
  Start();
  const std::vector<std::string> requests = {
      absl::StrCat("GET / HTTP/1.1\r\nA: ", std::string(1 << 20, 'a'), "\r\n\r\n"),
      absl::StrCat("GET /", std::string(1 << 16, 'a'), " HTTP/1.1\r\n\r\n"),
      std::string(1 << 16, '\0'),
      "GET\r\n\r\n",
      "\r\n\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /..%5c..%5cetc HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET //etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /?%zz=%&&&=&=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
  };
  for (const std::string& request : requests) {
    EXPECT_THAT(Exchange(port_->port(), request), Not(HasSubstr("root:"))) << request.substr(0, 80);
  }
  EXPECT_THAT(Get(port_->port(), "/healthz"), HasSubstr("path /healthz"));
}

TEST_F(HttpPortTest, RefusesOtherHosts) {
  Start();
  const auto with_host = [&](const std::string& host) {
    return Exchange(port_->port(), absl::StrCat("GET /x HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
  };
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "10.1.2.3", "[::1]:80"}) {
    EXPECT_THAT(with_host(host), HasSubstr("path /x")) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "x"}) {
    const std::string answer = with_host(host);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403")) << host;
    EXPECT_THAT(answer, Not(HasSubstr("path /x"))) << host;
  }
  port_.reset();
  Start("secret");  // a page of another site does not know it
  EXPECT_THAT(Exchange(port_->port(), "GET /x?token=secret HTTP/1.1\r\nHost: proxy.example\r\n\r\n"),
              HasSubstr("path /x"));
}

TEST_F(HttpPortTest, ARequestThatBlocksDoesNotKeepOthersWaiting) {
  Start();
  std::vector<int> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(ConnectTo(port_->port()));
    const std::string request = "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ASSERT_EQ(send(slow.back(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  }
  EXPECT_THAT(Get(port_->port(), "/healthz"), HasSubstr("path /healthz"));
  released_.Notify();
  for (const int fd : slow) {
    EXPECT_THAT(Rest(fd), HasSubstr("path /slow"));
    close(fd);
  }
}

TEST_F(HttpPortTest, RequestsThatBlockAreAnsweredAtTheSameTime) {
  Start();
  std::vector<std::thread> clients;
  std::vector<std::string> answers(kMeeting);
  for (std::string& answer : answers) {
    clients.emplace_back([this, &answer] { answer = Get(port_->port(), "/meet"); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(answers, ::testing::Each(HasSubstr("path /meet")));
}

// Each of them would hold one of the connections until the answer is overdue.
TEST_F(HttpPortTest, ClientsThatDoNotTakeTheirAnswersDoNotKeepOthersOut) {
  Start();
  std::vector<int> idle;
  const std::string request = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 400; ++i) {
    const int fd = ConnectTo(port_->port(), 0, /*buffer=*/4096);
    if (fd < 0) continue;
    idle.push_back(fd);
    (void)!send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    if (i % 50 == 0) {
      EXPECT_THAT(Get(port_->port(), "/healthz"), HasSubstr("path /healthz"));
    }
  }
  EXPECT_THAT(Get(port_->port(), "/healthz"), HasSubstr("path /healthz"));
  for (const int fd : idle) close(fd);
}

// Every one of them would be served for as long as it takes if it kept a thread.
TEST_F(HttpPortTest, AThousandSlowClientsDoNotKeepOthersWaiting) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  Start();
  std::vector<int> slow;
  for (int i = 0; i < 1000; ++i) {
    const int fd = ConnectTo(port_->port(), SOCK_NONBLOCK);
    if (fd < 0) continue;
    slow.push_back(fd);
    if (i % 2 == 0) (void)!send(fd, "GET / HT", 8, MSG_NOSIGNAL);
    if (i % 100 == 0) {
      EXPECT_THAT(Get(port_->port(), "/healthz"), HasSubstr("path /healthz"));
    }
  }
  EXPECT_THAT(Get(port_->port(), "/metrics"), HasSubstr("path /metrics"));
  // All of them are cut off.
  for (const int fd : slow) {
    ASSERT_EQ(fcntl(fd, F_SETFL, 0), 0);
    EXPECT_EQ(Rest(fd), "");
    close(fd);
  }
}

}  // namespace
}  // namespace thalweg
