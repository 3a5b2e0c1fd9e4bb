// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/tcp_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/sleeping_threads_testlib.h"
#include "thalweg/transport/tcp_connect.h"

namespace thalweg {
namespace {

constexpr absl::Duration kTcpTestTimeout = absl::Seconds(60);

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * getpagesize();
}

std::string BytesOf(const TcpHeader& header, const std::string& text = "") {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + text;
}

// A server whose clients are sockets on which tests write what they like.
class TcpServerTest : public testing::Test {
 protected:
  explicit TcpServerTest(uint64_t budget = uint64_t{1} << 40) : budget_(std::make_shared<ReceiveBudget>(budget)) {
    token_ = NewTcpToken().value();
    FileHandle socket = ListenTcp("127.0.0.1", 0).value();
    port_ = TcpPort(socket.get()).value();
    listener_ = MakeTcpListener(std::move(socket), {.token = token_,
                                                    .budget = budget_,
                                                    .greeting = absl::Milliseconds(100),
                                                    .stall_timeout = absl::Milliseconds(100)});
  }
  ~TcpServerTest() override {
    for (const auto& link : links_) link->Close();
  }

  // A connection, without the greeting.
  FileHandle Connect() {
    FileHandle client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_port = htons(static_cast<uint16_t>(port_)),
                        .sin_addr = {htonl(INADDR_LOOPBACK)},
                        .sin_zero = {}};
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::shared_ptr<Link> link;
    while (link == nullptr) {
      absl::StatusOr<std::shared_ptr<Link>> accepted =
          listener_->Accept(&loop_, {.receive =
                                         [this](const LinkMessage& message, const LinkBody& body) {
                                           MutexLock lock(&mutex_);
                                           received_.emplace_back(message.call, body.size());
                                           changed_.SignalAll();
                                           return Link::Work();
                                         },
                                     .lost =
                                         [this](const absl::Status& status) {
                                           MutexLock lock(&mutex_);
                                           lost_.push_back(status);
                                           changed_.SignalAll();
                                         }});
      EXPECT_TRUE(accepted.ok()) << accepted.status();
      link = *accepted;
    }
    EXPECT_TRUE(link->Start(Link::Side::kAccepted).ok());
    links_.push_back(std::move(link));
    return client;
  }
  std::string Hello() const {
    return BytesOf({.kind = LinkMessage::kHello, .text_bytes = TcpHeader::kTokenBytes}, token_);
  }
  FileHandle ConnectAndGreet() {
    FileHandle client = Connect();
    Write(client, Hello());
    TcpHeader answer;
    EXPECT_EQ(recv(client.get(), &answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
    EXPECT_EQ(answer.kind, LinkMessage::kHello);
    return client;
  }
  static void Write(const FileHandle& client, const std::string& bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t n = send(client.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      ASSERT_GT(n, 0) << std::strerror(errno);
      at += static_cast<size_t>(n);
    }
  }
  static bool HangsUp(const FileHandle& client) {
    pollfd wait{.fd = client.get(), .events = POLLRDHUP, .revents = 0};
    return poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kTcpTestTimeout))) == 1;
  }
  std::vector<absl::Status> WaitForLosses(size_t count) {
    const absl::Time deadline = absl::Now() + kTcpTestTimeout;
    MutexLock lock(&mutex_);
    while (lost_.size() < count && absl::Now() < deadline) changed_.WaitWithTimeout(&mutex_, absl::Seconds(1));
    return lost_;
  }
  std::vector<std::pair<uint64_t, size_t>> WaitForMessages(size_t count, absl::Duration timeout = kTcpTestTimeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (received_.size() < count && absl::Now() < deadline) {
      changed_.WaitWithTimeout(&mutex_, deadline - absl::Now());
    }
    return received_;
  }

  std::string token_;
  int port_ = 0;
  const std::shared_ptr<ReceiveBudget> budget_;
  std::unique_ptr<LinkListener> listener_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::pair<uint64_t, size_t>> received_ ABSL_GUARDED_BY(mutex_);  // call and size
  std::vector<absl::Status> lost_ ABSL_GUARDED_BY(mutex_);
  SocketLoop loop_{"test"};
  std::vector<std::shared_ptr<Link>> links_;
};

