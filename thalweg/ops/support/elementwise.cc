// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/elementwise.h"

#include <algorithm>
#include <atomic>

#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

// Elements of half precision that are converted at a time.
constexpr int64_t kBlock = 512;

template <typename T>
THALWEG_SIMD void WidenLoop(const T* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

template <typename T>
THALWEG_SIMD void NarrowLoop(const float* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = T(x[i]);
}

const char* At(const void* base, int64_t index, size_t size) { return static_cast<const char*>(base) + index * size; }
char* At(void* base, int64_t index, size_t size) { return static_cast<char*>(base) + index * size; }

}  // namespace

void HalfToFloat(DType from, const void* x, float* y, int64_t n) {
  if (from == kHalf) return WidenLoop(static_cast<const Half*>(x), y, n);
  WidenLoop(static_cast<const BFloat16*>(x), y, n);
}

void FloatToHalf(DType to, const float* x, void* y, int64_t n) {
  if (to == kHalf) return NarrowLoop(x, static_cast<Half*>(y), n);
  NarrowLoop(x, static_cast<BFloat16*>(y), n);
}

absl::Status UnaryKernel::Init(const KernelInit& init) {
  in_ = RemoveRef(init.node().input_type(0));
  out_ = RemoveRef(init.node().output_type(0));
  fn_ = select_(IsHalfPrecision(in_) ? kFloat : StorageType(in_));
  if (fn_.loop == nullptr) return Unimplemented(init.node().op(), ": no kernel for type ", in_);
  return absl::OkStatus();
}

