// SPDX-License-Identifier: Apache-2.0
// ParseExample(x): the features of the serialized Examples in every element, which
// is a vector of strings. Components are in the order of their keys: a dense
// tensor, a sparse one as a vector of three variants, or a ragged one as a variant.
//
// The op is a map whose function is made here, of ParseExampleV2 and of the ops
// that put sparse and ragged tensors into one.
#include <map>

#include "thalweg/base/status.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/parallel_elements.h"

namespace thalweg {
namespace {

using Strings = std::vector<std::string>;

Output Keys(const Scope& s, const Strings& keys) {
  Tensor value(kString, {static_cast<int64_t>(keys.size())});
  std::copy(keys.begin(), keys.end(), value.mutable_data<std::string>());
  return s.Add("Const", {}, {{"value", value}, {"dtype", kString}});
}

class ParseExampleDatasetKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(Strings sparse_keys, init.Attr<Strings>("sparse_keys"));
    ASSIGN_OR_RETURN(Strings dense_keys, init.Attr<Strings>("dense_keys"));
    ASSIGN_OR_RETURN(const std::vector<DType> sparse_types, init.Attr<std::vector<DType>>("sparse_types"));
    ASSIGN_OR_RETURN(const std::vector<DType> dense_types, init.Attr<std::vector<DType>>("Tdense"));
    ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, init.Attr<std::vector<PartialShape>>("dense_shapes"));
    Strings ragged_keys;
    std::vector<DType> ragged_types, split_types;
    if (HasAttr(init.node().def(), "ragged_keys")) {
      ASSIGN_OR_RETURN(ragged_keys, init.Attr<Strings>("ragged_keys"));
      ASSIGN_OR_RETURN(ragged_types, init.Attr<std::vector<DType>>("ragged_value_types"));
      ASSIGN_OR_RETURN(split_types, init.Attr<std::vector<DType>>("ragged_split_types"));
    }
    if (sparse_keys.size() != sparse_types.size()) return InvalidArgument("len(sparse_keys) != len(sparse_types)");
    if (dense_keys.size() != dense_types.size()) return InvalidArgument("len(dense_keys) != len(dense_types)");
    if (dense_keys.size() != shapes.size()) return InvalidArgument("len(dense_keys) != len(dense_shapes)");
    if (ragged_keys.size() != ragged_types.size() || ragged_keys.size() != split_types.size()) {
      return InvalidArgument("len(ragged_keys) != len(ragged_value_types) or len(ragged_split_types)");
    }
    Graph body;
    const Scope s = body.root();
    std::vector<Output> defaults;
    const Output serialized = s.Add("_Arg", {}, {{"T", kString}, {"index", int64_t{0}}});
    for (size_t i = 0; i < dense_types.size(); ++i) {
      defaults.push_back(s.Add("_Arg", {}, {{"T", dense_types[i]}, {"index", static_cast<int64_t>(i + 1)}}));
    }
    Node* const parsed =
        s.Add("ParseExampleV2",
              {serialized, Keys(s, {}), Keys(s, sparse_keys), Keys(s, dense_keys), Keys(s, ragged_keys), defaults},
              {{"Tdense", dense_types},
               {"num_sparse", static_cast<int64_t>(sparse_keys.size())},
               {"sparse_types", sparse_types},
               {"ragged_value_types", ragged_types},
               {"ragged_split_types", split_types},
               {"dense_shapes", shapes}});
    RETURN_IF_ERROR(s.status());
    std::map<std::string, Output> components;
    const int num_sparse = static_cast<int>(sparse_keys.size()), num_dense = static_cast<int>(dense_keys.size());
    const int num_ragged = static_cast<int>(ragged_keys.size());
    for (int i = 0; i < num_sparse; ++i) {
      components[sparse_keys[i]] = s.Add(
          "SerializeSparse", {Output(parsed, i), Output(parsed, num_sparse + i), Output(parsed, 2 * num_sparse + i)},
          {{"out_type", kVariant}});
    }
    for (int i = 0; i < num_dense; ++i) components[dense_keys[i]] = Output(parsed, 3 * num_sparse + i);
    for (int i = 0; i < num_ragged; ++i) {
      const int values = 3 * num_sparse + num_dense + i;
      components[ragged_keys[i]] = s.Add(
          "RaggedTensorToVariant", {std::vector<Output>{Output(parsed, values + num_ragged)}, Output(parsed, values)},
          {{"batched_input", false}});
    }
    int64_t index = 0;
    for (const auto& [key, component] : components) s.Add("_Retval", {component}, {{"index", index++}});
    s.WithOpName("_effects").Add("NoOp");
    RETURN_IF_ERROR(s.status());
    ASSIGN_OR_RETURN(function_, CarriedFunction::Make(body.Export()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    ASSIGN_OR_RETURN(const int64_t calls, ParallelismArgument(c, 1));
    Element defaults;
    for (int i = 2; i < c.num_inputs(); ++i) defaults.push_back(c.input(i));
    const CapturedFunction function(function_, std::move(defaults));
    return SetDataset(c, input->cardinality(), [input, calls, function](Iteration& start) -> absl::StatusOr<Next> {
      CapturedFunction mine = function;
      RETURN_IF_ERROR(mine.Prepare(start.context));
      ASSIGN_OR_RETURN(Next next, input->Iterate(start));
      auto parsed = std::make_shared<ParallelCalls>(start.context, std::move(next), std::move(mine), calls);
      return [parsed](Iteration& it) { return parsed->Take(it); };
    });
  }

 private:
  std::shared_ptr<const CarriedFunction> function_;
};

Op ParseExample(absl::string_view name, absl::string_view more) {
  return DatasetOp(name, "input_dataset: variant, num_parallel_calls: int64, dense_defaults: Tdense",
                   absl::StrCat("sparse_keys: list(string) >= 0, dense_keys: list(string) >= 0, "
                                "sparse_types: list({float,int64,string}) >= 0, "
                                "Tdense: list({float,int64,string}) >= 0, dense_shapes: list(shape) >= 0, TYPES, ",
                                more))
      .Kernel<ParseExampleDatasetKernel>();
}
constexpr char kRagged[] =
    ", ragged_keys: list(string) >= 0 = [], ragged_value_types: list({float,int64,string}) >= 0 = [], "
    "ragged_split_types: list({int32,int64}) >= 0 = []";

const OpRegistration kParseExampleDatasetOps[] = {
    ParseExample("ParseExampleDataset", absl::StrCat("sloppy: bool = false", kRagged)),
    ParseExample("ParseExampleDatasetV2", absl::StrCat("deterministic: string = 'default'", kRagged)),
    ParseExample("ExperimentalParseExampleDataset", "sloppy: bool = false"),
};

}  // namespace
}  // namespace thalweg
