// SPDX-License-Identifier: Apache-2.0
// The kernels that calls of functions leave behind. runtime/functions_test.cc and runtime/while_test.cc run the calls.
#include <limits>
#include <string>
#include <vector>

#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/kernel_call_testlib.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using absl::StatusCode;

bool ToBool(Tensor x) {
  const auto result = RunOp("ToBool", {std::move(x)});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() && (*result)[0].scalar<bool>();
}

TEST(ToBoolTest, AScalarIsTrueIfItIsNotZeroOrEmpty) {
  EXPECT_FALSE(ToBool(Tensor::Scalar(0.f)));
  EXPECT_FALSE(ToBool(Tensor::Scalar(-0.f)));
  EXPECT_TRUE(ToBool(Tensor::Scalar(-0.5f)));
  EXPECT_TRUE(ToBool(Tensor::Scalar(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_FALSE(ToBool(Tensor::Scalar<int64_t>(0)));
  EXPECT_TRUE(ToBool(Tensor::Scalar<int64_t>(int64_t{1} << 40)));
  EXPECT_FALSE(ToBool(Tensor::Scalar(false)));
  EXPECT_TRUE(ToBool(Tensor::Scalar(true)));
  EXPECT_FALSE(ToBool(Tensor::Scalar<std::string>("")));
  EXPECT_TRUE(ToBool(Tensor::Scalar<std::string>("0")));
}

TEST(ToBoolTest, OtherTensorsAreTrueIfTheyHaveElements) {
  EXPECT_TRUE(ToBool(Tensor::Vector<float>({0})));
  EXPECT_FALSE(ToBool(Tensor::Zeros(kFloat, {0})));
  EXPECT_FALSE(ToBool(Tensor::Zeros(kString, {3, 0})));
  EXPECT_TRUE(ToBool(Tensor::Vector<std::string>({""})));
}

TEST(FakeParamTest, HasTheTypeAndTheShape) {
  const auto made = [](const PartialShape& shape) {
    return (*RunOp("FakeParam", {}, {{"dtype", kDouble}, {"shape", shape}}))[0];
  };
  EXPECT_EQ(made(PartialShape({2, 3})).shape().ToString(), "[2,3]");
  EXPECT_EQ(made(PartialShape({2, 3})).dtype(), kDouble);
  // The size of an unknown dimension does not matter: the value is never read.
  EXPECT_EQ(made(PartialShape({2, PartialShape::kUnknown})).num_elements(), 0);
}

TEST(DeviceIndexTest, IsTheNumberOfTheTypeOfTheDevice) {
  const auto index = [](const std::vector<std::string>& names) {
    return (*RunOp("DeviceIndex", {}, {{"device_names", names}}))[0].scalar<int32_t>();
  };
  EXPECT_EQ(index({"CPU", "GPU"}), 0);
  EXPECT_EQ(index({"TPU", "GPU", "CPU"}), 2);
  EXPECT_EQ(index({"TPU", "GPU"}), 2);
  EXPECT_EQ(index({}), 0);
}

TEST(RuntimeInfoTest, Answers) {
  EXPECT_TRUE((*RunOp("IsTensorFloat32Enabled", {}))[0].scalar<bool>());
  const ResourceHandle handle{.device = "d", .container = "c", .name = "n"};
  EXPECT_FALSE((*RunOp("IsResourceHandleRefCounting", {Tensor::Scalar(handle)}))[0].scalar<bool>());
  EXPECT_EQ((*RunOp("MakeWeakResourceHandle", {Tensor::Scalar(handle)}))[0].scalar<ResourceHandle>(), handle);
}

// A function that the runtime has not inlined has no kernel.
TEST(FunctionalOpsTest, CallsHaveNoKernels) {
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase",
                         "While", "StatelessWhile", "For", "RemoteCall", "SymbolicGradient"}) {
    EXPECT_FALSE(KernelRegistry::Global().Has(op, "CPU")) << op;
  }
}

class MapDefunErrorsTest : public testing::Test {
 protected:
  // A call of x -> x, in which the function's body is `body`.
  static absl::Status Call(const std::vector<CallArg>& arguments, const std::string& body,
                           const std::vector<PartialShape>& shapes = {PartialShape()}) {
    const std::vector<DType> types(arguments.size(), kFloat);
    tensorflow::AttrValue function;
    function.mutable_func()->set_name("f");
    std::vector<AttrArg> attrs{{"Targuments", types},
                               {"Tcaptured", std::vector<DType>{}},
                               {"output_types", std::vector<DType>{kFloat}},
                               {"output_shapes", shapes},
                               AttrArg("f", function)};
    if (!body.empty()) attrs.emplace_back("_graph_of_f", body);
    KernelCall call("MapDefun", {CallArg::List(arguments), CallArg::List({})}, std::move(attrs));
    return call.Run();
  }
  static std::string IdentityBody() {
    Graph graph;
    const Scope s = graph.root();
    const Output x = s.Add("_Arg", {}, {{"T", kFloat}, {"index", 0}});
    s.Add("_Retval", {x}, {{"index", 0}});
    EXPECT_TRUE(s.ok()) << s.status();
    return graph.Export().SerializeAsString();
  }
};

TEST_F(MapDefunErrorsTest, ArgumentsMustHaveRowsAndTheSameNumber) {
  EXPECT_THAT(Call({Tensor::Scalar(1.f)}, IdentityBody()),
              Fails(StatusCode::kInvalidArgument, "All inputs must have rank at least 1. Input 0 has a rank of 0."));
  EXPECT_THAT(Call({Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({1, 2, 3})}, IdentityBody()),
              Fails(StatusCode::kInvalidArgument,
                    "Input 1 has leading dimension 3, while all previous inputs have leading dimension 2"));
}

TEST_F(MapDefunErrorsTest, NeedsAFunctionAndShapesThatFit) {
  const Tensor x = Tensor::Vector<float>({1, 2});
  EXPECT_THAT(Call({x}, ""), Fails(StatusCode::kNotFound, "no body for the function of attr 'f'"));
  EXPECT_THAT(Call({x}, "no graph"), Fails(StatusCode::kInvalidArgument, "is not a GraphDef"));
  EXPECT_THAT(Call({x}, IdentityBody(), {PartialShape(), PartialShape()}),
              Fails(StatusCode::kInvalidArgument, "1 output_types and 2 output_shapes"));
}

}  // namespace
}  // namespace thalweg
