// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/io/reader.h"

#include <set>

#include "thalweg/data/tfrecord.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/io_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Gives "file:0", "file:1", ... as many as the file's name says; "bad" cannot be
// read.
class CountSource final : public RecordSource {
 public:
  absl::Status Start(const std::string& file) override {
    if (file == "bad") return absl::NotFoundError("no such file");
    left_ = std::stoi(file);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(Record* record) override {
    if (left_ == 0) return false;
    record->key = record->value = absl::StrCat(left_--);
    return true;
  }
  void Stop() override { left_ = 0; }

 private:
  int left_ = 0;
};

class ReaderTest : public testing::Test {
 protected:
  void Put(const std::string& file) {
    queue_->Enqueue({Tensor::Scalar(file)}, {}, [](const absl::Status& s) { EXPECT_TRUE(s.ok()) << s; });
  }
  void Read(int64_t n, const WaitingCaller& caller = {}) {
    reader_->Read(n, queue_, caller, [this](const absl::Status& s, std::vector<Record> records) {
      std::string text = s.ok() ? "" : std::string(s.ToString());
      for (const Record& r : records) absl::StrAppend(&text, r.value, " ");
      log_.push_back(text);
    });
  }

  std::shared_ptr<Queue> queue_ = *Queue::Make(
      {.kind = "FIFOQueue", .name = "names", .types = {kString}, .shapes = {PartialShape(Shape())}}, FifoStore());
  std::shared_ptr<Reader> reader_ = std::make_shared<Reader>("TestReader 't'", std::make_unique<CountSource>());
  std::vector<std::string> log_;
};

TEST_F(ReaderTest, ReadsFileAfterFile) {
  for (const char* file : {"2", "0", "3"}) Put(file);
  Read(1);
  Read(5);  // to the end of the file
  Read(2);
  Read(2);
  EXPECT_THAT(log_, ElementsAre("2 ", "1 ", "3 2 ", "1 "));
  EXPECT_EQ(reader_->records_produced(), 5);
  EXPECT_EQ(reader_->files_completed(), 3);
}

TEST_F(ReaderTest, ThousandsOfEmptyFiles) {
  Read(1);
  for (int i = 0; i < 20000; ++i) Put("0");
  EXPECT_TRUE(log_.empty());
  for (int i = 0; i < 20000; ++i) queue_->Enqueue({Tensor::Scalar<std::string>("0")}, {}, [](const absl::Status&) {});
  Put("1");
  EXPECT_THAT(log_, ElementsAre("1 "));
  EXPECT_EQ(reader_->files_completed(), 40000);
}

TEST_F(ReaderTest, WaitsAndIsCancelled) {
  Cancellation first, second;
  Read(1, {.cancellation = &first});
  Read(1, {.cancellation = &second});
  Read(1);
  second.Cancel(absl::CancelledError("why"));
  EXPECT_THAT(log_, ElementsAre("CANCELLED: Read operation was cancelled"));
  first.Cancel(absl::CancelledError("why"));
  EXPECT_THAT(log_.back(), "CANCELLED: Dequeue operation was cancelled");
  Put("1");
  EXPECT_THAT(log_.back(), "1 ");
  EXPECT_EQ(log_.size(), 3);
}

TEST_F(ReaderTest, AFileThatCannotBeReadIsPassedOver) {
  Put("bad");
  Put("1");
  Read(1);
  Read(1);
  queue_->Close(false, {}, [](const absl::Status&) {});
  Read(1);
  EXPECT_EQ(log_[0], "NOT_FOUND: no such file");
  EXPECT_EQ(log_[1], "1 ");
  EXPECT_THAT(log_[2], HasSubstr("OUT_OF_RANGE: FIFOQueue 'names' is closed and has insufficient elements"));
  reader_->Reset({}, [](const absl::Status& s) { EXPECT_TRUE(s.ok()); });
  EXPECT_EQ(reader_->records_produced(), 0);
  std::string state;
  reader_->Save({}, &state, [](const absl::Status& s) { EXPECT_TRUE(absl::IsUnimplemented(s)); });
}

TEST(Files, WrittenReadAndFound) {
  Graph graph;
  const Scope s = graph.root();
  const std::string folder = testing::TempDir() + "files_test/deep/";
  const Output name = Const(s, folder + "a.txt");
  const Output write = WriteFile(s, name, Const(s, std::string("contents")));
  const Output read = ReadFile(s.WithControlDependencies({write}), name);
  const Output found = MatchingFiles(s.WithControlDependencies({write}), Const(s, folder + "?.t*"));
  const auto values = Evaluate(graph, {}, {read, found}, TestDevice());
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectTensor((*values)[0], Tensor::Scalar<std::string>("contents"));
  ExpectTensor((*values)[1], Tensor::Vector<std::string>({folder + "a.txt"}));
  EXPECT_THAT(RunOp("ReadFile", {Tensor::Scalar<std::string>("/does/not/exist")}).status().ToString(),
              HasSubstr("NOT_FOUND"));
  EXPECT_THAT(RunOp("ReadFile", {Tensor::Vector<std::string>({"a", "b"})}).status().ToString(),
              HasSubstr("INVALID_ARGUMENT"));
}

TEST(RecordInputTest, EveryEpochHasAllRecords) {
  const std::string folder = testing::TempDir();
  for (int file = 0; file < 3; ++file) {
    auto writer = data::RecordWriter::Open(absl::StrCat(folder, "/record_input.", file)).value();
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(writer->Write(absl::StrCat(file, "/", i)).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  Graph graph;
  const auto node = [&](absl::string_view pattern, int batch) {
    return graph.root().Add("RecordInput", {},
                            {{"file_pattern", absl::StrCat(folder, "/", pattern)},
                             {"batch_size", batch},
                             {"file_buffer_size", 5},
                             {"file_shuffle_shift_ratio", 0.33}});
  };
  // Two epochs in one batch.
  const auto result = RunNode(*node("record_input.*", 24), {}, TestDevice());
  ASSERT_TRUE(result.ok()) << result.status();
  const absl::Span<const std::string> records = (*result)[0].flat<std::string>();
  const std::set<std::string> first(records.begin(), records.begin() + 12), second(records.begin() + 12, records.end());
  EXPECT_EQ(first.size(), 12);
  EXPECT_EQ(first, second);
  EXPECT_EQ(RunNode(*node("nowhere.*", 2), {}, TestDevice()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunNode(*node("record_input.*", -2), {}, TestDevice()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg
