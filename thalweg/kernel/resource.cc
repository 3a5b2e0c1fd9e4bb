// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/resource.h"

#include <vector>

namespace thalweg {

ResourceManager::Key ResourceManager::MakeKey(absl::string_view container, const char* type,
                                              absl::string_view name) const {
  return {container.empty() ? default_container_ : std::string(container), type, std::string(name)};
}

absl::Status ResourceManager::Missing(absl::string_view container, absl::string_view name) const {
  return NotFound("Resource ", container.empty() ? default_container_ : std::string(container), "/", name,
                  " does not exist");
}

std::shared_ptr<Resource> ResourceManager::FindUntyped(absl::string_view container, const char* type,
                                                       absl::string_view name) const {
  MutexLock lock(&mutex_);
  const auto it = resources_.find(MakeKey(container, type, name));
  return it == resources_.end() ? nullptr : it->second;
}

absl::StatusOr<std::shared_ptr<Resource>> ResourceManager::FindOrCreateUntyped(
    absl::string_view container, const char* type, absl::string_view name,
    const std::function<absl::StatusOr<std::shared_ptr<Resource>>()>& make) {
  MutexLock lock(&mutex_);
  Key key = MakeKey(container, type, name);
  if (const auto it = resources_.find(key); it != resources_.end()) return it->second;
  ASSIGN_OR_RETURN(std::shared_ptr<Resource> resource, make());
  resources_.emplace(std::move(key), resource);
  return resource;
}

absl::Status ResourceManager::CreateUntyped(absl::string_view container, const char* type, absl::string_view name,
                                            std::shared_ptr<Resource> resource) {
  MutexLock lock(&mutex_);
  Key key = MakeKey(container, type, name);
  if (resources_.contains(key)) {
    return AlreadyExists("Resource ", key.container, "/", name, " already exists");
  }
  resources_.emplace(std::move(key), std::move(resource));
  return absl::OkStatus();
}

absl::Status ResourceManager::DeleteUntyped(absl::string_view container, const char* type, absl::string_view name) {
  std::shared_ptr<Resource> removed;  // destroyed after the lock is gone
  MutexLock lock(&mutex_);
  const auto it = resources_.find(MakeKey(container, type, name));
  if (it == resources_.end()) return Missing(container, name);
  removed = std::move(it->second);
  resources_.erase(it);
  return absl::OkStatus();
}

absl::Status ResourceManager::DeleteNamed(absl::string_view container, absl::string_view name) {
  std::vector<std::shared_ptr<Resource>> removed;
  MutexLock lock(&mutex_);
  const std::string in = container.empty() ? default_container_ : std::string(container);
  for (auto it = resources_.begin(); it != resources_.end();) {
    if (it->first.container == in && it->first.name == name) {
      removed.push_back(std::move(it->second));
      resources_.erase(it++);
    } else {
      ++it;
    }
  }
  return removed.empty() ? Missing(container, name) : absl::OkStatus();
}

void ResourceManager::Clear(absl::string_view container) {
  const std::string name = container.empty() ? default_container_ : std::string(container);
  std::vector<std::shared_ptr<Resource>> removed;
  MutexLock lock(&mutex_);
  for (auto it = resources_.begin(); it != resources_.end();) {
    if (it->first.container == name) {
      removed.push_back(std::move(it->second));
      resources_.erase(it++);
    } else {
      ++it;
    }
  }
}

void ResourceManager::ClearAll() {
  Map removed;
  MutexLock lock(&mutex_);
  removed.swap(resources_);
}

int ResourceManager::size() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(resources_.size());
}

std::vector<std::shared_ptr<Resource>> ResourceManager::All() const {
  std::vector<std::shared_ptr<Resource>> all;
  MutexLock lock(&mutex_);
  all.reserve(resources_.size());
  for (const auto& [key, resource] : resources_) all.push_back(resource);
  return all;
}

}  // namespace thalweg
