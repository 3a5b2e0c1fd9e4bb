// The body of a function of the library, made for one call.
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
  // The nodes, named `prefix`..., with an _Arg for every argument. Attributes
  // have values: none is left that names an attribute of the function.
  tensorflow::GraphDef def;
  std::vector<std::string> args;  // names of the _Arg nodes
  std::vector<DType> arg_types;
  std::vector<std::string> results;  // tensors: "node:0"
  std::vector<DType> result_types;
  std::vector<std::string> effects;  // nodes that run whether or not a result needs them
};

// `attrs` are those of the call. `graph` gives the schemas of the ops in the
// body, which may be functions too. INVALID_ARGUMENT or NOT_FOUND if the
// function is not well formed, or wants attributes that the call does not have.
absl::StatusOr<FunctionBody> Instantiate(const tensorflow::FunctionDef& function, const AttrMap& attrs,
                                         const Graph& graph, absl::string_view prefix);

}  // namespace thalweg
