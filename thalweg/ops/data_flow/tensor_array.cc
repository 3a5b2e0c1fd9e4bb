// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_array.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/add_into.h"

namespace thalweg {
TensorArray::TensorArray(TensorArrayConfig options)
    : strings(options.name, kString, PartialShape({2})),
      options_(std::move(options)),
      dynamic_size_(options_.dynamic_size),
      element_shape_(options_.element_shape) {}

absl::StatusOr<std::shared_ptr<TensorArray>> TensorArray::Make(TensorArrayConfig options, int64_t size) {
  if (size > kMaxSize) return ResourceExhausted("a TensorArray of ", size, " elements; at most ", kMaxSize);
  std::shared_ptr<TensorArray> array(new TensorArray(std::move(options)));
  MutexLock lock(&array->mutex_);
  array->elements_.resize(size);
  return array;
}

// The gradient array has the size and the shapes of what was written here, which must not grow any more. Elements to
// which no gradient is written read as zeros.
absl::StatusOr<std::shared_ptr<TensorArray>> TensorArray::MakeGradient(std::string name, const Shape& prefix) {
  TensorArrayConfig options = options_;
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  dynamic_size_ = false;
  if (summed_) {
    return InvalidArgument("Unable to create a gradients TensorArray for ", options_.name,
                           ".  Perhaps you used the multiple_writes_aggregate flag on a previous write?  Gradient "
                           "calculation is impossible when multiple writes are performed to the same index.");
  }
  options.name = std::move(name);
  options.dynamic_size = false;
  options.clear_after_read = true;
  options.is_gradient = true;
  options.element_shape = element_shape_;
  if (element_shape_.has_rank() && prefix.rank() > 0) {
    Dims dims(prefix.dims().begin(), prefix.dims().end());
    dims.insert(dims.end(), element_shape_.dims().begin(), element_shape_.dims().end());
    options.element_shape = PartialShape(std::move(dims));
  }
  std::shared_ptr<TensorArray> gradient(new TensorArray(std::move(options)));
  MutexLock gradient_lock(&gradient->mutex_);
  gradient->marked_size_ = marked_size_;
  gradient->elements_.resize(elements_.size());
  for (size_t i = 0; i < elements_.size(); ++i) {
    if (!elements_[i].written) continue;
    Dims dims(prefix.dims().begin(), prefix.dims().end());
    dims.insert(dims.end(), elements_[i].shape.dims().begin(), elements_[i].shape.dims().end());
    ASSIGN_OR_RETURN(gradient->elements_[i].shape, Shape::Make(dims));
    gradient->elements_[i].written = true;
  }
  return gradient;
}

absl::Status TensorArray::CheckOpen() const {
  return closed_ ? InvalidArgument("TensorArray ", options_.name, " has already been closed.") : absl::OkStatus();
}

absl::Status TensorArray::Write(absl::Span<const int32_t> indices, std::vector<Tensor> values) {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < indices.size(); ++i) RETURN_IF_ERROR(WriteOne(indices[i], std::move(values[i])));
  return absl::OkStatus();
}

// Elements are written once, except in gradient arrays: there further writes are added up, because each reader of an
// element contributes a gradient.
absl::Status TensorArray::WriteOne(int64_t index, Tensor value) {
  RETURN_IF_ERROR(CheckOpen());
  const auto size = static_cast<int64_t>(elements_.size());
  if (index < 0 || (!dynamic_size_ && index >= size)) {
    return InvalidArgument("TensorArray ", options_.name, ": Tried to write to index ", index,
                           " but array is not resizeable and size is: ", size);
  }
  if (index >= kMaxSize) return ResourceExhausted("TensorArray ", options_.name, ": index ", index, " is too large");
  const auto refuse = [&](const auto&... why) {
    return InvalidArgument("TensorArray ", options_.name, ": Could not write to TensorArray index ", index, " because ",
                           why...);
  };
  if (value.dtype() != options_.dtype) {
    return refuse("the value dtype is ", value.dtype(), " but TensorArray dtype is ", options_.dtype, ".");
  }
  if (!element_shape_.Accepts(value.shape())) {
    return refuse("the value shape is ", value.shape(),
                  " which is incompatible with the TensorArray's inferred element shape: ", element_shape_,
                  " (consider setting infer_shape=False).");
  }
  if (index >= size) elements_.resize(index + 1);
  if (options_.identical_shapes && !element_shape_.fully_known()) element_shape_ = PartialShape(value.shape());
  Element& e = elements_[index];
  if (e.read) return refuse("it has already been read.");
  if (!e.written) {
    e.shape = value.shape();
    e.written = true;
    e.value = std::move(value);
    return absl::OkStatus();
  }
  if (!options_.is_gradient) return refuse("it has already been written to.");
  if (!(value.shape() == e.shape)) {
    return InvalidArgument("TensorArray ", options_.name, ": Could not aggregate to TensorArray index ", index,
                           " because the existing shape is ", e.shape, " but the new input shape is ", value.shape(),
                           ".");
  }
  if (!e.value.has_value() || e.value.num_elements() == 0) {
    e.value = std::move(value);
    return absl::OkStatus();
  }
  summed_ = true;
  if (!e.own) {
    ASSIGN_OR_RETURN(Tensor sum, Tensor::Allocate(options_.dtype, e.shape));
    RETURN_IF_ERROR(Dispatch(NumberTypes(), options_.dtype, [&]<typename T>() {
      std::copy_n(e.value.data<T>(), e.value.num_elements(), sum.mutable_data<T>());
      return absl::OkStatus();
    }));
    e.value = std::move(sum);
    e.own = true;
  }
  return AddInto(value, &e.value);
}

