// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/checkpoints/saver.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "thalweg/base/clock_testlib.h"
#include "thalweg/base/fault_file_system_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/base/thread.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/proto/meta_graph.pb.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/checkpoints/variable_slice.h"
#include "thalweg/train/train_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A vector "a" and a matrix "b", of given values, and something that saves them.
struct Model {
  explicit Model(float value, SaverOptions options = {}, const std::vector<std::string>& devices = {"", ""}) {
    a = MakeVariable(graph.root().WithDevice(devices[0]), "a", {2}, {.initializer = initializers::Constant(value)});
    b = MakeVariable(graph.root().WithDevice(devices[1]), "b", {4, 2}, {.initializer = initializers::Constant(-value)});
    init = InitializeVariables(graph.root());
    saver.emplace(graph.root(), std::move(options));
  }
  std::unique_ptr<Session> Start(const std::string& target = "") {
    auto session = Session::Create(graph, {.target = target});
    CHECK(session.ok()) << session.status();
    const absl::Status status = (*session)->Run({init}).status();
    CHECK(status.ok()) << status;
    return *std::move(session);
  }
  // The first elements of both.
  std::vector<float> Values(Session& session) {
    const auto values = session.Run({a, b});
    CHECK(values.ok()) << values.status();
    return {(*values)[0].data<float>()[0], (*values)[1].data<float>()[0]};
  }

  Graph graph;
  Var a, b;
  Output init;
  std::optional<Saver> saver;
};

using SaverTest = FolderTest;

TEST_F(SaverTest, SavesAndRestores) {
  Model one(1), two(2);
  const auto first = one.Start(), second = two.Start();
  EXPECT_EQ(*one.saver->Save(*first, Path("m"), 7), Path("m-7"));
  EXPECT_THAT(Files(), ElementsAre("checkpoint", "m-7.data-00000-of-00001", "m-7.index", "m-7.meta"));
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-7"));
  ASSERT_OK(two.saver->Restore(*second, Path("m-7")));
  EXPECT_THAT(two.Values(*second), ElementsAre(1, -1));
  EXPECT_THAT(*PosixFileSystem().ReadFileToString(Path("checkpoint")),
              HasSubstr("model_checkpoint_path: \"m-7\"\nall_model_checkpoint_paths: \"m-7\"\n"));
  tensorflow::MetaGraphDef meta;
  ASSERT_TRUE(meta.ParseFromString(*PosixFileSystem().ReadFileToString(Path("m-7.meta"))));
  EXPECT_EQ(meta.saver_def().filename_tensor_name(), "save/Const:0");
  EXPECT_EQ(meta.collection_def().at("variables").bytes_list().value_size(), 2);
}

