// SPDX-License-Identifier: Apache-2.0
// Iterators as ops.
//
//   IteratorV2() -> handle; MakeIterator(dataset, handle) begins (again)
//   OneShotIterator() -> handle of one that begins by itself, with the dataset
//     that a function gives
//   AnonymousIterator() -> handle of one that lives as long as the step
//   IteratorGetNext(handle) -> the next element; OUT_OF_RANGE after the last
//   IteratorGetNextAsOptional(handle) -> the next element, or none after the last
//   IteratorToStringHandle, IteratorFromStringHandle: a handle as text to feed
//   SerializeIterator, DeserializeIterator: how far it is, for checkpoints
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/iterator.h"
#include "thalweg/ops/dataset/optional.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

class IteratorKernel : public ResourceKernel<Iterator> {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("output_types"));
    ASSIGN_OR_RETURN(shapes_, init.Attr<std::vector<PartialShape>>("output_shapes"));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::shared_ptr<Iterator>> Make(const std::string&) override {
    return std::make_shared<Iterator>(types_, shapes_);
  }
  absl::Status Verify(const Iterator& found) override {
    return found.types() == types_ ? absl::OkStatus()
                                   : InvalidArgument("Data type mismatch: the iterator '", name_.name,
                                                     "' has other output_types than this op.");
  }

  std::vector<DType> types_;
  std::vector<PartialShape> shapes_;
};

class OneShotKernel final : public IteratorKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(IteratorKernel::Init(init));
    ASSIGN_OR_RETURN(factory_, CarriedFunction::Read(init.node().def(), "dataset_factory"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    RETURN_IF_ERROR(IteratorKernel::Compute(c));
    ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator,
                     c.device().resources().Find<Iterator>(name_.container, name_.name));
    return iterator->StartOnce([&] {
      return RunningSequence::Start(c, [this](Iteration& it) -> absl::StatusOr<DatasetPtr> {
        CapturedFunction factory(factory_, {});
        RETURN_IF_ERROR(factory.Prepare(it.context));
        ASSIGN_OR_RETURN(const Element results, factory(it, {}));
        if (results.size() != 1) {
          return InvalidArgument("The `dataset_factory` function must return a single scalar of dtype DT_VARIANT.");
        }
        return DatasetIn(results[0]);
      });
    });
  }

 private:
  std::shared_ptr<const CarriedFunction> factory_;
};

class AnonymousKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("output_types"));
    ASSIGN_OR_RETURN(shapes_, init.Attr<std::vector<PartialShape>>("output_shapes"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.step().resources == nullptr) return Internal("No step container.");
    const ResourceName name{"", absl::StrCat("anonymous_iterator_", NextResourceNumber())};
    RETURN_IF_ERROR(c.step().resources->Create(name.container, name.name, std::make_shared<Iterator>(types_, shapes_)));
    SetStepHandle(c, name, Iterator::kTypeName, nullptr);
    if (c.num_outputs() > 1) c.set_output(1, Tensor::Scalar(Variant()));
    return absl::OkStatus();
  }

 private:
  std::vector<DType> types_;
  std::vector<PartialShape> shapes_;
};

absl::Status ComputeMakeIterator(KernelContext& c) {
  ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindIterator(c, 1));
  ASSIGN_OR_RETURN(std::shared_ptr<RunningSequence> sequence, RunningSequence::Start(c, std::move(dataset)));
  iterator->Set(std::move(sequence));
  return absl::OkStatus();
}

// Anonymous iterators are deleted with the step.
absl::Status ComputeDelete(KernelContext& c) { return absl::OkStatus(); }

