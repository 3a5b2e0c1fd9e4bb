// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/tree_broadcast.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thalweg {
namespace {

// A tree over some of the members. Its root is the member at `source`.
struct Tree {
  int number = 0;            // in the keys
  std::vector<int> members;  // ranks
  int source = 0;            // a place in `members`
};

// The trees that a member is in, in their order.
std::vector<Tree> TreesOf(const BroadcastCall& call) {
  const int tasks = static_cast<int>(call.members_per_task.size());
  Tree across;
  std::vector<Tree> all;
  int first = 0;
  for (int t = 0; t < tasks; ++t) {
    const int end = first + call.members_per_task[t];
    const bool has_source = first <= call.source && call.source < end;
    if (has_source) across.source = t;
    across.members.push_back(has_source ? call.source : first);
    Tree within{.number = tasks > 1 ? t + 1 : 0, .members = {}, .source = has_source ? call.source - first : 0};
    for (int rank = first; rank < end; ++rank) within.members.push_back(rank);
    all.push_back(std::move(within));
    first = end;
  }
  if (tasks > 1) all.insert(all.begin(), std::move(across));
  std::erase_if(all, [&](const Tree& tree) {
    return std::find(tree.members.begin(), tree.members.end(), call.rank) == tree.members.end();
  });
  return all;
}

// A binary tree over the places. If the source is not the first, it stands in
// front of all of them, besides being where it is.
int Parent(const Tree& tree, int place) {
  if (tree.source == 0) return (place - 1) / 2;
  const int parent = place / 2 - 1;
  return parent < 0 ? tree.source : parent;
}

std::vector<int> Children(const Tree& tree, int place) {
  std::vector<int> children;
  for (int p = 0; p < static_cast<int>(tree.members.size()); ++p) {
    if (p != tree.source && Parent(tree, p) == place) children.push_back(p);
  }
  return children;
}

class BroadcastRun : public std::enable_shared_from_this<BroadcastRun> {
 public:
  BroadcastRun(BroadcastCall call, std::shared_ptr<Links> links, Links::Done done)
      : call_(std::move(call)),
        trees_(TreesOf(call_)),
        transfers_(std::make_shared<Transfers>(std::move(links), std::move(done))) {}

  void Start() {
    RunTree(0);
    transfers_->Finish();
  }

 private:
  void RunTree(size_t i) {
    if (i == trees_.size()) return;
    const Tree& tree = trees_[i];
    const int place =
        static_cast<int>(std::find(tree.members.begin(), tree.members.end(), call_.rank) - tree.members.begin());
    if (place == tree.source) return SendOn(i, place);
    const int parent = Parent(tree, place);
    transfers_->Receive(tree.members[parent], Key(tree, parent, place), call_.values,
                        [self = shared_from_this(), i, place] { self->SendOn(i, place); });
  }

  void SendOn(size_t i, int place) {
    const Tree& tree = trees_[i];
    for (const int child : Children(tree, place)) {
      transfers_->Send(tree.members[child], Key(tree, place, child), call_.values);
    }
    RunTree(i + 1);
  }

  std::string Key(const Tree& tree, int from, int to) const {
    return absl::StrCat(call_.key, ":", tree.number, ":", from, ":", to);
  }

  const BroadcastCall call_;
  const std::vector<Tree> trees_;
  const std::shared_ptr<Transfers> transfers_;
};

}  // namespace

void RunTreeBroadcast(BroadcastCall call, std::shared_ptr<Links> links, Links::Done done) {
  std::make_shared<BroadcastRun>(std::move(call), std::move(links), std::move(done))->Start();
}

}  // namespace thalweg
