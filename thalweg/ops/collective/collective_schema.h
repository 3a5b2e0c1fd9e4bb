// SPDX-License-Identifier: Apache-2.0
// Parts of the schemas of collective ops.
#pragma once

#include <vector>

#include "thalweg/graph/attr_arg.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg::collective {

inline constexpr char kReduceT[] = "T: {bfloat16, float, half, double, int32, int64}";

// A stateful op that talks to other devices.
Op Collective(absl::string_view name);
// The attributes that name a group and an instance.
Op& Keys(Op& op);
// The same as inputs, in the V2 forms.
Op& KeyInputs(Op& op);
Op& Hints(Op& op);
Op& Tokens(Op& op);
Op& MergeAttrs(Op& op);
// A V3 form, whose group is a communicator.
Op WithCommunicator(absl::string_view name);

// The attributes of the options, after those in `more`.
std::vector<AttrArg> AttrsOf(const CollectiveOptions& options, std::vector<AttrArg> more);
// An attribute of nodes that combine values in the order of ranks.
inline constexpr char kRankOrderAttr[] = "_rank_order";
std::vector<AttrArg> ReduceAttrsOf(const CollectiveReduceOptions& reduce);
// The attributes of the options for forms whose keys are inputs, after those in `more`. They name the instance, too:
// members number the steps of graphs with the same instances together.
std::vector<AttrArg> KeyInputAttrsOf(const CollectiveOptions& options, std::vector<AttrArg> more = {});
// The inputs group_size, group_key and instance_key, after those in `inputs`.
std::vector<OpInput> WithKeyInputs(const Scope& s, std::vector<OpInput> inputs, const CollectiveOptions& options);

}  // namespace thalweg::collective
