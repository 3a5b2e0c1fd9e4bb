// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/master_step.h"

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/cluster/master/master_session_testlib.h"

namespace thalweg {
namespace {

using testing::UnorderedElementsAre;

// Steps whose parts the test ends.
class MasterStepTest : public MasterSessionTest {
 protected:
  // A part that runs.
  struct Part {
    std::string task;
    RunGraphCall call;
    RunGraphResult* result = nullptr;
    Worker::Done done;  // it is ended by the step's cancellation, too
  };

  MasterStepTest() {
    for (const char* task : {kMaster, kPs0, kPs1}) {
      workers_->at(task).run_graph = [this, task](const CallOptions& options, RunGraphCall call, RunGraphResult* result,
                                                  Worker::Done done) {
        Add({task, std::move(call), result, EndedByCancellation(options, std::move(done))});
      };
      workers_->at(task).cleanup_graph = [this, task](int64_t step_id) {
        MutexLock lock(&mutex_);
        EXPECT_EQ(step_id, parts_[0].call.step_id);
        cleaned_up_.push_back(task);
      };
    }
  }
  void Add(Part part) {
    MutexLock lock(&mutex_);
    parts_.push_back(std::move(part));
  }
  Part& PartOf(const std::string& task) {
    MutexLock lock(&mutex_);
    for (Part& part : parts_) {
      if (part.task == task) return part;
    }
    ADD_FAILURE() << "no part runs in " << task;
    return parts_.front();
  }

  Mutex mutex_;  // a deadline ends parts on a thread of its own
  std::deque<Part> parts_;
  std::vector<std::string> cleaned_up_;
};

TEST_F(MasterStepTest, FeedsGoToThePartsAndFetchesComeBackInOrder) {
  Open();
  ClientCall call;
  RunStep({.session_handle = "it",
           .feeds = {{"near_x:0", Tensor::Scalar(2.f)}, {"far_x:0", Tensor::Scalar(3.f)}},
           .fetches = {"far_y:0", "near_y:0"}},
          call);
  ASSERT_EQ(parts_.size(), 2);
  for (const auto& [task, fed, fetched] : {std::tuple(kPs0, 2.f, 4.f), std::tuple(kPs1, 3.f, 5.f)}) {
    Part& part = PartOf(task);
    ASSERT_EQ(part.call.send.size(), 1);
    EXPECT_EQ(part.call.send[0].second.scalar<float>(), fed);
    ASSERT_EQ(part.call.recv_keys.size(), 1);
    part.result->recv = {{part.call.recv_keys[0], Tensor::Scalar(fetched)}};
  }
  PartOf(kPs0).done(absl::OkStatus());
  EXPECT_FALSE(call.ended.HasBeenNotified()) << "a part still runs";
  PartOf(kPs1).done(absl::OkStatus());
  ASSERT_OK(call.Wait());
  ASSERT_EQ(call.result.fetches.size(), 2);
  EXPECT_EQ(call.result.fetches[0].scalar<float>(), 5);
  EXPECT_EQ(call.result.fetches[1].scalar<float>(), 4);
  EXPECT_FALSE(call.result.step_failed);
}

TEST_F(MasterStepTest, TheFirstErrorEndsTheOtherPartsAndNamesItsTask) {
  Open();
  ClientCall call;
  Run({"near", "far"}, call);
  PartOf(kPs1).done(InvalidArgument("no value"));
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kInvalidArgument, absl::StrCat("From ", kPs1, ":\nno value")));
  EXPECT_TRUE(call.result.step_failed);
  EXPECT_THAT(cleaned_up_, UnorderedElementsAre(kPs0, kPs1));
}

// A partition that was cancelled because of another one's error may report that first.
TEST_F(MasterStepTest, AnErrorCountsMoreThanTheCancellationsThatItCaused) {
  Open();
  for (const char* task : {kPs0, kPs1}) {
    workers_->at(task).run_graph = [this, task](const CallOptions&, RunGraphCall call, RunGraphResult* result,
                                                Worker::Done done) {
      Add({task, std::move(call), result, std::move(done)});
    };
  }
  ClientCall call;
  Run({"near", "far"}, call);
  PartOf(kPs0).done(Cancelled("[_Derived_]"));
  PartOf(kPs1).done(InvalidArgument("no value"));
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kInvalidArgument, "no value"));
}

TEST_F(MasterStepTest, ADeadlineIsWhatTheClientHears) {
  Open();
  ClientCall call;
  RunStepCall step{.session_handle = "it", .targets = {"near", "far"}};
  step.options.set_timeout_in_ms(20);
  RunStep(std::move(step), call);
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kDeadlineExceeded, "it had 20ms"));
}

TEST_F(MasterStepTest, TheClientsCancellationEndsTheParts) {
  Open();
  ClientCall call;
  Run({"near", "far"}, call);
  EXPECT_FALSE(call.ended.HasBeenNotified());
  call.cancellation.Cancel(Cancelled("enough"));
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kCancelled, "enough"));
}

