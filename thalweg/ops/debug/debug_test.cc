// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <sstream>

#include "thalweg/base/folder_testlib.h"
#include "thalweg/ops/debug/debug_dump.h"
#include "thalweg/ops/support/array_ops_testlib.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg {
namespace {

const Tensor kX = Tensor::Vector<float>({NAN, -INFINITY, -2, 0, 3});

TEST(DebugTest, NumericSummary) {
  const auto out = RunOp("DebugNumericSummary", {kX});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Vector<double>({1, 5, 1, 1, 1, 1, 1, 0, -2, 3, 1. / 3, 38. / 9, 1, 1, 5}));
  EXPECT_EQ((*RunOp("DebugNanCount", {kX}))[0].scalar<int64_t>(), 1);
  EXPECT_FALSE(RunOp("DebugNumericSummary", {Tensor::Vector<std::string>({"a"})}).ok());
}

TEST(DebugTest, DumpsAreWhereTheDebuggerLooks) {
  const TempFolder folder;
  const auto out = RunOp("DebugIdentity", {kX},
                         {{"device_name", "/job:worker/replica:0/task:0/device:CPU:0"},
                          {"tensor_name", "a/b:1"},
                          {"debug_urls", std::vector<std::string>{"file://" + folder.path()}}});
  ASSERT_TRUE(out.ok()) << out.status();
  const std::string parent = folder.path() + "/_tfdbg_device_,job_worker,replica_0,task_0,device_CPU_0/a";
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1);
  EXPECT_THAT(files[0], testing::HasSubstr("/a/b_1_DebugIdentity_"));
  std::ifstream in(files[0], std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  tensorflow::Event event;
  ASSERT_TRUE(event.ParseFromString(bytes.str()));
  EXPECT_EQ(event.summary().value(0).node_name(), "a/b:1:DebugIdentity");
  ExpectTensor(*TensorFromProto(event.summary().value(0).tensor()), kX);
}

TEST(DebugTest, OtherUrlsAreRefused) {
  const auto out = RunOp("DebugIdentity", {kX}, {{"debug_urls", std::vector<std::string>{"grpc://localhost:1"}}});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(RunOp("DebugIdentity", {kX}, {{"tensor_name", "a:b"}}).ok());
}

}  // namespace
}  // namespace thalweg
