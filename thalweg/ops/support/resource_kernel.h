// What the ops have in common that make a resource (a queue, a table, a
// reader...) and those that use one. The handle of a resource is an element of
// type resource or, in the first version of most of these ops, two strings,
// container and name, that a ref edge carries.
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
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {

// Where a resource is kept.
struct ResourceName {
  std::string container;
  std::string name;
};

// What the handle in input i names. `type_name` is that of TensorFlow's C++
// type, which handles carry. INVALID_ARGUMENT if the input is no handle, or one
// of another type or device.
absl::StatusOr<ResourceName> ResourceNameOf(KernelContext& context, int i, absl::string_view type_name);

// NOT_FOUND, in TensorFlow's words.
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

// Shows in output 0 the handle of a resource that was just put into the step:
// of type resource, as two strings or, for a ref edge, as `strings`, which the
// resource keeps.
void SetStepHandle(KernelContext& context, const ResourceName& name, absl::string_view type_name, Variable* strings);

// A number that nobody else gets: for names of resources that have none.
int64_t NextResourceNumber();

// The part of the kernel below that needs no type.
class AnyResourceKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override;

 protected:
  // Shows the handle in output 0.
  void SetHandle(KernelContext& context);

  ResourceName name_;
  bool is_private_ = false;  // no shared name: the resource dies with this kernel
  ResourceManager* resources_ = nullptr;
  std::string type_name_;

 private:
  Tensor handle_;                      // of type resource
  std::unique_ptr<Variable> strings_;  // what a ref edge carries
};

// Makes a resource in the first step, or finds the one of the same shared name,
// and gives its handle. It is made again if its container was cleared.
template <typename T>
class ResourceKernel : public AnyResourceKernel {
 public:
  ResourceKernel() { type_name_ = T::kTypeName; }
  ~ResourceKernel() override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // If it is gone already, so may be the device it was on.
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
  // INVALID_ARGUMENT if a resource of that name is another than wanted.
  virtual absl::Status Verify(const T& found) { return absl::OkStatus(); }

 private:
  Mutex mutex_;
  std::weak_ptr<T> made_ ABSL_GUARDED_BY(mutex_);
};

// Gives the handle of a resource that other ops make: its name is the attribute
// "shared_name" or, without one, that of the node.
class HandleKernel final : public Kernel {
 public:
  explicit HandleKernel(const char* type_name) : type_name_(type_name) {}
  absl::Status Init(const KernelInit& init) override;
  absl::Status Compute(KernelContext& context) override;

 private:
  const char* const type_name_;
  Tensor handle_;  // made once
};

// The shape of a handle.
absl::Status HandleShape(ShapeContext& c);

// The node that made the handle in input i, if it is in sight; else nullptr.
const Node* HandleSource(const ShapeContext& c, int i);

}  // namespace thalweg
