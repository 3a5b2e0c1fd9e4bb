// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/group_assembly.h"
#include "thalweg/ops/roster_ops.h"

namespace thalweg {
namespace {

// Answers at once: workers ask again until the group is there.
class AssembleGroupKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(name_, init.Attr<std::string>("shared_name"));
    ASSIGN_OR_RETURN(arrival_.worker, init.Attr<int64_t>("worker"));
    ASSIGN_OR_RETURN(arrival_.workers, init.Attr<int64_t>("workers"));
    ASSIGN_OR_RETURN(const int64_t millis, init.Attr<int64_t>("lost_after_millis"));
    arrival_.lost_after = absl::Milliseconds(millis);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    if (!c.input(0).shape().is_scalar() || !c.input(1).shape().is_scalar()) {
      return InvalidArgument("session and again must be scalars, got shapes ", c.input(0).shape(), " and ",
                             c.input(1).shape());
    }
    GroupAssembly::Arrival arrival = arrival_;
    arrival.session = c.input(0).scalar<int64_t>();
    arrival.again = c.input(1).scalar<bool>();
    ASSIGN_OR_RETURN(const std::shared_ptr<GroupAssembly> assembly,
                     c.device().resources().FindOrCreate<GroupAssembly>(
                         "", name_, []() -> absl::StatusOr<std::shared_ptr<GroupAssembly>> {
                           return std::make_shared<GroupAssembly>();
                         }));
    ASSIGN_OR_RETURN(const GroupAssembly::Outcome outcome, assembly->Arrive(arrival, NowNanos()));
    if (outcome.ended.has_value()) EndGroup(c, *outcome.ended);
    ASSIGN_OR_RETURN(Tensor* const group, c.Allocate(0, {2}));
    group->mutable_data<int32_t>()[0] = outcome.size;
    group->mutable_data<int32_t>()[1] = outcome.key;
    ASSIGN_OR_RETURN(Tensor* const missing, c.Allocate(1, {static_cast<int64_t>(outcome.missing.size())}));
    std::copy(outcome.missing.begin(), outcome.missing.end(), missing->mutable_data<int64_t>());
    return absl::OkStatus();
  }

 private:
  // The chief may be in a step in which it waits for the worker that has arrived here. Its failure ends the steps of
  // all members.
  void EndGroup(KernelContext& c, int32_t key) const {
    const auto collectives = c.step().resources->Find<Collectives>("", Collectives::kName);
    if (!collectives.ok()) return;  // without a server there are no other members
    (*collectives)
        ->End({.group_key = key,
               .first_instance = std::numeric_limits<int32_t>::min(),
               .last_instance = std::numeric_limits<int32_t>::max(),
               .why = absl::StrCat("worker ", arrival_.worker, " has a new session"),
               .tell_members = true});
  }

  std::string name_;
  GroupAssembly::Arrival arrival_;
};

absl::Status AssembleGroupShapes(ShapeContext& c) {
  c.set_output(0, PartialShape({2}));
  c.set_output(1, PartialShape({PartialShape::kUnknown}));
  return absl::OkStatus();
}

const OpRegistration kAssembleGroupOp = Op("ThalwegAssembleGroup")
                                            .Input("session: int64")
                                            .Input("again: bool")
                                            .Output("group: int32")
                                            .Output("missing: int64")
                                            .Attr("shared_name: string")
                                            .Attr("worker: int >= 0")
                                            .Attr("workers: int >= 1")
                                            .Attr("lost_after_millis: int >= 0")
                                            .Stateful()
                                            .Shape(AssembleGroupShapes)
                                            .Kernel<AssembleGroupKernel>()
                                            .NotDifferentiable();

}  // namespace

AssembledGroup AssembleGroup(const Scope& s, Output session, Output again, const AssembleGroupOptions& options) {
  Node* const node = s.Add("ThalwegAssembleGroup", {session, again},
                           {{"shared_name", options.shared_name},
                            {"worker", options.worker},
                            {"workers", options.workers},
                            {"lost_after_millis", absl::ToInt64Milliseconds(options.lost_after)}});
  if (node == nullptr) return {};
  return {node->out(0), node->out(1)};
}

}  // namespace thalweg