TEST_F(SaverTest, BadNamesAndMissingFiles) {
  Model model(1);
  const auto session = model.Start();
  EXPECT_TRUE(absl::IsInvalidArgument(model.saver->Save(*session, "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(model.saver->Save(*session, folder_ + "/").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(model.saver->Save(*session, folder_ + "/.").status()));
  EXPECT_TRUE(absl::IsNotFound(model.saver->Restore(*session, Path("none"))));
  EXPECT_TRUE(absl::IsNotFound(LatestCheckpoint(folder_).status()));
  EXPECT_TRUE(absl::IsNotFound(LatestCheckpoint("/nowhere/at/all").status()));
  ASSERT_OK(PosixFileSystem().WriteStringToFile(Path("checkpoint"), "nonsense"));
  EXPECT_TRUE(absl::IsDataLoss(LatestCheckpoint(folder_).status()));
  ASSERT_OK(model.saver->Save(*session, Path("m")).status());
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m"));
  Graph empty;
  Saver nothing(empty.root());
  EXPECT_TRUE(absl::IsInvalidArgument(empty.build_status()));
}

TEST_F(SaverTest, KeepsTheLastAndOneInAWhile) {
  FakeClock clock;
  Model model(1, {.max_to_keep = 2, .keep_checkpoint_every_n_hours = 1, .write_meta_graph = false, .clock = &clock});
  const auto session = model.Start();
  std::vector<std::string> there;
  for (int step = 0; step < 10; ++step) {  // one in 15 minutes
    ASSERT_OK(model.saver->Save(*session, Path("m"), step).status());
    clock.AdvanceNanos(15 * 60 * int64_t{1'000'000'000});
  }
  model.saver->AwaitDeletions();
  for (const std::string& name : Files()) {
    if (absl::EndsWith(name, ".index")) there.push_back(name);
  }
  EXPECT_THAT(there, ElementsAre("m-4.index", "m-8.index", "m-9.index"));
  // The next process continues the list of this one.
  Model next(1, {.max_to_keep = 2, .clock = &clock});
  const auto again = next.Start();
  ASSERT_OK(next.saver->Save(*again, Path("m"), 10).status());
  EXPECT_THAT(ReadCheckpointState(folder_)->saved, testing::SizeIs(2));
  next.saver->AwaitDeletions();
  EXPECT_FALSE(CheckpointExists(Path("m-8")).ok());
  EXPECT_TRUE(CheckpointExists(Path("m-4")).ok()) << "is kept for good";
}

TEST_F(SaverTest, TheLastFiniteOneIsKept) {
  Model model(1, {.max_to_keep = 2, .write_meta_graph = false});
  const Output spoil =
      Assign(model.graph.root(), model.a.ref, Const(model.graph.root(), Tensor::Vector<float>({1, NAN})));
  const auto there = [&] {
    model.saver->AwaitDeletions();
    std::vector<std::string> names;
    for (const std::string& name : Files()) {
      if (absl::EndsWith(name, ".index")) names.push_back(name);
    }
    return names;
  };
  auto session = model.Start();
  for (int step = 1; step < 4; ++step) ASSERT_OK(model.saver->Save(*session, Path("m"), step).status());
  EXPECT_THAT(there(), ElementsAre("m-2.index", "m-3.index"));
  ASSERT_OK(session->Run({spoil}).status());
  for (int step = 4; step < 7; ++step) ASSERT_OK(model.saver->Save(*session, Path("m"), step).status());
  EXPECT_THAT(there(), ElementsAre("m-3.index", "m-6.index"));
  // So does the next process.
  Model next(1, {.max_to_keep = 2, .write_meta_graph = false});
  ASSERT_OK(next.saver->Save(*next.Start(), Path("m"), 7).status());
  next.saver->AwaitDeletions();
  EXPECT_THAT(there(), ElementsAre("m-6.index", "m-7.index")) << "there is a newer one that is finite";
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-7"));
}

// Two workers move both variables by 1 in every step; a checkpoint has all of a
// step or nothing of it.
TEST_F(SaverTest, ACheckpointIsOneMoment) {
  TestCluster cluster({{"ps", 2}, {"worker", 3}});
  Model model(0, {.max_to_keep = 0, .write_meta_graph = false}, {"/job:ps/task:0", "/job:ps/task:1"});
  const auto session = model.Start(cluster.target({"worker", 0}));
  std::atomic<bool> stop{false};
  std::atomic<int> steps{0};
  std::vector<std::unique_ptr<Thread>> workers;
  for (int i = 1; i < 3; ++i) {
    workers.push_back(std::make_unique<Thread>("trains", [&, i] {
      Model own(0, {}, {"/job:ps/task:0", "/job:ps/task:1"});
      const Scope here = own.graph.root().WithDevice(absl::StrCat("/job:worker/task:", i));
      const Output one = Placeholder(here, kFloat, Shape());
      const std::vector<Fetch> train = {Fetch::Target(AssignAdd(own.graph.root().ColocateWith(own.a.ref), own.a.ref,
                                                                Fill(here, Const(here, {2}), one))),
                                        Fetch::Target(AssignSub(own.graph.root().ColocateWith(own.b.ref), own.b.ref,
                                                                Fill(here, Const(here, {4, 2}), one)))};
      auto trains = Session::Create(own.graph, {.target = cluster.target({"worker", i})});
      ASSERT_OK(trains.status());
      for (; !stop; ++steps) {
        ASSERT_OK((*trains)->Run(train, {{one, Tensor::Scalar<float>(1)}}).status());
      }
    }));
  }
  Model reader(0);
  const auto local = reader.Start();
  for (int i = 0; i < 30; ++i) {
    for (const int before = steps; steps < before + 3;) std::this_thread::yield();
    ASSERT_OK_AND_ASSIGN(const std::string saved, model.saver->Save(*session, Path("m"), i));
    ASSERT_OK(reader.saver->Restore(*local, saved));
    const std::vector<float> values = reader.Values(*local);
    EXPECT_EQ(values[0], -values[1]) << "in checkpoint " << i;
  }
  stop = true;
}

// Changes the working folder while it lives.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }

 private:
  const std::filesystem::path before_;
};

TEST_F(SaverTest, AFolderInEverySpelling) {
  const WorkingFolder here(folder_);
  const std::vector<std::string> spellings = {
      "x/y", "x/y/", "./x/y", "x//y//", "./x/./y", folder_ + "/x/y", folder_ + "//x/y/", ".//x/y/."};
  int64_t step = 0;
  for (const std::string& folder : spellings) {
    SCOPED_TRACE(folder);
    Model model(1);
    const auto session = model.Start();
    const auto saved = model.saver->Save(*session, folder + "/m", ++step);
    ASSERT_OK(saved.status());
    EXPECT_EQ(LatestCheckpoint(folder).value_or("none"), *saved);
    for (const std::string& other : spellings) {
      EXPECT_TRUE(absl::EndsWith(LatestCheckpoint(other).value_or("none"), absl::StrCat("x/y/m-", step))) << other;
    }
    // Those of the processes before it are still in the list.
    EXPECT_THAT(ReadCheckpointState(folder)->saved, testing::SizeIs(std::min<int64_t>(step, 5)));
  }
}

TEST_F(SaverTest, WhatWasJustWrittenStays) {
  const WorkingFolder here(folder_);
  for (const std::string& prefix : std::vector<std::string>{"m", "./m", folder_ + "/m", "m"}) {
    SCOPED_TRACE(prefix);
    Model model(1, {.max_to_keep = 1});
    const auto session = model.Start();
    ASSERT_OK(model.saver->Save(*session, prefix).status());
    model.saver->AwaitDeletions();
    EXPECT_THAT(CheckpointExists("m"), IsOk());
    EXPECT_THAT(ReadCheckpointState(".")->saved, testing::SizeIs(1));
  }
  // TensorFlow writes whole paths.
  ASSERT_OK(PosixFileSystem().WriteStringToFile(
      "checkpoint",
      absl::StrCat("model_checkpoint_path: \"", folder_, "/m\"\nall_model_checkpoint_paths: \"", folder_, "/m\"\n")));
  Model model(1, {.max_to_keep = 1});
  const auto session = model.Start();
  ASSERT_OK(model.saver->Save(*session, "m").status());
  model.saver->AwaitDeletions();
  EXPECT_THAT(CheckpointExists("m"), IsOk());
}

// A file system that delays deletions until the test allows them, and refuses to delete one file.
class SlowToDelete final : public FileSystem {
 public:
  explicit SlowToDelete(std::string keeps) : keeps_(std::move(keeps)) {}
  absl::Status DeleteFile(const std::string& path) override {
    go_on.WaitForNotification();
    return absl::EndsWith(path, keeps_) ? PermissionDenied("delete ", path) : base_.DeleteFile(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path, WriteMode mode) override {
    return base_.NewWritableFile(path, mode);
  }
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override {
    return base_.NewRandomAccessFile(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override { return base_.Rename(from, to); }
  absl::Status DeleteRecursively(const std::string& path) override { return base_.DeleteRecursively(path); }
  absl::Status FileExists(const std::string& path) override { return base_.FileExists(path); }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override { return base_.FileSize(path); }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return base_.ListDirectory(path);
  }
  absl::Status CreateDirectories(const std::string& path) override { return base_.CreateDirectories(path); }
  absl::Status SyncDirectory(const std::string& path) override { return base_.SyncDirectory(path); }

  Notification go_on;

 private:
  const std::string keeps_;
  FileSystem& base_ = PosixFileSystem();
};

TEST_F(SaverTest, ASaveDoesNotWaitForTheDeletionOfOthers) {
  SlowToDelete disk("m-1.meta");
  Model model(1, {.max_to_keep = 1, .state = {.files = &disk}});
  const auto session = model.Start();
  ASSERT_OK(model.saver->Save(*session, Path("m"), 1).status());
  ASSERT_OK(model.saver->Save(*session, Path("m"), 2).status());
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-2"));
  EXPECT_TRUE(CheckpointExists(Path("m-1")).ok()) << "it takes its time";
  disk.go_on.Notify();
  // A name that is about to go is good for the next save.
  ASSERT_OK(model.saver->Save(*session, Path("m"), 1).status());
  EXPECT_TRUE(CheckpointExists(Path("m-1")).ok());
  static std::string* const log = new std::string;
  SetLogSink([](LogLevel, const std::string& line) { absl::StrAppend(log, line, "\n"); });
  ASSERT_OK(model.saver->Save(*session, Path("m"), 3).status());
  model.saver.reset();  // when the deletion has ended
  SetLogSink(nullptr);
  EXPECT_THAT(*log, HasSubstr("Could not delete an old checkpoint: PERMISSION_DENIED: delete " + Path("m-1.meta")));
  EXPECT_THAT(Files(), ElementsAre("checkpoint", "m-1.meta", "m-3.data-00000-of-00001", "m-3.index", "m-3.meta"));
}

TEST_F(SaverTest, WhatWasLeftHalfDoneIsDeleted) {
  for (const char* name : {"m-1.data-00000-of-00002", "m-1.meta", "m.data-00000-of-00001", "m-4.index.tempstate7",
                           "m-4.data-00000-of-00001.tempstate8", "m-4.tempstate9", "m_temp_0123456789abcdef/part",
                           "m-4_temp_0123456789abcdef/part", "m2-1.meta", "m-notes.meta", "m-7.txt",
                           "m_temp_backup/m-1.index", "m-4_temp_0123456789abcdef.txt", "m-4_temp_0123/x",
                           "m-4.tempstate.txt", "m-4.index.tempstate7.old", "mine.tempstate7"}) {
    ASSERT_OK(PosixFileSystem().CreateDirectories(internal::Folder(Path(name))));
    ASSERT_OK(PosixFileSystem().WriteStringToFile(Path(name), "x"));
  }
  Model model(1, {.write_meta_graph = false});
  const auto session = model.Start();
  ASSERT_OK(model.saver->Save(*session, Path("m"), 2).status());
  EXPECT_THAT(Files(), ElementsAre("checkpoint", "m-2.data-00000-of-00001", "m-2.index", "m-4.index.tempstate7.old",
                                   "m-4.tempstate.txt", "m-4_temp_0123", "m-4_temp_0123456789abcdef.txt", "m-7.txt",
                                   "m-notes.meta", "m2-1.meta", "m_temp_backup", "mine.tempstate7"));
}

TEST_F(SaverTest, TheLatestThatCanBeRead) {
  Model model(1);
  const auto session = model.Start();
  for (int step = 1; step <= 4; ++step) ASSERT_OK(model.saver->Save(*session, Path("m"), step).status());
  const std::string data = DataPath(Path("m-4"), 0, 1);
  ASSERT_OK(PosixFileSystem().DeleteFile(data));
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-3"));
  ASSERT_OK(PosixFileSystem().WriteStringToFile(data, "cut"));
  EXPECT_EQ(CheckpointExists(Path("m-4")), DataLoss(data, " has 3 bytes, expected at least 40"));
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-3"));
  ASSERT_OK(PosixFileSystem().WriteStringToFile(IndexPath(Path("m-3")), "damaged"));
  ASSERT_OK(PosixFileSystem().DeleteFile(IndexPath(Path("m-2"))));
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-1"));
  ASSERT_OK(PosixFileSystem().DeleteFile(IndexPath(Path("m-1"))));
  EXPECT_TRUE(absl::IsDataLoss(LatestCheckpoint(folder_).status())) << LatestCheckpoint(folder_).status();
}

// Every write of the list fails in turn, then the machine goes down.
TEST_F(SaverTest, TheListIsReplacedInOneStep) {
  FaultFileSystem disk(PosixFileSystem());
  const CheckpointStateOptions options{.files = &disk};
  ASSERT_OK(WriteCheckpointState(folder_, {.latest = Path("old")}, options));
  disk.FailWritesFrom(1);
  EXPECT_TRUE(absl::IsResourceExhausted(WriteCheckpointState(folder_, {.latest = Path("new")}, options)));
  disk.ClearFaults();
  disk.FailRenamesFrom(1);
  EXPECT_FALSE(WriteCheckpointState(folder_, {.latest = Path("new")}, options).ok());
  disk.ClearFaults();
  ASSERT_OK(disk.Crash());
  EXPECT_EQ(ReadCheckpointState(folder_, options)->latest, Path("old"));
  EXPECT_THAT(Files(), ElementsAre("checkpoint"));
  ASSERT_OK(WriteCheckpointState(folder_, {.latest = Path("new")}, options));
  ASSERT_OK(disk.Crash());
  EXPECT_EQ(ReadCheckpointState(folder_, options)->latest, Path("new"));
}

TEST_F(SaverTest, AFullDiskLeavesTheLast) {
  Model model(1);
  const auto session = model.Start();
  ASSERT_OK(model.saver->Save(*session, Path("m"), 1).status());
  const std::vector<std::string> before = Files();
  {
    FileSizeLimit limit(16);
    const absl::Status status = model.saver->Save(*session, Path("m"), 2).status();
    EXPECT_THAT(status.ToString(), HasSubstr("File too large"));
    EXPECT_THAT(status.ToString(), HasSubstr(Path("m-2")));
  }
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-1"));
  ASSERT_OK(model.saver->Save(*session, Path("m"), 2).status());
}

TEST_F(SaverTest, RestoresWhatFitsAndReportsTheRest) {
  Model model(1);
  const auto session = model.Start();
  ASSERT_OK(model.saver->Save(*session, Path("m")).status());
  Graph graph;
  const Scope s = graph.root();
  const Var a = MakeVariable(s, "a", {2});
  MakeVariable(s, "b", {3});
  MakeVariable(s, "c", {1});
  const Output init = InitializeVariables(s);
  Saver saver(s);
  ASSERT_OK_AND_ASSIGN(const auto other, Session::Create(graph));
  ASSERT_OK(other->Run({init}).status());
  const absl::Status refused = saver.Restore(*other, Path("m"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("not in the checkpoint: c; of another type or shape: b (float [4,2] in the checkpoint, float "
                        "[3] in the graph)"));
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, saver.RestoreMatching(*other, Path("m")));
  EXPECT_THAT(report.restored, ElementsAre("a"));
  EXPECT_THAT(report.missing, ElementsAre("c"));
  EXPECT_THAT(report.extra, IsEmpty());
  EXPECT_EQ((*other->Run({a}))[0].data<float>()[0], 1);
}

TEST_F(SaverTest, EachTaskSavesItsOwnAndAnotherNumberOfThemRestores) {
  TestCluster two({{"ps", 2}, {"worker", 1}}), one({{"ps", 1}, {"worker", 1}});
  Model saved(3, {}, {"/job:ps/task:0", "/job:ps/task:1"});
  const auto session = saved.Start(two.target({"worker", 0}));
  ASSERT_OK(saved.saver->Save(*session, Path("m"), 1).status());
  EXPECT_THAT(Files(),
              ElementsAre("checkpoint", "m-1.data-00000-of-00002", "m-1.data-00001-of-00002", "m-1.index", "m-1.meta"));
  Model restored(0, {}, {"/job:ps/task:0", "/job:ps/task:0"});
  const auto other = restored.Start(one.target({"worker", 0}));
  ASSERT_OK(restored.saver->Restore(*other, Path("m-1")));
  EXPECT_THAT(restored.Values(*other), ElementsAre(3, -3));

  // A disk that gets full while both write, and a task that has left.
  {
    FileSizeLimit limit(16);
    EXPECT_FALSE(saved.saver->Save(*session, Path("m"), 2).ok());
  }
  two.Stop({"ps", 1});
  const absl::Status lost = saved.saver->Save(*session, Path("m"), 2).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("m-1"));
  EXPECT_EQ(Files().size(), 5) << testing::PrintToString(Files());
}

TEST_F(SaverTest, UnderOtherNames) {
  Model saved(1);
  const auto session = saved.Start();
  ASSERT_OK(saved.saver->Save(*session, Path("m")).status());
  Graph graph;
  const Var mean = MakeVariable(graph.root(), "mean", {2});
  Saver saver(graph.root(), {.names = {{"a", mean}}});
  ASSERT_OK_AND_ASSIGN(const auto other, Session::Create(graph));
  ASSERT_OK(saver.Restore(*other, Path("m")));
  EXPECT_EQ((*other->Run({mean}))[0].data<float>()[1], 1);
}

TEST_F(SaverTest, FollowsATraining) {
  Model model(1);
  const auto session = model.Start();
  EXPECT_TRUE(absl::IsDeadlineExceeded(WaitForCheckpoint(folder_, "", absl::Milliseconds(1)).status()));
  Thread saves("saves", [&] { EXPECT_TRUE(model.saver->Save(*session, Path("m"), 1).ok()); });
  EXPECT_EQ(*WaitForCheckpoint(folder_, "", absl::Minutes(1)), Path("m-1"));
  const absl::Status none = WaitForCheckpoint(folder_, Path("m-1"), absl::Milliseconds(1)).status();
  EXPECT_THAT(none.ToString(), HasSubstr("for a checkpoint in " + folder_ + " after " + Path("m-1")));
}

TEST_F(SaverTest, PartsOfAVariable) {
  Model saved(1);
  const auto session = saved.Start();
  ASSERT_OK(session->Run({saved.b}).status());
  ASSERT_OK(saved.saver->Save(*session, Path("m")).status());
  // The same variables, b in two parts.
  Graph graph;
  const Scope s = graph.root();
  MakeVariable(s, "a", {2});
  const Var top = MakeVariable(s, "b/part_0", {3, 2}), bottom = MakeVariable(s, "b/part_1", {1, 2});
  SetVariableSlice(top, {.full_name = "b", .full_shape = {4, 2}, .offset = {0, 0}, .shape = {3, 2}});
  SetVariableSlice(bottom, {.full_name = "b", .full_shape = {4, 2}, .offset = {3, 0}, .shape = {1, 2}});
  Saver saver(s);
  ASSERT_OK_AND_ASSIGN(const auto divided, Session::Create(graph));
  ASSERT_OK(saver.Restore(*divided, Path("m")));
  EXPECT_EQ((*divided->Run({bottom}))[0].data<float>()[1], -1);
  ASSERT_OK(saver.Save(*divided, Path("parts")).status());
  Model whole(0);
  const auto again = whole.Start();
  ASSERT_OK(whole.saver->Restore(*again, Path("parts")));
  EXPECT_THAT(whole.Values(*again), ElementsAre(1, -1));
  // Parts under names of their own, as tasks save them that do not know the whole.
  const auto write = [&](const std::string& name, std::vector<std::pair<std::string, Tensor>> values) {
    const auto writer = *BundleWriter::Create(PosixFileSystem(), Path(name));
    for (const auto& [tensor, value] : values) EXPECT_TRUE(writer->Add(tensor, value).ok());
    EXPECT_TRUE(writer->Finish().ok());
  };
  const Tensor upper = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), lower = Tensor::Of<float>({1, 2}, {7, 8});
  write("some", {{"b/part_1", lower}});
  EXPECT_FALSE(saver.Restore(*divided, Path("some")).ok());
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, saver.RestoreMatching(*divided, Path("some")));
  EXPECT_EQ(report.ToString(), "1 tensors restored; not in the checkpoint: a, b");
  EXPECT_EQ((*divided->Run({bottom}))[0].data<float>()[1], 8);
  write("all", {{"a", Tensor::Vector<float>({1, 1})}, {"b/part_0", upper}, {"b/part_1", upper}});
  EXPECT_THAT(saver.Restore(*divided, Path("all")).ToString(), HasSubstr("b/part_1 (float [3,2] in the checkpoint"));
  write("all", {{"a", Tensor::Vector<float>({1, 1})}, {"b/part_0", upper}, {"b/part_1", lower}});
  ASSERT_OK(saver.Restore(*divided, Path("all")));
  EXPECT_EQ((*divided->Run({top}))[0].data<float>()[5], 6);
}

}  // namespace
}  // namespace thalweg
