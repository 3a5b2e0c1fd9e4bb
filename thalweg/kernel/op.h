// SPDX-License-Identifier: Apache-2.0
// Registers an op in one expression: signature, shape function, kernel and gradient.
//
//   const OpRegistration kRelu =
//       Op("Relu").Input("features: T").Output("activations: T").Attr("T: realnumbertype")
//           .Shape(shapes::LikeInput0).Kernel<ReluKernel>().Gradient(ReluGradient);
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "thalweg/graph/gradient_context.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

class Op {
 public:
  explicit Op(absl::string_view name);
  Op(const Op&);
  Op(Op&&) noexcept;
  Op& operator=(const Op&);
  Op& operator=(Op&&) noexcept;
  ~Op();

  Op& Input(absl::string_view spec) { return schema_.Input(spec), *this; }
  Op& Output(absl::string_view spec) { return schema_.Output(spec), *this; }
  Op& Attr(absl::string_view spec) { return schema_.Attr(spec), *this; }
  Op& Stateful() { return schema_.def.set_is_stateful(true), *this; }
  Op& Commutative() { return schema_.def.set_is_commutative(true), *this; }
  Op& Aggregate() { return schema_.def.set_is_aggregate(true), *this; }
  Op& AllowsUninitializedInput() { return schema_.def.set_allows_uninitialized_input(true), *this; }
  Op& DistributedCommunication() { return schema_.def.set_is_distributed_communication(true), *this; }

  Op& Shape(ShapeFn fn) { return schema_.shape = fn, *this; }
  Op& Gradient(GradientFn fn) {
    schema_.gradient = fn;
    schema_.differentiability = Differentiability::kYes;
    return *this;
  }
  Op& NotDifferentiable() { return schema_.differentiability = Differentiability::kNo, *this; }

  // A kernel class, constructed with `args` for every node.
  template <typename K, typename... Args>
  Op& Kernel(Args... args) {
    return KernelOn<K>("CPU", args...);
  }
  template <typename K, typename... Args>
  Op& KernelOn(absl::string_view device_type, Args... args) {
    if constexpr (sizeof...(args) == 0) {
      return AddKernel(
          device_type, +[]() -> std::unique_ptr<thalweg::Kernel> { return std::make_unique<K>(); });
    } else {
      return AddKernel(device_type, [args...] { return std::make_unique<K>(args...); });
    }
  }
  // A kernel without state and attributes, as a function.
  Op& Compute(absl::Status (*fn)(KernelContext&));

 private:
  friend class OpRegistration;
  // Not inline: the code would be repeated in more than a thousand registrations.
  Op& AddKernel(absl::string_view device_type, std::unique_ptr<thalweg::Kernel> (*make)());
  Op& AddKernel(absl::string_view device_type, KernelRegistry::Factory make);

  OpSchema schema_;
  std::vector<std::pair<std::string, KernelRegistry::Factory>> kernels_;
};

// Adds an op to the registries. Meant for constants at namespace scope.
class OpRegistration {
 public:
  OpRegistration(const Op& op);  // NOLINT: implicit, so that a list of ops is an array of these
};

}  // namespace thalweg
