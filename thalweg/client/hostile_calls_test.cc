// SPDX-License-Identifier: Apache-2.0
// Well-formed but hostile calls: they claim more memory than they send, wait without end, or leave
// state behind. The server answers each of them and keeps serving.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/memory.h"
#include "thalweg/base/status.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/raw_caller_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/proto/master.pb.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {
namespace {

using absl::StatusCode;

constexpr absl::Duration kTooLong = absl::Seconds(60);
const std::string kMaster = "/tensorflow.MasterService/", kWorker = "/tensorflow.WorkerService/";

std::string AddressOf(const Server& server) { return absl::StrCat("localhost:", server.port()); }

// One value that stands for `elements` of them.
void Claim(int64_t elements, tensorflow::TensorProto* tensor) {
  tensor->set_dtype(tensorflow::DT_FLOAT);
  tensor->mutable_tensor_shape()->add_dim()->set_size(elements);
  tensor->add_float_val(1);
}

std::string CreateSession(RawCaller& caller) {
  Graph graph;
  Identity(graph.root().WithOpName("y"), Placeholder(graph.root().WithOpName("x"), kFloat, {-1}));
  tensorflow::CreateSessionRequest request;
  *request.mutable_graph_def() = graph.Export();
  tensorflow::CreateSessionResponse response;
  EXPECT_THAT(caller.Call(kMaster + "CreateSession", request, &response), IsOk());
  return response.session_handle();
}

absl::Status RunStep(RawCaller& caller, const std::string& session, int feeds, int64_t elements) {
  tensorflow::RunStepRequest run;
  run.set_session_handle(session);
  for (int i = 0; i < feeds; ++i) {
    run.add_feed()->set_name("x:0");
    Claim(elements, run.mutable_feed(i)->mutable_tensor());
  }
  run.add_fetch("y:0");
  return caller.Call(kMaster + "RunStep", run);
}

// A few bytes must not take gigabytes, least of all for those who have no session.
TEST(HostileCalls, FeedsThatClaimMoreThanTheySend) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::StartLocal());
  RawCaller caller(AddressOf(*server));
  const std::string session = CreateSession(caller);
  constexpr int64_t kMany = int64_t{1} << 29;  // 2 GB
  const int64_t before = HostAllocator().Stats().peak_bytes;

  EXPECT_THAT(RunStep(caller, "nobody", 20, kMany), Fails(StatusCode::kAborted, "nobody"));
  EXPECT_THAT(RunStep(caller, session, 20, kMany), Fails(StatusCode::kResourceExhausted, "left out"));
  EXPECT_THAT(RunStep(caller, session, 1, 100'000), IsOk()) << "a few may be left out";

  tensorflow::RunCallableRequest callable;
  callable.set_session_handle("nobody");
  Claim(kMany, callable.add_feed());
  EXPECT_THAT(caller.Call(kMaster + "RunCallable", callable), Fails(StatusCode::kAborted, "nobody"));
  tensorflow::RunGraphRequest graph;
  graph.set_session_handle("nobody");
  graph.set_create_worker_session_called(true);
  Claim(kMany, graph.add_send()->mutable_tensor());
  EXPECT_THAT(caller.Call(kWorker + "RunGraph", graph), Fails(StatusCode::kAborted, "nobody"));
  tensorflow::PushRequest push;
  push.add_tensor()->set_key("key");
  Claim(kMany, push.mutable_tensor(0)->mutable_tensor());
  EXPECT_THAT(caller.Call("/thalweg.TransferService/Push", push), Fails(StatusCode::kInvalidArgument, "PushRequest"));

  EXPECT_LT(HostAllocator().Stats().peak_bytes - before, int64_t{64} << 20);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep memory themselves
double ResidentMegabytes(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/statm"));
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// malloc would keep the memory of a large request for the next one. A client whose requests are refused has no next
// one.
TEST(HostileCalls, ARefusedRequestLeavesNoMemoryBehind) {
  const TestCluster cluster({{"ps", 1}}, {}, TasksIn::kProcessesOverGrpc);
  const pid_t server = cluster.process(kPs0);
  RawCaller caller(*cluster.spec().Address(kPs0));
  EXPECT_THAT(RunStep(caller, "nobody", 1, 1), Fails(StatusCode::kAborted, "nobody"));
  const double before = ResidentMegabytes(server);
  constexpr int64_t kElements = int64_t{64} << 20;
  tensorflow::RunStepRequest run;
  run.set_session_handle("nobody");
  run.add_feed()->set_name("x:0");
  Claim(kElements, run.mutable_feed(0)->mutable_tensor());
  run.mutable_feed(0)->mutable_tensor()->set_tensor_content(std::string(4 * kElements, 'x'));
  EXPECT_THAT(caller.Call(kMaster + "RunStep", run), Fails(StatusCode::kAborted, "nobody"));
  const absl::Time deadline = absl::Now() + kTooLong;  // it is returned after the answer
  while (ResidentMegabytes(server) > before + 160 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_LT(ResidentMegabytes(server), before + 160) << "malloc keeps the rest of an arena";
}
#endif

// A task that reports its devices and then stops answering.
class SilentTask {
 public:
  SilentTask() {
    const auto status = [](ServerCall& call) {
      tensorflow::GetStatusResponse response;
      response.add_device_attributes()->set_name("/job:silent/replica:0/task:0/device:CPU:0");
      call.Reply(absl::OkStatus(), SerializeMessage(response));
    };
    const auto hold = [](ServerCall& call) {
      const auto reply = [&call](const absl::Status& why) { call.Reply(why, {}); };
      if (!call.cancellation().Register(reply).has_value()) reply(call.cancellation().status());
    };
    auto started = RpcServer::Start({}, {{kWorker + "GetStatus", status}, {kWorker + "CreateWorkerSession", hold}});
    CHECK(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  std::string address() const { return absl::StrCat("localhost:", server_->port()); }

 private:
  std::unique_ptr<RpcServer> server_;
};

// The error comes while the silent task has not answered.
TEST(HostileCalls, AClusterWithATaskWhoseNameIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::StartLocal());
  const SilentTask silent;
  RawCaller caller(AddressOf(*server));
  tensorflow::CreateSessionRequest request;
  request.set_target(server->target());
  const std::map<std::string, std::string> jobs = {
      {"a", AddressOf(*server)}, {"b", silent.address()}, {"c-refused", silent.address()}};
  for (const auto& [name, address] : jobs) {
    auto* job = request.mutable_config()->mutable_cluster_def()->add_job();
    job->set_name(name);
    (*job->mutable_tasks())[0] = address;
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(caller.Call(kMaster + "CreateSession", request), Fails(StatusCode::kInvalidArgument, "c-refused"));
  }
  EXPECT_NE(CreateSession(caller), "");
}

int Threads() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (int n = 0; word == "Threads:" && status >> n) return n;
  }
  return 0;
}

// Each is about to wait for a task that never comes.
TEST(HostileCalls, WaitingCallsCostNoThreadEach) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {{"ps", 0}});
  constexpr int kCalls = 300;
  RawCaller caller(*cluster.spec().Address({"worker", 0}));
  tensorflow::GetStatusResponse status;
  ASSERT_OK(caller.Call(kWorker + "GetStatus", "", &status));
  const int before = Threads();
  Cancellation cancellation;
  std::atomic<int> ended = 0;
  grpc::ByteBuffer request = SerializeMessage(tensorflow::CreateSessionRequest());
  for (int i = 0; i < kCalls; ++i) {
    caller.channel().Call("/tensorflow.MasterService/CreateSession", request, {.cancellation = &cancellation},
                          [&](const absl::Status&, grpc::ByteBuffer&) { ++ended; });
  }
  // A call that comes after them is answered after they were taken in.
  for (int i = 0; i < 100; ++i) ASSERT_OK(caller.Call(kWorker + "GetStatus", "", &status));
  EXPECT_LT(Threads(), before + 60);
  EXPECT_EQ(ended, 0);
  cancellation.Cancel(absl::CancelledError("enough"));
  const absl::Time deadline = absl::Now() + kTooLong;
  while (ended < kCalls && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(ended, kCalls);
}

// A client that was killed closes nothing.
TEST(HostileCalls, SessionsThatNobodyCallsAreClosed) {
  ASSERT_OK_AND_ASSIGN(const auto server, Server::StartLocal({.client_lease = absl::Seconds(2)}));
  RawCaller caller(AddressOf(*server));
  const std::string abandoned = CreateSession(caller), used = CreateSession(caller);
  tensorflow::ListDevicesRequest list;
  list.set_session_handle(used);
  // Twice the lease, in which only one of them is used.
  for (const absl::Time end = absl::Now() + absl::Seconds(4); absl::Now() < end;) {
    tensorflow::ListDevicesResponse devices;
    ASSERT_OK(caller.Call(kMaster + "ListDevices", list, &devices));
  }
  EXPECT_THAT(RunStep(caller, abandoned, 0, 0), Fails(StatusCode::kAborted, "not found"));
}

// A network may deliver a call twice. Both wait for the buffer; the second must not fail, and with it the collective.
TEST(HostileCalls, ARequestForABufferMayArriveTwice) {
  TestCluster cluster({{"worker", 1}});
  RawCaller caller(*cluster.spec().Address({"worker", 0}));
  tensorflow::GetStatusResponse status;
  ASSERT_OK(caller.Call(kWorker + "GetStatus", "", &status));
  tensorflow::RecvBufRequest request;
  request.set_step_id(17);
  request.set_buf_rendezvous_key("1:1:0:0:0:0:0");
  request.set_src_device(status.device_attributes(0).name());
  request.set_src_incarnation(status.device_attributes(0).incarnation());
  const auto ask = [&](int64_t id) {
    request.set_request_id(id);
    return std::async(std::launch::async, [&caller, text = request.SerializeAsString()] {
      return caller.Call(kWorker + "RecvBuf", text, nullptr, absl::Seconds(3));
    });
  };
  auto first = ask(5), repetition = ask(5);
  // Both wait until their callers give up. The one that gives up first may end the other, which shares its call.
  const auto gave_up = testing::AnyOf(Fails(StatusCode::kDeadlineExceeded, ""), Fails(StatusCode::kCancelled, ""));
  EXPECT_THAT(first.get(), gave_up);
  EXPECT_THAT(repetition.get(), gave_up);
}

// A master that was killed, and is not started again, registers graphs and goes.
TEST(HostileCalls, SessionsOfAMasterThatStaysAwayAreLetGoOf) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {{"worker", 0}}, TasksIn::kThisProcess,
                      {.master_lease = absl::Seconds(1)});
  RawCaller caller(*cluster.spec().Address({"ps", 0}));
  tensorflow::CreateWorkerSessionRequest create;
  create.set_session_handle("of a dead master");
  create.set_master_task("/job:worker/replica:0/task:0");
  create.set_master_incarnation(17);
  ASSERT_OK(caller.Call(kWorker + "CreateWorkerSession", create));
  create.set_session_handle("of a master that lives");
  create.set_master_task("/job:ps/replica:0/task:0");
  tensorflow::GetStatusResponse status;
  ASSERT_OK(caller.Call(kWorker + "GetStatus", "", &status));
  create.set_master_incarnation(static_cast<int64_t>(status.device_attributes(0).incarnation()));
  ASSERT_OK(caller.Call(kWorker + "CreateWorkerSession", create));
  tensorflow::RegisterGraphRequest graph;
  graph.set_create_worker_session_called(true);
  graph.set_session_handle("of a dead master");
  const absl::Time deadline = absl::Now() + kTooLong;
  absl::Status found;
  while (found.ok() && absl::Now() < deadline) found = caller.Call(kWorker + "RegisterGraph", graph);
  EXPECT_THAT(found, Fails(StatusCode::kAborted, "not found"));
  graph.set_session_handle("of a master that lives");
  EXPECT_THAT(caller.Call(kWorker + "RegisterGraph", graph), IsOk());
}

// Other machines must not reach a cluster that is on one machine.
TEST(HostileCalls, AServerOfThisMachineListensAtLoopbackOnly) {
  const auto can_connect = [](int port, const char* host) {
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, host, &to.sin_addr);
    const bool connected = connect(s, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
    close(s);
    return connected;
  };
  ASSERT_OK_AND_ASSIGN(const auto local, Server::StartLocal());
  EXPECT_TRUE(can_connect(local->port(), "127.0.0.1"));
  EXPECT_FALSE(can_connect(local->port(), "127.0.0.2")) << "as any other address";
  ASSERT_OK_AND_ASSIGN(const auto open, Server::StartLocal({.bind = "0.0.0.0"}));
  EXPECT_TRUE(can_connect(open->port(), "127.0.0.2"));
}

}  // namespace
}  // namespace thalweg
