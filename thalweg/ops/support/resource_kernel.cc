// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/resource_kernel.h"

#include <atomic>

#include "absl/strings/str_cat.h"

namespace thalweg {

absl::StatusOr<ResourceName> ResourceNameOf(KernelContext& context, int i, absl::string_view type_name) {
  const Tensor input = context.is_variable(i) ? context.variable(i).Read() : context.input(i);
  if (input.dtype() == kString && input.num_elements() == 2) {
    return ResourceName{input.data<std::string>()[0], input.data<std::string>()[1]};
  }
  if (input.dtype() != kResource || input.num_elements() != 1) {
    return InvalidArgument("input ", i, " must be the handle of a resource, got ", input.dtype(), " ", input.shape());
  }
  const ResourceHandle& handle = input.scalar<ResourceHandle>();
  if (handle.device != context.device().name()) {
    return InvalidArgument("Trying to access resource ", handle.name, " located in device ", handle.device,
                           " from device ", context.device().name());
  }
  if (!handle.type_name.empty() && handle.type_name != type_name) {
    return InvalidArgument(
        "Trying to access a handle's resource using the wrong type. The handle points to a "
        "resource (name '",
        handle.name, "') of type '", handle.type_name, "' but you are trying to access the resource as type '",
        type_name, "'");
  }
  return ResourceName{handle.container, handle.name};
}

absl::Status NoSuchResource(const ResourceName& name, absl::string_view type_name) {
  return NotFound("Resource ", name.container, "/", name.name, "/", type_name, " does not exist.");
}

absl::Status NoSuchStepResource(const ResourceName& name, absl::string_view type_name) {
  if (name.container.starts_with("_")) return NoSuchResource(name, type_name);
  return NotFound("Container ", name.container, " does not exist. (Could not find resource: ", name.container, "/",
                  name.name, ")");
}

int64_t NextResourceNumber() {
  static std::atomic<int64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void SetStepHandle(KernelContext& context, const ResourceName& name, absl::string_view type_name, Variable* strings) {
  const DType type = context.node().output_type(0);
  if (type == kResource) {
    context.set_output(0, Tensor::Scalar(ResourceHandle{.device = context.device().name(),
                                                        .container = name.container,
                                                        .name = name.name,
                                                        .type_name = std::string(type_name)}));
    return;
  }
  Tensor value = Tensor::Vector<std::string>({name.container, name.name});
  if (!IsRef(type)) return context.set_output(0, std::move(value));
  strings->Assign(std::move(value));
  context.set_variable(0, strings);
}

absl::Status HandleKernel::Init(const KernelInit& init) {
  ResourceHandle handle{.device = init.device().name(), .type_name = type_name_};
  ASSIGN_OR_RETURN(handle.container, init.Attr<std::string>("container"));
  if (handle.container.empty()) handle.container = init.device().resources().default_container();
  ASSIGN_OR_RETURN(handle.name, init.Attr<std::string>("shared_name"));
  if (handle.name.empty()) handle.name = init.node().name();
  handle_ = Tensor::Scalar(std::move(handle));
  return absl::OkStatus();
}

absl::Status HandleKernel::Compute(KernelContext& context) {
  context.set_output(0, handle_);
  return absl::OkStatus();
}

absl::Status AnyResourceKernel::Init(const KernelInit& init) {
  ASSIGN_OR_RETURN(name_.container, init.Attr<std::string>("container"));
  if (name_.container.empty()) name_.container = init.device().resources().default_container();
  ASSIGN_OR_RETURN(name_.name, init.Attr<std::string>("shared_name"));
  is_private_ = name_.name.empty();
  if (is_private_ && HasAttr(init.node().def(), "use_node_name_sharing")) {
    ASSIGN_OR_RETURN(const bool by_node, init.Attr<bool>("use_node_name_sharing"));
    is_private_ = !by_node;
    name_.name = init.node().name();
  }
  if (is_private_) name_.name = absl::StrCat("_", NextResourceNumber(), "_", init.node().name());
  resources_ = &init.device().resources();
  if (init.node().output_type(0) == kResource) {
    handle_ = Tensor::Scalar(ResourceHandle{
        .device = init.device().name(), .container = name_.container, .name = name_.name, .type_name = type_name_});
  } else {
    strings_ = std::make_unique<Variable>(init.node().name(), kString, PartialShape({2}));
    strings_->Assign(Tensor::Vector<std::string>({name_.container, name_.name}));
  }
  return absl::OkStatus();
}

void AnyResourceKernel::SetHandle(KernelContext& context) {
  if (strings_ != nullptr) {
    context.set_variable(0, strings_.get());
  } else {
    context.set_output(0, handle_);
  }
}

absl::Status HandleShape(ShapeContext& c) {
  c.set_output(0, RemoveRef(c.node().output_type(0)) == kResource ? PartialShape(Shape()) : PartialShape({2}));
  return absl::OkStatus();
}

Op HandleUser(absl::string_view name, absl::string_view input, bool by_handle) {
  Op op(name);
  op.Input(absl::StrCat(input, by_handle ? ": resource" : ": Ref(string)")).NotDifferentiable();
  // A ref tells by its type that the op has an effect; a handle does not.
  if (by_handle) op.Stateful();
  return op;
}

const Node* HandleSource(const ShapeContext& c, int i) {
  const Node* node = c.node().input(i).node;
  while (node->op() == "Identity" || node->op() == "Enter" || node->op() == "RefEnter" || node->op() == "RefIdentity") {
    node = node->input(0).node;
  }
  return node;
}

}  // namespace thalweg
