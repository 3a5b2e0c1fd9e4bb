// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/pipeline.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/data/cifar10.h"
#include "thalweg/data/csv.h"
#include "thalweg/data/example.h"
#include "thalweg/data/generated.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/proto/example.pb.h"

namespace thalweg::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PipelineTest : public FolderTest {
 protected:
  // Three files of the lines 0-9, 10-19 and 20-29.
  PipelineOptions Numbers() {
    PipelineOptions o{.format = TextLines(), .decode = DecodeCsv({kInt64}), .batch_size = 4};
    for (int f = 0; f < 3; ++f) {
      std::string lines;
      for (int i = 0; i < 10; ++i) absl::StrAppend(&lines, 10 * f + i, "\n");
      o.files.push_back(Write(absl::StrCat("numbers", f), lines));
    }
    return o;
  }
  // The output: batches as "0,1,2,3".
  static std::vector<std::string> All(const PipelineOptions& options) {
    std::vector<std::string> batches;
    Pipeline pipeline(options);
    for (const Tensors& batch : pipeline) batches.push_back(absl::StrJoin(batch[0].flat<int64_t>(), ","));
    EXPECT_TRUE(pipeline.status().ok()) << pipeline.status();
    return batches;
  }
  static absl::Status Error(const PipelineOptions& options) {
    Pipeline pipeline(options);
    for (const Tensors& batch : pipeline) EXPECT_FALSE(batch.empty());
    EXPECT_EQ(pipeline.Next().status(), pipeline.status());  // it comes again
    return pipeline.status();
  }
};

TEST_F(PipelineTest, InOrder) {
  PipelineOptions o = Numbers();
  EXPECT_THAT(All(o), ElementsAre("0,1,2,3", "4,5,6,7", "8,9,10,11", "12,13,14,15", "16,17,18,19", "20,21,22,23",
                                  "24,25,26,27", "28,29"));
  o.drop_remainder = true;
  o.threads = 5;
  EXPECT_EQ(All(o).size(), 7u);
  o.epochs = 2;  // batches go on across epochs
  o.batch_size = 20;
  EXPECT_THAT(All(o)[1], HasSubstr("28,29,0,1"));
}

TEST_F(PipelineTest, ShuffledByTheSeedAlone) {
  PipelineOptions o = Numbers();
  o.shuffle = 8;
  o.epochs = 3;
  o.batch_size = 30;
  const std::vector<std::string> first = All(o);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_NE(first[0], first[1]);
  for (const std::string& epoch : first) {  // each has every record once
    const std::vector<std::string> numbers = absl::StrSplit(epoch, ',');
    EXPECT_EQ(std::set<std::string>(numbers.begin(), numbers.end()).size(), 30u);
  }
  o.threads = 7;
  o.prefetch = 9;
  EXPECT_EQ(All(o), first);
  o.seed = 2;
  EXPECT_NE(All(o), first);
}

TEST_F(PipelineTest, ShardsHaveEverythingOnce) {
  PipelineOptions o = Numbers();
  o.num_shards = 3;
  o.batch_size = 1;
  o.shuffle = 4;
  std::multiset<std::string> seen;
  for (o.shard = 0; o.shard < 3; ++o.shard) {
    const std::vector<std::string> mine = All(o);
    EXPECT_EQ(mine.size(), 10u);
    seen.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 30u);
}

// Counts the records that are read from files.
class CountedRecords : public RecordSource {
 public:
  CountedRecords(std::unique_ptr<RecordSource> records, std::atomic<int>* count)
      : records_(std::move(records)), count_(count) {}
  absl::StatusOr<bool> Next(std::string* record) override {
    ++*count_;
    return records_->Next(record);
  }

 private:
  const std::unique_ptr<RecordSource> records_;
  std::atomic<int>* const count_;
};

