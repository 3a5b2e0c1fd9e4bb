// SPDX-License-Identifier: Apache-2.0
// Functions that datasets call for their elements.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/ops/dataset/dataset.h"

namespace thalweg {

// The body of a function, which the runtime has attached to the node (runtime/embedded_functions.h).
// Immutable.
class CarriedFunction {
 public:
  // Reads the body of attribute `attr` of `node`. NOT_FOUND if there is none.
  static absl::StatusOr<std::shared_ptr<const CarriedFunction>> Read(const tensorflow::NodeDef& node,
                                                                     absl::string_view attr);
  // From a body that a kernel has built.
  static absl::StatusOr<std::shared_ptr<const CarriedFunction>> Make(tensorflow::GraphDef body);
  // A new copy of the body.
  absl::StatusOr<Graph> Body() const;
  // Whether it contains datasets, which may wait when they are iterated.
  bool has_datasets() const { return has_datasets_; }
  // Whether it, or a function in it, reads files.
  bool reads_files() const { return reads_files_; }
  // Whether it only calls one function in Python, with its arguments: calls with the same arguments can be made ahead.
  bool is_script_call() const { return is_script_call_; }

 private:
  tensorflow::GraphDef def_;
  bool has_datasets_ = false;
  bool reads_files_ = false;
  bool is_script_call_ = false;
};

// A function with its captured arguments, which follow the arguments of every call. Copies share the compiled
// function.
class CapturedFunction {
 public:
  CapturedFunction() = default;
  CapturedFunction(std::shared_ptr<const CarriedFunction> function, Element captured)
      : function_(std::move(function)), captured_(std::move(captured)) {}

  // Compiles it for the iterator, unless another stage has done so.
  absl::Status Prepare(IteratorContext& context);
  // Calls the function. Thread-safe. May wait. REQUIRES: Prepare() was called.
  absl::StatusOr<Element> operator()(Iteration& it, Element args,
                                     std::shared_ptr<ScriptReadAhead> ahead = nullptr) const;
  // The same for a function that returns a dataset; starts the dataset.
  absl::StatusOr<Next> Open(Iteration& it, Element args) const;

  const CarriedFunction& function() const { return *function_; }

 private:
  std::shared_ptr<const CarriedFunction> function_;
  Element captured_;
  std::shared_ptr<CompiledFunction> compiled_;
};

// Reads a function and the number of captured inputs of its node, which is the length of the list attribute
// `types_attr`.
class FunctionAttr {
 public:
  absl::Status Read(const KernelInit& init, const char* attr, const char* types_attr);
  // Captures the inputs starting at `first`, and advances `first` past them.
  CapturedFunction Capture(KernelContext& c, int* first) const;
  int num_captured() const { return captured_; }
  const CarriedFunction& function() const { return *function_; }

 private:
  std::shared_ptr<const CarriedFunction> function_;
  int captured_ = 0;
};

// The bool that a predicate returned. INVALID_ARGUMENT, naming `what`, if it is not a scalar bool.
absl::StatusOr<bool> BoolResult(const Element& results, absl::string_view what);
absl::StatusOr<int64_t> IntResult(const Element& results, absl::string_view what);

// Whether OUT_OF_RANGE from a function ends the sequence, or is an error like others.
using ResultRule = NextElement (*)(absl::StatusOr<Element> result);
NextElement MayEnd(absl::StatusOr<Element> result);
NextElement NotAnEnd(absl::StatusOr<Element> result);

}  // namespace thalweg