absl::Status UnaryKernel::Compute(KernelContext& context) {
  const Tensor& x = context.input(0);
  Tensor* y = context.Recycle(0, out_, x.shape());
  if (y != nullptr && !IsHalfPrecision(in_)) {  // few elements: nothing between them and the loop
    fn_.loop(x.raw(), y->raw(), x.num_elements());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(y, context.ForwardOrAllocate({0}, 0, x.shape()));
  const void* in = x.raw();
  void* out = y->raw();
  const size_t in_size = Buffer::Stride(in_), out_size = Buffer::Stride(out_);
  context.ParallelFor(x.num_elements(), fn_.nanos, [&](int64_t begin, int64_t end) {
    if (!IsHalfPrecision(in_)) return fn_.loop(At(in, begin, in_size), At(out, begin, out_size), end - begin);
    float values[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      HalfToFloat(in_, At(in, i, in_size), values, n);
      if (!IsHalfPrecision(out_)) {
        fn_.loop(values, At(out, i, out_size), n);
      } else {
        fn_.loop(values, values, n);
        FloatToHalf(out_, values, At(out, i, out_size), n);
      }
    }
  });
  return absl::OkStatus();
}

absl::Status BinaryKernel::Init(const KernelInit& init) {
  in_ = RemoveRef(init.node().input_type(0));
  out_ = RemoveRef(init.node().output_type(0));
  in_size_ = Buffer::Stride(in_);
  out_size_ = Buffer::Stride(out_);
  fn_ = select_(StorageType(in_));
  if (IsHalfPrecision(in_)) {
    // Most functors have loops for float, whose results are rounded. Some have others for half precision.
    if (fn_.loops[0] == nullptr) fn_ = select_(kFloat);
    fn_.one = nullptr;
  }
  if (fn_.loops[0] == nullptr) return Unimplemented(init.node().op(), ": no kernel for type ", in_);
  if (HasAttr(init.node().def(), "incompatible_shape_error")) {
    ASSIGN_OR_RETURN(shape_error_, init.Attr<bool>("incompatible_shape_error"));
  }
  return absl::OkStatus();
}

absl::Status BinaryKernel::Compute(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& y = context.input(1);
  if (x.num_elements() == 1 && y.num_elements() == 1 && fn_.one != nullptr) {
    const Shape& shape = x.rank() >= y.rank() ? x.shape() : y.shape();
    Tensor* z = context.Recycle(0, out_, shape);
    if (z == nullptr) [[unlikely]] {
      ASSIGN_OR_RETURN(z, context.Allocate(0, shape));
    }
    return fn_.one(x.raw(), y.raw(), z->raw()) ? absl::OkStatus() : Failure();
  }
  if (x.shape() == y.shape()) {
    ASSIGN_OR_RETURN(Tensor * z, context.ForwardOrAllocate({0, 1}, 0, x.shape()));
    return ComputeFlat(context, BinaryForm::kBoth, x, y, z);
  }
  if (y.num_elements() == 1 && y.rank() <= x.rank()) {
    ASSIGN_OR_RETURN(Tensor * z, context.ForwardOrAllocate({0}, 0, x.shape()));
    return ComputeFlat(context, BinaryForm::kScalarY, x, y, z);
  }
  if (x.num_elements() == 1 && x.rank() <= y.rank()) {
    ASSIGN_OR_RETURN(Tensor * z, context.ForwardOrAllocate({1}, 0, y.shape()));
    return ComputeFlat(context, BinaryForm::kScalarX, x, y, z);
  }
  return ComputeBroadcast(context, x, y);
}

absl::Status SameShapeBinaryKernel::Compute(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& y = context.input(1);
  if (x.shape() != y.shape()) {
    return InvalidArgument("Inputs to operation ", context.node().name(), " of type ", context.node().op(),
                           " must have the same size and shape.  Input 0: ", x.shape(), " != input 1: ", y.shape());
  }
  ASSIGN_OR_RETURN(Tensor * z, context.ForwardOrAllocate({0, 1}, 0, x.shape()));
  return ComputeFlat(context, BinaryForm::kBoth, x, y, z);
}

bool BinaryKernel::Run(const BinaryRows& rows, BinaryForm form) const {
  if (IsHalfPrecision(in_)) return RunAsFloat(rows, form);
  return fn_.loops[static_cast<int>(form)](rows);
}

bool BinaryKernel::RunAsFloat(const BinaryRows& rows, BinaryForm form) const {
  float xs[kBlock], ys[kBlock];
  bool ok = true;
  for (int64_t r = 0; r < rows.rows; ++r) {
    const char* x = At(rows.x, r * rows.x_stride, in_size_);
    const char* y = At(rows.y, r * rows.y_stride, in_size_);
    char* z = At(rows.z, r * rows.columns, out_size_);
    if (form == BinaryForm::kScalarX) HalfToFloat(in_, x, xs, 1);
    if (form == BinaryForm::kScalarY) HalfToFloat(in_, y, ys, 1);
    for (int64_t i = 0; i < rows.columns; i += kBlock) {
      const int64_t n = std::min(kBlock, rows.columns - i);
      if (form != BinaryForm::kScalarX) HalfToFloat(in_, At(x, i, in_size_), xs, n);
      if (form != BinaryForm::kScalarY) HalfToFloat(in_, At(y, i, in_size_), ys, n);
      // The result goes where the operand was that is not needed again.
      float* const zs = form == BinaryForm::kScalarX ? ys : xs;
      void* const target = IsHalfPrecision(out_) ? static_cast<void*>(zs) : At(z, i, out_size_);
      ok &= fn_.loops[static_cast<int>(form)]({.x = xs, .y = ys, .z = target, .columns = n});
      if (IsHalfPrecision(out_)) FloatToHalf(out_, zs, At(z, i, out_size_), n);
    }
  }
  return ok;
}

absl::Status BinaryKernel::ComputeFlat(KernelContext& context, BinaryForm form, const Tensor& x, const Tensor& y,
                                       Tensor* z) const {
  const int64_t x_step = form == BinaryForm::kScalarX ? 0 : 1, y_step = form == BinaryForm::kScalarY ? 0 : 1;
  // Small tensors are many: nothing between them and the loop.
  constexpr int64_t kSmall = 64;
  if (z->num_elements() <= kSmall) {
    const bool ok = Run({.x = x.raw(), .y = y.raw(), .z = z->raw(), .columns = z->num_elements()}, form);
    return ok ? absl::OkStatus() : Failure();
  }
  std::atomic<bool> failed = false;
  context.ParallelFor(z->num_elements(), fn_.nanos, [&](int64_t begin, int64_t end) {
    const BinaryRows rows{.x = At(x.raw(), begin * x_step, in_size_),
                          .y = At(y.raw(), begin * y_step, in_size_),
                          .z = At(z->raw(), begin, out_size_),
                          .columns = end - begin};
    if (!Run(rows, form)) failed.store(true, std::memory_order_relaxed);
  });
  if (failed) return Failure();
  return absl::OkStatus();
}

absl::Status BinaryKernel::ComputeBroadcast(KernelContext& context, const Tensor& x, const Tensor& y) const {
  absl::StatusOr<Broadcast> made = Broadcast::Make(x.shape(), y.shape());
  if (!made.ok() && !shape_error_) {
    // Equal and NotEqual of shapes that never match.
    ASSIGN_OR_RETURN(Tensor * z, context.Allocate(0, Shape()));
    z->mutable_data<bool>()[0] = context.node().op() == "NotEqual";
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(made.status());
  const Broadcast& b = *made;
  ASSIGN_OR_RETURN(Tensor * z, context.ForwardOrAllocate({0, 1}, 0, b.shape));
  if (z->num_elements() == 0) return absl::OkStatus();
  const BinaryForm form = b.x_strides[0] == 0   ? BinaryForm::kScalarX
                          : b.y_strides[0] == 0 ? BinaryForm::kScalarY
                                                : BinaryForm::kBoth;
  const int64_t columns = b.sizes[0], rows = b.size(1);
  const int64_t blocks = z->num_elements() / (columns * rows);
  std::atomic<bool> failed = false;
  // Rows [begin, end) of one block.
  const auto run = [&](int64_t block, int64_t begin, int64_t end) {
    int64_t x_at = begin * b.x_stride(1), y_at = begin * b.y_stride(1), rest = block;
    for (size_t d = 2; d < b.sizes.size(); ++d) {
      const int64_t i = rest % b.sizes[d];
      rest /= b.sizes[d];
      x_at += i * b.x_strides[d];
      y_at += i * b.y_strides[d];
    }
    const BinaryRows part{.x = At(x.raw(), x_at, in_size_),
                          .y = At(y.raw(), y_at, in_size_),
                          .z = At(z->raw(), (block * rows + begin) * columns, out_size_),
                          .rows = end - begin,
                          .columns = columns,
                          .x_stride = b.x_stride(1),
                          .y_stride = b.y_stride(1)};
    if (!Run(part, form)) failed.store(true, std::memory_order_relaxed);
  };
  if (blocks == 1) {
    context.ParallelFor(rows, fn_.nanos * columns, [&](int64_t begin, int64_t end) { run(0, begin, end); });
  } else {
    context.ParallelFor(blocks, fn_.nanos * columns * rows, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) run(block, 0, rows);
    });
  }
  if (failed) return Failure();
  return absl::OkStatus();
}

Op UnaryOp(absl::string_view name, absl::string_view types) {
  return Op(name).Input("x: T").Output("y: T").Attr(absl::StrCat("T: {", types, "}")).Shape(shapes::LikeInput0);
}

Op BinaryOp(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(absl::StrCat("T: {", types, "}"))
      .Shape(shapes::Broadcast);
}

Op GradientHelperOp(absl::string_view name) {
  return Op(name)
      .Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(absl::StrCat("T: {", kFloatsAndComplex, "}"))
      .Shape(shapes::LikeInput0);
}

absl::Status SetSums(GradientContext& g, Output dx, Output dy) {
  const auto [x, y] = SumBroadcast(g.scope(), g.input(0), g.input(1), dx, dy);
  g.set_dx(0, x);
  g.set_dx(1, y);
  return absl::OkStatus();
}

}  // namespace thalweg