TEST_F(PipelineTest, MemoryIsBounded) {
  PipelineOptions o = Numbers();
  std::atomic<int> read = 0, decoded = 0;
  o.format = [&](const std::string& path, FileSystem& files) -> absl::StatusOr<std::unique_ptr<RecordSource>> {
    ASSIGN_OR_RETURN(std::unique_ptr<RecordSource> records, TextLines()(path, files));
    return std::make_unique<CountedRecords>(std::move(records), &read);
  };
  o.decode = [&](const Record&) -> absl::StatusOr<Tensors> {
    ++decoded;
    return Tensors{Tensor::Scalar<int64_t>(0)};
  };
  o.epochs = 0;
  o.prefetch = 3;
  for (const int shuffle : {0, 8}) {
    read = decoded = 0;
    o.shuffle = shuffle;
    Pipeline pipeline(o);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(pipeline.Next().ok());
      const int taken = 4 * (i + 1 + 3);
      EXPECT_LE(decoded, taken);
      const int records = taken + shuffle;
      EXPECT_LE(read, records + records / 10 + 1);  // and the ends of files, of ten records each
    }
  }
}

TEST_F(PipelineTest, NoRecordsInAnyNumberOfEpochs) {
  PipelineOptions o = Numbers();
  o.files = {Write("empty", "")};
  o.epochs = std::numeric_limits<int64_t>::max();
  static std::string* const log = new std::string;
  SetLogSink([](LogLevel level, const std::string& line) {
    if (level == LogLevel::kWarning) absl::StrAppend(log, line);
  });
  EXPECT_TRUE(All(o).empty());
  SetLogSink(nullptr);
  EXPECT_THAT(*log, HasSubstr("no records for shard 0 of 1 in " + o.files[0]));
  EXPECT_EQ(std::count(log->begin(), log->end(), '\n'), 1) << *log;
}

TEST_F(PipelineTest, FilesByPatterns) {
  PipelineOptions o = Numbers();
  const std::vector<std::string> batches = All(o), files = o.files;
  o.files = {folder_ + "/numbers*"};
  EXPECT_EQ(All(o), batches);
  o.files = {folder_ + "/numbers0", folder_ + "/numbers[12]"};
  EXPECT_EQ(All(o), batches);
  o.files = {files[0], folder_ + "/train-*.csv", files[2]};
  EXPECT_EQ(Error(o).ToString(), "NOT_FOUND: pipeline: no file matches " + folder_ + "/train-*.csv");
  o.files = {Write("numbers[1]", "7\n")};
  EXPECT_THAT(All(o), ElementsAre("7")) << "a file of that name";
  o.files = {folder_ + "/numbers1", folder_ + "/numbers\\[*"};
  o.decode = [](const Record&) -> absl::StatusOr<Tensors> { return InvalidArgument("no"); };
  EXPECT_EQ(Error(o).ToString(), "INVALID_ARGUMENT: " + folder_ + "/numbers1, record 0: no");
}

TEST_F(PipelineTest, ErrorsNameTheFileAndTheRecord) {
  PipelineOptions o = Numbers();
  o.files[1] = Write("bad", "7\nseven\n");
  const absl::Status bad = Error(o);
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()), HasSubstr(o.files[1] + ", record 1: field 0: 'seven' is not a int64"));
  o.files[1] = folder_ + "/missing";
  EXPECT_EQ(Error(o).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Error(o).message()), HasSubstr("/missing, record 0: "));
  o = Numbers();
  o.format = FixedLengthRecords(7);
  o.decode = [](const Record& r) -> absl::StatusOr<Tensors> { return Tensors{Tensor::Scalar<std::string>(r.bytes)}; };
  EXPECT_THAT(std::string(Error(o).message()), HasSubstr("record 2: expected 7 bytes, but the file ends after 6"));
  o = Numbers();
  o.decode = [](const Record& r) -> absl::StatusOr<Tensors> { return Tensors{Tensor(kFloat, {r.number})}; };
  EXPECT_THAT(std::string(Error(o).message()), HasSubstr("tensor 0 of example 1 of the batch is float [1]"));
}

TEST_F(PipelineTest, OptionsThatCannotBe) {
  const auto with = [&](const std::function<void(PipelineOptions&)>& change) {
    PipelineOptions o = Numbers();
    change(o);
    return std::string(Error(o).message());
  };
  EXPECT_THAT(with([](auto& o) { o.batch_size = 0; }), HasSubstr("batch_size"));
  EXPECT_THAT(with([](auto& o) { o.shard = 1; }), HasSubstr("no shard 1 of 1"));
  EXPECT_THAT(with([](auto& o) { o.shuffle = -1; }), HasSubstr("-1"));
  EXPECT_THAT(with([](auto& o) { o.decode = nullptr; }), HasSubstr("decode"));
  EXPECT_THAT(with([](auto& o) { o.files.clear(); }), HasSubstr("pipeline: there are no files"));
  EXPECT_THAT(with([&](auto& o) {
                o.epochs = 0;
                o.files = {Write("empty", ""), Write("empty_too", "")};
              }),
              HasSubstr("no records for shard 0 of 1 in " + folder_ + "/empty and 1 more"));
}

TEST_F(PipelineTest, StopEndsAWait) {
  PipelineOptions o = Numbers();
  Notification never, entered;
  o.threads = 1;
  o.decode = [&](const Record& r) -> absl::StatusOr<Tensors> {
    if (r.number == 0) entered.Notify();
    never.WaitForNotification();
    return Cancelled("");
  };
  Pipeline pipeline(o);
  {
    const Thread stopper("stopper", [&] {
      entered.WaitForNotification();
      pipeline.Stop();
    });
    EXPECT_EQ(pipeline.Next().status().code(), absl::StatusCode::kCancelled);
  }
  never.Notify();
}

