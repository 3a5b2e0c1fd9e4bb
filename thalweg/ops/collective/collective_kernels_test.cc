// SPDX-License-Identifier: Apache-2.0
// What the kernels of collectives give to the task and make of its results. The members are devices of this test, which
// stands in for their tasks. client/collective_test.cc runs the same ops on clusters.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/kernel/kernel_call_testlib.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using absl::StatusCode;

// Computes a collective when all members have come. Ranks are in the order of the devices' names.
class OneProcess final : public Collectives {
 public:
  std::string Describe() const override { return "collectives of a test"; }

  // The first half of the elements is the member's own.
  std::optional<SharedValues> AllocateShared(int32_t, const Device&, DType dtype, const Shape& shape) override {
    if (!shares_memory) return std::nullopt;
    shared.emplace_back(dtype, shape);
    return SharedValues{shared.back(), 0, shape.num_elements() / 2};
  }
  void Run(CollectiveCall call, Cancellation& cancellation, Done done) override {
    calls.push_back(call);
    for (const CollectiveCall::Apart& apart : call.apart) {
      const int64_t bytes = apart.elements.TotalBytes();
      std::memcpy(Bytes(call.values) + apart.begin * (bytes / apart.elements.num_elements()), apart.elements.raw(),
                  bytes);
    }
    const auto key = std::make_tuple(call.group_key, call.instance_key, call.frame, call.iteration);
    auto& group = groups_[key];
    auto& member = group[call.device->name()];
    member = std::make_shared<Member>(Member{std::move(call), std::move(done)});
    if (group.size() == static_cast<size_t>(member->call.group_size)) {
      Finish(std::exchange(group, {}));
      return;
    }
    const auto id = cancellation.Register([member = member](const absl::Status& why) { member->done(why); });
    if (!id.has_value()) member->done(cancellation.status());
  }
  void End(const EndCollectives& which) override {
    ended = absl::StrCat("group ", which.group_key, ", instances ", which.first_instance, " to ", which.last_instance,
                         ": ", which.why);
  }

  bool shares_memory = false;
  std::vector<Tensor> shared;
  std::vector<CollectiveCall> calls;
  std::string ended;

 private:
  struct Member {
    CollectiveCall call;
    Done done;
  };
  using Group = std::map<std::string, std::shared_ptr<Member>>;

  static void Finish(const Group& group) {
    std::vector<CollectiveCall*> calls;
    for (const auto& [device, member] : group) calls.push_back(&member->call);
    Compute(calls);
    for (const auto& [device, member] : group) member->done(absl::OkStatus());
  }
  static char* Bytes(const Tensor& t) { return static_cast<char*>(t.raw()); }

  static void Compute(const std::vector<CollectiveCall*>& calls) {
    const CollectiveCall& first = *calls[0];
    const int64_t bytes = first.own.has_value() ? first.own.TotalBytes() : first.values.TotalBytes();
    const auto n = static_cast<int64_t>(calls.size());
    switch (first.kind) {
      case CollectiveKind::kReduce:
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kBarrier:
        for (int64_t i = 1; i < n; ++i) {
          first.merge(first.values.raw(), calls[i]->values.raw(), first.values.num_elements());
        }
        if (first.finish != nullptr) first.finish(first.values.raw(), first.values.num_elements(), calls.size());
        for (int64_t i = 0; i < n; ++i) {
          if (first.kind == CollectiveKind::kReduceScatter) {
            std::memcpy(calls[i]->own.raw(), Bytes(first.values) + i * bytes, bytes);
          } else if (i > 0) {
            std::memcpy(calls[i]->values.raw(), first.values.raw(), bytes);
          }
        }
        return;
      case CollectiveKind::kBroadcast:
        for (const CollectiveCall* source : calls) {
          for (const CollectiveCall* to : calls) {
            if (source->is_source && to != source) std::memcpy(to->values.raw(), source->values.raw(), bytes);
          }
        }
        return;
      case CollectiveKind::kGather:
        for (const CollectiveCall* to : calls) {
          for (int64_t i = 0; i < n; ++i) std::memcpy(Bytes(to->values) + i * bytes, calls[i]->own.raw(), bytes);
        }
        return;
      case CollectiveKind::kAllToAll:
        for (int64_t to = 0; to < n; ++to) {
          for (int64_t from = 0; from < n; ++from) {
            std::memcpy(Bytes(calls[to]->values) + from * (bytes / n), Bytes(calls[from]->own) + to * (bytes / n),
                        bytes / n);
          }
        }
        return;
    }
  }

  std::map<std::tuple<int32_t, int32_t, uint64_t, int64_t>, Group> groups_;
};

using Inputs = std::vector<CallArg>;

Tensor Key(int32_t k) { return Tensor::Scalar(k); }

class CollectiveKernelsTest : public testing::Test {
 protected:
  CollectiveKernelsTest() {
    for (int i = 0; i < 3; ++i) {
      devices_.push_back(
          std::make_unique<Device>(*DeviceName::Parse(absl::StrCat("/job:worker/replica:0/task:", i, "/device:CPU:0")),
                                   &TestDevice().intra_op_pool()));
    }
    EXPECT_TRUE(step_resources_.Create<Collectives>("", Collectives::kName, process_).ok());
  }

  // The call of a member that has the collectives of this test.
  std::unique_ptr<KernelCall> Make(int member, const std::string& op, const Inputs& inputs,
                                   std::vector<AttrArg> attrs) {
    auto call = std::make_unique<KernelCall>(op, inputs, std::move(attrs), *devices_[member]);
    call->step().resources = &step_resources_;
    return call;
  }
  // Attributes of the first forms, for a group of two.
  static std::vector<AttrArg> Keys(std::vector<AttrArg> more = {}, int size = 2) {
    more.insert(more.end(), {{"group_size", size}, {"group_key", 5}, {"instance_key", 1}});
    return more;
  }
  static std::vector<AttrArg> Reduction(const std::string& merge, const std::string& finish = "Id") {
    return Keys({{"merge_op", merge}, {"final_op", finish}, {"subdiv_offsets", std::vector<int64_t>{}}});
  }

  // Output 0 of both members of a group of two.
  std::vector<Tensor> RunPair(const std::string& op, const Inputs& first, const Inputs& second,
                              const std::vector<AttrArg>& attrs) {
    const auto a = Make(0, op, first, attrs), b = Make(1, op, second, attrs);
    a->Start();
    EXPECT_TRUE(!a->made().ok() || !a->ended()) << "it does not wait for the other member";
    b->Start();
    for (KernelCall* call : {a.get(), b.get()}) {
      const absl::Status status = call->Wait();
      EXPECT_TRUE(status.ok()) << op << ": " << status;
      if (!status.ok()) return {};
    }
    return {a->output(0).tensor, b->output(0).tensor};
  }
  // Both members must get the same.
  Tensor RunSame(const std::string& op, const Tensor& first, const Tensor& second, const std::vector<AttrArg>& attrs) {
    const std::vector<Tensor> out = RunPair(op, {first}, {second}, attrs);
    if (out.empty()) return {};
    ExpectTensor(out[1], out[0], 0);
    return out[0];
  }
  // The error of one member.
  absl::Status Error(const std::string& op, const Inputs& inputs, const std::vector<AttrArg>& attrs) {
    return Make(0, op, inputs, attrs)->Run();
  }

  const std::shared_ptr<OneProcess> process_ = std::make_shared<OneProcess>();
  std::vector<std::unique_ptr<Device>> devices_;
  ResourceManager step_resources_;
};

template <typename T>
Tensor VectorOf(const std::vector<float>& values) {
  Tensor t(DTypeOf<T>, Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) t.flat<T>()[i] = static_cast<T>(values[i]);
  return t;
}

template <typename T>
class CollectiveReduceTypesTest : public CollectiveKernelsTest {};
using ReducedTypes = testing::Types<float, double, Half, BFloat16, int32_t, int64_t>;
TYPED_TEST_SUITE(CollectiveReduceTypesTest, ReducedTypes);

TYPED_TEST(CollectiveReduceTypesTest, CombinesEveryElement) {
  const Tensor x = VectorOf<TypeParam>({1, -6, 8, 3}), y = VectorOf<TypeParam>({5, 2, -4, 3});
  const auto reduce = [&](const char* merge, const char* finish = "Id") {
    return this->RunSame("CollectiveReduce", x, y, this->Reduction(merge, finish));
  };
  ExpectTensor(reduce("Add"), VectorOf<TypeParam>({6, -4, 4, 6}), 0);
  ExpectTensor(reduce("Mul"), VectorOf<TypeParam>({5, -12, -32, 9}), 0);
  ExpectTensor(reduce("Max"), VectorOf<TypeParam>({5, 2, 8, 3}), 0);
  ExpectTensor(reduce("Min"), VectorOf<TypeParam>({1, -6, -4, 3}), 0);
  ExpectTensor(reduce("Add", "Div"), VectorOf<TypeParam>({3, -2, 2, 3}), 0);
  ExpectTensor(x, VectorOf<TypeParam>({1, -6, 8, 3}), 0);  // inputs stay as they are
}

