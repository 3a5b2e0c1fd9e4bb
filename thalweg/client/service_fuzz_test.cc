// SPDX-License-Identifier: Apache-2.0
// Fuzzing: damaged messages for every method of both services, and connections that send nothing or
// garbage. The server answers each with some status and keeps serving.
//
// A longer run: --gtest_shuffle --gtest_repeat=100 (each repetition has its own seed).
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/raw_caller_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/proto/master.pb.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/rpc/message.h"
#include "thalweg/rpc/piece_table.h"
#include "thalweg/rpc/rpc_client.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

using google::protobuf::MessageLite;

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

using Caller = RawCaller;

struct Program {
  Graph graph;
  Output x, y, init;
  Program() {
    tensorflow::GraphDef def;
    AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
    AddConst(def, "start", Tensor::Scalar<float>(0));
    AddConst(def, "n", Tensor::Scalar<int32_t>(3));
    AddLoop(def, "loop", "zero", "start", "n", [&](const std::string& i) {
      AddCast(def, "loop/term", i);
      return "loop/term";
    });
    EXPECT_TRUE(graph.Import(def).ok());
    const Scope s = graph.root();
    x = Placeholder(s.WithOpName("x"), kFloat, {-1});
    const Output v = RefVariable(s.WithOpName("v"), kFloat, {2});
    init = Assign(s.WithOpName("init"), v, Const(s.WithOpName("c"), Tensor::Vector<float>({1, 2})));
    y = Add(s.WithOpName("y"), Identity(s.WithOpName("read"), v), x);
  }
};

