// SPDX-License-Identifier: Apache-2.0
// Values are those of TensorFlow 2.15.1 on the same seeds.
#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/random_ops.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

// Calls one kernel of `op` `calls` times.
std::vector<Tensor> Calls(int calls, absl::string_view op, const std::vector<Tensor>& inputs,
                          std::vector<AttrArg> attrs) {
  Graph graph;
  const Scope s = graph.root();
  std::vector<OpInput> args;
  std::vector<int32_t> indices;
  for (const Tensor& input : inputs) {
    indices.push_back(static_cast<int32_t>(args.size()));
    args.push_back(Output(s.Add("_Arg", {}, {{"T", input.dtype()}, {"index", indices.back()}})));
  }
  Node* node = s.Add(op, args, std::move(attrs));
  EXPECT_TRUE(s.ok()) << s.status();
  if (node == nullptr) return {};
  auto kernel = KernelRegistry::Global().Make(*node, TestDevice());
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  std::vector<Tensor> results;
  for (int call = 0; call < calls && kernel.ok(); ++call) {
    std::vector<Slot> slots(inputs.size() + 1);
    for (size_t i = 0; i < inputs.size(); ++i) slots[i].tensor = inputs[i];
    Step step;
    const KernelContext::Call site{.inputs = indices.data(),
                                   .num_inputs = static_cast<int32_t>(inputs.size()),
                                   .first_output = static_cast<int32_t>(inputs.size()),
                                   .num_outputs = 1,
                                   .node = node,
                                   .device = &TestDevice()};
    KernelContext context(&step, slots.data(), &site);
    const absl::Status status = (*kernel)->Compute(context);
    EXPECT_TRUE(status.ok()) << status;
    results.push_back(slots.back().tensor);
  }
  return results;
}

Tensor Sizes(int64_t n) { return Tensor::Vector<int64_t>({n}); }

// The first and third call of a kernel with seeds 87654321 and 7, exactly.
template <typename T>
void ExpectSequence(absl::string_view op, std::initializer_list<T> first, std::initializer_list<T> third) {
  const auto calls = Calls(3, op, {Sizes(7)}, {{"dtype", DTypeOf<T>}, {"seed", 87654321}, {"seed2", 7}});
  ASSERT_EQ(calls.size(), 3u);
  ExpectTensor(calls[0], Tensor::Vector<T>(first), 1e-7);
  ExpectTensor(calls[2], Tensor::Vector<T>(third), 1e-7);
}
Half H(uint16_t bits) { return Half::FromBits(bits); }
BFloat16 B(uint16_t bits) { return BFloat16::FromBits(bits); }

// The last elements of the third call for 100003 elements: threads share it.
void ExpectEnd(absl::string_view op, std::initializer_list<float> last) {
  const auto calls = Calls(3, op, {Sizes(100003)}, {{"dtype", kFloat}, {"seed", 87654321}, {"seed2", 7}});
  ASSERT_EQ(calls.size(), 3u);
  ExpectTensor(calls[2].Rows(100000, 100003), Tensor::Vector<float>(last), 1e-7);
}

TEST(RandomUniform, IsTensorFlows) {
  ExpectSequence<float>("RandomUniform",
                        {0.48394096f, 0.50620306f, 0.25514376f, 0.12474227f, 0.9330101f, 0.6646093f, 0.22922444f},
                        {0.37897778f, 0.32187104f, 0.1626271f, 0.14481163f, 0.603199f, 0.7684405f, 0.97872126f});
  ExpectSequence<double>("RandomUniform",
                         {0.8715283824246434, 0.041150670730960126, 0.46408134636396414, 0.8337960817743599,
                          0.1528288341148254, 0.49167280105730193, 0.6192186123991679},
                         {0.03182262800982416, 0.30101707790943166, 0.8255920610734084, 0.8297709197391547,
                          0.5297204532545221, 0.46684797388412713, 0.28128237834733727});
  ExpectSequence<Half>("RandomUniform", {H(0x371c), H(0x3a86), H(0x3068), H(0x3b1c), H(0x3300), H(0x37ac), H(0x3a74)},
                       {H(0x38b0), H(0x3a24), H(0x33b8), H(0x34c0), H(0x3680), H(0x2c20), H(0x397a)});
  ExpectSequence<BFloat16>("RandomUniform",
                           {B(0x3f0e), B(0x3f06), B(0x3dd0), B(0x3de0), B(0x3f40), B(0x3f56), B(0x3ee8)},
                           {B(0x3f30), B(0x3e10), B(0x3f6e), B(0x3ec0), B(0x3e80), B(0x3f04), B(0x3ef4)});
  ExpectEnd("RandomUniform", {0.42210138f, 0.3904184f, 0.08575356f});
}

