// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset/dataset_function.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/script_functions.h"

namespace thalweg {
namespace {

// Arguments and results are numbered from 0, each number once.
absl::Status CheckNumbers(const tensorflow::GraphDef& def) {
  std::vector<bool> args(def.node_size()), results(def.node_size());
  for (const auto& node : def.node()) {
    const bool is_arg = node.op() == "_Arg";
    if (!is_arg && node.op() != "_Retval") continue;
    ASSIGN_OR_RETURN(const int64_t index, GetAttr<int64_t>(node, "index"));
    const char* const what = is_arg ? "argument" : "result";
    if (index < 0 || index >= def.node_size()) return InvalidArgument(what, " number ", index);
    std::vector<bool>& seen = is_arg ? args : results;
    if (seen[index]) return InvalidArgument("two ", what, "s have the number ", index);
    seen[index] = true;
  }
  return absl::OkStatus();
}

// The datasets whose files TensorFlow shards.
bool IsReader(absl::string_view op) {
  return op == "TFRecordDataset" || op == "TFRecordDatasetV2" || op == "TextLineDataset" ||
         op == "FixedLengthRecordDataset" || op == "FixedLengthRecordDatasetV2";
}

// Whether it calls one function in Python, and computes nothing else.
bool IsScriptCall(const tensorflow::GraphDef& def) {
  int calls = 0;
  for (const auto& node : def.node()) {
    const absl::string_view op = node.op();
    if (op == "PyFunc" || op == "PyFuncStateless" || op == "EagerPyFunc") {
      ++calls;
    } else if (op != "_Arg" && op != "_Retval" && op != "Const" && op != "Identity" && op != "NoOp") {
      return false;
    }
  }
  return calls == 1;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CarriedFunction>> CarriedFunction::Read(const tensorflow::NodeDef& node,
                                                                             absl::string_view attr) {
  const std::string body_attr = absl::StrCat("_graph_of_", attr);
  if (!HasAttr(node, body_attr)) return NotFound("there is no body for the function of attr '", attr, "'");
  ASSIGN_OR_RETURN(const std::string bytes, GetAttr<std::string>(node, body_attr));
  tensorflow::GraphDef def;
  if (!def.ParseFromString(bytes)) return InvalidArgument("attr '", body_attr, "' is not a GraphDef");
  return Make(std::move(def));
}

absl::StatusOr<std::shared_ptr<const CarriedFunction>> CarriedFunction::Make(tensorflow::GraphDef body) {
  auto function = std::make_shared<CarriedFunction>();
  function->def_ = std::move(body);
  RETURN_IF_ERROR(CheckNumbers(function->def_));
  function->is_script_call_ = IsScriptCall(function->def_);
  for (const auto& inner : function->def_.node()) {
    function->has_datasets_ |= absl::StrContains(inner.op(), "Dataset");
    function->reads_files_ |= IsReader(inner.op());
    for (const auto& [name, value] : inner.attr()) {
      if (!absl::StartsWith(name, "_graph_of_")) continue;
      ASSIGN_OR_RETURN(const auto nested, Read(inner, absl::string_view(name).substr(strlen("_graph_of_"))));
      function->reads_files_ |= nested->reads_files_;
    }
  }
  return function;
}

absl::StatusOr<Graph> CarriedFunction::Body() const {
  Graph graph;
  RETURN_IF_ERROR(graph.Import(def_));
  return graph;
}

absl::Status CapturedFunction::Prepare(IteratorContext& context) {
  ASSIGN_OR_RETURN(compiled_, context.Compile(function_));
  return absl::OkStatus();
}

absl::StatusOr<Element> CapturedFunction::operator()(Iteration& it, Element args,
                                                     std::shared_ptr<ScriptReadAhead> ahead) const {
  if (compiled_ == nullptr) return Internal("a function is called that was not compiled");
  args.insert(args.end(), captured_.begin(), captured_.end());
  return it.context.Call(*compiled_, args, it.cancellation, std::move(ahead));
}

absl::StatusOr<Next> CapturedFunction::Open(Iteration& it, Element args) const {
  ASSIGN_OR_RETURN(const Element result, (*this)(it, std::move(args)));
  if (result.size() != 1) {
    return InvalidArgument("`f` must return a single scalar of dtype DT_VARIANT, got ", result.size(), " values");
  }
  ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(result.front()));
  return dataset->Iterate(it);
}

absl::Status FunctionAttr::Read(const KernelInit& init, const char* attr, const char* types_attr) {
  ASSIGN_OR_RETURN(function_, CarriedFunction::Read(init.node().def(), attr));
  ASSIGN_OR_RETURN(const std::vector<DType> captured, init.Attr<std::vector<DType>>(types_attr));
  captured_ = static_cast<int>(captured.size());
  return absl::OkStatus();
}

CapturedFunction FunctionAttr::Capture(KernelContext& c, int* first) const {
  Element captured;
  for (int i = 0; i < captured_; ++i) captured.push_back(c.input((*first)++));
  return CapturedFunction(function_, std::move(captured));
}

absl::StatusOr<bool> BoolResult(const Element& results, absl::string_view what) {
  if (results.size() != 1 || results[0].dtype() != kBool || results[0].num_elements() != 1) {
    return InvalidArgument(what, " must return a scalar bool.");
  }
  return results[0].scalar<bool>();
}

absl::StatusOr<int64_t> IntResult(const Element& results, absl::string_view what) {
  if (results.size() != 1 || results[0].dtype() != kInt64 || results[0].num_elements() != 1) {
    return InvalidArgument(what, " must return a scalar int64.");
  }
  return results[0].scalar<int64_t>();
}

NextElement MayEnd(absl::StatusOr<Element> result) {
  if (absl::IsOutOfRange(result.status())) return std::nullopt;
  if (!result.ok()) return result.status();
  return *std::move(result);
}

NextElement NotAnEnd(absl::StatusOr<Element> result) {
  if (absl::IsOutOfRange(result.status())) {
    return InvalidArgument("Function invocation produced OutOfRangeError: ", result.status().message());
  }
  if (!result.ok()) return result.status();
  return *std::move(result);
}

}  // namespace thalweg
