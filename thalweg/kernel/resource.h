// SPDX-License-Identifier: Apache-2.0
// Resources are objects that outlive a step: variables, queues, readers and the like.
// Containers hold them by name. Sessions of a task that use the same names share them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"

namespace thalweg {

class Resource {
 public:
  virtual ~Resource() = default;
  // A description for messages: "a variable of float [2,3]".
  virtual std::string Describe() const = 0;
};

// Resources by (container, type, name). Thread-safe. A removed resource stays alive as
// long as a shared_ptr to it exists.
class ResourceManager {
 public:
  explicit ResourceManager(std::string default_container = "") : default_container_(std::move(default_container)) {}
  ResourceManager(const ResourceManager&) = delete;
  ResourceManager& operator=(const ResourceManager&) = delete;

  const std::string& default_container() const { return default_container_; }

  // NOT_FOUND if there is none.
  template <typename T>
  absl::StatusOr<std::shared_ptr<T>> Find(absl::string_view container, absl::string_view name) const {
    std::shared_ptr<Resource> found = FindUntyped(container, typeid(T).name(), name);
    if (found == nullptr) return Missing(container, name);
    return std::static_pointer_cast<T>(std::move(found));
  }

  // If there is no such resource, creates it with `make`, which returns
  // StatusOr<shared_ptr<T>>. `make` runs under the lock and must not call this class.
  template <typename T, typename Make>
  absl::StatusOr<std::shared_ptr<T>> FindOrCreate(absl::string_view container, absl::string_view name, Make&& make) {
    const auto make_untyped = [&]() -> absl::StatusOr<std::shared_ptr<Resource>> { return make(); };
    absl::StatusOr<std::shared_ptr<Resource>> found =
        FindOrCreateUntyped(container, typeid(T).name(), name, make_untyped);
    if (!found.ok()) return found.status();
    return std::static_pointer_cast<T>(*std::move(found));
  }

  // ALREADY_EXISTS if the name is taken.
  template <typename T>
  absl::Status Create(absl::string_view container, absl::string_view name, std::shared_ptr<T> resource) {
    return CreateUntyped(container, typeid(T).name(), name, std::move(resource));
  }

  // NOT_FOUND if there is none.
  template <typename T>
  absl::Status Delete(absl::string_view container, absl::string_view name) {
    return DeleteUntyped(container, typeid(T).name(), name);
  }

  // The same for a resource of any type.
  absl::Status DeleteNamed(absl::string_view container, absl::string_view name);

  // Removes everything in a container ("" is the default one), or everything.
  void Clear(absl::string_view container);
  void ClearAll();

  int size() const;
  // The current resources of all containers and types.
  std::vector<std::shared_ptr<Resource>> All() const;

 private:
  struct Key {
    std::string container;
    std::string type;
    std::string name;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.container, k.type, k.name);
    }
  };
  using Map = absl::flat_hash_map<Key, std::shared_ptr<Resource>>;

  Key MakeKey(absl::string_view container, const char* type, absl::string_view name) const;
  absl::Status Missing(absl::string_view container, absl::string_view name) const;
  std::shared_ptr<Resource> FindUntyped(absl::string_view container, const char* type, absl::string_view name) const;
  absl::StatusOr<std::shared_ptr<Resource>> FindOrCreateUntyped(
      absl::string_view container, const char* type, absl::string_view name,
      const std::function<absl::StatusOr<std::shared_ptr<Resource>>()>& make);
  absl::Status CreateUntyped(absl::string_view container, const char* type, absl::string_view name,
                             std::shared_ptr<Resource> resource);
  absl::Status DeleteUntyped(absl::string_view container, const char* type, absl::string_view name);

  const std::string default_container_;
  mutable Mutex mutex_;
  Map resources_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