TEST_F(PipelineTest, NothingComesAfterStop) {
  PipelineOptions o = Numbers();
  o.threads = 1;
  Notification second;  // the first batch is ready then
  o.decode = [&](const Record& r) -> absl::StatusOr<Tensors> {
    if (r.file == 0 && r.number == 4) second.Notify();
    return Tensors{Tensor::Scalar<int64_t>(0)};
  };
  Pipeline pipeline(o);
  second.WaitForNotification();
  pipeline.Stop();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pipeline.Next().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(PipelineTest, CsvFields) {
  EXPECT_THAT(*SplitCsvLine("a,,\"b,\"\"c\"\"\","), ElementsAre("a", "", "b,\"c\"", ""));
  EXPECT_THAT(*SplitCsvLine("a;b", ';'), ElementsAre("a", "b"));
  EXPECT_FALSE(SplitCsvLine("\"a").ok());
  EXPECT_FALSE(SplitCsvLine("\"a\"b").ok());
  Pipeline pipeline({.files = {Write("a.csv", "x,y,z\n1.5,,hi\n-2,7,\"a,b\"\n")},
                     .format = TextLines({.skip_lines = 1}),
                     .decode = DecodeCsv({kFloat, {kInt32, "3"}, kString}),
                     .batch_size = 2});
  const auto batch = pipeline.Next();
  ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
  EXPECT_THAT((**batch)[0].flat<float>(), ElementsAre(1.5f, -2));
  EXPECT_THAT((**batch)[1].flat<int32_t>(), ElementsAre(3, 7));
  EXPECT_THAT((**batch)[2].flat<std::string>(), ElementsAre("hi", "a,b"));
  EXPECT_THAT(std::string(DecodeCsv({kFloat})({.bytes = "1,2"}).status().message()), HasSubstr("1 fields, got 2"));
}

TEST_F(PipelineTest, Examples) {
  const std::string path = folder_ + "/examples";
  auto writer = *RecordWriter::Open(path, Compression::kGzip);
  for (int i = 0; i < 3; ++i) {
    tensorflow::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    for (const float x : {0.5f, 1.5f}) features["x"].mutable_float_list()->add_value(x + static_cast<float>(i));
    features["label"].mutable_int64_list()->add_value(i);
    if (i > 0) features["name"].mutable_bytes_list()->add_value(absl::StrCat("n", i));
    ASSERT_TRUE(writer->Write(example.SerializeAsString()).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  PipelineOptions o{
      .files = {path},
      .format = TfRecords(Compression::kGzip),
      .decode = DecodeExample(
          {{"x", kFloat, {2}}, {"label", kInt64, {}}, {"name", kString, {}, Tensor::Scalar<std::string>("none")}}),
      .batch_size = 3};
  {
    Pipeline pipeline(o);
    const auto batch = pipeline.Next();
    ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
    EXPECT_THAT((**batch)[0].flat<float>(), ElementsAre(0.5f, 1.5f, 1.5f, 2.5f, 2.5f, 3.5f));
    EXPECT_THAT((**batch)[1].flat<int64_t>(), ElementsAre(0, 1, 2));
    EXPECT_THAT((**batch)[2].flat<std::string>(), ElementsAre("none", "n1", "n2"));
  }
  const auto error = [&](std::vector<FeatureSpec> features) {
    o.decode = DecodeExample(std::move(features));
    return std::string(Error(o).message());
  };
  EXPECT_THAT(error({{"x", kFloat, {3}}}), HasSubstr("record 0: feature 'x': expected 3 values"));
  EXPECT_THAT(error({{"x", kInt64, {2}}}), HasSubstr("expected int64, got floats"));
  EXPECT_THAT(error({{"name", kString, {}}}), HasSubstr("feature 'name': it is missing"));
  EXPECT_EQ(DecodeExample({})({.bytes = "\xff\xff"}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PipelineTest, Cifar10) {
  ASSERT_TRUE(GenerateCifar10(folder_, 30).ok());
  auto test = Cifar10(folder_, {.train = false, .batch_size = 16});
  ASSERT_TRUE(test.ok()) << test.status();
  int64_t images = 0;
  for (const Tensors& batch : *test) {
    ASSERT_EQ(batch[0].shape(), Shape({batch[1].dim(0), 24, 24, 3}));
    images += batch[1].dim(0);
    double sum = 0;
    for (const float p : batch[0].Rows(0, 1).flat<float>()) sum += p;
    EXPECT_NEAR(sum, 0, 0.01);
  }
  EXPECT_EQ(images, 30);
  const auto first = [&](Cifar10Options o) {
    auto train = Cifar10(folder_, o);
    return (**train->Next())[0].Clone();
  };
  const Tensor a = first({.threads = 1}), b = first({.threads = 4}), c = first({.seed = 2});
  EXPECT_TRUE(std::equal(a.flat<float>().begin(), a.flat<float>().end(), b.flat<float>().begin()));
  EXPECT_FALSE(std::equal(a.flat<float>().begin(), a.flat<float>().end(), c.flat<float>().begin()));
  EXPECT_EQ(Cifar10(folder_ + "/none").status().code(), absl::StatusCode::kNotFound);
  // Planes become pixels; the middle is taken.
  std::string bytes(kCifar10RecordBytes, 0);
  bytes[0] = 9;
  for (int i = 0; i < 1024; ++i) bytes[1 + 1024 + i] = static_cast<char>(200);
  const Tensors green = *DecodeCifar10({.crop = 2})({.bytes = bytes});
  EXPECT_EQ(green[1].scalar<int32_t>(), 9);
  EXPECT_GT(green[0].data<float>()[1], 1);
  EXPECT_LT(green[0].data<float>()[2], 0);
  bytes[0] = 10;
  EXPECT_EQ(DecodeCifar10()({.bytes = bytes}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(DecodeCifar10()({.bytes = "short"}).ok());
}

}  // namespace
}  // namespace thalweg::data