class GetNextKernel final : public AsyncKernel {
 public:
  explicit GetNextKernel(bool optional) : optional_(optional) {}
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Iterator>> iterator = FindIterator(c, 0);
    if (!iterator.ok()) return done(iterator.status());
    (*iterator)->Get(c.step(), [this, &c, done = std::move(done)](NextElement element) mutable {
      done(Show(c, std::move(element)));
    });
  }

 private:
  absl::Status Show(KernelContext& c, NextElement element) const {
    RETURN_IF_ERROR(element.status());
    if (!optional_) {
      if (!element->has_value()) return OutOfRange("End of sequence");
      return ShowElement(c, **std::move(element));
    }
    auto optional = element->has_value() ? std::make_shared<OptionalValue>(**std::move(element))
                                         : std::make_shared<OptionalValue>();
    c.set_output(0, Tensor::Scalar(Variant(std::move(optional))));
    return absl::OkStatus();
  }

  const bool optional_;
};

absl::Status ComputeGetDevice(KernelContext& c) {
  RETURN_IF_ERROR(FindIterator(c, 0).status());
  c.set_output(0, Tensor::Scalar(c.device().name()));
  return absl::OkStatus();
}

// A handle as text may be used after the step. An anonymous iterator then lives until DestroyResourceOp, as in
// TensorFlow 1.15's copy_to_device.
absl::Status ComputeToString(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindIterator(c, 0));
  if (FindStepResource<Iterator>(c, 0).ok()) {
    ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, Iterator::kTypeName));
    const absl::Status kept = c.device().resources().Create(name.container, name.name, iterator);
    if (!kept.ok() && !absl::IsAlreadyExists(kept)) return kept;
  }
  return HandleToString(c);
}

absl::Status ComputeFromString(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceHandle handle, HandleFromString(c));
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator,
                   c.device().resources().Find<Iterator>(handle.container, handle.name));
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes,
                   GetAttr<std::vector<PartialShape>>(c.node().def(), "output_shapes"));
  if (!types.empty() && types != iterator->types()) {
    return InvalidArgument("Data type mismatch: the iterator '", handle.name, "' has other output_types.");
  }
  for (size_t i = 0; i < shapes.size() && i < iterator->shapes().size(); ++i) {
    if (!PartialShape::Merge(shapes[i], iterator->shapes()[i]).ok()) {
      return InvalidArgument("Incompatible shapes at component ", i, ": expected ", shapes[i], " but got ",
                             iterator->shapes()[i], ".");
    }
  }
  c.set_output(0, Tensor::Scalar(handle));
  return absl::OkStatus();
}

// The saved position of an iterator. A negative position means the end.
class IteratorState final : public VariantValue {
 public:
  explicit IteratorState(int64_t position) : position_(position) {}
  int64_t position() const { return position_; }
  std::string TypeName() const override { return "tensorflow::data::IteratorStateVariant"; }
  std::string ToString() const override { return absl::StrCat("an iterator's state: ", position_); }
  bool Encode(tensorflow::VariantTensorDataProto* proto) const override {
    proto->set_type_name(TypeName());
    proto->set_metadata(absl::StrCat(position_));
    return true;
  }

 private:
  const int64_t position_;
};

absl::Status ComputeSerialize(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindIterator(c, 0));
  ASSIGN_OR_RETURN(const std::shared_ptr<RunningSequence> sequence, iterator->Current("Save"));
  c.set_output(0, Tensor::Scalar(Variant(std::make_shared<IteratorState>(sequence->position()))));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PositionIn(const Tensor& serialized) {
  if (serialized.num_elements() != 1) return InvalidArgument("serialized must be a scalar");
  const Variant& variant = serialized.scalar<Variant>();
  if (const auto* const state = variant.As<IteratorState>()) return state->position();
  int64_t position = 0;
  const auto* const encoded = variant.As<EncodedVariant>();
  if (encoded != nullptr && absl::SimpleAtoi(encoded->proto().metadata(), &position)) return position;
  return InvalidArgument("the state of an iterator is expected, got ",
                         variant.empty() ? "nothing" : variant.get()->ToString());
}

class DeserializeKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Iterator>> iterator = FindIterator(c, 0);
    if (!iterator.ok()) return done(iterator.status());
    const absl::StatusOr<int64_t> position = PositionIn(c.input(1));
    if (!position.ok()) return done(position.status());
    absl::StatusOr<std::shared_ptr<RunningSequence>> sequence = Restart(c, **iterator);
    if (!sequence.ok()) return done(sequence.status());
    RunningSequence& began = **sequence;
    (*iterator)->Run(c.step(), began,
                     [&c, iterator = *iterator, sequence = *std::move(sequence), position = *position,
                      done = std::move(done)]() mutable {
                       absl::Status status = sequence->Skip(position, *c.step().cancellation);
                       if (status.ok()) iterator->Set(std::move(sequence));
                       done(status);
                     });
  }

 private:
  static absl::StatusOr<std::shared_ptr<RunningSequence>> Restart(KernelContext& c, const Iterator& iterator) {
    ASSIGN_OR_RETURN(const std::shared_ptr<RunningSequence> current, iterator.Current("Restore"));
    return RunningSequence::Start(c, current->dataset());
  }
};

Op HandleOp(absl::string_view name, absl::string_view outputs, absl::string_view attrs) {
  return SpecifiedOp(name, "", outputs, attrs).Stateful().Shape(HandleShape);
}
Op Anonymous(absl::string_view name, absl::string_view outputs) {
  return SpecifiedOp(name, "", outputs, "TYPES").Stateful().Shape(shapes::Scalar).Kernel<AnonymousKernel>();
}
Op GetNext(absl::string_view name) {
  return SpecifiedOp(name, "iterator: resource", "components: output_types", "TYPES")
      .Stateful()
      .Shape(ElementShapes)
      .Kernel<GetNextKernel>(false);
}
Op GetDevice(absl::string_view name) {
  return SpecifiedOp(name, "resource: resource", "device: string", "")
      .Stateful()
      .Shape(shapes::Scalar)
      .Compute(ComputeGetDevice);
}
Op FromString(absl::string_view name) {
  return SpecifiedOp(name, "string_handle: string", "resource_handle: resource",
                     "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []")
      .Stateful()
      .Shape(shapes::Scalar)
      .Compute(ComputeFromString);
}
Op Deleter(absl::string_view name) {
  return SpecifiedOp(name, "handle: resource, deleter: variant", "", "")
      .Stateful()
      .Shape(shapes::NoOutputs)
      .Compute(ComputeDelete);
}

const OpRegistration kIteratorOps[] = {
    HandleOp("Iterator", "handle: resource", "shared_name: string, container: string, TYPES").Kernel<IteratorKernel>(),
    HandleOp("IteratorV2", "handle: resource", "shared_name: string, container: string, TYPES")
        .Kernel<IteratorKernel>(),
    HandleOp("OneShotIterator", "handle: resource",
             "dataset_factory: func, TYPES, container: string = '', shared_name: string = ''")
        .Kernel<OneShotKernel>(),
    Anonymous("AnonymousIterator", "handle: resource"),
    Anonymous("AnonymousIteratorV2", "handle: resource, deleter: variant"),
    Anonymous("AnonymousIteratorV3", "handle: resource"),
    Deleter("DeleteIterator"),
    Deleter("DeleteSeedGenerator"),
    Deleter("DeleteRandomSeedGenerator"),
    Deleter("DeleteMemoryCache"),
    SpecifiedOp("MakeIterator", "dataset: variant, iterator: resource", "", "")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(ComputeMakeIterator),
    GetNext("IteratorGetNext"),
    GetNext("IteratorGetNextSync"),
    SpecifiedOp("IteratorGetNextAsOptional", "iterator: resource", "optional: variant", "TYPES")
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<GetNextKernel>(true),
    GetDevice("IteratorGetDevice"),
    GetDevice("ExperimentalIteratorGetDevice"),
    SpecifiedOp("IteratorToStringHandle", "resource_handle: resource", "string_handle: string", "")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeToString),
    FromString("IteratorFromStringHandle"),
    FromString("IteratorFromStringHandleV2"),
    SpecifiedOp("SerializeIterator", "resource_handle: resource", "serialized: variant",
                "external_state_policy: int = 0")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeSerialize),
    SpecifiedOp("DeserializeIterator", "resource_handle: resource, serialized: variant", "", "")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<DeserializeKernel>(),
};

}  // namespace
}  // namespace thalweg