// One or more good requests of every method. They refer to a session that is there.
std::multimap<std::string, std::string> GoodRequests(Caller& caller, const Program& program,
                                                     const std::string& target) {
  std::multimap<std::string, std::string> requests;
  const auto add = [&](const std::string& method, const MessageLite& message) {
    requests.emplace(method, message.SerializeAsString());
  };
  const std::string master = "/tensorflow.MasterService/", worker = "/tensorflow.WorkerService/";
  tensorflow::CreateSessionRequest create;
  *create.mutable_graph_def() = program.graph.Export();
  create.set_target(target);
  create.mutable_config()->add_device_filters("/job:local");
  add(master + "CreateSession", create);
  tensorflow::CreateSessionResponse created;
  EXPECT_TRUE(caller.Call(master + "CreateSession", create.SerializeAsString(), &created).ok());
  const std::string& session = created.session_handle();

  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session);
  tensorflow::NodeDef* node = extend.mutable_graph_def()->add_node();
  node->set_name("z");
  node->set_op("Neg");
  node->add_input("y");
  (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  add(master + "ExtendSession", extend);

  tensorflow::RunStepRequest run;
  run.set_session_handle(session);
  run.add_target("init");
  add(master + "RunStep", run);
  run.clear_target();
  run.add_fetch("loop/exit_acc:0");
  add(master + "RunStep", run);
  run.clear_fetch();
  run.add_fetch("y:0");
  run.add_feed()->set_name("x:0");
  TensorToProto(Tensor::Vector<float>({3, 4}), run.mutable_feed(0)->mutable_tensor());
  run.mutable_options()->set_timeout_in_ms(1000);
  run.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
  add(master + "RunStep", run);

  tensorflow::PartialRunSetupRequest partial;
  partial.set_session_handle(session);
  partial.add_feed("x:0");
  partial.add_fetch("y:0");
  add(master + "PartialRunSetup", partial);
  tensorflow::PartialRunSetupResponse set_up;
  EXPECT_TRUE(caller.Call(master + "PartialRunSetup", partial.SerializeAsString(), &set_up).ok());
  run.set_partial_run_handle(set_up.partial_run_handle());
  add(master + "RunStep", run);

  tensorflow::MakeCallableRequest make;
  make.set_session_handle(session);
  make.mutable_options()->add_feed("x:0");
  make.mutable_options()->add_fetch("y:0");
  add(master + "MakeCallable", make);
  tensorflow::MakeCallableResponse made;
  EXPECT_TRUE(caller.Call(master + "MakeCallable", make.SerializeAsString(), &made).ok());
  tensorflow::RunCallableRequest call;
  call.set_session_handle(session);
  call.set_handle(made.handle());
  TensorToProto(Tensor::Vector<float>({3, 4}), call.add_feed());
  add(master + "RunCallable", call);
  tensorflow::ReleaseCallableRequest release;
  release.set_session_handle(session);
  release.set_handle(made.handle());
  add(master + "ReleaseCallable", release);
  tensorflow::ListDevicesRequest list;
  list.set_session_handle(session);
  add(master + "ListDevices", list);
  tensorflow::ResetRequest reset;
  reset.add_container("nothing");
  add(master + "Reset", reset);
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(session);
  add(master + "CloseSession", close);

  add(worker + "GetStatus", tensorflow::GetStatusRequest());
  tensorflow::CreateWorkerSessionRequest create_worker;
  create_worker.set_session_handle("fuzz");
  EXPECT_TRUE(caller.Call(worker + "CreateWorkerSession", create_worker.SerializeAsString()).ok());
  create_worker.set_isolate_session_state(true);
  create_worker.mutable_server_def()->set_job_name("local");
  create_worker.mutable_server_def()->mutable_cluster()->add_job()->set_name("local");
  (*create_worker.mutable_server_def()->mutable_cluster()->mutable_job(0)->mutable_tasks())[0] = "localhost:1";
  add(worker + "CreateWorkerSession", create_worker);
  tensorflow::RegisterGraphRequest register_graph;
  register_graph.set_session_handle("fuzz");
  register_graph.set_create_worker_session_called(true);
  *register_graph.mutable_graph_def() = program.graph.Export();
  for (auto& n : *register_graph.mutable_graph_def()->mutable_node()) {
    n.set_device("/job:local/replica:0/task:0/device:CPU:0");
  }
  register_graph.mutable_thalweg()->add_push_task("/job:local/replica:0/task:0");
  add(worker + "RegisterGraph", register_graph);
  tensorflow::RegisterGraphResponse registered;
  EXPECT_TRUE(caller.Call(worker + "RegisterGraph", register_graph.SerializeAsString(), &registered).ok());
  tensorflow::RunGraphRequest run_graph;
  run_graph.set_session_handle("fuzz");
  run_graph.set_create_worker_session_called(true);
  run_graph.set_graph_handle(registered.graph_handle());
  run_graph.set_step_id(17);
  run_graph.add_send()->set_name("key");
  TensorToProto(Tensor::Vector<float>({3, 4}), run_graph.mutable_send(0)->mutable_tensor());
  run_graph.add_recv_key("key");
  add(worker + "RunGraph", run_graph);
  tensorflow::DeregisterGraphRequest deregister;
  deregister.set_session_handle("fuzz");
  deregister.set_create_worker_session_called(true);
  deregister.set_graph_handle(registered.graph_handle());
  add(worker + "DeregisterGraph", deregister);
  tensorflow::DeleteWorkerSessionRequest remove;
  remove.set_session_handle("fuzz");
  add(worker + "DeleteWorkerSession", remove);
  tensorflow::RecvTensorRequest recv;
  recv.set_step_id(17);
  recv.set_rendezvous_key("/job:local/replica:0/task:0/device:CPU:0;1;/job:local/replica:0/task:0/device:CPU:0;e;0:0");
  add(worker + "RecvTensor", recv);
  tensorflow::CleanupGraphRequest cleanup;
  cleanup.set_step_id(17);
  add(worker + "CleanupGraph", cleanup);
  add(worker + "CleanupAll", tensorflow::CleanupAllRequest());
  add(worker + "Logging", tensorflow::LoggingRequest());
  add(worker + "Tracing", tensorflow::TracingRequest());
  add(worker + "MarkRecvFinished", tensorflow::MarkRecvFinishedRequest());
  tensorflow::PushRequest push;
  push.set_step_id(17);
  push.add_tensor()->set_key(recv.rendezvous_key());
  TensorToProto(Tensor::Vector<float>({3, 4}), push.mutable_tensor(0)->mutable_tensor());
  add("/thalweg.TransferService/Push", push);
  requests.emplace("/thalweg.TransferService/PushPiece",
                   Flatten(SerializePiece(17, {"key", {Tensor::Vector<float>({1, 2, 3, 4}), false}}, 4, 8)));

  tensorflow::GetStatusResponse status;
  EXPECT_TRUE(caller.Call(worker + "GetStatus", "", &status).ok());
  tensorflow::CompleteGroupRequest group;
  group.set_group_key(1);
  group.set_group_size(1);
  group.set_device_type("CPU");
  *group.mutable_device_attributes() = status.device_attributes(0);
  EXPECT_TRUE(caller.Call(worker + "CompleteGroup", group.SerializeAsString()).ok());
  add(worker + "CompleteGroup", group);
  tensorflow::CompleteInstanceRequest instance;
  instance.set_name("reduce");
  instance.set_data_type(tensorflow::DT_FLOAT);
  instance.mutable_shape()->add_dim()->set_size(3);
  instance.set_group_key(1);
  instance.set_group_size(1);
  instance.set_instance_key(5);
  instance.set_device(status.device_attributes(0).name());
  EXPECT_TRUE(caller.Call(worker + "CompleteInstance", instance.SerializeAsString()).ok());
  add(worker + "CompleteInstance", instance);
  instance.set_type(1);
  instance.set_is_source(true);
  instance.set_instance_key(6);
  add(worker + "CompleteInstance", instance);
  tensorflow::GetStepSequenceRequest sequence;
  sequence.add_graph_key(7);
  add(worker + "GetStepSequence", sequence);
  tensorflow::RecvBufRequest recv_buf;
  recv_buf.set_step_id(17);
  recv_buf.set_buf_rendezvous_key("1:5:0:0:0:0:0");
  recv_buf.set_num_bytes(12);
  recv_buf.set_src_incarnation(status.device_attributes(0).incarnation());
  add(worker + "RecvBuf", recv_buf);
  tensorflow::AbortCollectiveRequest abort;
  abort.set_step_id(17);
  abort.set_task("/job:local/replica:0/task:1");
  abort.set_code(14);
  abort.set_message("lost");
  add("/thalweg.TransferService/AbortCollective", abort);
  return requests;
}

