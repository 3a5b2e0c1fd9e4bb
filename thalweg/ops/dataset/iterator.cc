// Iterators: where a program stands in the sequence of a dataset's elements.
//
//   IteratorV2() -> handle; MakeIterator(dataset, handle) begins (again)
//   OneShotIterator() -> handle of one that begins by itself, with the dataset
//     that a function gives
//   IteratorGetNext(handle) -> the next element; OUT_OF_RANGE after the last
//   IteratorToStringHandle, IteratorFromStringHandle: a handle as text to feed
//   SerializeIterator, DeserializeIterator: how far it is, for checkpoints
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

// Thread-safe; elements go to one caller at a time.
class Iterator final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data16IteratorResourceE";

  Iterator(std::vector<DType> types, std::vector<PartialShape> shapes)
      : types_(std::move(types)), shapes_(std::move(shapes)) {}

  const std::vector<DType>& types() const { return types_; }
  const std::vector<PartialShape>& shapes() const { return shapes_; }

  absl::Status Start(std::shared_ptr<const Dataset> dataset, Iteration& it) {
    MutexLock lock(&mutex_);
    return StartLocked(std::move(dataset), it);
  }
  // Only the first call counts.
  template <typename F>
  absl::Status StartOnce(F&& dataset, Iteration& it) {
    MutexLock lock(&mutex_);
    if (dataset_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> made, dataset());
    return StartLocked(std::move(made), it);
  }

  NextElement Get(Iteration& it) {
    MutexLock lock(&mutex_);
    if (dataset_ == nullptr) {
      return FailedPrecondition(
          "GetNext() failed because the iterator has not been initialized. Ensure that you have run the initializer "
          "operation for this iterator before getting the next element.");
    }
    if (ended_) return std::nullopt;
    NextElement element = next_(it);
    if (!element.ok()) return element;
    ended_ = !element->has_value();
    if (!ended_) ++taken_;
    return element;
  }

  // How far it is: the number of elements that were taken.
  absl::StatusOr<int64_t> Position() {
    MutexLock lock(&mutex_);
    if (dataset_ == nullptr) {
      return FailedPrecondition(
          "Save() failed because the iterator has not been initialized. Ensure that you have run the initializer "
          "operation for this iterator before saving it.");
    }
    return ended_ ? -1 - taken_ : taken_;
  }
  // Goes there from the beginning.
  absl::Status Restore(int64_t position, Iteration& it) {
    MutexLock lock(&mutex_);
    if (dataset_ == nullptr) {
      return FailedPrecondition(
          "Restore() failed because the iterator has not been initialized. Ensure that you have run the initializer "
          "operation for this iterator before restoring it.");
    }
    RETURN_IF_ERROR(StartLocked(dataset_, it));
    ended_ = position < 0;
    const int64_t count = ended_ ? -1 - position : position;
    if (ended_) taken_ = count;
    while (taken_ < count) {
      ASSIGN_OR_RETURN(const std::optional<Element> skipped, next_(it));
      if (!skipped) return InvalidArgument("the dataset has ", taken_, " elements, the iterator was at ", count);
      ++taken_;
      RETURN_IF_ERROR(it.step.cancellation->status());
    }
    return absl::OkStatus();
  }

  std::string Describe() const override { return "an iterator"; }

 private:
  absl::Status StartLocked(std::shared_ptr<const Dataset> dataset, Iteration& it)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSIGN_OR_RETURN(next_, dataset->Iterate(it));
    dataset_ = std::move(dataset);
    taken_ = 0;
    ended_ = false;
    return absl::OkStatus();
  }

  const std::vector<DType> types_;
  const std::vector<PartialShape> shapes_;
  Mutex mutex_;
  std::shared_ptr<const Dataset> dataset_ ABSL_GUARDED_BY(mutex_);
  Next next_ ABSL_GUARDED_BY(mutex_);
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

Iteration IterationOf(KernelContext& c) { return Iteration{c.device(), c.step()}; }

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
    Iteration it = IterationOf(c);
    const auto dataset = [&]() -> absl::StatusOr<std::shared_ptr<const Dataset>> {
      ASSIGN_OR_RETURN(CarriedFunction::Instance call, CarriedFunction::Instantiate(factory_, c.device()));
      ASSIGN_OR_RETURN(const Element results, call(it, {}));
      if (results.size() != 1) {
        return InvalidArgument("The `dataset_factory` function must return a single scalar of dtype DT_VARIANT.");
      }
      return DatasetIn(results[0]);
    };
    return iterator->StartOnce(dataset, it);
  }

 private:
  std::shared_ptr<const CarriedFunction> factory_;
};

