// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/nn/convolver.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/gemm.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

// ---- By matrices of patches, for types and sizes that oneDNN does not do ----
//
// The elements in the window at each of `count` output positions from `first` on are a
// row of a matrix; the convolution is that matrix times the filter as a matrix.
// Positions are taken in pieces, so that the matrix stays small.

constexpr int64_t kPatchElements = 1 << 18;

template <typename T>
class Patches {
 public:
  Patches(const ConvolutionSize& size, int64_t group)
      : size_(size), depth_(size.in_channels / size.groups), offset_(group * depth_) {}

  int64_t columns() const { return size_.window_positions() * depth_; }

  // Copies what the windows see; zeros outside.
  void Gather(const T* image, int64_t first, int64_t count, T* rows) const {
    ForEach(
        first, count,
        [&](int64_t position, T* row) {
          if (position < 0) {
            std::fill_n(row, depth_, T(0));
          } else {
            std::copy_n(image + position * size_.in_channels + offset_, depth_, row);
          }
        },
        rows);
  }
  // Adds the rows to where their elements come from.
  void Scatter(const T* rows, int64_t first, int64_t count, T* image) const {
    ForEach(
        first, count,
        [&](int64_t position, const T* row) {
          if (position < 0) return;
          T* to = image + position * size_.in_channels + offset_;
          for (int64_t c = 0; c < depth_; ++c) to[c] = WrapAdd(to[c], row[c]);
        },
        rows);
  }

 private:
  // f(input position or -1, its channels in the row) for every element of the
  // windows.
  template <typename F, typename Row>
  void ForEach(int64_t first, int64_t count, const F& f, Row* row) const {
    const auto& [d, h, w] = size_.windows;
    for (int64_t p = first; p < first + count; ++p) {
      const int64_t z0 = d.Start(p / (h.output * w.output)), y0 = h.Start(p / w.output % h.output);
      const int64_t x0 = w.Start(p % w.output);
      for (int64_t i = 0; i < d.window; ++i) {
        const int64_t z = z0 + i * d.dilation;
        for (int64_t j = 0; j < h.window; ++j) {
          const int64_t y = y0 + j * h.dilation;
          const bool inside = z >= 0 && z < d.input && y >= 0 && y < h.input;
          for (int64_t k = 0; k < w.window; ++k, row += depth_) {
            const int64_t x = x0 + k * w.dilation;
            f(inside && x >= 0 && x < w.input ? (z * h.input + y) * w.input + x : -1, row);
          }
        }
      }
    }
  }

  const ConvolutionSize& size_;
  const int64_t depth_;
  const int64_t offset_;
};

// Copy columns [begin, begin + width) of a matrix with `stride` columns to a dense matrix, and
// back.
template <typename T>
void CopyColumns(const T* from, int64_t rows, int64_t from_stride, int64_t width, T* to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_stride, width, to + r * to_stride);
}

// One group of some images. Memory for everything that follows is taken first.
template <typename T>
class PatchConvolution {
 public:
  PatchConvolution(ConvolutionKind kind, const ConvolutionSize& size, int64_t group)
      : kind_(kind),
        size_(size),
        patches_(size, group),
        width_(size.out_channels / size.groups),
        offset_(group * width_),
        piece_(std::clamp<int64_t>(kPatchElements / std::max<int64_t>(1, patches_.columns()), 1,
                                   std::max<int64_t>(1, size.output_positions()))) {}

