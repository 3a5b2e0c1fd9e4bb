// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/link.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/link_testlib.h"

namespace thalweg {
namespace {

constexpr absl::Duration kLinkTimeout = absl::Seconds(60);

std::string Pattern(size_t bytes, size_t seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 31 + seed) % 251);
  return text;
}

// Collects what comes over one end of a link.
class Inbox {
 public:
  struct Entry {
    LinkMessage message;
    std::string body;
  };

  Link::Handlers handlers() {
    return {.receive =
                [this](LinkMessage message, const LinkBody& body) {
                  MutexLock lock(&mutex_);
                  while (held_) changed_.Wait(&mutex_);
                  entries_.push_back({std::move(message), body.Join()});
                  changed_.SignalAll();
                  return Link::Work();
                },
            .lost =
                [this](const absl::Status& status) {
                  MutexLock lock(&mutex_);
                  lost_.push_back(status);
                  changed_.SignalAll();
                }};
  }
  // While held, the receiver does not return from its handler.
  void Hold(bool hold) {
    MutexLock lock(&mutex_);
    held_ = hold;
    changed_.SignalAll();
  }
  std::vector<Entry> Wait(size_t count) {
    const absl::Time deadline = absl::Now() + kLinkTimeout;
    MutexLock lock(&mutex_);
    while (entries_.size() < count && absl::Now() < deadline) changed_.WaitWithTimeout(&mutex_, absl::Seconds(1));
    return entries_;
  }
  std::vector<absl::Status> WaitForLoss() {
    const absl::Time deadline = absl::Now() + kLinkTimeout;
    MutexLock lock(&mutex_);
    while (lost_.empty() && absl::Now() < deadline) changed_.WaitWithTimeout(&mutex_, absl::Seconds(1));
    return lost_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> lost_ ABSL_GUARDED_BY(mutex_);
};

class LinkTest : public testing::TestWithParam<LinkKind> {
 protected:
  void Connect(LinkPairOptions options = {}) {
    absl::StatusOr<LinkPair> pair =
        MakeLinkPair(GetParam(), &loop_, client_inbox_.handlers(), server_inbox_.handlers(), options);
    ASSERT_TRUE(pair.ok()) << pair.status();
    pair_ = *std::move(pair);
  }
  ~LinkTest() override {
    if (pair_.client != nullptr) pair_.client->Close();
    if (pair_.server != nullptr) pair_.server->Close();
  }

  Inbox client_inbox_, server_inbox_;
  SocketLoop loop_{"test"};
  LinkPair pair_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LinkTest,
                         testing::Values(LinkKind::kInProcess, LinkKind::kSharedMemory, LinkKind::kTcp),
                         [](const auto& kind) { return NameOf(kind.param); });

TEST_P(LinkTest, MessagesOfAnySizeComeInOrderInBothDirections) {
  Connect();
  const std::vector<size_t> sizes = {0,      1,      40,     4095,    4096,    4097,
                                     16'344, 16'384, 65'536, 100'000, 3 << 20, (20 << 20) + 1};
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (Link* link : {pair_.client.get(), pair_.server.get()}) {
      // In several pieces that the caller does not keep.
      const std::string body = Pattern(sizes[i], i);
      const absl::string_view all(body);
      const size_t cut = all.size() / 3;
      ASSERT_TRUE(link->Send({.kind = LinkMessage::kReply, .code = 7, .call = i, .text = Pattern(i * 100, i)},
                             {all.substr(0, cut), all.substr(cut, 1), all.substr(std::min(cut + 1, all.size()))},
                             nullptr)
                      .ok());
    }
  }
  for (Inbox* inbox : {&client_inbox_, &server_inbox_}) {
    const std::vector<Inbox::Entry> entries = inbox->Wait(sizes.size());
    ASSERT_EQ(entries.size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(entries[i].message.kind, LinkMessage::kReply);
      EXPECT_EQ(entries[i].message.call, i);
      EXPECT_EQ(entries[i].message.code, 7);
      EXPECT_EQ(entries[i].message.text, Pattern(i * 100, i));
      EXPECT_TRUE(entries[i].body == Pattern(sizes[i], i)) << sizes[i];
    }
  }
}