absl::Status ComputeMakeIterator(KernelContext& c) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> dataset, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindResource<Iterator>(c, 1));
  Iteration it = IterationOf(c);
  return iterator->Start(std::move(dataset), it);
}

// Shows an element, if it is what the op promises.
absl::Status Show(KernelContext& c, Element element) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes,
                   GetAttr<std::vector<PartialShape>>(c.node().def(), "output_shapes"));
  if (static_cast<int>(element.size()) != c.num_outputs()) {
    return InvalidArgument("Number of components does not match: expected ", c.num_outputs(), " types but got ",
                           element.size(), ".");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (element[i].dtype() != c.output_type(i)) {
      return InvalidArgument("Data type mismatch at component ", i, ": expected ", c.output_type(i), " but got ",
                             element[i].dtype(), ".");
    }
    if (i < static_cast<int>(shapes.size()) && !shapes[i].Accepts(element[i].shape())) {
      return InvalidArgument("Incompatible shapes at component ", i, ": expected ", shapes[i], " but got ",
                             element[i].shape(), ".");
    }
    c.set_output(i, std::move(element[i]));
  }
  return absl::OkStatus();
}

absl::Status ComputeGetNext(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindResource<Iterator>(c, 0));
  Iteration it = IterationOf(c);
  ASSIGN_OR_RETURN(std::optional<Element> element, iterator->Get(it));
  if (!element) return OutOfRange("End of sequence");
  return Show(c, *std::move(element));
}

absl::Status ComputeToString(KernelContext& c) {
  RETURN_IF_ERROR(FindResource<Iterator>(c, 0).status());
  tensorflow::ResourceHandleProto proto;
  c.input(0).scalar<ResourceHandle>().ToProto(&proto);
  c.set_output(0, Tensor::Scalar(proto.SerializeAsString()));
  return absl::OkStatus();
}

absl::Status ComputeFromString(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::string text, StringArgument(c, 0, "string_handle"));
  tensorflow::ResourceHandleProto proto;
  if (!proto.ParseFromString(text)) return InvalidArgument("Could not parse string_handle as a valid ResourceHandle");
  const ResourceHandle handle = ResourceHandle::FromProto(proto);
  if (handle.device != c.device().name()) {
    return InvalidArgument("Attempted create an iterator on device \"", c.device().name(),
                           "\" from handle defined on device \"", handle.device, "\"");
  }
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

// Where an iterator is. Ends are negative.
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
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindResource<Iterator>(c, 0));
  ASSIGN_OR_RETURN(const int64_t position, iterator->Position());
  c.set_output(0, Tensor::Scalar(Variant(std::make_shared<IteratorState>(position))));
  return absl::OkStatus();
}

absl::Status ComputeDeserialize(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Iterator> iterator, FindResource<Iterator>(c, 0));
  if (c.input(1).num_elements() != 1) return InvalidArgument("serialized must be a scalar");
  const Variant& variant = c.input(1).scalar<Variant>();
  int64_t position = 0;
  if (const auto* const state = variant.As<IteratorState>()) {
    position = state->position();
  } else if (const auto* const encoded = variant.As<EncodedVariant>();
             encoded == nullptr || !absl::SimpleAtoi(encoded->proto().metadata(), &position)) {
    return InvalidArgument("the state of an iterator is expected, got ",
                           variant.empty() ? "nothing" : variant.get()->ToString());
  }
  Iteration it = IterationOf(c);
  return iterator->Restore(position, it);
}

absl::Status ComputeAtIndex(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const int64_t index, IntArgument(c, 1, "index"));
  const int64_t n = dataset->cardinality();
  if (n == Dataset::kUnknown) return Unimplemented("Random access is not implemented for this dataset.");
  if (n == Dataset::kInfinite) {
    return FailedPrecondition("Dataset of type ", dataset->ToString(),
                              " has infinite cardinality, which does not support random access.");
  }
  if (index < 0 || index >= n) return OutOfRange("Index out of range [0, ", n, "):", index);
  Iteration it = IterationOf(c);
  ASSIGN_OR_RETURN(Next next, dataset->Iterate(it));
  for (int64_t k = 0;; ++k) {
    ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
    if (!element) return OutOfRange("Index out of range [0, ", k, "):", index);
    if (k == index) return Show(c, *std::move(element));
    RETURN_IF_ERROR(c.step().cancellation->status());
  }
}