std::string Damage(std::string text, std::mt19937& random) {
  for (int n = static_cast<int>(random() % 4); n >= 0; --n) {
    const size_t at = text.empty() ? 0 : random() % text.size();
    switch (random() % 6) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.insert(at, 1 + random() % 5, static_cast<char>(random()));
        break;
      case 3:
        text.insert(at, text.substr(random() % (text.size() + 1), random() % 64));
        break;
      case 4:
        text.insert(at, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");  // the largest number
        break;
      case 5:
        text.erase(at, random() % 8);
        break;
    }
  }
  return text;
}

void ExpectWorks(const std::string& target) {
  const Program program;
  const auto session = Session::Create(program.graph, {.target = target, .operation_timeout = absl::Seconds(30)});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({program.init}).ok());
  const auto out = (*session)->Run({program.y}, {{program.x, Tensor::Vector<float>({3, 4})}});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].flat<float>(), testing::ElementsAre(4, 6));
}

TEST(ServiceFuzz, DamagedMessagesOfEveryMethod) {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto server = Server::StartLocal();
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = absl::StrCat("localhost:", (*server)->port());
  Caller caller(address);
  const Program program;
  const auto requests = GoodRequests(caller, program, (*server)->target());
  for (const auto& [method, good] : requests) {
    for (int i = 0; i < 100; ++i) {
      SCOPED_TRACE(absl::StrCat(method, ", seed ", seed, ", call ", i));
      // Any status is fine. The call may also wait, for a tensor or for a task that does not exist.
      caller.Call(method, Damage(good, random), nullptr, absl::Milliseconds(50)).IgnoreError();
    }
    ExpectWorks((*server)->target());
  }
}

TEST(ServiceFuzz, ThousandsOfConnections) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  TestCluster cluster({{"local", 1}}, {}, TasksIn::kProcesses);
  const TaskId task{"local", 0};
  const absl::StatusOr<HostPort> address = HostPort::Parse(*cluster.spec().Address(task));
  const int n = static_cast<int>(std::min<rlim_t>(10'000, limit.rlim_max - 100));
  std::vector<int> sockets;
  for (int i = 0; i < n; ++i) {
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(s, 0);
    sockets.push_back(s);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(address->port));
    ASSERT_EQ(connect(s, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << i;
    const absl::string_view nonsense = "GET / HTTP/1.1\r\n\r\n";
    const absl::string_view half = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const absl::string_view text = i % 4 == 1 ? nonsense : i % 4 == 2 ? half : "";
    if (!text.empty()) send(s, text.data(), text.size(), MSG_NOSIGNAL);
    if (i % 4 == 3) shutdown(s, SHUT_WR);
    if (i % 1000 == 999) ExpectWorks(cluster.target(task));
  }
  for (const int s : sockets) close(s);
  ExpectWorks(cluster.target(task));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace thalweg