TEST(RandomStandardNormal, IsTensorFlows) {
  ExpectSequence<float>("RandomStandardNormal",
                        {-0.046945684f, -1.2039024f, 1.1668352f, 1.1706204f, -0.32007024f, -0.19035114f, -1.4242879f},
                        {1.2533989f, -0.6079035f, 1.504601f, 1.169943f, -0.9987514f, 0.116240725f, 0.086608574f});
  ExpectSequence<double>("RandomStandardNormal",
                         {0.1340862416655279, 0.5069857732211678, -1.0712938719508789, 0.6226718985830445,
                          0.10136637694310557, -1.9356131555272154, 0.9382441693615889},
                         {2.4921074753065424, -0.827378795194106, -0.5429673295704994, 0.297481897797224,
                          0.23312314434339823, -1.1029348648584925, 0.10586920451677144});
  ExpectSequence<Half>("RandomStandardNormal",
                       {H(0xaa02), H(0xbcd1), H(0x3cab), H(0x3caf), H(0xb51f), H(0xb217), H(0xbdb2)},
                       {H(0x3d03), H(0xb8dd), H(0x3e05), H(0x3cae), H(0xbbfd), H(0x2f70), H(0x2d8b)});
  ExpectSequence<BFloat16>("RandomStandardNormal",
                           {B(0xbd40), B(0xbf9a), B(0x3f95), B(0x3f96), B(0xbea4), B(0xbe43), B(0xbfb6)},
                           {B(0x3fa0), B(0xbf1c), B(0x3fc1), B(0x3f96), B(0xbf80), B(0x3dee), B(0x3db1)});
  ExpectEnd("RandomStandardNormal", {0.83452946f, -1.0141895f, -2.019407f});
}

TEST(TruncatedNormal, IsTensorFlows) {
  ExpectSequence<float>("TruncatedNormal",
                        {-0.046945684f, -1.2039024f, 1.1668352f, 1.1706204f, 0.7166261f, 0.5711335f, -0.9265398f},
                        {1.2533989f, -0.6079035f, 1.504601f, 1.169943f, -0.69252235f, -0.88020915f, 0.21210328f});
  ExpectSequence<double>("TruncatedNormal",
                         {0.1340862416655279, 0.5069857732211678, -0.3353157984791955, 1.0255299605888106,
                          1.4898406195903886, 0.7052722463957878, 0.3898651165627329},
                         {-0.827378795194106, -0.5429673295704994, -0.550087594069907, -0.9773827812914716,
                          -0.30717293229076686, 1.5823547484698304, -0.5300034716321447});
  ExpectSequence<Half>("TruncatedNormal", {H(0xaa02), H(0xbcd1), H(0x3cab), H(0x3caf), H(0x39bc), H(0x3892), H(0xbb6a)},
                       {H(0x3d03), H(0xb8dd), H(0x3e05), H(0x3cae), H(0xb98a), H(0xbb0b), H(0x32ca)});
  ExpectEnd("TruncatedNormal", {-0.24655199f, -0.2196601f, -0.59503955f});
}

