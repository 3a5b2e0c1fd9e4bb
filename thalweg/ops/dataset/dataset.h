// Datasets: a scalar variant that says how to make a sequence of elements, each
// a list of tensors. Ops like BatchDataset wrap one around another; an iterator
// (iterator.cc) draws the elements, on the thread that asks for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {

using Element = std::vector<Tensor>;
using NextElement = absl::StatusOr<std::optional<Element>>;  // none: the sequence has ended

// Where elements are made: functions that datasets call run there.
struct Iteration {
  Device& device;
  Step& step;
};

// Makes the next element. One call at a time.
using Next = absl::AnyInvocable<NextElement(Iteration&)>;

// Immutable, as every variant.
class Dataset final : public VariantValue {
 public:
  static constexpr int64_t kInfinite = -1, kUnknown = -2;
  using Start = std::function<absl::StatusOr<Next>(Iteration&)>;

  Dataset(std::string kind, int64_t cardinality, Start start)
      : kind_(std::move(kind)), cardinality_(cardinality), start_(std::move(start)) {}

  // How many elements there are, or kInfinite, or kUnknown.
  int64_t cardinality() const { return cardinality_; }
  // A new sequence, from the first element on.
  absl::StatusOr<Next> Iterate(Iteration& iteration) const { return start_(iteration); }

  std::string TypeName() const override { return "tensorflow::DatasetVariantWrapper"; }
  std::string ToString() const override { return kind_; }
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

 private:
  const std::string kind_;
  const int64_t cardinality_;
  const Start start_;
};

// INVALID_ARGUMENT if it is no dataset.
absl::StatusOr<std::shared_ptr<const Dataset>> DatasetIn(const Tensor& tensor);
Tensor TensorOf(std::shared_ptr<const Dataset> dataset);
// Shows in output 0 a dataset of the op's own kind.
absl::Status SetDataset(KernelContext& c, int64_t cardinality, Dataset::Start start);

// The value of input i, which has one element. INVALID_ARGUMENT if it has not.
absl::StatusOr<int64_t> IntArgument(KernelContext& c, int i, absl::string_view name);
absl::StatusOr<std::string> StringArgument(KernelContext& c, int i, absl::string_view name);

// A function that a dataset calls. The runtime has put its body beside its name
// (runtime/embedded_functions.h).
class CarriedFunction {
 public:
  // UNIMPLEMENTED if the body has loops.
  static absl::StatusOr<std::shared_ptr<const CarriedFunction>> Read(const tensorflow::NodeDef& node,
                                                                     absl::string_view attr);
  // Its own kernels, so that what is random begins anew. One call at a time.
  using Instance = absl::AnyInvocable<absl::StatusOr<Element>(Iteration&, Element args)>;
  static absl::StatusOr<Instance> Instantiate(std::shared_ptr<const CarriedFunction> function, Device& device);

 private:
  friend class CarriedCall;
  Graph graph_;
  std::vector<Node*> order_;  // what results and effects need
  std::vector<Node*> args_;
  std::vector<Output> results_;
};

}  // namespace thalweg
