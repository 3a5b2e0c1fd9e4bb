// SPDX-License-Identifier: Apache-2.0
// CompositeTensorVariantFromComponents and ToComponents: the tensors that a
// composite tensor (ragged, sparse, of a program's own) is made of, as one value.
#include <memory>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

class Composite final : public VariantValue {
 public:
  Composite(std::string metadata, std::vector<Tensor> components)
      : metadata_(std::move(metadata)), components_(std::move(components)) {}

  const std::vector<Tensor>& components() const { return components_; }
  std::string TypeName() const override { return "CompositeTensorVariant"; }
  std::string ToString() const override { return absl::StrCat("a composite of ", components_.size(), " tensors"); }
  bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }

 private:
  const std::string metadata_;  // a serialized CompositeTensorVariantMetadata, for its reader
  const std::vector<Tensor> components_;
};

class FromComponentsKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(metadata_, init.Attr<std::string>("metadata"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    std::vector<Tensor> components;
    for (int i = 0; i < c.num_inputs(); ++i) components.push_back(c.input(i));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
    *out->mutable_data<Variant>() = Variant(std::make_shared<Composite>(metadata_, std::move(components)));
    return absl::OkStatus();
  }

 private:
  std::string metadata_;
};

absl::Status ToComponents(KernelContext& c) {
  if (c.input(0).rank() != 0) return InvalidArgument("encoded must be a scalar, got ", c.input(0).shape());
  const Composite* const composite = c.input(0).scalar<Variant>().As<Composite>();
  if (composite == nullptr) return InvalidArgument("The input is not a CompositeTensorVariant");
  if (static_cast<int>(composite->components().size()) != c.num_outputs()) {
    return InvalidArgument("Encoded value has ", composite->components().size(), " tensors; ", c.num_outputs(),
                           " are expected");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Tensor& component = composite->components()[i];
    if (component.dtype() != c.output_type(i)) {
      return InvalidArgument("Tensor ", i, " is of type ", component.dtype(), ", expected ", c.output_type(i));
    }
    c.set_output(i, component);
  }
  return absl::OkStatus();
}

const OpRegistration kCompositeVariantOps[] = {
    Op("CompositeTensorVariantFromComponents")
        .Input("components: Tcomponents")
        .Output("encoded: variant")
        .Attr("metadata: string")
        .Attr("Tcomponents: list(type) >= 0")
        .Shape(shapes::Scalar)
        .Kernel<FromComponentsKernel>()
        .NotDifferentiable(),
    Op("CompositeTensorVariantToComponents")
        .Input("encoded: variant")
        .Output("components: Tcomponents")
        .Attr("metadata: string")
        .Attr("Tcomponents: list(type) >= 0")
        .Shape(shapes::Unknown)
        .Compute(ToComponents)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