TEST_P(LinkTest, ManyThreadsSendAtOnce) {
  Connect();
  constexpr int kThreads = 6;
  constexpr int kMessages = 300;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kMessages; ++i) {
        const auto body = std::make_shared<const std::string>(Pattern(static_cast<size_t>(i * 997 % 90'000), t));
        ASSERT_TRUE(
            pair_.client
                ->Send({.kind = LinkMessage::kCall, .code = static_cast<uint32_t>(t), .call = static_cast<uint64_t>(i)},
                       {absl::string_view(*body)}, body)
                .ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Inbox::Entry> entries = server_inbox_.Wait(kThreads * kMessages);
  ASSERT_EQ(entries.size(), kThreads * kMessages);
  std::map<uint32_t, uint64_t> next;
  for (const Inbox::Entry& entry : entries) {
    EXPECT_EQ(entry.message.call, next[entry.message.code]++);
    EXPECT_TRUE(entry.body == Pattern(entry.message.call * 997 % 90'000, entry.message.code));
  }
}

TEST_P(LinkTest, TheOtherSideFindsAClosedLinkLost) {
  Connect();
  ASSERT_TRUE(pair_.client->Send({.kind = LinkMessage::kCall, .call = 1}).ok());
  ASSERT_EQ(server_inbox_.Wait(1).size(), 1);
  pair_.client->Close();
  ASSERT_EQ(server_inbox_.WaitForLoss().size(), 1);
  EXPECT_TRUE(absl::IsUnavailable(pair_.client->Send({.kind = LinkMessage::kCall, .call = 2})));
  EXPECT_TRUE(absl::IsUnavailable(pair_.server->Send({.kind = LinkMessage::kReply, .call = 1})));
}

TEST_P(LinkTest, BothSidesFindABrokenLinkLost) {
  Connect();
  ASSERT_TRUE(pair_.client->Send({.kind = LinkMessage::kCall, .call = 1}).ok());
  ASSERT_EQ(server_inbox_.Wait(1).size(), 1);
  pair_.server->Break();
  EXPECT_EQ(server_inbox_.WaitForLoss().size(), 1);
  EXPECT_EQ(client_inbox_.WaitForLoss().size(), 1);
}

// The sender's memory does not grow, and nothing that it sent is lost.
TEST_P(LinkTest, AReceiverThatDoesNotReadStopsItsSender) {
  if (GetParam() != LinkKind::kTcp) return;  // the others have no limit that a test can reach soon
  Connect({.max_unsent = 8 << 20});
  server_inbox_.Hold(true);
  const auto body = std::make_shared<const std::string>(Pattern(1 << 20, 3));
  size_t sent = 0;
  absl::Status status;
  while (sent < 1000 && status.ok()) {
    status = pair_.client->Send({.kind = LinkMessage::kCall, .call = sent}, {absl::string_view(*body)}, body);
    if (status.ok()) ++sent;
    EXPECT_LE(pair_.client->unsent_bytes(), 9 << 20);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GT(pair_.client->unsent_bytes(), 0);
  // Replies still come through.
  ASSERT_TRUE(pair_.server->Send({.kind = LinkMessage::kReply, .call = 1}).ok());
  EXPECT_EQ(client_inbox_.Wait(1).size(), 1);
  server_inbox_.Hold(false);
  const std::vector<Inbox::Entry> entries = server_inbox_.Wait(sent);
  ASSERT_EQ(entries.size(), sent);
  for (size_t i = 0; i < sent; ++i) {
    EXPECT_EQ(entries[i].message.call, i);
    EXPECT_TRUE(entries[i].body == *body);
  }
  EXPECT_EQ(pair_.client->unsent_bytes(), 0);
  EXPECT_TRUE(pair_.client->Send({.kind = LinkMessage::kCall, .call = sent}).ok());
}

}  // namespace
}  // namespace thalweg
