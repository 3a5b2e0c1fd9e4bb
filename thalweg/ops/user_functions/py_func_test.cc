// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/kernel_call_testlib.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/kernel/script_functions.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using Results = absl::StatusOr<std::vector<Tensor>>;

// A program whose functions are in C++. Calls of others wait until they are cancelled.
class Program final : public ScriptFunctions {
 public:
  std::string Describe() const override { return "functions of a test"; }
  void Call(ScriptCall call, Cancellation& cancellation, Done done) override {
    calls.push_back(call);
    if (const auto it = functions.find(call.token); it != functions.end()) {
      ScriptResults results;
      for (uint32_t i = 0; i < call.repeat; ++i) results.push_back(it->second(call.inputs));
      return done(std::move(results));
    }
    waiting = std::make_shared<Done>(std::move(done));
    const auto id = cancellation.Register([waiting = waiting](const absl::Status& why) { (*waiting)({why}); });
    if (!id.has_value()) (*waiting)({cancellation.status()});
  }

  std::map<std::string, std::function<Results(const std::vector<Tensor>&)>> functions;
  std::vector<ScriptCall> calls;
  std::shared_ptr<Done> waiting;
};

class PyFuncTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(ScriptFunctions::Install(program_, device_)); }

  std::unique_ptr<KernelCall> Make(const std::string& token, const std::vector<CallArg>& inputs,
                                   const std::vector<DType>& types, const std::string& op = "PyFunc") {
    return std::make_unique<KernelCall>(op, std::vector<CallArg>{CallArg::List(inputs)},
                                        std::vector<AttrArg>{{"token", token}, {"Tout", types}}, device_);
  }

  const std::shared_ptr<Program> program_ = std::make_shared<Program>();
  Device device_{*DeviceName::Parse("/job:worker/replica:0/task:1/device:CPU:0"), &TestDevice().intra_op_pool()};
};

TEST_F(PyFuncTest, CallsTheFunctionOfItsToken) {
  program_->functions["swap"] = [](const std::vector<Tensor>& x) { return Results({x[1], x[0]}); };
  for (const std::string op : {"PyFunc", "PyFuncStateless", "EagerPyFunc"}) {
    const auto call =
        Make("swap", {Tensor::Scalar(2.5f), Tensor::Vector<std::string>({"a", "b"})}, {kString, kFloat}, op);
    ASSERT_OK(call->Run());
    ExpectTensor(call->output(0).tensor, Tensor::Vector<std::string>({"a", "b"}));
    ExpectTensor(call->output(1).tensor, Tensor::Scalar(2.5f));
    EXPECT_EQ(program_->calls.back().eager, op == "EagerPyFunc");
  }
}

TEST_F(PyFuncTest, NeedsNoInputsAndNoResults) {
  program_->functions["note"] = [](const std::vector<Tensor>& x) { return Results(x); };
  ASSERT_OK(Make("note", {}, {})->Run());
  EXPECT_EQ(program_->calls.size(), 1);
}

TEST_F(PyFuncTest, TheResultsMustBeThoseThatTheNodeDeclares) {
  program_->functions["one"] = [](const std::vector<Tensor>&) { return Results({Tensor::Scalar(1.f)}); };
  EXPECT_THAT(Make("one", {}, {kFloat, kFloat})->Run(),
              Fails(StatusCode::kInvalidArgument, "one returns 1 values, but expects to see 2 values."));
  EXPECT_THAT(Make("one", {}, {})->Run(),
              Fails(StatusCode::kInvalidArgument, "one returns 1 values, but expects to see 0 values."));
  EXPECT_THAT(Make("one", {}, {kInt64})->Run(),
              Fails(StatusCode::kInvalidArgument, "0-th value returned by one is float, but expects int64"));
}

TEST_F(PyFuncTest, TakesResultsThatWereMadeAhead) {
  float next = 0;
  program_->functions["next"] = [&](const std::vector<Tensor>&) { return Results({Tensor::Scalar(++next)}); };
  const auto ahead = std::make_shared<ScriptReadAhead>();
  ahead->wanted = 3;
  for (float expected = 1; expected < 6; ++expected) {
    const auto call = Make("next", {}, {kFloat});
    ASSERT_OK(
        call->step().resources->Create<ScriptReadAhead>(ScriptFunctions::kContainer, ScriptReadAhead::kName, ahead));
    ASSERT_OK(call->Run());
    ExpectTensor(call->output(0).tensor, Tensor::Scalar(expected));
  }
  EXPECT_EQ(program_->calls.size(), 2);
  EXPECT_EQ(program_->calls[0].repeat, 3);
}

TEST_F(PyFuncTest, PassesTheErrorOfTheFunctionOn) {
  program_->functions["fails"] = [](const std::vector<Tensor>&) {
    return Results(absl::UnknownError("ZeroDivisionError: division by zero"));
  };
  EXPECT_THAT(Make("fails", {}, {kFloat})->Run(), Fails(StatusCode::kUnknown, "ZeroDivisionError"));
}

TEST_F(PyFuncTest, WaitsForTheFunctionAndEndsWithTheStep) {
  const auto slow = Make("slow", {Tensor::Scalar(1.f)}, {kFloat});
  slow->Start();
  EXPECT_FALSE(slow->ended());
  (*program_->waiting)({Results({Tensor::Scalar(7.f)})});
  ASSERT_OK(slow->Wait());
  ExpectTensor(slow->output(0).tensor, Tensor::Scalar(7.f));

  const auto cancelled = Make("slow", {Tensor::Scalar(1.f)}, {kFloat});
  cancelled->Start();
  EXPECT_FALSE(cancelled->ended());
  cancelled->cancellation().Cancel(absl::DeadlineExceededError("the step had 50ms"));
  EXPECT_THAT(cancelled->Wait(), Fails(StatusCode::kDeadlineExceeded, "the step had 50ms"));
}

TEST_F(PyFuncTest, ATaskWithoutAProgramSaysWhatToDo) {
  Device other(*DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
  KernelCall call("PyFunc", {CallArg::List({})}, {{"token", "pyfunc_3"}, {"Tout", std::vector<DType>{kFloat}}}, other);
  const absl::Status status = call.Run();
  EXPECT_THAT(status, Fails(StatusCode::kFailedPrecondition, "Node 'PyFunc' calls the Python function pyfunc_3"));
  EXPECT_THAT(status, Fails(StatusCode::kFailedPrecondition, "/job:ps/replica:0/task:0/device:CPU:0 has no program"));
  EXPECT_THAT(status, Fails(StatusCode::kFailedPrecondition, "`thalweg python`"));
}

}  // namespace
}  // namespace thalweg