  absl::Status Run(const T* a, const T* b, T* result, int64_t begin, int64_t end) {
    const int64_t columns = patches_.columns();
    ASSIGN_OR_RETURN(Tensor patches, Tensor::Allocate(DTypeOf<T>, Shape({piece_, columns})));
    ASSIGN_OR_RETURN(Tensor outputs, Tensor::Allocate(DTypeOf<T>, Shape({piece_, width_})));
    ASSIGN_OR_RETURN(Tensor filter, Tensor::Allocate(DTypeOf<T>, Shape({columns, width_})));
    T* const patch = patches.template mutable_data<T>();
    T* const output = outputs.template mutable_data<T>();
    T* const weights = filter.template mutable_data<T>();
    if (kind_ != ConvolutionKind::kBackpropFilter) {
      const T* all = kind_ == ConvolutionKind::kForward ? b : a;
      CopyColumns(all + offset_, columns, size_.out_channels, width_, weights, width_);
    }
    for (int64_t image = begin; image < end; ++image) {
      for (int64_t first = 0; first < size_.output_positions(); first += piece_) {
        const int64_t count = std::min(piece_, size_.output_positions() - first);
        const int64_t out = image * size_.output_image() + first * size_.out_channels + offset_;
        switch (kind_) {
          case ConvolutionKind::kForward:
            patches_.Gather(a + image * size_.input_image(), first, count, patch);
            RETURN_IF_ERROR((Gemm{.m = count, .n = width_, .k = columns}.Run(patch, weights, output)));
            CopyColumns(output, count, width_, width_, result + out, size_.out_channels);
            break;
          case ConvolutionKind::kBackpropInput:
            CopyColumns(b + out, count, size_.out_channels, width_, output, width_);
            RETURN_IF_ERROR(
                (Gemm{.transpose_b = true, .m = count, .n = columns, .k = width_}.Run(output, weights, patch)));
            patches_.Scatter(patch, first, count, result + image * size_.input_image());
            break;
          case ConvolutionKind::kBackpropFilter:
            patches_.Gather(a + image * size_.input_image(), first, count, patch);
            CopyColumns(b + out, count, size_.out_channels, width_, output, width_);
            RETURN_IF_ERROR(
                (Gemm{.transpose_a = true, .m = columns, .n = width_, .k = count}.Run(patch, output, weights)));
            for (int64_t r = 0; r < columns; ++r) {
              T* to = result + r * size_.out_channels + offset_;
              for (int64_t c = 0; c < width_; ++c) to[c] = WrapAdd(to[c], weights[r * width_ + c]);
            }
            break;
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const ConvolutionKind kind_;
  const ConvolutionSize& size_;
  const Patches<T> patches_;
  const int64_t width_;
  const int64_t offset_;
  const int64_t piece_;
};

// Images [begin, end) on the calling thread; the result of backprops is zero
// before.
template <typename T>
absl::Status RunImages(ConvolutionKind kind, const ConvolutionSize& size, const T* a, const T* b, T* result,
                       int64_t begin, int64_t end) {
  for (int64_t group = 0; group < size.groups; ++group) {
    RETURN_IF_ERROR(PatchConvolution<T>(kind, size, group).Run(a, b, result, begin, end));
  }
  return absl::OkStatus();
}

template <typename T>
THALWEG_SIMD void AddTo(const T* x, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = WrapAdd(y[i], x[i]);
}

// The number of parts that the images are cut into: threads, if there is enough
// to do for them.
int64_t CountShards(const KernelContext& context, const ConvolutionSize& size, double flops_per_shard) {
  const double most = std::min<double>(context.device().intra_op_pool().concurrency(), static_cast<double>(size.batch));
  return static_cast<int64_t>(
      std::clamp(static_cast<double>(size.batch) * size.flops() / flops_per_shard, 1.0, std::max(1.0, most)));
}

// body(shard) for each, on as many threads. The first error.
template <typename F>
absl::Status ForShards(KernelContext& context, int64_t shards, const F& body) {
  Mutex mutex;
  absl::Status first;
  context.ParallelFor(shards, 1e6, [&](int64_t begin, int64_t end) {
    for (int64_t shard = begin; shard < end; ++shard) {
      const absl::Status status = body(shard);
      if (status.ok()) continue;
      MutexLock lock(&mutex);
      first.Update(status);
    }
  });
  return first;
}

template <typename T>
absl::Status RunPatches(KernelContext& context, ConvolutionKind kind, const ConvolutionSize& size, const T* a,
                        const T* b, T* result) {
  const int64_t shards = CountShards(context, size, std::is_same_v<T, float> ? 1e6 : 2e5);
  const bool to_filter = kind == ConvolutionKind::kBackpropFilter;
  // Filters' gradients of all images are added up: each shard has its own.
  std::vector<Tensor> sums(to_filter ? shards : 0);
  for (size_t i = 1; i < sums.size(); ++i) {
    ASSIGN_OR_RETURN(sums[i], context.AllocateTemporary(DTypeOf<T>, Shape({size.filter()})));
  }
  if (to_filter) std::fill_n(result, size.filter(), T(0));
  RETURN_IF_ERROR(ForShards(context, shards, [&](int64_t shard) {
    const int64_t begin = size.batch * shard / shards, end = size.batch * (shard + 1) / shards;
    T* to = result;
    if (to_filter && shard > 0) {
      to = sums[shard].template mutable_data<T>();
      std::fill_n(to, size.filter(), T(0));
    } else if (kind == ConvolutionKind::kBackpropInput) {
      std::fill_n(result + begin * size.input_image(), (end - begin) * size.input_image(), T(0));
    }
    return RunImages(kind, size, a, b, to, begin, end);
  }));
  for (size_t i = 1; i < sums.size(); ++i) AddTo(sums[i].template data<T>(), result, size.filter());
  return absl::OkStatus();
}

}  // namespace

absl::Status Convolver::Run(KernelContext& context, const ConvolutionSize& size, const Tensor& a, const Tensor& b,
                            Tensor* result) {
  if (result->num_elements() == 0) return absl::OkStatus();
  if (a.num_elements() == 0 || b.num_elements() == 0) {
    memset(result->raw(), 0, result->num_elements() * ElementSize(result->dtype()));
    return absl::OkStatus();
  }
  switch (a.dtype()) {
    case kFloat:
      return RunFloat(context, size, a.data<float>(), b.data<float>(), result->mutable_data<float>());
    case kDouble:
      return RunPatches(context, kind_, size, a.data<double>(), b.data<double>(), result->mutable_data<double>());
    case kInt32:
      return RunPatches(context, kind_, size, a.data<int32_t>(), b.data<int32_t>(), result->mutable_data<int32_t>());
    case kHalf:
    case kBfloat16: {
      ASSIGN_OR_RETURN(Tensor x, context.AllocateTemporary(kFloat, a.shape()));
      ASSIGN_OR_RETURN(Tensor y, context.AllocateTemporary(kFloat, b.shape()));
      ASSIGN_OR_RETURN(Tensor z, context.AllocateTemporary(kFloat, result->shape()));
      HalfToFloat(a.dtype(), a.raw(), x.mutable_data<float>(), a.num_elements());
      HalfToFloat(b.dtype(), b.raw(), y.mutable_data<float>(), b.num_elements());
      RETURN_IF_ERROR(RunFloat(context, size, x.data<float>(), y.data<float>(), z.mutable_data<float>()));
      FloatToHalf(result->dtype(), z.data<float>(), result->raw(), z.num_elements());
      return absl::OkStatus();
    }
    default:
      return Unimplemented("no kernel for type ", a.dtype());
  }
}

std::shared_ptr<const OneDnnConvolution> Convolver::Find(const ConvolutionSize& size) {
  constexpr size_t kMost = 64;  // sizes that change all the time must not pile up
  MutexLock lock(&mutex_);
  const auto it = made_.find(size);
  if (it != made_.end()) return it->second;
  if (made_.size() >= kMost) made_.clear();
  return made_[size] = OneDnnConvolution::Make(kind_, size);
}

absl::Status Convolver::RunFloat(KernelContext& context, const ConvolutionSize& size, const float* a, const float* b,
                                 float* result) {
  const int64_t shards = CountShards(context, size, 1e6);
  // Shards have this many images, or one more.
  ConvolutionSize part = size;
  part.batch = size.batch / shards;
  const std::shared_ptr<const OneDnnConvolution> small = Find(part);
  part.batch += 1;
  const std::shared_ptr<const OneDnnConvolution> large = size.batch % shards != 0 ? Find(part) : small;
  // The packed filter is one for both.
  if (small == nullptr || large == nullptr || small->filter_floats() != large->filter_floats()) {
    return RunPatches(context, kind_, size, a, b, result);
  }
  const bool to_filter = kind_ == ConvolutionKind::kBackpropFilter;
  const int64_t filter_floats = small->filter_floats();
  const int64_t scratch_floats = std::max(small->scratch_floats(), large->scratch_floats());
  ASSIGN_OR_RETURN(Tensor filters,
                   context.AllocateTemporary(kFloat, Shape({(to_filter ? shards : 1) * filter_floats})));
  ASSIGN_OR_RETURN(Tensor scratch, context.AllocateTemporary(kFloat, Shape({shards * scratch_floats})));
  float* const filter = filters.mutable_data<float>();
  if (!to_filter) {
    RETURN_IF_ERROR(small->PackFilter(kind_ == ConvolutionKind::kForward ? b : a, filter));
  }
  RETURN_IF_ERROR(ForShards(context, shards, [&](int64_t shard) {
    const int64_t begin = size.batch * shard / shards, end = size.batch * (shard + 1) / shards;
    const OneDnnConvolution& convolution = end - begin == size.batch / shards ? *small : *large;
    const int64_t input = begin * size.input_image(), output = begin * size.output_image();
    float* const own_scratch = scratch.mutable_data<float>() + shard * scratch_floats;
    switch (kind_) {
      case ConvolutionKind::kForward:
        return convolution.Run(a + input, filter, result + output, own_scratch);
      case ConvolutionKind::kBackpropInput:
        return convolution.Run(result + input, filter, b + output, own_scratch);
      case ConvolutionKind::kBackpropFilter:
        break;
    }
    return convolution.Run(a + input, filter + shard * filter_floats, b + output, own_scratch);
  }));
  if (!to_filter) return absl::OkStatus();
  for (int64_t shard = 1; shard < shards; ++shard) AddTo(filter + shard * filter_floats, filter, filter_floats);
  return small->UnpackFilter(filter, result);
}

}  // namespace thalweg