// Tasks that push need no cleanup. Others keep the tensors that were not fetched.
TEST_F(MasterStepTest, TasksThatDoNotPushAreToldThatAStepIsOver) {
  for (const bool takes_pushes : {true, false}) {
    Open(takes_pushes);
    parts_.clear();
    cleaned_up_.clear();
    ClientCall call;
    Run({"near", "far"}, call);
    for (const char* task : {kPs0, kPs1}) PartOf(task).done(absl::OkStatus());
    ASSERT_OK(call.Wait());
    if (takes_pushes) {
      EXPECT_THAT(cleaned_up_, testing::IsEmpty());
    } else {
      EXPECT_THAT(cleaned_up_, UnorderedElementsAre(kPs0, kPs1));
    }
  }
}

// Tensors for the master's own partition come with the response of the call.
TEST_F(MasterStepTest, TensorsInAnAnswerReachTheMastersOwnPart) {
  Open();
  std::vector<std::string> keys;
  workers_->at(kMaster).push = [&](int64_t step_id, std::vector<Transfer> tensors, Worker::Done done) {
    EXPECT_EQ(step_id, parts_[0].call.step_id);
    for (const Transfer& t : tensors) keys.push_back(t.key);
    done(absl::OkStatus());
  };
  ClientCall call;
  Run({"near", "own"}, call);
  PartOf(kPs0).result->pushed = {{"a key", {Tensor::Scalar(1.f), false}}};
  PartOf(kPs0).done(absl::OkStatus());
  EXPECT_THAT(keys, testing::ElementsAre("a key"));
  PartOf(kMaster).done(absl::OkStatus());
  EXPECT_THAT(call.Wait(), IsOk());
}

// A checkpoint of variables, as TensorFlow's programs write it: the pause ends when all tasks hold the values, not when
// the files are written.
TEST_F(MasterStepTest, UpdatesGoOnWhenTheValuesOfACheckpointAreHeld) {
  std::map<std::string, std::vector<bool>> pauses;  // by task: whether it is the end of the pause
  for (const char* task : {kPs0, kPs1}) {
    workers_->at(task).pause_updates = [&pauses, task](const tensorflow::PauseUpdatesRequest& request,
                                                       Worker::Done done) {
      pauses[task].push_back(request.resume());
      done(absl::OkStatus());
    };
  }
  Open();
  ClientCall call;
  Run({"near_save", "far_save"}, call);
  ASSERT_EQ(parts_.size(), 2);
  const uint64_t pause = PartOf(kPs0).call.pause;
  EXPECT_NE(pause, 0);
  EXPECT_EQ(PartOf(kPs1).call.pause, pause);
  gate_.Held(pause, kPs0);
  EXPECT_THAT(pauses[kPs0], testing::ElementsAre(false));
  gate_.Held(pause, kPs1);
  EXPECT_THAT(pauses[kPs0], testing::ElementsAre(false, true));
  EXPECT_THAT(pauses[kPs1], testing::ElementsAre(false, true));
  EXPECT_FALSE(call.ended.HasBeenNotified());
  PartOf(kPs0).done(absl::OkStatus());
  PartOf(kPs1).done(absl::OkStatus());
  EXPECT_THAT(call.Wait(), IsOk());
  EXPECT_THAT(pauses[kPs1], testing::ElementsAre(false, true));  // it has ended once
}

TEST_F(MasterStepTest, ACheckpointOfDifferentMomentsIsNotWritten) {
  workers_->at(kPs1).pause_updates = [](const tensorflow::PauseUpdatesRequest& request, Worker::Done done) {
    done(request.resume() ? absl::OkStatus() : DeadlineExceeded("steps that change variables have not ended"));
  };
  Open();
  ClientCall call, cut;
  Run({"near_save", "far_save"}, call);
  // The programs of TensorFlow go on after this code.
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kUnavailable,
                                 absl::StrCat("could not be paused: ", kPs1, ": steps that change variables")));
  RunStepCall step{.session_handle = "it", .targets = {"near", "far"}};
  step.options.mutable_thalweg()->set_cut(true);
  RunStep(std::move(step), cut);
  EXPECT_THAT(cut.Wait(), Fails(absl::StatusCode::kDeadlineExceeded, "The checkpoint was not written"));
  EXPECT_THAT(parts_, testing::IsEmpty());
}

// A process stood still until the pause had run out, and steps changed variables before the values were held.
TEST_F(MasterStepTest, ACheckpointWhosePauseRanOutIsNotWritten) {
  workers_->at(kPs1).pause_updates = [](const tensorflow::PauseUpdatesRequest& request, Worker::Done done) {
    done(request.resume() ? absl::AbortedError("The pause has run out") : absl::OkStatus());
  };
  Open();
  ClientCall call;
  Run({"near_save", "far_save"}, call);
  const uint64_t pause = PartOf(kPs0).call.pause;
  for (const char* task : {kPs0, kPs1}) gate_.Held(pause, task);
  for (const char* task : {kPs0, kPs1}) PartOf(task).done(absl::OkStatus());
  EXPECT_THAT(call.Wait(), Fails(absl::StatusCode::kUnavailable, absl::StrCat(kPs1, ": The pause has run out")));
}

}  // namespace
}  // namespace thalweg