TEST_F(TcpServerTest, WhoDoesNotGreetProperlyIsNotServed) {
  const std::string noise(200, 'x');
  std::string wrong_token = token_;
  wrong_token.back() = static_cast<char>(wrong_token.back() ^ 1);
  const std::vector<std::string> greetings = {
      noise,
      "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
      BytesOf({.magic = 1, .kind = LinkMessage::kHello, .text_bytes = 32}, token_),
      BytesOf({.kind = LinkMessage::kHello, .text_bytes = 32}, wrong_token),
      BytesOf({.kind = LinkMessage::kHello, .text_bytes = 31}, token_.substr(0, 31)),
      BytesOf({.kind = LinkMessage::kHello}),
      BytesOf({.kind = LinkMessage::kHello, .text_bytes = 1 << 20}),
      BytesOf({.kind = LinkMessage::kHello, .text_bytes = 32, .body_bytes = 1}, token_),
      BytesOf({.kind = LinkMessage::kCall, .text_bytes = 32}, token_),
      BytesOf({.kind = 99, .text_bytes = 32}, token_),
  };
  for (size_t i = 0; i < greetings.size(); ++i) {
    const FileHandle client = Connect();
    Write(client, greetings[i]);
    EXPECT_TRUE(HangsUp(client)) << i;
    EXPECT_EQ(WaitForLosses(i + 1).size(), i + 1);
  }
  EXPECT_TRUE(WaitForMessages(1, absl::ZeroDuration()).empty());
  const FileHandle client = ConnectAndGreet();
  Write(client, BytesOf({.kind = LinkMessage::kCall, .call = 5}));
  EXPECT_EQ(WaitForMessages(1).size(), 1);
}

TEST_F(TcpServerTest, HeadersWithAbsurdNumbersEndTheLink) {
  const std::vector<TcpHeader> headers = {
      {.magic = 0, .kind = LinkMessage::kCall},
      {.kind = LinkMessage::kHello, .text_bytes = 32},  // a second greeting
      {.kind = 0},
      {.kind = 77},
      {.kind = LinkMessage::kCall, .text_bytes = 0xffffffff},
      {.kind = LinkMessage::kCall, .text_bytes = TcpHeader::kMaxText + 1},
      {.kind = LinkMessage::kCall, .body_bytes = ~uint64_t{0}},
      {.kind = LinkMessage::kCall, .body_bytes = uint64_t{1} << 31},
      {.kind = LinkMessage::kCall, .body_bytes = uint64_t{1} << 63},
      {.kind = LinkMessage::kCall, .body_bytes = 100, .large_offset = 90, .large_bytes = 11},
  };
  for (size_t i = 0; i < headers.size(); ++i) {
    const FileHandle client = ConnectAndGreet();
    Write(client, BytesOf(headers[i]));
    EXPECT_TRUE(HangsUp(client)) << i;
    const std::vector<absl::Status> lost = WaitForLosses(i + 1);
    ASSERT_EQ(lost.size(), i + 1);
    EXPECT_TRUE(absl::IsInvalidArgument(lost[i])) << lost[i];
  }
  EXPECT_EQ(budget_->taken(), 0);
}

// The address sanitizer keeps a byte for every eight that are allocated, used or not.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kShadowOfABody = TcpHeader::kMaxBody / 8;
#else
constexpr int64_t kShadowOfABody = 0;
#endif

