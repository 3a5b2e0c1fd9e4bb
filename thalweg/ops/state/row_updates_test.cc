// SPDX-License-Identifier: Apache-2.0
// Every op that updates rows of a variable does so in place while a reader holds a
// snapshot of all of it, and leaves the snapshot alone.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/kernel/stateful_graph_testlib.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

constexpr int64_t kRows = 1024, kWidth = 128;

class RowUpdatesTest : public StatefulGraphTest, public testing::WithParamInterface<std::string> {
 protected:
  // A variable full of ones, and the node that stands for it.
  Output MakeTable(const std::string& name, Feeds* feeds) {
    Tensor ones(kFloat, {kRows, kWidth});
    for (float& element : ones.flat<float>()) element = 1;
    if (!absl::StartsWith(GetParam(), "Resource")) {
      auto variable = std::make_shared<Variable>(name, kFloat);
      EXPECT_TRUE(device_.resources().Create<Variable>("", name, variable).ok());
      variable->Assign(std::move(ones));
      tables_.push_back(variable);
      return RefVariable(s_.WithOpName(name), kFloat, {kRows, kWidth});
    }
    auto variable = std::make_shared<ResourceVariable>(name, kFloat);
    EXPECT_TRUE(device_.resources().Create<ResourceVariable>("", name, variable).ok());
    variable->Assign(std::move(ones));
    tables_.push_back(variable);
    const Output handle = Arg(kResource);
    (*feeds)[handle] = Tensor::Scalar(ResourceHandle{.device = device_.name(), .container = "", .name = name});
    return handle;
  }

  // The op, on tables for all of its variables, with 2 for every number, and rows 3
  // and 700.
  Output MakeUpdate(Feeds* feeds) {
    std::vector<OpInput> inputs;
    const bool nd = absl::StrContains(GetParam(), "Nd");
    for (const auto& arg : OpRegistry::Global().Find(GetParam())->def.input_arg()) {
      if (arg.is_ref() || arg.type() == tensorflow::DT_RESOURCE) {
        inputs.push_back(MakeTable(arg.name(), feeds));
      } else if (arg.name() == "indices") {
        const Output indices = Arg(kInt32);
        (*feeds)[indices] = nd ? Tensor::Of<int32_t>({2, 1}, {3, 700}) : Tensor::Vector<int32_t>({3, 700});
        inputs.push_back(indices);
      } else if (arg.name() == "updates" || arg.name() == "grad") {
        const Output updates = Arg(kFloat);
        Tensor value(kFloat, {2, kWidth});
        for (float& element : value.flat<float>()) element = 2;
        (*feeds)[updates] = value;
        inputs.push_back(updates);
      } else {
        const bool is_step = arg.name() == "global_step";
        const Output scalar = Arg(is_step ? kInt64 : kFloat);
        (*feeds)[scalar] = is_step ? Tensor::Scalar<int64_t>(2) : Tensor::Scalar<float>(0.5f);
        inputs.push_back(scalar);
      }
    }
    return s_.Add(GetParam(), inputs);
  }

  std::vector<std::shared_ptr<Variable>> tables_;
};

const void* MemoryOf(const Variable& v) {
  const void* memory = nullptr;
  EXPECT_TRUE(v.Inspect([&](const Tensor& value) {
                 memory = value.raw();
                 return absl::OkStatus();
               }).ok());
  return memory;
}

TEST_P(RowUpdatesTest, AreInPlaceAndLeaveSnapshotsAlone) {
  Feeds feeds;
  const Output update = MakeUpdate(&feeds);
  Run(update, feeds);
  Run(update, feeds);
  std::vector<Tensor> snapshots, copies;
  std::vector<const void*> memory;
  for (const auto& table : tables_) {
    snapshots.push_back(table->Read());
    copies.push_back(snapshots.back().Clone());
    memory.push_back(MemoryOf(*table));
  }
  Run(update, feeds);
  bool changed = false;
  for (size_t i = 0; i < tables_.size(); ++i) {
    EXPECT_EQ(MemoryOf(*tables_[i]), memory[i]) << "the table was copied";
    ExpectTensor(snapshots[i], copies[i], 0);
    const Tensor now = tables_[i]->Read();
    for (int64_t row = 0; row < kRows; ++row) {
      const float then = copies[i].data<float>()[row * kWidth], next = now.data<float>()[row * kWidth];
      if (row != 3 && row != 700) {
        EXPECT_EQ(next, 1) << "row " << row;
      }
      changed = changed || next != then;
    }
  }
  // Two ops leave the value 2 that the first runs have set.
  if (!absl::EndsWith(GetParam(), "Update") && !absl::EndsWith(GetParam(), "Max") &&
      !absl::EndsWith(GetParam(), "Min")) {
    EXPECT_TRUE(changed);
  }
}

// All of them, so that none is forgotten.
std::vector<std::string> RowUpdates() {
  std::vector<std::string> names;
  for (const OpSchema* op : OpRegistry::Global().All()) {
    const std::string& name = op->def.name();
    const bool scatters = absl::StartsWith(name, "Scatter") || absl::StartsWith(name, "ResourceScatter");
    const bool applies = absl::StartsWith(name, "SparseApply") || absl::StartsWith(name, "ResourceSparseApply");
    if (!scatters && !applies) continue;
    const auto& first = op->def.input_arg(0);
    if (first.is_ref() || first.type() == tensorflow::DT_RESOURCE) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, RowUpdatesTest, testing::ValuesIn(RowUpdates()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace thalweg