TEST_F(CollectiveKernelsTest, ANaNOfAnyMemberIsPassedOn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* merge : {"Add", "Mul", "Max", "Min"}) {
    const Tensor out = RunSame("CollectiveReduce", Tensor::Vector<float>({nan, 1, 2}),
                               Tensor::Vector<float>({1, nan, 2}), Reduction(merge));
    ExpectTensor(out.Rows(0, 2), Tensor::Vector<float>({nan, nan}));
  }
}

TEST_F(CollectiveKernelsTest, SumsOfIntegersWrap) {
  const int32_t max = std::numeric_limits<int32_t>::max(), min = std::numeric_limits<int32_t>::min();
  ExpectTensor(RunSame("CollectiveReduce", Tensor::Scalar(max), Tensor::Scalar(1), Reduction("Add")),
               Tensor::Scalar(min));
  ExpectTensor(RunSame("CollectiveReduce", Tensor::Scalar(max), Tensor::Scalar(2), Reduction("Mul")),
               Tensor::Scalar(-2));
}

TEST_F(CollectiveKernelsTest, AnEmptyTensorIsReduced) {
  const Tensor none = Tensor::Zeros(kFloat, {0, 3});
  ExpectTensor(RunSame("CollectiveReduce", none, none, Reduction("Add", "Div")), none);
}

TEST_F(CollectiveKernelsTest, ResultsLieInSharedMemoryIfThereIsSome) {
  process_->shares_memory = true;
  const Tensor x = Tensor::Vector<float>({1, 2}), y = Tensor::Vector<float>({3, 5});
  const Tensor sum = RunSame("CollectiveReduce", x, y, Reduction("Add"));
  ExpectTensor(sum, Tensor::Vector<float>({4, 7}));
  EXPECT_TRUE(sum.SharesBufferWith(process_->shared[0]));
  ASSERT_EQ(process_->calls[0].apart.size(), 1) << "the member's own elements are not copied";
  EXPECT_TRUE(process_->calls[0].apart[0].elements.SharesBufferWith(x));
  process_->shared.clear();
  const Tensor all = RunSame("CollectiveGather", x, y, Keys({{"shape", PartialShape()}}));
  ExpectTensor(all, Tensor::Vector<float>({1, 2, 3, 5}));
  EXPECT_TRUE(all.SharesBufferWith(process_->shared[0]));
}

TEST_F(CollectiveKernelsTest, ABucketIsOneCollectiveOfAllInputs) {
  const auto bucket = [&](int member, float x) {
    const CallArg tensors =
        CallArg::List({Tensor::Scalar(x), Tensor::Zeros(kFloat, {0, 2}), Tensor::Of<float>({1, 2}, {10 * x, 20 * x})});
    return Make(member, "ThalwegCollectiveReduceBucket", {tensors},
                Keys({{"merge_op", "Add"}, {"final_op", "Div"}, {"Twire", kFloat}}));
  };
  const auto a = bucket(0, 1), b = bucket(1, 3);
  a->Start();
  b->Start();
  for (KernelCall* call : {a.get(), b.get()}) {
    ASSERT_OK(call->Wait());
    ExpectTensor(call->output(0).tensor, Tensor::Scalar(2.f));
    ExpectTensor(call->output(1).tensor, Tensor::Zeros(kFloat, {0, 2}));
    ExpectTensor(call->output(2).tensor, Tensor::Of<float>({1, 2}, {20, 40}));
  }
  EXPECT_EQ(process_->calls.size(), 2);
}

