// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/all_to_all.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace thalweg {
namespace {

// Part i of n, as a vector that shares the tensor's memory.
Tensor PartOf(const Tensor& tensor, int i, int n) {
  const int64_t elements = tensor.num_elements() / n, bytes = tensor.TotalBytes() / n;
  return Tensor(tensor.dtype(), Shape({elements}), tensor.buffer(), static_cast<char*>(tensor.raw()) + i * bytes);
}

}  // namespace

void RunAllToAll(const AllToAllCall& call, std::shared_ptr<Links> links, Links::Done done) {
  if (call.values.TotalBytes() == 0) return done(absl::OkStatus());
  const auto transfers = std::make_shared<Transfers>(std::move(links), std::move(done));
  // TensorFlow's keys have nothing between the ranks, so that 1 to 10 and 11 to 0 have the same. Groups of that size
  // cannot have TensorFlow's tasks as members.
  const absl::string_view to_rank = call.members > 11 ? ":" : "";
  for (int i = 0; i < call.members; ++i) {
    const Tensor from = PartOf(call.parts, i, call.members), to = PartOf(call.values, i, call.members);
    if (i == call.rank) {
      std::memcpy(to.raw(), from.raw(), from.TotalBytes());
      continue;
    }
    transfers->Send(i, absl::StrCat(call.key, call.rank, to_rank, i), from);
    transfers->Receive(i, absl::StrCat(call.key, i, to_rank, call.rank), to, [] {});
  }
  transfers->Finish();
}

}  // namespace thalweg