TEST(RandomUniformInt, IsTensorFlows) {
  const std::vector<AttrArg> seeds = {{"seed", 3}, {"seed2", 9}};
  auto calls = Calls(3, "RandomUniformInt", {Sizes(7), Tensor::Scalar<int32_t>(0), Tensor::Scalar<int32_t>(10)}, seeds);
  ExpectTensor(calls[0], Tensor::Vector<int32_t>({2, 6, 3, 7, 9, 4, 0}));
  ExpectTensor(calls[2], Tensor::Vector<int32_t>({0, 3, 9, 9, 2, 9, 0}));
  calls = Calls(1, "RandomUniformInt",
                {Sizes(3), Tensor::Scalar<int32_t>(-2000000000), Tensor::Scalar<int32_t>(2000000000)}, seeds);
  ExpectTensor(calls[0], Tensor::Vector<int32_t>({-936236238, -1143663364, -76368547}));
  calls = Calls(3, "RandomUniformInt",
                {Sizes(7), Tensor::Scalar<int64_t>(-2000000000), Tensor::Scalar<int64_t>(2000000000)}, seeds);
  ExpectTensor(calls[2], Tensor::Vector<int64_t>(
                             {-832870822, -909904897, 1420123426, 406514908, 354596951, 580299489, 467320178}));
}

TEST(RandomShuffle, IsTensorFlows) {
  const auto calls =
      Calls(3, "RandomShuffle", {Tensor::Vector<int32_t>({0, 1, 2, 3, 4, 5, 6})}, {{"seed", 3}, {"seed2", 9}});
  ExpectTensor(calls[0], Tensor::Vector<int32_t>({5, 0, 1, 4, 3, 2, 6}));
  ExpectTensor(calls[2], Tensor::Vector<int32_t>({4, 3, 2, 6, 1, 0, 5}));
}

TEST(RandomShuffle, MovesRowsOfEveryType) {
  const std::vector<AttrArg> seeds = {{"seed", 3}, {"seed2", 9}};
  const auto rows =
      Calls(1, "RandomShuffle", {Tensor::Of<float>({7, 2}, {0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60})}, seeds);
  ExpectTensor(rows[0], Tensor::Of<float>({7, 2}, {5, 50, 0, 0, 1, 10, 4, 40, 3, 30, 2, 20, 6, 60}));
  const auto strings =
      Calls(1, "RandomShuffle", {Tensor::Vector<std::string>({"0", "1", "2", "3", "4", "5", "6"})}, seeds);
  ExpectTensor(strings[0], Tensor::Vector<std::string>({"5", "0", "1", "4", "3", "2", "6"}));
  // A shuffle of zero or one elements changes nothing.
  ExpectTensor(Calls(1, "RandomShuffle", {Tensor::Scalar(4.0f)}, seeds)[0], Tensor::Scalar(4.0f));
  ExpectTensor(Calls(1, "RandomShuffle", {Tensor::Zeros(kFloat, {0, 3})}, seeds)[0], Tensor::Zeros(kFloat, {0, 3}));
  ExpectTensor(Calls(1, "RandomShuffle", {Tensor::Zeros(kFloat, {3, 0})}, seeds)[0], Tensor::Zeros(kFloat, {3, 0}));
}

TEST(Stateless, IsTensorFlows) {
  const Tensor seed = Tensor::Vector<int64_t>({12345678901, -7});
  const auto floats = [&](absl::string_view op) { return Calls(1, op, {Sizes(7), seed}, {})[0]; };
  ExpectTensor(
      floats("StatelessRandomUniform"),
      Tensor::Vector<float>({0.6280534f, 0.95247245f, 0.4448725f, 0.7787235f, 0.8227798f, 0.6510744f, 0.875448f}),
      1e-7);
  ExpectTensor(floats("StatelessRandomNormal"),
               Tensor::Vector<float>(
                   {-0.28376138f, 0.9218132f, -1.2520951f, 0.22845736f, -0.5077843f, -0.3637149f, -0.47482663f}),
               1e-7);
  ExpectTensor(floats("StatelessTruncatedNormal"),
               Tensor::Vector<float>(
                   {-0.28376138f, 0.9218132f, -1.2520951f, 0.22845736f, -1.1434839f, -1.4859502f, 0.25024247f}),
               1e-7);
  for (const Tensor& small : {Tensor::Vector<int32_t>({3, 9}), Tensor::Vector<int64_t>({3, 9})}) {
    ExpectTensor(Calls(1, "StatelessRandomUniformInt",
                       {Sizes(7), small, Tensor::Scalar<int32_t>(0), Tensor::Scalar<int32_t>(10)}, {})[0],
                 Tensor::Vector<int32_t>({0, 0, 7, 8, 2, 5, 0}));
    ExpectTensor(Calls(1, "StatelessRandomUniformFullInt", {Sizes(3), small}, {{"dtype", kInt32}})[0],
                 Tensor::Vector<int32_t>({-1616092606, -2121883526, -1012875139}));
    ExpectTensor(Calls(1, "StatelessRandomUniformFullInt", {Sizes(2), small}, {})[0],
                 Tensor::Vector<uint64_t>({9333323726297260610u, 16898779847095009405u}));
  }
}

