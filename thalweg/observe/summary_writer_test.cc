// SPDX-License-Identifier: Apache-2.0
#include "thalweg/observe/summary_writer.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/fault_file_system_testlib.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/graph/scope.h"
#include "thalweg/observe/chrome_trace.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/proto/event.pb.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class SummaryWriterTest : public FolderTest {
 protected:
  std::vector<tensorflow::Event> Read(const std::string& path) {
    std::vector<tensorflow::Event> events;
    auto reader = data::RecordReader::Open(path);
    EXPECT_TRUE(reader.ok());
    std::string record;
    while (reader.ok() && *(*reader)->Next(&record)) EXPECT_TRUE(events.emplace_back().ParseFromString(record));
    return events;
  }
};

TEST_F(SummaryWriterTest, WritesEvents) {
  ASSERT_OK_AND_ASSIGN(auto writer, SummaryWriter::Open(folder_ + "/logs", {.suffix = ".worker_1"}));
  EXPECT_THAT(writer->path(), testing::MatchesRegex(".*/logs/events.out.tfevents.[0-9]{10}[.].+[.]worker_1"));
  ASSERT_OK(writer->AddScalar("loss", 0.5f, 3));
  ASSERT_OK(writer->AddHistogram("weights", Tensor::Vector<float>({1, 2, 2}), 4));
  tensorflow::Summary summary;
  summary.add_value()->set_tag("given");
  ASSERT_OK(writer->AddSummary(Tensor::Scalar<std::string>(summary.SerializeAsString()), 5));
  Graph graph;
  Const(graph.root().WithOpName("c"), 1);
  ASSERT_OK(writer->AddGraph(graph));
  ASSERT_OK(writer->Flush());
  const std::vector<tensorflow::Event> events = Read(writer->path());
  ASSERT_EQ(events.size(), 5);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].step(), 3);
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.5f);
  EXPECT_GT(events[1].wall_time(), 1.7e9);
  EXPECT_EQ(events[2].summary().value(0).histo().num(), 3);
  EXPECT_EQ(events[3].summary().value(0).tag(), "given");
  tensorflow::GraphDef def;
  ASSERT_TRUE(def.ParseFromString(events[4].graph_def()));
  EXPECT_EQ(def.node(0).name(), "c");
  ASSERT_OK(WriteGraphText(graph, folder_));
  EXPECT_THAT(*PosixFileSystem().ReadFileToString(folder_ + "/graph.pbtxt"), HasSubstr("name: \"c\""));
}

TEST_F(SummaryWriterTest, RefusesWhatIsNoSummary) {
  ASSERT_OK_AND_ASSIGN(auto writer, SummaryWriter::Open(folder_));
  EXPECT_TRUE(absl::IsDataLoss(writer->AddSummary(Tensor::Scalar<float>(1), 0)));
  EXPECT_TRUE(absl::IsDataLoss(writer->AddSummary(Tensor::Scalar<std::string>("\xff"), 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(writer->AddHistogram("h", Tensor::Vector<float>({NAN}), 0)));
  ASSERT_OK(writer->Close());
  ASSERT_OK(writer->Close());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer->AddScalar("x", 1, 0)));
}

TEST_F(SummaryWriterTest, NoTwoWritersShareAFile) {
  ASSERT_OK_AND_ASSIGN(auto one, SummaryWriter::Open(folder_));
  ASSERT_OK_AND_ASSIGN(auto two, SummaryWriter::Open(folder_));
  EXPECT_NE(one->path(), two->path());
  EXPECT_EQ(PosixFileSystem().ListDirectory(folder_)->size(), 2);
}

TEST_F(SummaryWriterTest, AFullDiskIsReported) {
  FaultFileSystem disk(PosixFileSystem());
  ASSERT_OK_AND_ASSIGN(auto writer, SummaryWriter::Open(folder_, {.files = &disk}));
  disk.FailWritesFrom(1);
  EXPECT_TRUE(absl::IsResourceExhausted(writer->AddScalar("x", 1, 0)));
  disk.ClearFaults();
  EXPECT_TRUE(absl::IsResourceExhausted(writer->AddScalar("x", 1, 0))) << "the file ends there";
}

TEST(ChromeTraceTest, EveryNodeIsABar) {
  RunMetadata metadata;
  tensorflow::StepStats& stats = *metadata.mutable_proto().mutable_step_stats();
  tensorflow::DeviceStepStats& device = *stats.add_dev_stats();
  device.set_device("/job:ps/task:0");
  tensorflow::NodeExecStats& node = *device.add_node_stats();
  node.set_node_name("dense/\"MatMul\"");
  node.set_timeline_label("dense/MatMul = MatMul(x, w)");
  node.set_all_start_nanos(2'000'500);
  node.set_all_end_rel_nanos(1500);
  node.set_thread_id(3);
  EXPECT_EQ(ChromeTrace(metadata),
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"/job:ps/task:0\"}},\n"
            "{\"ph\":\"X\",\"cat\":\"Op\",\"name\":\"MatMul\",\"pid\":0,\"tid\":3,\"ts\":2000.500,\"dur\":1.500,"
            "\"args\":{\"name\":\"dense/\\\"MatMul\\\"\",\"label\":\"dense/MatMul = MatMul(x, w)\"}}\n]}\n");
  EXPECT_EQ(ChromeTrace(RunMetadata()), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n]}\n");
}

}  // namespace
}  // namespace thalweg
