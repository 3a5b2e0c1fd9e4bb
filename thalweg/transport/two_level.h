// SPDX-License-Identifier: Apache-2.0
// Operations of a group on several hosts, some of which have several members: in shared memory inside of each host, and
// over TCP between hosts. The stages are data; who runs them chooses a HostGroup or the NetGroup for each.
//
//   all-reduce  1. the members of a host merge their values, so that member k has slice k of the host's sum
//               2. the members k of all hosts merge slice k over TCP: a ring, or recursive doubling
//               3. every member copies the slices of the others of its host
//   broadcast   1. the root sends its values to one member of every other host
//               2. every member copies them from the member of its host that has them
//
// There are as many slices as the smallest number of members on a host (net_schedule.h). A ring over all n members
// would send 2 (n - 1) / n B bytes from every host and as many between its members; this sends 2 (h - 1) / h B from
// every host, for h hosts, and nothing through sockets inside of it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "thalweg/transport/net_schedule.h"
#include "thalweg/transport/process_group.h"

namespace thalweg {

struct TwoLevelStage {
  bool on_host = false;  // in the group of the members of this host; otherwise in the group of all
  HostCall call;
};

// The stages of `call` for member `rank`, one after the other. Other operations, small values and those that are merged
// in the order of ranks have one stage, in the group of all.
// `call.apart` must be empty.
std::vector<TwoLevelStage> PlanTwoLevels(const HostCall& call, const RanksByHost& by_host, int rank);

// The members of the host of `rank`.
const std::vector<int>& RanksOnHostOf(const RanksByHost& by_host, int rank);

// Runs these stages in two groups. A failure of one fails the other as well. (DirectCollectives runs them itself, so
// that it can replace the group of a host while operations of other steps go on between hosts.) Thread-safe.
class TwoLevelGroup : public ProcessGroup {
 public:
  // `on_host` has the members of this host, in the order of their ranks; nullptr if there is only one. `all` has all.
  TwoLevelGroup(std::unique_ptr<ProcessGroup> on_host, std::unique_ptr<ProcessGroup> all, RanksByHost by_host)
      : by_host_(std::move(by_host)), all_(std::move(all)), on_host_(std::move(on_host)) {}
  // REQUIRES: no operation is in progress.
  ~TwoLevelGroup() override = default;

  int rank() const override { return all_->rank(); }
  int ranks() const override { return all_->ranks(); }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    return (on_host_ == nullptr ? all_ : on_host_)->Allocate(bytes);
  }
  absl::Status Run(const HostCall& call) override;
  void Start(const HostCall& call, Done done) override;
  void Fail(const absl::Status& why, int64_t step) override;
  absl::Status status() const override;

 private:
  struct Progress;
  void RunNext(std::shared_ptr<Progress> progress);

  const RanksByHost by_host_;
  const std::unique_ptr<ProcessGroup> all_, on_host_;
};

}  // namespace thalweg
