// SPDX-License-Identifier: Apache-2.0
// The body of a library function, instantiated for one call.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {

struct FunctionBody {
  // The nodes, with an _Arg per argument. Their names start with `prefix`. References to
  // attributes of the function are replaced by the attributes' values.
  tensorflow::GraphDef def;
  std::vector<std::string> args;  // names of the _Arg nodes
  std::vector<DType> arg_types;
  std::vector<std::string> results;  // tensors: "node:0"
  std::vector<DType> result_types;
  std::vector<std::string> effects;  // nodes with side effects: they run even if no result needs them
};

// `attrs` are the attributes of the call. `graph` provides the schemas of the ops in the
// body, which may be functions too. INVALID_ARGUMENT or NOT_FOUND if the function is
// malformed or needs attributes that the call does not have.
absl::StatusOr<FunctionBody> Instantiate(const tensorflow::FunctionDef& function, const AttrMap& attrs,
                                         const Graph& graph, absl::string_view prefix);

}  // namespace thalweg