absl::StatusOr<std::vector<Tensor>> TensorArray::Read(absl::Span<const int32_t> indices) {
  std::vector<Tensor> values;
  values.reserve(indices.size());
  MutexLock lock(&mutex_);
  for (const int32_t index : indices) {
    ASSIGN_OR_RETURN(Tensor value, ReadOne(index));
    values.push_back(std::move(value));
  }
  return values;
}

// An element that was not written reads as zeros, if its shape is known.
absl::Status TensorArray::AssumeZeros(int64_t index) {
  const auto size = static_cast<int64_t>(elements_.size());
  Shape shape;
  if (options_.is_gradient && index < size && elements_[index].shape.rank() > 0) {
    shape = elements_[index].shape;
  } else if (!element_shape_.fully_known()) {
    return InvalidArgument(
        "TensorArray ", options_.name, ": Could not read from TensorArray index ", index,
        ".  Furthermore, the element shape is not fully defined: ", element_shape_,
        ".  It is possible you are working with a resizeable TensorArray and stop_gradients is not allowing the "
        "gradients to be written.  If you set the full element_shape property on the forward TensorArray, the proper "
        "all-zeros tensor will be returned instead of incurring this error.");
  } else {
    shape = *element_shape_.AsShape();
  }
  if (index >= kMaxSize) return ResourceExhausted("TensorArray ", options_.name, ": index ", index, " is too large");
  if (index >= size) elements_.resize(index + 1);
  for (int64_t i = std::min(index, size); i <= index; ++i) {
    elements_[i].shape = shape;
    elements_[i].written = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorArray::ReadOne(int64_t index) {
  RETURN_IF_ERROR(CheckOpen());
  const auto size = static_cast<int64_t>(elements_.size());
  if (index < 0 || (!options_.is_gradient && index >= size)) {
    return InvalidArgument("Tried to read from index ", index, " but array size is: ", size);
  }
  if (index >= size || !elements_[index].written) RETURN_IF_ERROR(AssumeZeros(index));
  Element& e = elements_[index];
  if (e.cleared) {
    return InvalidArgument("TensorArray ", options_.name, ": Could not read index ", index,
                           " twice because it was cleared after a previous read (perhaps try setting clear_after_read "
                           "= false?).");
  }
  if (!e.value.has_value()) {
    if (options_.dtype == kString || options_.dtype == kResource || options_.dtype == kVariant) {
      return InvalidArgument("tensor_array::TensorSetZero type not supported: ", options_.dtype);
    }
    ASSIGN_OR_RETURN(e.value, Tensor::Allocate(options_.dtype, e.shape));
    std::memset(e.value.raw(), 0, e.value.TotalBytes());
  }
  e.read = true;
  if (!options_.clear_after_read) {
    e.own = false;
    return e.value;
  }
  e.cleared = true;
  return std::move(e.value);
}

absl::StatusOr<int64_t> TensorArray::Size() const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  return static_cast<int64_t>(elements_.size());
}

absl::StatusOr<int64_t> TensorArray::PackSize() const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOpen());
  if (!options_.is_gradient) return static_cast<int64_t>(elements_.size());
  if (marked_size_ < 0) {
    return InvalidArgument("TensorArray ", options_.name, ": nothing was split or unpacked into its array");
  }
  return marked_size_;
}

void TensorArray::MarkSize(int64_t size) {
  MutexLock lock(&mutex_);
  if (!options_.is_gradient) marked_size_ = size;
}

bool TensorArray::has_dynamic_size() const {
  MutexLock lock(&mutex_);
  return dynamic_size_;
}

absl::Status TensorArray::MergeElementShape(const PartialShape& shape) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(element_shape_, PartialShape::Merge(element_shape_, shape));
  return absl::OkStatus();
}

void TensorArray::Close() {
  std::vector<Element> elements;  // die after the lock
  MutexLock lock(&mutex_);
  closed_ = true;
  elements_.swap(elements);
}

std::string TensorArray::Describe() const {
  MutexLock lock(&mutex_);
  return absl::StrCat("TensorArray[", elements_.size(), "]");
}

}  // namespace thalweg
