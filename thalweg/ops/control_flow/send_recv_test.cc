// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/kernel_call_testlib.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/kernel/variable_rendezvous.h"

namespace thalweg {
namespace {

using absl::StatusCode;

constexpr char kPsDevice[] = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr char kWorkerDevice[] = "/job:worker/replica:0/task:1/device:CPU:0";

std::vector<AttrArg> Edge(std::vector<AttrArg> more = {}) {
  more.insert(more.end(), {{"tensor_name", "edge_7_x"},
                           {"send_device", kPsDevice},
                           {"send_device_incarnation", int64_t{0xabc}},
                           {"recv_device", kWorkerDevice}});
  return more;
}
std::vector<AttrArg> FloatEdge() { return Edge({{"tensor_type", kFloat}}); }

std::string KeyOfEdge(uint64_t frame = 0, int64_t iteration = 0) {
  return RendezvousKey{.source_device = kPsDevice,
                       .source_incarnation = 0xabc,
                       .destination_device = kWorkerDevice,
                       .edge = "edge_7_x",
                       .frame = frame,
                       .iteration = iteration}
      .ToString();
}

// The value that was sent under the key; the error of the wait if none was.
absl::StatusOr<Rendezvous::Value> Sent(Rendezvous& rendezvous, const std::string& key) {
  absl::StatusOr<Rendezvous::Value> sent = NotFound("nothing was sent under ", key);
  rendezvous.RecvAsync(key, [&](const absl::Status& status, Rendezvous::Value value) {
    if (status.ok()) {
      sent = std::move(value);
    } else {
      sent = status;
    }
  });
  rendezvous.Abort(NotFound("nothing was sent under ", key));  // ends the wait before `sent` goes
  return sent;
}

TEST(SendTest, PutsTheValueUnderTheKeyOfTheEdge) {
  for (const char* op : {"_Send", "_HostSend", "Send"}) {
    KernelCall send(op, {Tensor::Scalar(3.f)}, Edge());
    ASSERT_OK(send.Run());
    ASSERT_OK_AND_ASSIGN(const Rendezvous::Value sent, Sent(send.rendezvous(), KeyOfEdge()));
    EXPECT_FALSE(sent.dead);
    ExpectTensor(sent.tensor, Tensor::Scalar(3.f));
  }
}

TEST(SendTest, TellsTheReceiverThatItsInputIsDead) {
  KernelCall send("_Send", {CallArg::Dead(Tensor::Scalar(3.f))}, Edge());
  ASSERT_OK(send.Run());
  ASSERT_OK_AND_ASSIGN(const Rendezvous::Value sent, Sent(send.rendezvous(), KeyOfEdge()));
  EXPECT_TRUE(sent.dead);
}

TEST(SendTest, TheKeyNamesTheIterationOfALoop) {
  KernelCall send("_Send", {Tensor::Scalar(3.f)}, Edge());
  send.SetIteration(/*frame=*/5, /*iteration=*/2);
  ASSERT_OK(send.Run());
  ASSERT_OK_AND_ASSIGN(const Rendezvous::Value sent, Sent(send.rendezvous(), KeyOfEdge(5, 2)));
  ExpectTensor(sent.tensor, Tensor::Scalar(3.f));
}

TEST(SendTest, FailsWithoutARendezvousAndWithTheErrorOfTheStep) {
  KernelCall lonely("_Send", {Tensor::Scalar(3.f)}, Edge());
  lonely.step().rendezvous = nullptr;
  EXPECT_THAT(lonely.Run(), Fails(StatusCode::kInternal, "without rendezvous"));
  KernelCall aborted("_Send", {Tensor::Scalar(3.f)}, Edge());
  aborted.rendezvous().Abort(absl::UnavailableError("task 1 is lost"));
  EXPECT_THAT(aborted.Run(), Fails(StatusCode::kUnavailable, "task 1 is lost"));
}

TEST(SendTest, AVariableThatNoDeviceKeepsIsSentByValue) {
  Variable v("v", kFloat);
  KernelCall early("_Send", {&v}, Edge());
  EXPECT_THAT(early.Run(), Fails(StatusCode::kFailedPrecondition, "uninitialized value v"));
  v.Assign(Tensor::Scalar(4.f));
  KernelCall send("_Send", {&v}, Edge());
  ASSERT_OK(send.Run());
  v.Assign(Tensor::Scalar(5.f));
  ASSERT_OK_AND_ASSIGN(const Rendezvous::Value sent, Sent(send.rendezvous(), KeyOfEdge()));
  ExpectTensor(sent.tensor, Tensor::Scalar(4.f));
}

// Keeps the variables that are sent.
class VariableBox final : public LocalRendezvous, public VariableRendezvous {
 public:
  absl::Status SendVariable(const std::string& key, std::shared_ptr<const Variable> variable) override {
    variables[key] = std::move(variable);
    return absl::OkStatus();
  }
  std::map<std::string, std::shared_ptr<const Variable>> variables;
};

TEST(SendTest, AVariableOfTheDeviceIsSentAsSuch) {
  Device device(*DeviceName::Parse(kPsDevice), &TestDevice().intra_op_pool());
  const auto v = std::make_shared<Variable>("v", kFloat);
  v->Assign(Tensor::Scalar(4.f));
  ASSERT_OK(device.resources().Create("", "v", v));
  VariableBox box;
  KernelCall send("_Send", {v.get()}, Edge(), device);
  send.step().rendezvous = &box;
  ASSERT_OK(send.Run());
  EXPECT_EQ(box.variables[KeyOfEdge()], v);
  // Another variable of the same name, which the device does not keep.
  Variable other("v", kFloat);
  other.Assign(Tensor::Scalar(9.f));
  VariableBox by_value;
  KernelCall send_other("_Send", {&other}, Edge(), device);
  send_other.step().rendezvous = &by_value;
  ASSERT_OK(send_other.Run());
  EXPECT_TRUE(by_value.variables.empty());
  ASSERT_OK_AND_ASSIGN(const Rendezvous::Value sent, Sent(by_value, KeyOfEdge()));
  ExpectTensor(sent.tensor, Tensor::Scalar(9.f));
}

TEST(RecvTest, WaitsForTheValue) {
  for (const char* op : {"_Recv", "_HostRecv", "Recv"}) {
    KernelCall recv(op, {}, FloatEdge());
    recv.Start();
    EXPECT_FALSE(recv.ended());
    ASSERT_OK(recv.rendezvous().Send(KeyOfEdge(), {.tensor = Tensor::Scalar(3.f)}));
    ASSERT_OK(recv.Wait());
    ExpectTensor(recv.output(0).tensor, Tensor::Scalar(3.f));
    EXPECT_FALSE(recv.output(0).dead);
  }
}

TEST(RecvTest, TakesAValueThatIsThereAlready) {
  KernelCall recv("_Recv", {}, FloatEdge());
  recv.SetIteration(/*frame=*/5, /*iteration=*/2);
  ASSERT_OK(recv.rendezvous().Send(KeyOfEdge(5, 1), {.tensor = Tensor::Scalar(1.f)}));
  ASSERT_OK(recv.rendezvous().Send(KeyOfEdge(5, 2), {.tensor = Tensor::Scalar(2.f)}));
  ASSERT_OK(recv.Run());
  ExpectTensor(recv.output(0).tensor, Tensor::Scalar(2.f));
}

TEST(RecvTest, ADeadValueMakesADeadOutput) {
  KernelCall recv("_Recv", {}, FloatEdge());
  ASSERT_OK(recv.rendezvous().Send(KeyOfEdge(), {.dead = true}));
  ASSERT_OK(recv.Run());
  EXPECT_TRUE(recv.output(0).dead);
}

TEST(RecvTest, RefusesAnotherType) {
  KernelCall recv("_Recv", {}, FloatEdge());
  ASSERT_OK(recv.rendezvous().Send(KeyOfEdge(), {.tensor = Tensor::Scalar<int32_t>(3)}));
  EXPECT_THAT(recv.Run(), Fails(StatusCode::kInternal, "received int32, expected float"));
}

TEST(RecvTest, EndsWithTheStep) {
  KernelCall recv("_Recv", {}, FloatEdge());
  recv.Start();
  EXPECT_FALSE(recv.ended());
  recv.rendezvous().Abort(absl::UnavailableError("task 0 is lost"));
  EXPECT_THAT(recv.Wait(), Fails(StatusCode::kUnavailable, "task 0 is lost"));
  KernelCall lonely("_Recv", {}, FloatEdge());
  lonely.step().rendezvous = nullptr;
  EXPECT_THAT(lonely.Run(), Fails(StatusCode::kInternal, "without rendezvous"));
}

}  // namespace
}  // namespace thalweg