// Memory is taken as the bytes come, and the budget is given back.
TEST_F(TcpServerTest, AnAnnouncedBodyThatDoesNotComeTakesNoMemory) {
  const int64_t before = ResidentBytes();
  {
    std::vector<FileHandle> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(ConnectAndGreet());
      Write(clients.back(), BytesOf({.kind = LinkMessage::kCall, .call = 1, .body_bytes = TcpHeader::kMaxBody}));
      Write(clients.back(), std::string(100'000, 'x'));
    }
    const absl::Time deadline = absl::Now() + kTcpTestTimeout;
    while (budget_->taken() < 8 * TcpHeader::kMaxBody && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_EQ(budget_->taken(), 8 * TcpHeader::kMaxBody);
    EXPECT_LT(ResidentBytes() - before, (256 << 20) + 8 * kShadowOfABody);
  }
  EXPECT_EQ(WaitForLosses(8).size(), 8);
  const absl::Time deadline = absl::Now() + kTcpTestTimeout;
  while (budget_->taken() > 0 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(budget_->taken(), 0);
  EXPECT_TRUE(WaitForMessages(1, absl::ZeroDuration()).empty());
}

TEST_F(TcpServerTest, MessagesMayComeByteByByteOrManyAtOnce) {
  const FileHandle client = Connect();
  const std::string message =
      BytesOf({.kind = LinkMessage::kCall, .call = 1, .text_bytes = 3, .body_bytes = 5}, "abc12345");
  for (const char c : Hello() + message) Write(client, std::string(1, c));
  std::string many;
  for (uint64_t i = 2; i <= 2000; ++i) {
    many += BytesOf({.kind = LinkMessage::kCall, .call = i, .text_bytes = 2, .body_bytes = i % 50}, "ab");
    many += std::string(i % 50, 'b');
  }
  Write(client, many);
  const auto received = WaitForMessages(2000);
  ASSERT_EQ(received.size(), 2000);
  for (uint64_t i = 2; i <= 2000; ++i) {
    EXPECT_EQ(received[i - 1].first, i);
    EXPECT_EQ(received[i - 1].second, i % 50);
  }
}

// The rest may come late, or never: a thread that looked for it again and again would keep a processor busy.
TEST_F(TcpServerTest, AThreadThatHasAPartOfAMessageSleeps) {
  const std::string message =
      BytesOf({.kind = LinkMessage::kCall, .call = 1, .text_bytes = 3, .body_bytes = 5}, "abc12345");
  size_t complete = 0;
  const auto expect_rest = [&](const FileHandle& client, const std::string& bytes, size_t cut) {
    Write(client, bytes.substr(0, cut));
    EXPECT_TRUE(AwaitRest()) << "after " << cut << " of " << bytes.size() << " bytes";
    Write(client, bytes.substr(cut));
    EXPECT_EQ(WaitForMessages(++complete).size(), complete);
  };
  for (const size_t cut : {size_t{1}, sizeof(TcpHeader) - 1, sizeof(TcpHeader), sizeof(TcpHeader) + 1,
                           sizeof(TcpHeader) + 3, sizeof(TcpHeader) + 7}) {
    expect_rest(ConnectAndGreet(), message, cut);
    expect_rest(Connect(), Hello() + message, cut);
    // A whole message comes before the part.
    const FileHandle client = ConnectAndGreet();
    ++complete;
    expect_rest(client, message + message, message.size() + cut);
  }
}

TEST_F(TcpServerTest, ClientsThatStallAreNoticed) {
  const FileHandle silent = Connect();
  const FileHandle idle = ConnectAndGreet();
  const FileHandle slow = ConnectAndGreet();
  Write(slow, BytesOf({.kind = LinkMessage::kCall, .body_bytes = 1 << 20}));
  Write(slow, std::string(1000, 'x'));
  const absl::Time deadline = absl::Now() + kTcpTestTimeout;
  while ((!links_[0]->stalled() || !links_[2]->stalled()) && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(links_[0]->stalled());
  EXPECT_FALSE(links_[1]->stalled());
  EXPECT_TRUE(links_[2]->stalled());
}

class TcpServerWithLittleMemoryTest : public TcpServerTest {
 protected:
  TcpServerWithLittleMemoryTest() : TcpServerTest(1 << 20) {}
};

TEST_F(TcpServerWithLittleMemoryTest, MessagesWaitForMemoryAndSmallOnesPass) {
  const std::string body(1 << 20, 'x');
  const FileHandle first = ConnectAndGreet(), second = ConnectAndGreet(), third = ConnectAndGreet();
  Write(first, BytesOf({.kind = LinkMessage::kCall, .call = 1, .body_bytes = body.size()}));
  while (budget_->taken() == 0) std::this_thread::yield();
  std::thread writer([&] {
    Write(second, BytesOf({.kind = LinkMessage::kCall, .call = 2, .body_bytes = body.size()}) + body);
    Write(second, BytesOf({.kind = LinkMessage::kCall, .call = 3, .body_bytes = body.size()}) + body);
  });
  Write(third, BytesOf({.kind = LinkMessage::kCall, .call = 4, .body_bytes = 1000}) + std::string(1000, 'y'));
  ASSERT_EQ(WaitForMessages(1).size(), 1);
  EXPECT_EQ(WaitForMessages(1)[0].first, 4);
  EXPECT_EQ(WaitForMessages(2, absl::Milliseconds(50)).size(), 1);
  EXPECT_FALSE(links_[1]->stalled()) << "it is the server that does not read";
  Write(first, body);
  writer.join();
  const auto received = WaitForMessages(4);
  // The second connection may go on as soon as the message of the first one has given its memory back.
  std::vector<uint64_t> calls;
  for (const auto& [call, bytes] : received) calls.push_back(call);
  EXPECT_THAT(calls, testing::UnorderedElementsAre(4, 1, 2, 3));
  EXPECT_LT(std::ranges::find(calls, 2), std::ranges::find(calls, 3));
  EXPECT_EQ(budget_->taken(), 0);
}

TEST_F(TcpServerWithLittleMemoryTest, AClientThatGoesGivesItsMemoryToTheNext) {
  const std::string body(1 << 20, 'x');
  FileHandle first = ConnectAndGreet();
  const FileHandle second = ConnectAndGreet();
  Write(first, BytesOf({.kind = LinkMessage::kCall, .call = 1, .body_bytes = body.size()}));
  while (budget_->taken() == 0) std::this_thread::yield();
  std::thread writer(
      [&] { Write(second, BytesOf({.kind = LinkMessage::kCall, .call = 2, .body_bytes = body.size()}) + body); });
  first = FileHandle();
  EXPECT_EQ(WaitForLosses(1).size(), 1);
  writer.join();
  const auto received = WaitForMessages(1);
  ASSERT_EQ(received.size(), 1);
  EXPECT_EQ(received[0].first, 2);
}

// It cannot read, as there is no memory, but it notices.
TEST_F(TcpServerWithLittleMemoryTest, AClientThatWaitsForMemoryAndGoesIsNoticed) {
  const FileHandle first = ConnectAndGreet();
  FileHandle second = ConnectAndGreet();
  const FileHandle third = ConnectAndGreet();
  Write(first, BytesOf({.kind = LinkMessage::kCall, .call = 1, .body_bytes = 1 << 20}));
  while (budget_->taken() == 0) std::this_thread::yield();
  Write(second, BytesOf({.kind = LinkMessage::kCall, .call = 2, .body_bytes = 1 << 20}));
  Write(third, BytesOf({.kind = LinkMessage::kCall, .call = 3, .body_bytes = 1 << 20}));
  while (budget_->waiting() < 2) std::this_thread::yield();
  second = FileHandle();
  EXPECT_EQ(WaitForLosses(1).size(), 1);
  EXPECT_EQ(budget_->waiting(), 1) << "nobody waits for a client that has gone";
  links_[2]->Close();
  EXPECT_EQ(budget_->waiting(), 0);
}

TEST_F(TcpServerWithLittleMemoryTest, ASlowClientGoesIfOthersWaitForItsMemory) {
  const FileHandle slow = ConnectAndGreet();
  Write(slow, BytesOf({.kind = LinkMessage::kCall, .call = 1, .body_bytes = 3 << 20}) + std::string(3'000'000, 'x'));
  while (budget_->taken() == 0) std::this_thread::yield();
  FileHandle next = ConnectAndGreet();
  Write(next, BytesOf({.kind = LinkMessage::kCall, .call = 2, .body_bytes = 1 << 20}));
  while (budget_->waiting() == 0) std::this_thread::yield();
  const absl::Time deadline = absl::Now() + kTcpTestTimeout;
  while (!links_[0]->stalled() && absl::Now() < deadline) std::this_thread::yield();
  next = FileHandle();
  EXPECT_EQ(WaitForLosses(1).size(), 1);
  EXPECT_FALSE(links_[0]->stalled()) << "nobody else wants the memory";
}

TEST(ReceiveBudget, ManyWhoAreGoneAreNoDeepRecursion) {
  const auto budget = std::make_shared<ReceiveBudget>(1);
  uint64_t ticket = 0;
  int granted = 0;
  {
    const std::optional<ReceiveBudget::Lease> all = budget->Take(1, nullptr, &ticket);
    ASSERT_TRUE(all.has_value());
    for (int i = 0; i < 300'000; ++i) {
      ASSERT_FALSE(budget
                       ->Take(
                           1, [&](ReceiveBudget::Lease) { ++granted; }, &ticket)
                       .has_value());
    }
    budget->Cancel(ticket);
  }
  EXPECT_EQ(granted, 299'999);
  EXPECT_EQ(budget->taken(), 0);
}

// Those that say nothing do not keep others out, and do not take all descriptors.
TEST_F(TcpServerTest, LinksThatHaveNotGreetedAreBounded) {
  const FileHandle known = ConnectAndGreet();
  std::vector<FileHandle> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(Connect());
  EXPECT_EQ(WaitForLosses(44).size(), 44);
  EXPECT_TRUE(HangsUp(strangers.front()));
  Write(known, BytesOf({.kind = LinkMessage::kCall, .call = 5}));
  EXPECT_EQ(WaitForMessages(1).size(), 1);
  Write(strangers.back(), Hello() + BytesOf({.kind = LinkMessage::kCall, .call = 6}));
  EXPECT_EQ(WaitForMessages(2).size(), 2);
}

TEST(SocketLoop, WorkThatBlocksTakesABoundedNumberOfThreads) {
  Mutex mutex;
  CondVar changed;
  int running = 0, most = 0, over = 0;
  bool go = false;
  {
    SocketLoop loop("few", 3);
    for (int i = 0; i < 20; ++i) {
      loop.Post([&] {
        MutexLock lock(&mutex);
        most = std::max(most, ++running);
        changed.SignalAll();
        while (!go) changed.Wait(&mutex);
        --running;
        ++over;
        changed.SignalAll();
      });
    }
    MutexLock lock(&mutex);
    while (running < 3) changed.Wait(&mutex);
    go = true;
    changed.SignalAll();
    while (over < 20) changed.Wait(&mutex);
  }
  EXPECT_EQ(most, 3);
}

TEST_F(TcpServerTest, WithoutFileDescriptorsNobodyIsAccepted) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const std::atomic<bool> cancelled = false;
  FileHandle client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit few{.rlim_cur = static_cast<rlim_t>(client.get()), .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<FileHandle> used;  // gaps below the limit
  for (FileHandle next(dup(STDERR_FILENO)); next.valid(); next = FileHandle(dup(STDERR_FILENO))) {
    used.push_back(std::move(next));
  }
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<uint16_t>(port_)),
                      .sin_addr = {htonl(INADDR_LOOPBACK)},
                      .sin_zero = {}};
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const absl::Status accepted = listener_->Accept(&loop_, {}).status();
  const absl::Status dialed = DialTcp("127.0.0.1", port_, token_, absl::Now() + kTcpTestTimeout, cancelled).status();
  used.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(absl::IsResourceExhausted(accepted)) << accepted;
  EXPECT_FALSE(dialed.ok());
}

TEST(DialTcpTest, FailsWithoutAServerThatAnswers) {
  const std::atomic<bool> cancelled = false;
  const std::string token = NewTcpToken().value();
  const auto dial = [&](int port, absl::Duration timeout) {
    return DialTcp("127.0.0.1", port, token, absl::Now() + timeout, cancelled).status();
  };
  int port = 0;
  {
    const FileHandle listener = ListenTcp("127.0.0.1", 0).value();
    port = TcpPort(listener.get()).value();
    EXPECT_TRUE(absl::IsDeadlineExceeded(dial(port, absl::Milliseconds(50)))) << "nobody accepts";
    std::thread refuser([&] {
      // The first connection is the one that gave up above.
      for (const char* const answer : {"", "", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"}) {
        FileHandle client;
        while (!client.valid()) client = FileHandle(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        char greeting[72];
        (void)!recv(client.get(), greeting, sizeof(greeting), MSG_WAITALL);
        if (*answer != '\0') (void)!send(client.get(), answer, std::strlen(answer), MSG_NOSIGNAL);
      }
    });
    EXPECT_FALSE(dial(port, kTcpTestTimeout).ok());
    EXPECT_FALSE(dial(port, kTcpTestTimeout).ok());
    refuser.join();
  }
  EXPECT_TRUE(absl::IsUnavailable(dial(port, kTcpTestTimeout))) << "nobody listens";
  EXPECT_TRUE(absl::IsInvalidArgument(dial(0, kTcpTestTimeout)));
  EXPECT_TRUE(absl::IsInvalidArgument(dial(-5, kTcpTestTimeout)));
  EXPECT_TRUE(absl::IsInvalidArgument(dial(70'000, kTcpTestTimeout)));
  const std::atomic<bool> now = true;
  EXPECT_FALSE(DialTcp("127.0.0.1", port, token, absl::Now() + kTcpTestTimeout, now).ok());
}

}  // namespace
}  // namespace thalweg
