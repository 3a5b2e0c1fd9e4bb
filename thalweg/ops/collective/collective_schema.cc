// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/collective/collective_schema.h"

#include <utility>

#include "thalweg/kernel/collectives.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg::collective {

Op Collective(absl::string_view name) { return Op(name).Stateful().DistributedCommunication(); }

Op& Keys(Op& op) { return op.Attr("group_size: int").Attr("group_key: int").Attr("instance_key: int"); }
Op& KeyInputs(Op& op) { return op.Input("group_size: int32").Input("group_key: int32").Input("instance_key: int32"); }
Op& Hints(Op& op) { return op.Attr("communication_hint: string = 'auto'").Attr("timeout_seconds: float = 0"); }
Op& Tokens(Op& op) { return op.Attr("is_stateless: bool = false").Attr("Nordering_token: int >= 0 = 0"); }
Op& MergeAttrs(Op& op) { return op.Attr("merge_op: {'Min', 'Max', 'Mul', 'Add'}").Attr("final_op: {'Id', 'Div'}"); }

Op WithCommunicator(absl::string_view name) {
  return Collective(name)
      .Input("input: T")
      .Input("communicator: resource")
      .Input("group_assignment: int32")
      .Output("data: T")
      .Attr(kReduceT)
      .Shape(shapes::LikeInput0);
}

namespace {

void AddTimeout(const CollectiveOptions& options, std::vector<AttrArg>* attrs) {
  if (options.timeout == absl::InfiniteDuration()) return;
  attrs->emplace_back("timeout_seconds", static_cast<float>(absl::ToDoubleSeconds(options.timeout)));
}

}  // namespace

std::vector<AttrArg> AttrsOf(const CollectiveOptions& options, std::vector<AttrArg> more) {
  more.emplace_back("group_size", options.group_size);
  more.emplace_back("group_key", options.group_key);
  more.emplace_back("instance_key", options.instance_key);
  AddTimeout(options, &more);
  return more;
}

std::vector<AttrArg> KeyInputAttrsOf(const CollectiveOptions& options, std::vector<AttrArg> more) {
  more.emplace_back(kInstanceKeyAttr, options.instance_key);
  AddTimeout(options, &more);
  return more;
}

std::vector<OpInput> WithKeyInputs(const Scope& s, std::vector<OpInput> inputs, const CollectiveOptions& options) {
  const auto constant = [&](int key) { return Const(s, Tensor::Scalar<int32_t>(key)); };
  std::vector<Output> group = {};
  if (options.group) {
    group = Unpack(s, options.group, 2);
  } else {
    group = {constant(options.group_size), constant(options.group_key)};
  }
  group.resize(2);  // if the scope has failed
  inputs.insert(inputs.end(), {group[0], group[1], constant(options.instance_key)});
  return inputs;
}

namespace {

// The value of the attribute merge_op.
const char* NameOf(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "Add";
    case ReduceKind::kProduct:
      return "Mul";
    case ReduceKind::kMax:
      return "Max";
    case ReduceKind::kMin:
      return "Min";
  }
  return "Add";
}

}  // namespace

std::vector<AttrArg> ReduceAttrsOf(const CollectiveReduceOptions& reduce) {
  std::vector<AttrArg> attrs = {{"merge_op", NameOf(reduce.kind)}, {"final_op", reduce.mean ? "Div" : "Id"}};
  if (reduce.rank_order) attrs.emplace_back(kRankOrderAttr, true);
  return attrs;
}

}  // namespace thalweg::collective