TEST_F(CollectiveKernelsTest, ABucketTravelsInASmallerType) {
  for (const DType wire : {kHalf, kBfloat16}) {
    const std::vector<AttrArg> attrs = Keys({{"merge_op", "Add"}, {"final_op", "Div"}, {"Twire", wire}});
    // The sum of these exceeds the range of half; the mean does not, because inputs are divided before they travel.
    const auto out = RunPair("ThalwegCollectiveReduceBucket", {CallArg::List({Tensor::Vector<float>({57344, 1, -2})})},
                             {CallArg::List({Tensor::Vector<float>({57344, 3, 4})})}, attrs);
    ASSERT_EQ(out.size(), 2);
    ExpectTensor(out[0], Tensor::Vector<float>({57344, 2, 1}), 0);
    ExpectTensor(out[1], out[0], 0);
    EXPECT_EQ(process_->calls.back().values.dtype(), wire);
  }
}

TEST_F(CollectiveKernelsTest, OnlySumsOfFloatTravelInASmallerType) {
  const auto error = [&](const Tensor& x, const char* merge, DType wire) {
    return Error("ThalwegCollectiveReduceBucket", {CallArg::List({x})},
                 Keys({{"merge_op", merge}, {"final_op", "Id"}, {"Twire", wire}}));
  };
  const std::string only = "only sums of float can, as half or bfloat16";
  EXPECT_THAT(error(Tensor::Scalar(1.0), "Add", kHalf), Fails(StatusCode::kInvalidArgument, only));
  EXPECT_THAT(error(Tensor::Scalar(1.f), "Max", kHalf), Fails(StatusCode::kInvalidArgument, only));
  EXPECT_THAT(error(Tensor::Scalar(1.f), "Add", kInt32), Fails(StatusCode::kInvalidArgument, only));
}