absl::Status ComputeSingleElement(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, DatasetIn(c.input(0)));
  Iteration it = IterationOf(c);
  ASSIGN_OR_RETURN(Next next, dataset->Iterate(it));
  ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
  if (!element) return InvalidArgument("Dataset was empty.");
  ASSIGN_OR_RETURN(const std::optional<Element> more, next(it));
  if (more) return InvalidArgument("Dataset had more than one element.");
  return Show(c, *std::move(element));
}

absl::Status ComputeCardinality(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, DatasetIn(c.input(0)));
  c.set_output(0, Tensor::Scalar<int64_t>(dataset->cardinality()));
  return absl::OkStatus();
}

absl::Status ElementShapes(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  if (static_cast<int>(shapes.size()) != c.num_outputs()) {
    return InvalidArgument("`output_shapes` must be the same length as `output_types` (", shapes.size(), " vs. ",
                           c.num_outputs(), ")");
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shapes[i]);
  return absl::OkStatus();
}

Op Making(absl::string_view name) {
  return Op(name).Output("handle: resource").Stateful().Shape(HandleShape).NotDifferentiable();
}
Op Getting(absl::string_view name) {
  return Op(name)
      .Input("iterator: resource")
      .Output("components: output_types")
      .Attr("output_types: list(type) >= 1")
      .Attr("output_shapes: list(shape) >= 1")
      .Stateful()
      .Shape(ElementShapes)
      .Compute(ComputeGetNext)
      .NotDifferentiable();
}
Op FromString(absl::string_view name) {
  return Op(name)
      .Input("string_handle: string")
      .Output("resource_handle: resource")
      .Attr("output_types: list(type) >= 0 = []")
      .Attr("output_shapes: list(shape) >= 0 = []")
      .Stateful()
      .Shape(shapes::Scalar)
      .Compute(ComputeFromString)
      .NotDifferentiable();
}

const OpRegistration kOps[] = {
    Making("Iterator")
        .Attr("shared_name: string")
        .Attr("container: string")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Kernel<IteratorKernel>(),
    Making("IteratorV2")
        .Attr("shared_name: string")
        .Attr("container: string")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Kernel<IteratorKernel>(),
    Making("OneShotIterator")
        .Attr("dataset_factory: func")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Kernel<OneShotKernel>(),
    Op("MakeIterator")
        .Input("dataset: variant")
        .Input("iterator: resource")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(ComputeMakeIterator)
        .NotDifferentiable(),
    Getting("IteratorGetNext"),
    Getting("IteratorGetNextSync"),
    Op("IteratorToStringHandle")
        .Input("resource_handle: resource")
        .Output("string_handle: string")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeToString)
        .NotDifferentiable(),
    FromString("IteratorFromStringHandle"),
    FromString("IteratorFromStringHandleV2"),
    Op("SerializeIterator")
        .Input("resource_handle: resource")
        .Output("serialized: variant")
        .Attr("external_state_policy: int = 0")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeSerialize)
        .NotDifferentiable(),
    Op("DeserializeIterator")
        .Input("resource_handle: resource")
        .Input("serialized: variant")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(ComputeDeserialize)
        .NotDifferentiable(),
    Op("GetElementAtIndex")
        .Input("dataset: variant")
        .Input("index: int64")
        .Output("components: output_types")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Shape(ElementShapes)
        .Compute(ComputeAtIndex)
        .NotDifferentiable(),
    Op("DatasetToSingleElement")
        .Input("dataset: variant")
        .Output("components: output_types")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("metadata: string = ''")
        .Stateful()
        .Shape(ElementShapes)
        .Compute(ComputeSingleElement)
        .NotDifferentiable(),
    Op("DatasetCardinality")
        .Input("input_dataset: variant")
        .Output("cardinality: int64")
        .Attr("cardinality_options: string = ''")
        .Shape(shapes::Scalar)
        .Compute(ComputeCardinality)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
