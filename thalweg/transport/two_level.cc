// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/two_level.h"

#include <algorithm>

#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/transport/net_frames.h"

namespace thalweg {
namespace {

// Keys of the stages on a host, which differ from those of other operations and from each other.
uint64_t StageKey(uint64_t key, uint64_t stage) {
  const uint64_t mixed = (key ^ (stage << 62)) * 0x9e3779b97f4a7c15u;
  return mixed == 0 ? 1 : mixed;
}

int IndexOf(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

const std::vector<int>& RanksOnHostOf(const RanksByHost& by_host, int rank) {
  const auto has = [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  const auto host = std::find_if(by_host.begin(), by_host.end(), has);
  CHECK(host != by_host.end()) << "no host has rank " << rank;
  return *host;
}

std::vector<TwoLevelStage> PlanTwoLevels(const HostCall& call, const RanksByHost& by_host, int rank) {
  const bool reduces = call.operation == HostOperation::kAllReduce && !call.rank_order;
  const bool one_level = by_host.size() < 2 || call.elements * call.element_bytes <= int64_t{kNetInlineBytes} ||
                         !(reduces || call.operation == HostOperation::kBroadcast);
  if (one_level) return {{.call = call}};
  const std::vector<int>& on_host = RanksOnHostOf(by_host, rank);
  TwoLevelStage between{.call = call};
  between.call.between_hosts = true;
  if (on_host.size() < 2) return {between};
  if (!reduces) {
    // The member that has the values: the root, or the first one.
    const int at = IndexOf(on_host, call.root);
    TwoLevelStage spread{.on_host = true, .call = call};
    spread.call.key = StageKey(call.key, 1);
    spread.call.root = at < static_cast<int>(on_host.size()) ? at : 0;
    return {between, spread};
  }
  TwoLevelStage merge{.on_host = true, .call = call}, gather{.on_host = true, .call = call};
  merge.call.operation = HostOperation::kReduceSlices;
  gather.call.operation = HostOperation::kGatherSlices;
  merge.call.slices = gather.call.slices = SlicesBetween(by_host);
  merge.call.key = StageKey(call.key, 1);
  gather.call.key = StageKey(call.key, 2);
  merge.call.finish = nullptr;  // only the values of one host
  return {merge, between, gather};
}

struct TwoLevelGroup::Progress {
  std::vector<TwoLevelStage> stages;
  size_t next = 0;
  Done done;
};

void TwoLevelGroup::Start(const HostCall& call, Done done) {
  auto progress = std::make_shared<Progress>();
  progress->stages = PlanTwoLevels(call, by_host_, rank());
  progress->done = std::move(done);
  RunNext(std::move(progress));
}

void TwoLevelGroup::RunNext(std::shared_ptr<Progress> progress) {
  if (progress->next == progress->stages.size()) return progress->done(absl::OkStatus());
  const TwoLevelStage& stage = progress->stages[progress->next++];
  (stage.on_host ? on_host_ : all_)->Start(stage.call, [this, progress](const absl::Status& status) {
    if (status.ok()) return RunNext(progress);
    Fail(status, progress->stages[0].call.step);
    progress->done(status);
  });
}

absl::Status TwoLevelGroup::Run(const HostCall& call) {
  absl::Status result;
  Notification over;
  Start(call, [&](const absl::Status& status) {
    result = status;
    over.Notify();
  });
  over.WaitForNotification();
  return result;
}

void TwoLevelGroup::Fail(const absl::Status& why, int64_t step) {
  if (on_host_ != nullptr) on_host_->Fail(why, step);
  all_->Fail(why, step);
}

absl::Status TwoLevelGroup::status() const {
  absl::Status status = all_->status();
  if (on_host_ != nullptr) status.Update(on_host_->status());
  return status;
}

}  // namespace thalweg
