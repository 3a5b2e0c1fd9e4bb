// SPDX-License-Identifier: Apache-2.0
// Cache(x, file) computes the elements once and keeps them in memory or, if it has a name, in a file. An iterator
// that reaches the end fills the cache. Iterators that start later read it.
#include <cstdio>

#include "thalweg/base/file_system.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

// Elements that are kept when all of them were made. Thread-safe.
class MemoryCache final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data18MemoryCacheManagerE";
  std::shared_ptr<const std::vector<Element>> Get() const {
    MutexLock lock(&mutex_);
    return all_;
  }
  void Set(std::vector<Element> all) {
    MutexLock lock(&mutex_);
    if (all_ == nullptr) all_ = std::make_shared<const std::vector<Element>>(std::move(all));
  }
  std::string Describe() const override { return "a cache of elements"; }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const std::vector<Element>> all_ ABSL_GUARDED_BY(mutex_);
};

absl::Status SetCachedInMemory(KernelContext& c, const DatasetPtr& input, const std::shared_ptr<MemoryCache>& cache) {
  return SetDataset(c, input->cardinality(), [input, cache](Iteration& start) -> absl::StatusOr<Next> {
    if (const auto all = cache->Get()) {
      return [all, at = size_t{0}](Iteration&) mutable -> NextElement {
        if (at >= all->size()) return std::nullopt;
        return (*all)[at++];
      };
    }
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    return [cache, next = std::move(next), made = std::vector<Element>()](Iteration& it) mutable -> NextElement {
      ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
      if (element) {
        made.push_back(*element);
      } else {
        cache->Set(std::move(made));
      }
      return element;
    };
  });
}

// The name that TensorFlow gives to a component of an element in the bundle.
std::string KeyOf(int64_t element, size_t component, size_t components) {
  char key[64];
  snprintf(key, sizeof key, "%7lld_%*zu", static_cast<long long>(element),
           static_cast<int>(std::to_string(components - 1).size()), component);
  return key;
}

// Writes elements on their way to the iterator. The bundle is complete, and
// visible, when the sequence has ended.
class CacheWriter {
 public:
  CacheWriter(std::string file, Next next) : file_(std::move(file)), next_(std::move(next)) {}

  NextElement Take(Iteration& it) {
    if (ended_) return std::nullopt;
    if (bundle_ == nullptr) {
      ASSIGN_OR_RETURN(bundle_, BundleWriter::Create(PosixFileSystem(), file_));
    }
    ASSIGN_OR_RETURN(std::optional<Element> element, next_(it));
    if (!element) {
      ended_ = true;
      RETURN_IF_ERROR(bundle_->Finish());
      return std::nullopt;
    }
    for (size_t i = 0; i < element->size(); ++i) {
      RETURN_IF_ERROR(bundle_->Add(KeyOf(count_, i, element->size()), (*element)[i]));
    }
    ++count_;
    return element;
  }

 private:
  const std::string file_;
  Next next_;
  std::unique_ptr<BundleWriter> bundle_;
  int64_t count_ = 0;
  bool ended_ = false;
};

absl::StatusOr<Next> ReadCache(const std::string& file, size_t components) {
  ASSIGN_OR_RETURN(const std::shared_ptr<BundleReader> bundle, BundleReader::Open(PosixFileSystem(), file));
  const int64_t count = static_cast<int64_t>(bundle->Names().size() / components);
  return [bundle, components, count, at = int64_t{0}](Iteration&) mutable -> NextElement {
    if (at >= count) return std::nullopt;
    Element element;
    for (size_t i = 0; i < components; ++i) {
      ASSIGN_OR_RETURN(Tensor t, bundle->Read(KeyOf(at, i, components)));
      element.push_back(std::move(t));
    }
    ++at;
    return element;
  };
}

absl::Status SetCachedInFile(KernelContext& c, const DatasetPtr& input, const std::string& file) {
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  return SetDataset(
      c, input->cardinality(), [input, file, components = types.size()](Iteration& start) -> absl::StatusOr<Next> {
        if (PosixFileSystem().FileExists(absl::StrCat(file, ".index")).ok()) return ReadCache(file, components);
        ASSIGN_OR_RETURN(Next next, input->Iterate(start));
        return [writer = CacheWriter(file, std::move(next))](Iteration& it) mutable { return writer.Take(it); };
      });
}

absl::Status ComputeCache(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::string file, StringArgument(c, 1, "filename"));
  if (!file.empty()) return SetCachedInFile(c, input, file);
  if (c.num_inputs() < 3) return SetCachedInMemory(c, input, std::make_shared<MemoryCache>());
  ASSIGN_OR_RETURN(const std::shared_ptr<MemoryCache> cache, FindStepResource<MemoryCache>(c, 2));
  return SetCachedInMemory(c, input, cache);
}

// A cache whose datasets hold on to it after the step.
absl::Status ComputeMemoryCache(KernelContext& c) {
  if (c.step().resources == nullptr) return Internal("No step container.");
  const ResourceName name{"", absl::StrCat("memory_cache_", NextResourceNumber())};
  RETURN_IF_ERROR(c.step().resources->Create(name.container, name.name, std::make_shared<MemoryCache>()));
  SetStepHandle(c, name, MemoryCache::kTypeName, nullptr);
  if (c.num_outputs() > 1) c.set_output(1, Tensor::Scalar(Variant()));
  return absl::OkStatus();
}

const OpRegistration kDatasetCacheOps[] = {
    DatasetOp("CacheDataset", "input_dataset: variant, filename: string", "TYPES, METADATA").Compute(ComputeCache),
    DatasetOp("CacheDatasetV2", "input_dataset: variant, filename: string, cache: resource", "TYPES, METADATA")
        .Stateful()
        .Compute(ComputeCache),
    SpecifiedOp("AnonymousMemoryCache", "", "handle: resource, deleter: variant", "")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeMemoryCache),
    SpecifiedOp("DummyMemoryCache", "", "handle: resource", "")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeMemoryCache),
};

}  // namespace
}  // namespace thalweg
