// SPDX-License-Identifier: Apache-2.0
// Variables in parts, for tables that are too large for one task or should be
// read and updated on several.
//
//   const PartitionedVariable table =
//       MakePartitionedVariable(s, "table", {1000000, 64}, {.partitioner = partitioners::FixedSize(4)});
//   const Output rows = EmbeddingLookup(s, table, ids);
//
// Parts are variables of their own, `table/part_0` and so on, and are placed one
// by one. Checkpoints have the whole, as TensorFlow's do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {

// How many parts along each dimension; at most one number is not 1.
using Partitioner = std::function<std::vector<int64_t>(const Shape&, DType)>;

namespace partitioners {

// So many parts or, if there are fewer rows, one per row.
Partitioner FixedSize(int64_t parts, int axis = 0);
// As many as it takes for no part to have more than `max_bytes`, unless a
// single row has; never more than `max_parts` (0: no limit).
Partitioner MaxBytes(int64_t max_bytes, int axis = 0, int64_t max_parts = 0);

}  // namespace partitioners

struct PartitionedVarOptions {
  Partitioner partitioner = partitioners::MaxBytes(64 << 20);
  Initializer initializer = initializers::Default();
  DType dtype = kFloat;
  bool trainable = true;
};

// A value; valid as long as the graph. Where an Output is wanted it stands for
// the whole, put together.
struct PartitionedVariable {
  std::string name;
  Shape shape;  // of the whole
  int axis = 0;
  std::vector<Var> parts;
  Output value;

  operator Output() const { return value; }  // NOLINT: implicit by design
  explicit operator bool() const { return !parts.empty(); }
};

// The first parts are larger by one row if it does not come out even. The scale
// of initializers is that of the whole.
PartitionedVariable MakePartitionedVariable(const Scope& s, absl::string_view name, const Shape& shape,
                                            const PartitionedVarOptions& options = {});

// Which row is where. Div: the first part has the first rows, and so on: right
// for the parts of a PartitionedVariable. Mod: row i is in part i % n, which
// spreads neighbours.
enum class ShardStrategy { kDiv, kMod };

// Rows of a table: ids of any shape give ids.shape + row.shape. Only the rows
// that were asked for leave the task of a part.
Output EmbeddingLookup(const Scope& s, const PartitionedVariable& table, Output ids);
// Of variables that together are a table.
Output EmbeddingLookup(const Scope& s, const std::vector<Var>& parts, Output ids,
                       ShardStrategy strategy = ShardStrategy::kMod);

}  // namespace thalweg
