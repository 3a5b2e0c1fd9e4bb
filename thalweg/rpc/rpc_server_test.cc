#include "thalweg/rpc/rpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/rpc/rpc_client.h"

namespace thalweg {
namespace {

constexpr absl::Duration kTooLong = absl::Seconds(30);

// One call over gRPC.
class TestCall {
 public:
  TestCall(RpcChannel& channel, const char* method) {
    const grpc::Slice nothing;
    channel.Call(method, grpc::ByteBuffer(&nothing, 1), {}, [this](const absl::Status& status, grpc::ByteBuffer&) {
      status_ = status;
      ended_.Notify();
    });
  }
  ~TestCall() { ended_.WaitForNotification(); }
  absl::Status Wait() {
    if (!ended_.WaitForNotificationWithTimeout(kTooLong)) return Internal("no answer");
    return status_;
  }

 private:
  absl::Status status_;
  Notification ended_;
};

// Methods that were over soon run on the thread that waits for calls: it must not
// be the only one that does.
TEST(RpcServerTest, AMethodThatWasOverSoonMayBlock) {
  std::atomic<bool> block = false;
  Notification blocked, released;
  const std::vector<RpcMethod> methods = {{"/test/Work",
                                           [&](ServerCall& call) {
                                             absl::Status status;
                                             if (block) {
                                               blocked.Notify();
                                               if (!released.WaitForNotificationWithTimeout(kTooLong))
                                                 status = Internal("nobody could release it");
                                             }
                                             call.Reply(status, {});
                                           }},
                                          {"/test/Release", [&](ServerCall& call) {
                                             if (block) released.Notify();
                                             call.Reply(absl::OkStatus(), {});
                                           }}};
  ASSERT_OK_AND_ASSIGN(const auto server, RpcServer::Start({.links = false}, methods));
  RpcClient client(/*links=*/false);
  const auto channel = client.Connect(absl::StrCat("localhost:", server->port()));
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(TestCall(*channel, "/test/Work").Wait());
    ASSERT_OK(TestCall(*channel, "/test/Release").Wait());
  }
  block = true;
  TestCall blocking(*channel, "/test/Work");
  ASSERT_TRUE(blocked.WaitForNotificationWithTimeout(kTooLong));
  EXPECT_THAT(TestCall(*channel, "/test/Release").Wait(), IsOk());
  EXPECT_THAT(blocking.Wait(), IsOk());
}

}  // namespace
}  // namespace thalweg
