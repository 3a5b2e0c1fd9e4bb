// SPDX-License-Identifier: Apache-2.0
// Texts of users: clusters, addresses, device names, plans of faults.
#include "fuzz_target.h"
#include "thalweg/base/faults/fault_plan.h"
#include "thalweg/base/logging.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/proto/config.pb.h"

namespace thalweg::fuzz {

void TestOneInput(absl::string_view input) {
  InputReader reader(input);
  const int which = reader.Byte() % 4;
  const absl::string_view text = reader.Rest();
  if (which == 0) {
    if (const auto plan = FaultPlan::Parse(text); plan.ok()) {
      // Printing a plan and parsing it again gives the same plan.
      const std::string printed = plan->ToString();
      const auto again = FaultPlan::Parse(printed);
      CHECK(again.ok()) << text << " is printed as " << printed << ", which is refused: " << again.status();
      CHECK(again->faults.size() == plan->faults.size()) << text << " is printed as " << printed;
    }
  } else if (which == 1) {
    ClusterSpec::Parse(text).status().IgnoreError();
  } else if (which == 2) {
    if (const auto name = DeviceName::Parse(text); name.ok()) {
      CHECK(DeviceName::Parse(name->ToString()).ok()) << text << " is printed as " << name->ToString();
    }
  } else {
    tensorflow::ClusterDef def;
    if (def.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
      ClusterSpecFromProto(def).status().IgnoreError();
    }
  }
}

std::vector<std::string> Seeds() {
  const std::string zero(1, '\0');
  return {zero + "seed=7,kill=ps:0@step:120,stop=worker:1@5s..9s+3s,drop=2%",
          zero + "partition=ps:0|worker:0&worker:1@10s+4s,disk=ps:0:full@20s+5s,disk=slow:20ms,clock=+30s@10s",
          zero + "hang=ps:0@save.before_rename:2+3s,fail=ps:1@restore:1,dup=1%,delay=0ms..20ms,terminate=ps:0@3s",
          "\x01ps|localhost:2222;localhost:2223,worker|0=a:1;3=b:2",
          "\x02/job:worker/replica:0/task:1/device:CPU:0",
          "\x02/cpu:0"};
}

}  // namespace thalweg::fuzz