TEST(Multinomial, IsTensorFlows) {
  const float none = -std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::Of<float>({2, 4}, {0, 1, 2, 3, 5, none, 5, 0});
  const auto calls = Calls(3, "Multinomial", {logits, Tensor::Scalar<int32_t>(5)}, {{"seed", 3}, {"seed2", 9}});
  ExpectTensor(calls[0], Tensor::Of<int64_t>({2, 5}, {3, 3, 3, 2, 3, 0, 2, 0, 0, 0}));
  ExpectTensor(calls[1], Tensor::Of<int64_t>({2, 5}, {3, 2, 3, 3, 3, 2, 3, 0, 0, 0}));
  ExpectTensor(calls[2], Tensor::Of<int64_t>({2, 5}, {3, 3, 1, 3, 3, 0, 0, 2, 0, 0}));
  ExpectTensor(Calls(1, "StatelessMultinomial", {logits, Tensor::Scalar<int32_t>(6), Tensor::Vector<int32_t>({3, 9})},
                     {{"output_dtype", kInt32}})[0],
               Tensor::Of<int32_t>({2, 6}, {3, 1, 1, 1, 3, 3, 2, 0, 2, 0, 0, 0}));
  ExpectTensor(Calls(1, "Multinomial", {logits, Tensor::Scalar<int32_t>(0)}, {})[0], Tensor::Zeros(kInt64, {2, 0}));
}

TEST(Multinomial, BadInput) {
  const Tensor logits = Tensor::Of<float>({1, 2}, {0, 1}), one = Tensor::Scalar<int32_t>(1);
  const auto error = [](Tensor l, Tensor n) { return std::string(RunOp("Multinomial", {l, n}).status().message()); };
  EXPECT_THAT(error(logits, Tensor::Scalar<int32_t>(-1)), HasSubstr("num_samples should be nonnegative, got -1"));
  EXPECT_THAT(error(Tensor::Zeros(kFloat, {2, 0}), one), HasSubstr("num_classes should be positive, got 0"));
  EXPECT_FALSE(RunOp("Multinomial", {Tensor::Vector<float>({0, 1}), one}).ok());
  EXPECT_FALSE(RunOp("Multinomial", {logits, Tensor::Vector<int32_t>({1})}).ok());
}

// The key and counter of a seed, given to the V2 op, produce the numbers of the seed.
TEST(Stateless, KeyAndCounter) {
  const Tensor seed = Tensor::Vector<int64_t>({12345678901, -7});
  const auto generator = RunOp("StatelessRandomGetKeyCounterAlg", {seed});
  ASSERT_TRUE(generator.ok()) << generator.status();
  const auto v2 = RunOp("StatelessRandomNormalV2",
                        {Tensor::Vector<int32_t>({7}), (*generator)[0], (*generator)[1], (*generator)[2]});
  const auto v1 = RunOp("StatelessRandomNormal", {Tensor::Vector<int32_t>({7}), seed});
  ASSERT_TRUE(v2.ok()) << v2.status();
  ASSERT_TRUE(v1.ok()) << v1.status();
  ExpectTensor((*v2)[0], (*v1)[0], 0);
  EXPECT_FALSE(RunOp("StatelessRandomNormalV2",
                     {Tensor::Vector<int32_t>({7}), (*generator)[0], (*generator)[1], Tensor::Scalar<int32_t>(2)})
                   .ok());
  EXPECT_FALSE(RunOp("StatelessRandomNormalV2",
                     {Tensor::Vector<int32_t>({7}), (*generator)[1], (*generator)[1], Tensor::Scalar<int32_t>(1)})
                   .ok());
  EXPECT_FALSE(RunOp("StatelessRandomNormalV2",
                     {Tensor::Vector<int32_t>({7}), (*generator)[0], (*generator)[0], Tensor::Scalar<int32_t>(1)})
                   .ok());
}

