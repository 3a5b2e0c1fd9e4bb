// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/checkpoints/variable_slice.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "thalweg/graph/attr.h"

namespace thalweg {
namespace {

// In attributes of the variable, which a graph keeps wherever it goes and
// TensorFlow overlooks.
constexpr char kName[] = "_save_slice_name";
constexpr char kShape[] = "_save_slice_full_shape";
constexpr char kOffset[] = "_save_slice_offset";

}  // namespace

std::string VariableSlice::Spec() const {
  std::vector<std::string> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(absl::StrCat(offset[i], ",", shape.dim(i)));
  return absl::StrCat(absl::StrJoin(full_shape.dims(), " "), " ", absl::StrJoin(extents, ":"));
}

std::optional<VariableSlice> VariableSliceOf(const Var& variable) {
  if (!variable || !HasAttr(variable.ref.node->def(), kName)) return std::nullopt;
  const auto& def = variable.ref.node->def();
  const auto name = GetAttr<std::string>(def, kName);
  const auto full_shape = GetAttr<std::vector<int64_t>>(def, kShape);
  const auto offset = GetAttr<std::vector<int64_t>>(def, kOffset);
  const std::optional<Shape> shape = variable.shape().AsShape();
  if (!name.ok() || !full_shape.ok() || !offset.ok() || !shape.has_value()) return std::nullopt;
  const absl::StatusOr<Shape> whole = Shape::Make(*full_shape);
  if (!whole.ok() || whole->rank() != shape->rank() || static_cast<int>(offset->size()) != shape->rank()) {
    return std::nullopt;
  }
  return VariableSlice{.full_name = *name, .full_shape = *whole, .offset = *offset, .shape = *shape};
}

void SetVariableSlice(const Var& variable, const VariableSlice& slice) {
  auto& def = variable.ref.node->mutable_def();
  SetAttr(def, kName, slice.full_name);
  SetAttr(def, kShape, std::vector<int64_t>(slice.full_shape.dims().begin(), slice.full_shape.dims().end()));
  SetAttr(def, kOffset, slice.offset);
}

void CopyVariableSlice(const Var& variable, const Var& slot) {
  std::optional<VariableSlice> slice = VariableSliceOf(variable);
  if (!slot || !slice.has_value()) return;
  absl::StrAppend(&slice->full_name, slot.name().substr(variable.name().size()));
  SetVariableSlice(slot, *slice);
}

std::string SavedName(const Var& variable) {
  const std::optional<VariableSlice> slice = VariableSliceOf(variable);
  return slice.has_value() ? slice->full_name : variable.name();
}

}  // namespace thalweg
