// SPDX-License-Identifier: Apache-2.0
// Shared by ops that create or use a resource (a queue, a table, a reader...). The handle of a resource
// is an element of type resource or, in the first version of most of these ops, a ref to two strings:
// container and name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/op.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {

// The container and the name of a resource.
struct ResourceName {
  std::string container;
  std::string name;
};

// Reads the handle in input i. `type_name` is TensorFlow's C++ type name, which handles carry.
// INVALID_ARGUMENT if the input is not a handle, or belongs to another type or device.
absl::StatusOr<ResourceName> ResourceNameOf(KernelContext& context, int i, absl::string_view type_name);

// NOT_FOUND with TensorFlow's message.
absl::Status NoSuchResource(const ResourceName& name, absl::string_view type_name);
// The same for a step, whose containers have names of ours only.
absl::Status NoSuchStepResource(const ResourceName& name, absl::string_view type_name);

// The resource that input i names. T has a constant kTypeName.
template <typename T>
absl::StatusOr<std::shared_ptr<T>> FindResource(KernelContext& context, int i) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(context, i, T::kTypeName));
  absl::StatusOr<std::shared_ptr<T>> found = context.device().resources().Find<T>(name.container, name.name);
  if (!found.ok()) return NoSuchResource(name, T::kTypeName);
  return found;
}

// The same for a resource that lives as long as the step.
template <typename T>
absl::StatusOr<std::shared_ptr<T>> FindStepResource(KernelContext& context, int i) {
  ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(context, i, T::kTypeName));
  if (context.step().resources == nullptr) return Internal("No step container.");
  absl::StatusOr<std::shared_ptr<T>> found = context.step().resources->Find<T>(name.container, name.name);
  if (!found.ok()) return NoSuchStepResource(name, T::kTypeName);
  return found;
}

// Sets output 0 to the handle of a resource of the step: as a resource, as two strings or, for a ref
// edge, as `strings`, which the resource owns.
void SetStepHandle(KernelContext& context, const ResourceName& name, absl::string_view type_name, Variable* strings);

// A unique number for the names of anonymous resources.
int64_t NextResourceNumber();

// The type-independent part of ResourceKernel.
class AnyResourceKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override;

 protected:
  // Sets output 0 to the handle.
  void SetHandle(KernelContext& context);

  ResourceName name_;
  bool is_private_ = false;  // no shared name: the resource dies with this kernel
  ResourceManager* resources_ = nullptr;
  std::string type_name_;

 private:
  Tensor handle_;                      // a tensor of type resource
  std::unique_ptr<Variable> strings_;  // the handle for ref edges
};

// Creates a resource in the first step, or finds the one with the same shared name, and outputs its
// handle. Creates it again if its container was cleared.
template <typename T>
class ResourceKernel : public AnyResourceKernel {
 public:
  ResourceKernel() { type_name_ = T::kTypeName; }
  ~ResourceKernel() override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // If the resource is gone, the device that held it may be gone, too.
    if (is_private_ && !made_.expired()) resources_->Delete<T>(name_.container, name_.name).IgnoreError();
  }

  absl::Status Compute(KernelContext& context) override {
    MutexLock lock(&mutex_);
    if (made_.expired()) {
      ASSIGN_OR_RETURN(std::shared_ptr<T> resource,
                       context.device().resources().template FindOrCreate<T>(name_.container, name_.name,
                                                                             [this] { return Make(name_.name); }));
      RETURN_IF_ERROR(Verify(*resource));
      made_ = resource;
    }
    SetHandle(context);
    return absl::OkStatus();
  }

 protected:
  virtual absl::StatusOr<std::shared_ptr<T>> Make(const std::string& name) = 0;
  // INVALID_ARGUMENT if an existing resource of that name does not match.
  virtual absl::Status Verify(const T& found) { return absl::OkStatus(); }

 private:
  Mutex mutex_;
  std::weak_ptr<T> made_ ABSL_GUARDED_BY(mutex_);
};

// Outputs the handle of a resource that other ops create. Its name is the attribute "shared_name" or, if
// that is empty, the name of the node.
class HandleKernel final : public Kernel {
 public:
  explicit HandleKernel(const char* type_name) : type_name_(type_name) {}
  absl::Status Init(const KernelInit& init) override;
  absl::Status Compute(KernelContext& context) override;

 private:
  const char* const type_name_;
  Tensor handle_;  // constant after Init
};

// The shape of a handle.
absl::Status HandleShape(ShapeContext& c);

// An op that uses a resource. Its first input, `input`, is the handle: an element of type resource or, without
// `by_handle`, a ref to two strings.
Op HandleUser(absl::string_view name, absl::string_view input, bool by_handle);

// The node that created the handle in input i, if it can be found in the graph; otherwise nullptr.
const Node* HandleSource(const ShapeContext& c, int i);

}  // namespace thalweg
