// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/status.h"
#include "thalweg/kernel/collectives.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

class CollectiveEndKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(group_key_, init.Attr<int64_t>("group_key"));
    ASSIGN_OR_RETURN(first_, init.Attr<int64_t>("first_instance"));
    ASSIGN_OR_RETURN(last_, init.Attr<int64_t>("last_instance"));
    ASSIGN_OR_RETURN(why_, init.Attr<std::string>("why"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    // Without a server there are no other members.
    const absl::StatusOr<std::shared_ptr<Collectives>> collectives =
        c.step().resources->Find<Collectives>("", Collectives::kName);
    if (!collectives.ok()) return absl::OkStatus();
    (*collectives)
        ->End({.group_key = static_cast<int32_t>(group_key_),
               .first_instance = static_cast<int32_t>(first_),
               .last_instance = static_cast<int32_t>(last_),
               .why = why_});
    return absl::OkStatus();
  }

 private:
  int64_t group_key_ = 0, first_ = 0, last_ = 0;
  std::string why_;
};

const OpRegistration kCollectiveEndOp = Op("ThalwegCollectiveEnd")
                                            .Attr("group_key: int")
                                            .Attr("first_instance: int")
                                            .Attr("last_instance: int")
                                            .Attr("why: string = ''")
                                            .Stateful()
                                            .Shape(shapes::NoOutputs)
                                            .Kernel<CollectiveEndKernel>()
                                            .NotDifferentiable();

}  // namespace
}  // namespace collective

Output CollectiveEnd(const Scope& s, const CollectiveEndOptions& options) {
  return s.Add("ThalwegCollectiveEnd", {},
               {{"group_key", options.group_key},
                {"first_instance", options.first_instance},
                {"last_instance", options.last_instance},
                {"why", options.why}});
}

}  // namespace thalweg