TEST_F(CollectiveKernelsTest, GatherJoinsTheRowsInTheOrderOfRanks) {
  const std::vector<AttrArg> attrs = Keys({{"shape", PartialShape()}});
  ExpectTensor(
      RunSame("CollectiveGather", Tensor::Of<int32_t>({1, 2}, {1, 2}), Tensor::Of<int32_t>({1, 2}, {3, 4}), attrs),
      Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(Error("CollectiveGather", {Tensor::Scalar(1.f)}, attrs),
              Fails(StatusCode::kInvalidArgument, "input should have rank > 0"));
  EXPECT_THAT(Error("CollectiveGather", {Tensor::Zeros(kFloat, {int64_t{1} << 62, 0})}, attrs),
              Fails(StatusCode::kInvalidArgument, "more than a tensor can hold"));
}

TEST_F(CollectiveKernelsTest, ABroadcastGoesFromTheSourceToTheOthers) {
  const PartialShape shape({2});
  const auto send = Make(0, "CollectiveBcastSend", {Tensor::Vector<double>({3, 4})}, Keys({{"shape", shape}}, 3));
  std::vector<std::unique_ptr<KernelCall>> recvs;
  for (int i = 1; i < 3; ++i) {
    recvs.push_back(Make(i, "CollectiveBcastRecv", {}, Keys({{"T", kDouble}, {"shape", shape}}, 3)));
    recvs.back()->Start();
  }
  send->Start();
  ASSERT_OK(send->Wait());
  ExpectTensor(send->output(0).tensor, Tensor::Vector<double>({3, 4}));
  for (const auto& recv : recvs) {
    ASSERT_OK(recv->Wait());
    ExpectTensor(recv->output(0).tensor, Tensor::Vector<double>({3, 4}));
  }
}

TEST_F(CollectiveKernelsTest, ABroadcastChecksItsShape) {
  EXPECT_THAT(Error("CollectiveBcastSend", {Tensor::Vector<float>({3, 4})}, Keys({{"shape", PartialShape({3})}})),
              Fails(StatusCode::kInternal,
                    "Declared shape of op CollectiveBcastSend: Broadcast(1) does not match shape of "
                    "input: [3] vs. [2]"));
  EXPECT_THAT(Error("CollectiveBcastRecv", {}, Keys({{"T", kFloat}, {"shape", PartialShape({-1})}})),
              Fails(StatusCode::kInvalidArgument, "The shape to receive must be fully known, got [?]"));
  const auto error_of_v2 = [&](const Tensor& shape) {
    return Error("CollectiveBcastRecvV2", {Key(2), Key(5), Key(1), shape}, {{"T", kFloat}});
  };
  EXPECT_THAT(error_of_v2(Tensor::Of<int32_t>({1, 1}, {2})),
              Fails(StatusCode::kInvalidArgument, "shape must be a vector, got [1,1]"));
  EXPECT_THAT(error_of_v2(Tensor::Vector<int64_t>({-2})), Fails(StatusCode::kInvalidArgument, "-2"));
}

TEST_F(CollectiveKernelsTest, PartsGoToTheirMembers) {
  const auto attrs = std::vector<AttrArg>{};
  const auto inputs = [](const Tensor& x) { return Inputs{x, Key(2), Key(5), Key(1), CallArg::List({})}; };
  const auto out = RunPair("CollectiveAllToAllV2", inputs(Tensor::Vector<float>({1, 2})),
                           inputs(Tensor::Vector<float>({11, 12})), attrs);
  ASSERT_EQ(out.size(), 2);
  ExpectTensor(out[0], Tensor::Vector<float>({1, 11}));
  ExpectTensor(out[1], Tensor::Vector<float>({2, 12}));
  EXPECT_THAT(Error("CollectiveAllToAllV2", inputs(Tensor::Scalar(1.f)), attrs),
              Fails(StatusCode::kInvalidArgument, "should have rank > 0"));
  EXPECT_THAT(Error("CollectiveAllToAllV2", inputs(Tensor::Vector<float>({1, 2, 3})), attrs),
              Fails(StatusCode::kInvalidArgument, "size (3) must be the same as the group size (2)"));
}

TEST_F(CollectiveKernelsTest, EveryMemberKeepsItsPartOfTheSum) {
  const std::vector<AttrArg> attrs{{"merge_op", "Add"}, {"final_op", "Div"}};
  const auto inputs = [](const Tensor& x) { return Inputs{x, Key(2), Key(5), Key(1), CallArg::List({})}; };
  const Tensor x = Tensor::Of<float>({4, 1}, {1, 2, 3, 4});
  const auto out =
      RunPair("CollectiveReduceScatterV2", inputs(x), inputs(Tensor::Of<float>({4, 1}, {5, 6, 7, 8})), attrs);
  ASSERT_EQ(out.size(), 2);
  ExpectTensor(out[0], Tensor::Of<float>({2, 1}, {3, 4}));
  ExpectTensor(out[1], Tensor::Of<float>({2, 1}, {5, 6}));
  ExpectTensor(x, Tensor::Of<float>({4, 1}, {1, 2, 3, 4}));
  EXPECT_THAT(Error("CollectiveReduceScatterV2", inputs(Tensor::Vector<float>({1, 2, 3})), attrs),
              Fails(StatusCode::kInvalidArgument, "must be a multiple of the group size 2, got shape [3]"));
  EXPECT_THAT(Error("CollectiveReduceScatterV2", inputs(Tensor::Scalar(1.f)), attrs),
              Fails(StatusCode::kInvalidArgument, "got shape []"));
}

TEST_F(CollectiveKernelsTest, KeysThatAreInputsMustBeScalars) {
  const std::vector<AttrArg> attrs{{"merge_op", "Add"}, {"final_op", "Id"}};
  const Tensor x = Tensor::Scalar(1.f), two = Tensor::Vector<int32_t>({1, 2});
  const auto error = [&](const Tensor& size, const Tensor& group, const Tensor& instance) {
    return Error("CollectiveReduceV2", {x, size, group, instance, CallArg::List({})}, attrs);
  };
  EXPECT_THAT(error(two, Key(5), Key(1)), Fails(StatusCode::kInvalidArgument, "on input group_size, got [2]"));
  EXPECT_THAT(error(Key(2), two, Key(1)), Fails(StatusCode::kInvalidArgument, "on input group_key, got [2]"));
  EXPECT_THAT(error(Key(2), Key(5), two), Fails(StatusCode::kInvalidArgument, "on input instance_key, got [2]"));
  for (const int32_t size : {0, -3}) {
    EXPECT_THAT(
        error(Key(size), Key(5), Key(1)),
        Fails(StatusCode::kInvalidArgument, absl::StrCat("group_size must be positive integer but got ", size)));
  }
  EXPECT_THAT(Error("CollectiveGather", {Tensor::Vector<float>({1})}, Keys({{"shape", PartialShape()}}, 0)),
              Fails(StatusCode::kInvalidArgument, "group_size must be positive integer but got 0"));
  EXPECT_TRUE(process_->calls.empty());
}

TEST_F(CollectiveKernelsTest, TheTaskGetsTheKeysTheIterationAndTheTimeout) {
  std::vector<AttrArg> attrs = Reduction("Add");
  attrs.emplace_back("timeout_seconds", 1.5f);
  const auto call = Make(2, "CollectiveReduce", {Tensor::Scalar(1.f)}, attrs);
  call->SetIteration(/*frame=*/8, /*iteration=*/3);
  call->Start();
  ASSERT_EQ(process_->calls.size(), 1);
  const CollectiveCall& seen = process_->calls[0];
  EXPECT_EQ(seen.node, "CollectiveReduce");
  EXPECT_EQ(seen.device, devices_[2].get());
  EXPECT_EQ(seen.group_key, 5);
  EXPECT_EQ(seen.group_size, 2);
  EXPECT_EQ(seen.instance_key, 1);
  EXPECT_EQ(seen.frame, 8);
  EXPECT_EQ(seen.iteration, 3);
  EXPECT_EQ(seen.timeout, absl::Seconds(1.5));
  const auto patient = Make(2, "CollectiveReduce", {Tensor::Scalar(1.f)}, Reduction("Add"));
  patient->Start();
  EXPECT_EQ(process_->calls.back().timeout, absl::InfiniteDuration());
}

TEST_F(CollectiveKernelsTest, AMemberThatWaitsEndsWithItsStep) {
  const auto call = Make(0, "CollectiveReduce", {Tensor::Scalar(1.f)}, Reduction("Add"));
  call->Start();
  EXPECT_FALSE(call->ended());
  call->cancellation().Cancel(absl::UnavailableError("task 1 is lost"));
  EXPECT_THAT(call->Wait(), Fails(StatusCode::kUnavailable, "task 1 is lost"));
}

TEST_F(CollectiveKernelsTest, WithoutAServerThereIsAnError) {
  KernelCall call("CollectiveReduce", {Tensor::Scalar(1.f)}, Reduction("Add"));
  EXPECT_THAT(call.Run(), Fails(StatusCode::kFailedPrecondition, "CollectiveReduce needs a session on a server"));
}

TEST_F(CollectiveKernelsTest, CollectiveEndTellsTheTask) {
  const std::vector<AttrArg> attrs{{"group_key", 5}, {"first_instance", 2}, {"last_instance", 9}, {"why", "again"}};
  ASSERT_OK(Make(0, "ThalwegCollectiveEnd", {}, attrs)->Run());
  EXPECT_EQ(process_->ended, "group 5, instances 2 to 9: again");
  KernelCall alone("ThalwegCollectiveEnd", {}, attrs);  // in a session without a server
  ASSERT_OK(alone.Run());
}

class CommunicatorTest : public CollectiveKernelsTest {
 protected:
  std::unique_ptr<KernelCall> MakeCommunicator(int member, int32_t group, int32_t rank, int32_t size,
                                               float timeout = 0) {
    return Make(member, "CollectiveInitializeCommunicator", {Key(group), Key(rank), Key(size)},
                {{"timeout_seconds", timeout}});
  }
  Inputs ArgsOf(const Tensor& x, const Tensor& communicator) {
    return {x, communicator, Tensor::Zeros(kInt32, {0, 0})};
  }
};

TEST_F(CommunicatorTest, NamesTheGroupAndNumbersTheInstances) {
  std::vector<Tensor> handles;
  for (int i = 0; i < 2; ++i) {
    const auto made = MakeCommunicator(i, 6, i, 2, /*timeout=*/2.5f);
    ASSERT_OK(made->Run());
    handles.push_back(made->output(0).tensor);
  }
  for (int instance = 0; instance < 2; ++instance) {
    const auto out = RunPair("CollectiveReduceV3", ArgsOf(Tensor::Scalar(1.f), handles[0]),
                             ArgsOf(Tensor::Scalar(4.f), handles[1]), {{"reduction", "Add"}});
    ASSERT_EQ(out.size(), 2);
    ExpectTensor(out[0], Tensor::Scalar(5.f));
    for (int member = 0; member < 2; ++member) {
      const CollectiveCall& call = process_->calls[2 * instance + member];
      EXPECT_EQ(call.group_key, 6);
      EXPECT_EQ(call.instance_key, instance);
      EXPECT_EQ(call.expected_rank, member);
      EXPECT_EQ(call.timeout, absl::Seconds(2.5));
    }
  }
}

TEST_F(CommunicatorTest, RefusesRanksAndSizesOutOfRange) {
  EXPECT_THAT(MakeCommunicator(0, 6, 0, 0)->Run(), Fails(StatusCode::kInvalidArgument, "group_size must be positive"));
  EXPECT_THAT(MakeCommunicator(0, 6, -1, 2)->Run(), Fails(StatusCode::kInvalidArgument, "rank must be non-negative"));
  EXPECT_THAT(MakeCommunicator(0, 6, 2, 2)->Run(), Fails(StatusCode::kInvalidArgument, "got 2 >= 2"));
  const auto vector =
      Make(0, "CollectiveInitializeCommunicator", {Key(6), Tensor::Vector<int32_t>({0, 1}), Key(2)}, {});
  EXPECT_THAT(vector->Run(), Fails(StatusCode::kInvalidArgument, "Unexpected dimensions on input rank"));
  ASSERT_OK(MakeCommunicator(0, 6, 1, 2)->Run());
  EXPECT_THAT(MakeCommunicator(0, 6, 1, 2)->Run(), Fails(StatusCode::kAlreadyExists, "6:r0001"));
}

TEST_F(CommunicatorTest, MustBelongToTheStep) {
  const auto error = [&](const Tensor& handle) {
    return Error("CollectiveReduceV3", ArgsOf(Tensor::Scalar(1.f), handle), {{"reduction", "Add"}});
  };
  EXPECT_THAT(error(Tensor::Scalar(ResourceHandle{.container = "collective_op_group", .name = "6:r0000"})),
              Fails(StatusCode::kNotFound, "6:r0000"));
  EXPECT_THAT(error(Tensor::Zeros(kResource, {2})), Fails(StatusCode::kInvalidArgument, "must be one resource handle"));
  const auto made = MakeCommunicator(0, 6, 0, 1);
  ASSERT_OK(made->Run());
  EXPECT_THAT(
      Error("CollectiveReduceV3", {Tensor::Scalar(1.f), made->output(0).tensor, Tensor::Of<int32_t>({1, 1}, {0})},
            {{"reduction", "Add"}}),
      Fails(StatusCode::kUnimplemented, "Group assignments"));
}

TEST(CollectiveAssignGroupTest, FindsTheRowOfTheDevice) {
  const Tensor table = Tensor::Of<int32_t>({2, 2}, {0, 2, 3, 1});
  for (const auto& [device, key] : std::map<int32_t, int32_t>{{0, 7}, {2, 7}, {3, 8}, {1, 8}}) {
    ASSERT_OK_AND_ASSIGN(const auto out, RunOp("CollectiveAssignGroupV2", {table, Key(device), Key(7)}));
    ExpectTensor(out[0], Key(2));
    ExpectTensor(out[1], Key(key));
  }
}

TEST(CollectiveAssignGroupTest, RefusesTablesWithoutTheDevice) {
  const Tensor table = Tensor::Of<int32_t>({2, 2}, {0, 2, 3, 1});
  const auto error = [](const Tensor& t, const Tensor& device, const Tensor& base) {
    return RunOp("CollectiveAssignGroupV2", {t, device, base}).status();
  };
  EXPECT_THAT(error(table, Key(4), Key(1)), Fails(StatusCode::kInvalidArgument, "device_index 4 is not found"));
  EXPECT_THAT(error(table, Key(1), Key(0)), Fails(StatusCode::kInvalidArgument, "reserved group_key = 0"));
  EXPECT_THAT(error(table, Key(1), Key(-1)), Fails(StatusCode::kInvalidArgument, "group_id = 1"));
  EXPECT_THAT(error(Tensor::Of<int32_t>({1, 2}, {5, 0}), Key(0), Key(1)),
              Fails(StatusCode::kInvalidArgument, "within [0, number of devices): 5"));
  EXPECT_THAT(error(Tensor::Vector<int32_t>({0, 1}), Key(0), Key(1)),
              Fails(StatusCode::kInvalidArgument, "group_assignment must be a 2-d Tensor"));
  EXPECT_THAT(error(table, Tensor::Vector<int32_t>({0}), Key(1)),
              Fails(StatusCode::kInvalidArgument, "device_index must be a scalar"));
  EXPECT_THAT(error(table, Key(0), Tensor::Vector<int32_t>({0})),
              Fails(StatusCode::kInvalidArgument, "base_key must be a scalar"));
}

}  // namespace
}  // namespace thalweg