TEST(Random, WithoutSeedsNodesDiffer) {
  const auto draw = [] { return Calls(1, "RandomUniform", {Sizes(4)}, {{"dtype", kDouble}})[0]; };
  const Tensor a = draw(), b = draw();
  EXPECT_NE(a.data<double>()[0], b.data<double>()[0]);
}

TEST(Random, Moments) {
  const auto normal = Calls(1, "RandomStandardNormal", {Sizes(200000)}, {{"dtype", kFloat}, {"seed", 1}})[0];
  double sum = 0, squares = 0;
  for (const float v : normal.flat<float>()) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 200000, 0, 0.01);
  EXPECT_NEAR(squares / 200000, 1, 0.02);
  const Tensor truncated = Calls(1, "TruncatedNormal", {Sizes(10000)}, {{"dtype", kFloat}, {"seed", 1}})[0];
  for (const float v : truncated.flat<float>()) ASSERT_LT(std::abs(v), 2);
}

TEST(Random, Shapes) {
  EXPECT_EQ(*InferShape("RandomUniform", {{kInt32, {2}}}, {{"dtype", kFloat}}), "[?,?]");
  EXPECT_FALSE(InferShape("RandomUniform", {{kInt32, {2, 2}}}, {{"dtype", kFloat}}).ok());
  const auto empty = RunOp("RandomUniform", {Tensor::Vector<int32_t>({2, 0, 3})}, {{"dtype", kFloat}});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ((*empty)[0].shape(), Shape({2, 0, 3}));
}

TEST(Random, BadInput) {
  const auto error = [](absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
    return std::string(RunOp(op, std::move(inputs), std::move(attrs)).status().message());
  };
  EXPECT_THAT(error("RandomUniform", {Tensor::Vector<int32_t>({-1})}, {{"dtype", kFloat}}),
              HasSubstr("Dimension -1 must be >= 0"));
  EXPECT_FALSE(
      RunOp("RandomUniform", {Tensor::Vector<int64_t>({int64_t{1} << 40, int64_t{1} << 40})}, {{"dtype", kFloat}})
          .ok());
  EXPECT_THAT(
      error("RandomUniformInt", {Tensor::Vector<int32_t>({1}), Tensor::Scalar<int32_t>(3), Tensor::Scalar<int32_t>(3)}),
      HasSubstr("Need minval < maxval, got 3 >= 3"));
  EXPECT_FALSE(RunOp("StatelessRandomUniform", {Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({3})}).ok());
  EXPECT_FALSE(RunOp("StatelessRandomUniform", {Tensor::Scalar<int32_t>(1), Tensor::Vector<int32_t>({3, 4})}).ok());
}

TEST(RandomTest, BinomialBadInput) {
  const auto run = [](const Tensor& shape, const Tensor& counts, const Tensor& probs) {
    return RunOp("StatelessRandomBinomial", {shape, Tensor::Vector<int32_t>({1, 2}), counts, probs});
  };
  const Tensor shape = Tensor::Vector<int32_t>({4, 2}), count = Tensor::Vector<double>({10, 1e300}),
               p = Tensor::Scalar(0.5);
  EXPECT_TRUE(run(shape, count, p).ok());
  EXPECT_FALSE(run(Tensor::Vector<int32_t>({2, 4}), count, p).ok());
  EXPECT_FALSE(run(Tensor::Vector<int32_t>({-1, 2}), count, p).ok());
  EXPECT_FALSE(run(shape, count, Tensor::Vector<double>({1, 1, 1})).ok());
  const auto odd = run(shape, Tensor::Vector<double>({NAN, INFINITY}), p);
  EXPECT_EQ((*odd)[0].data<int64_t>()[0], 0);
}

}  // namespace
}  // namespace thalweg
