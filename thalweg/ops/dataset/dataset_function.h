// Functions that datasets call.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/ops/dataset/dataset.h"

namespace thalweg {

// The body of a function, which the runtime has put beside its name
// (runtime/embedded_functions.h). Immutable.
class CarriedFunction {
 public:
  // Of attribute `attr` of `node`. NOT_FOUND if there is no body.
  static absl::StatusOr<std::shared_ptr<const CarriedFunction>> Read(const tensorflow::NodeDef& node,
                                                                     absl::string_view attr);
  // Of a body that was made here.
  static absl::StatusOr<std::shared_ptr<const CarriedFunction>> Make(tensorflow::GraphDef body);
  // A copy with new nodes.
  absl::StatusOr<Graph> Body() const;
  // Whether there are datasets in it, which may wait when they are iterated.
  bool has_datasets() const { return has_datasets_; }
  // Whether it, or a function in it, reads files.
  bool reads_files() const { return reads_files_; }

 private:
  tensorflow::GraphDef def_;
  bool has_datasets_ = false;
  bool reads_files_ = false;
};

// A function with the arguments that come after those of every call. Copies call
// the same one.
class CapturedFunction {
 public:
  CapturedFunction() = default;
  CapturedFunction(std::shared_ptr<const CarriedFunction> function, Element captured)
      : function_(std::move(function)), captured_(std::move(captured)) {}

  // Compiles it for the iterator, unless a part of it has done so already.
  absl::Status Prepare(IteratorContext& context);
  // REQUIRES: it is prepared. Thread-safe. May wait.
  absl::StatusOr<Element> operator()(Iteration& it, Element args) const;
  // The same for a function whose result is a dataset, which it starts.
  absl::StatusOr<Next> Open(Iteration& it, Element args) const;

  const CarriedFunction& function() const { return *function_; }

 private:
  std::shared_ptr<const CarriedFunction> function_;
  Element captured_;
  std::shared_ptr<CompiledFunction> compiled_;
};

// Reads a function and how many inputs of its node are captured for it: those of
// the list attribute `types_attr`.
class FunctionAttr {
 public:
  absl::Status Read(const KernelInit& init, const char* attr, const char* types_attr);
  // With the inputs from `first` on, which it moves behind the last of them.
  CapturedFunction Capture(KernelContext& c, int* first) const;
  int num_captured() const { return captured_; }
  const CarriedFunction& function() const { return *function_; }

 private:
  std::shared_ptr<const CarriedFunction> function_;
  int captured_ = 0;
};

// The scalar that a function gives. INVALID_ARGUMENT, with `what` for the
// message, if it is something else.
absl::StatusOr<bool> BoolResult(const Element& results, absl::string_view what);
absl::StatusOr<int64_t> IntResult(const Element& results, absl::string_view what);

// Whether a function may end a sequence with the error OUT_OF_RANGE, or this is an
// error like others.
using ResultRule = NextElement (*)(absl::StatusOr<Element> result);
NextElement MayEnd(absl::StatusOr<Element> result);
NextElement NotAnEnd(absl::StatusOr<Element> result);

}  // namespace thalweg
