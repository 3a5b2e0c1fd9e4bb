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

// Returns the number of parts along each dimension; at most one of the numbers is not 1.
using Partitioner = std::function<std::vector<int64_t>(const Shape&, DType)>;

namespace partitioners {

// Divides into `parts` parts, or into one per row if there are fewer rows.
Partitioner FixedSize(int64_t parts, int axis = 0);
// Divides into parts of at most `max_bytes` bytes, but of at least one row. At most
// `max_parts` parts; 0: no limit.
Partitioner MaxBytes(int64_t max_bytes, int axis = 0, int64_t max_parts = 0);

}  // namespace partitioners

// How a variable is divided, its initial value and its type.
struct PartitionedVarOptions {
  Partitioner partitioner = partitioners::MaxBytes(64 << 20);  // how to divide the variable
  Initializer initializer = initializers::Default();           // initial value; scales as for the whole variable
  DType dtype = kFloat;                                        // element type
  bool trainable = true;                                       // whether optimizers train it
};

// A variable that is divided into parts, which may be on different tasks. A value, valid
// as long as the graph. It converts to an Output: the whole variable, concatenated.
struct PartitionedVariable {
  std::string name;        // parts are `name/part_0`, `name/part_1`, ...
  Shape shape;             // shape of the whole variable
  int axis = 0;            // dimension along which it is divided
  std::vector<Var> parts;  // in the order of the axis
  Output value;            // the concatenation of the parts

  // The whole variable.
  operator Output() const { return value; }                  // NOLINT: implicit by design
  explicit operator bool() const { return !parts.empty(); }  // false for a default one
};

// Adds a partitioned variable. If the rows do not divide evenly, the first parts have
// one more.
PartitionedVariable MakePartitionedVariable(const Scope& s, absl::string_view name, const Shape& shape,
                                            const PartitionedVarOptions& options = {});

// Which part of a table holds which row.
enum class ShardStrategy {
  kDiv,  // contiguous: the first part holds the first rows, as in a PartitionedVariable
  kMod,  // row i is in part i % n
};

// Looks up rows of a table by number: ids of any shape give ids.shape + row.shape. Only
// the requested rows are sent.
Output EmbeddingLookup(const Scope& s, const PartitionedVariable& table, Output ids);
// The same for variables that together form a table.
Output EmbeddingLookup(const Scope& s, const std::vector<Var>& parts, Output ids,
                       ShardStrategy strategy = ShardStrategy::kMod);

}  // namespace thalweg
