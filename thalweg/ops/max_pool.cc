// MaxPool and MaxPool3D: the largest element of every window, per channel;
// MaxPool also over groups of channels. Their gradients: of images the first
// largest element of a window gets the window's gradient; of volumes every
// element that is within 1e-5 of the largest, as TensorFlow has it. GradGrad is
// the gradient of the gradient: it picks the elements at the same places.
//
// V2 has window and strides as inputs. WithArgmax also gives the places, as
// indices into a flattened image or, with include_batch_in_index, into the
// whole input.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_join.h"
#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/elementwise.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/window.h"

namespace thalweg {
namespace {

// Half precision is done in float: the results are elements of the input.
using PoolTypes = Types<float, double, int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t, uint32_t, uint64_t>;

// What a pooling works on: an input whose channels come last.
struct Pool {
  Windows windows;
  int64_t batch = 0;
  int64_t channels = 0;

  int64_t input_image() const { return InputPositions(windows) * channels; }
  int64_t output_image() const { return OutputPositions(windows) * channels; }
  // Nanoseconds for an image, roughly.
  double nanos() const {
    return 0.3 * static_cast<double>(WindowPositions(windows)) * static_cast<double>(output_image());
  }
};

// ---- Loops ----

template <typename T>
inline void MaxPositions(const Pool& p, const T* image, int64_t begin, int64_t end, T* out) {
  const int64_t n = p.channels;
  for (int64_t o = begin; o < end; ++o, out += n) {
    std::fill_n(out, n, std::numeric_limits<T>::lowest());
    ForWindow(p.windows, o, [&](int64_t position) {
      const T* x = image + position * n;
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) out[c] = out[c] < x[c] ? x[c] : out[c];
    });
  }
}

// For every channel of the window at output position o, where its first largest
// element is. The first element counts even if it is not a number.
template <typename T>
inline void FirstLargest(const Pool& p, const T* image, int64_t o, T* best, int32_t* where) {
  const int64_t n = p.channels;
  bool first = true;
  ForWindow(p.windows, o, [&](int64_t position) {
    const T* x = image + position * n;
    const int32_t here = static_cast<int32_t>(position);
    if (first) {
      std::copy_n(x, n, best);
      std::fill_n(where, n, here);
      first = false;
      return;
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < n; ++c) {
      where[c] = best[c] < x[c] ? here : where[c];
      best[c] = best[c] < x[c] ? x[c] : best[c];
    }
  });
}

// dx of one image; best and where are scratch, an element per channel.
template <typename T>
inline void GradImage(const Pool& p, const T* x, const T* dy, T* dx, T* best, int32_t* where) {
  const int64_t n = p.channels;
  std::fill_n(dx, p.input_image(), T(0));
  for (int64_t o = 0; o < OutputPositions(p.windows); ++o, dy += n) {
    FirstLargest(p, x, o, best, where);
    ForWindow(p.windows, o, [&](int64_t position) {
      T* to = dx + position * n;
      const int32_t here = static_cast<int32_t>(position);
#pragma GCC ivdep
      for (int64_t c = 0; c < n; ++c) to[c] += where[c] == here ? dy[c] : T(0);
    });
  }
}

// Of float, for several instruction sets; other types are rare.
THALWEG_SIMD void MaxPositionsFloat(const Pool& p, const float* image, int64_t begin, int64_t end, float* out) {
  MaxPositions(p, image, begin, end, out);
}
THALWEG_SIMD void GradImageFloat(const Pool& p, const float* x, const float* dy, float* dx, float* best,
                                 int32_t* where) {
  GradImage(p, x, dy, dx, best, where);
}

template <typename T>
void GradGradImage(const Pool& p, const T* x, const T* ddx, T* out, T* best, int32_t* where) {
  const int64_t n = p.channels;
  for (int64_t o = 0; o < OutputPositions(p.windows); ++o, out += n) {
    FirstLargest(p, x, o, best, where);
    for (int64_t c = 0; c < n; ++c) out[c] = ddx[where[c] * n + c];
  }
}

// Elements close to the largest all count.
template <typename T>
inline bool IsLargest(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x - y) < T(1e-5);
  } else {
    return x == y;
  }
}

template <typename T>
void VolumeGradImage(const Pool& p, const T* x, const T* y, const T* dy, T* dx) {
  const int64_t n = p.channels;
  std::fill_n(dx, p.input_image(), T(0));
  for (int64_t o = 0; o < OutputPositions(p.windows); ++o, y += n, dy += n) {
    ForWindow(p.windows, o, [&](int64_t position) {
      const T* from = x + position * n;
      T* to = dx + position * n;
      for (int64_t c = 0; c < n; ++c) to[c] += IsLargest(from[c], y[c]) ? dy[c] : T(0);
    });
  }
}

// ---- Kernels ----

// Input i as float, if it is of half precision.
absl::StatusOr<Tensor> Widened(KernelContext& context, const Tensor& x) {
  if (!IsHalfPrecision(x.dtype())) return x;
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, x.shape()));
  HalfToFloat(x.dtype(), x.raw(), wide.mutable_data<float>(), x.num_elements());
  return wide;
}

// Calls compute(result) with output 0, or with a float tensor that is narrowed
// to it.
template <typename F>
absl::Status ComputeWide(KernelContext& context, const Shape& shape, const F& compute) {
  ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, shape));
  if (!IsHalfPrecision(output->dtype())) return compute(output);
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, shape));
  RETURN_IF_ERROR(compute(&wide));
  FloatToHalf(output->dtype(), wide.data<float>(), output->raw(), wide.num_elements());
  return absl::OkStatus();
}

// What all kernels here share: the attributes, and sizes from them.
class PoolKernel : public Kernel {
 public:
  explicit PoolKernel(int spatial) : spatial_(spatial) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), spatial_));
    if (attrs_.channels_first) {
      return InvalidArgument("Default ", init.node().op(), " only supports ", spatial_ == 2 ? "NHWC" : "NDHWC",
                             " on device type CPU");
    }
    return absl::OkStatus();
  }

 protected:
  // The attributes; of the second versions, with what inputs `first` and
  // `first` + 1 say.
  absl::StatusOr<WindowAttrs> Attrs(KernelContext& context, int first) const {
    WindowAttrs attrs = attrs_;
    if (attrs.strides.empty()) {
      const auto read = [&](int i, std::vector<int64_t>* values) -> absl::Status {
        const Tensor& t = context.input(i);
        if (t.num_elements() != attrs.rank()) {
          return InvalidArgument("Sliding window ", i == first ? "ksize" : "stride", " field must specify ",
                                 attrs.rank(), " dimensions");
        }
        values->assign(t.data<int32_t>(), t.data<int32_t>() + t.num_elements());
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(read(first, &attrs.ksize));
      RETURN_IF_ERROR(read(first + 1, &attrs.strides));
      RETURN_IF_ERROR(attrs.Check());
    }
    return attrs;
  }

  static absl::StatusOr<Pool> PoolOf(const WindowAttrs& attrs, const Shape& input) {
    if (input.rank() != attrs.rank()) return InvalidArgument("tensor_in must be ", attrs.rank(), "-dimensional");
    if (attrs.ksize[attrs.channel_dim()] != 1 || attrs.strides[attrs.channel_dim()] != 1) {
      return Unimplemented("MaxPoolingGrad is not yet supported on the depth dimension.");
    }
    Pool pool;
    pool.batch = input.dim(0);
    pool.channels = input.dim(attrs.channel_dim());
    ASSIGN_OR_RETURN(pool.windows, attrs.SlideKsize(input.dims()));
    for (int i = 0; i < attrs.spatial; ++i) {
      const SlidingWindow& w = pool.windows[3 - attrs.spatial + i];
      if (attrs.padding == "EXPLICIT" && std::max(w.pad_before, w.pad_after) >= w.window) {
        return InvalidArgument("padding ", std::max(w.pad_before, w.pad_after),
                               " needs to be smaller than the window size ", w.window);
      }
    }
    // Places are kept as int32.
    if (InputPositions(pool.windows) > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("image too large for pooling: ", input);
    }
    return pool;
  }

  static absl::Status CheckShape(const char* what, const Tensor& t, const Shape& expected) {
    if (t.shape() == expected) return absl::OkStatus();
    return InvalidArgument("Expected ", what, " shape to be ", expected, ", but got ", t.shape());
  }

  const int spatial_;
  WindowAttrs attrs_;
};

class MaxPoolKernel : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const WindowAttrs attrs, Attrs(context, 1));
    // A quantized type is ordered as its bits.
    const Tensor raw = context.input(0);
    ASSIGN_OR_RETURN(
        const Tensor input,
        Widened(context, StorageType(raw.dtype()) == raw.dtype() ? raw : raw.Bitcast(StorageType(raw.dtype()))));
    if (input.rank() == attrs.rank() && attrs.ksize[attrs.channel_dim()] != 1) return Depthwise(context, attrs, input);
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs, input.shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(pool.batch, pool.windows, pool.channels));
    return ComputeWide(context, shape, [&](Tensor* output) {
      return Dispatch(PoolTypes(), input.dtype(), [&]<typename T>() {
        const int64_t row = pool.windows[2].output, rows = OutputPositions(pool.windows) / std::max<int64_t>(1, row);
        T* const out = static_cast<T*>(output->raw());
        context.ParallelFor(pool.batch * rows, pool.nanos() / static_cast<double>(std::max<int64_t>(1, rows)),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t r = begin; r < end; ++r) {
                                const T* image = input.data<T>() + r / rows * pool.input_image();
                                const int64_t first = r % rows * row;
                                T* const to = out + r * row * pool.channels;
                                if constexpr (std::is_same_v<T, float>) {
                                  MaxPositionsFloat(pool, image, first, first + row, to);
                                } else {
                                  MaxPositions(pool, image, first, first + row, to);
                                }
                              }
                            });
        return absl::OkStatus();
      });
    });
  }

 private:
  // Over groups of channels.
  absl::Status Depthwise(KernelContext& context, const WindowAttrs& attrs, const Tensor& input) const {
    const int last = attrs.channel_dim();
    for (int i = 0; i < attrs.spatial; ++i) {
      if (attrs.ksize[attrs.spatial_dim(i)] != 1) {
        return Unimplemented("MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
      }
    }
    const int64_t window = attrs.ksize[last];
    if (input.dim(last) % window != 0) {
      return Unimplemented("Depthwise max pooling requires the depth window to evenly divide the input depth");
    }
    if (attrs.strides[last] != window) {
      return Unimplemented("Depthwise max pooling requires the depth window to equal the depth stride");
    }
    Shape shape = input.shape();
    shape.set_dim(last, input.dim(last) / window);
    return ComputeWide(context, shape, [&](Tensor* output) {
      return Dispatch(PoolTypes(), input.dtype(), [&]<typename T>() {
        const T* x = input.data<T>();
        T* y = static_cast<T*>(output->raw());
        for (int64_t i = 0; i < shape.num_elements(); ++i, x += window) y[i] = *std::max_element(x, x + window);
        return absl::OkStatus();
      });
    });
  }
};

class MaxPoolGradKernel : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const WindowAttrs attrs, Attrs(context, 3));
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs, context.input(0).shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(pool.batch, pool.windows, pool.channels));
    RETURN_IF_ERROR(CheckShape("orig_output", context.input(1), shape));
    RETURN_IF_ERROR(CheckShape("grad", context.input(2), shape));
    ASSIGN_OR_RETURN(const Tensor x, Widened(context, context.input(0)));
    ASSIGN_OR_RETURN(const Tensor y, Widened(context, context.input(1)));
    ASSIGN_OR_RETURN(const Tensor dy, Widened(context, context.input(2)));
    return ComputeWide(context, x.shape(), [&](Tensor* dx) {
      return Dispatch(PoolTypes(), x.dtype(), [&]<typename T>() {
        context.ParallelFor(pool.batch, 2 * pool.nanos(), [&](int64_t begin, int64_t end) {
          std::vector<T> best(pool.channels);
          std::vector<int32_t> where(pool.channels);
          for (int64_t b = begin; b < end; ++b) {
            const int64_t in = b * pool.input_image(), out = b * pool.output_image();
            if (spatial_ == 3) {
              VolumeGradImage(pool, x.data<T>() + in, y.data<T>() + out, dy.data<T>() + out,
                              dx->mutable_data<T>() + in);
            } else if constexpr (std::is_same_v<T, float>) {
              GradImageFloat(pool, x.data<T>() + in, dy.data<T>() + out, dx->mutable_data<T>() + in, best.data(),
                             where.data());
            } else {
              GradImage(pool, x.data<T>() + in, dy.data<T>() + out, dx->mutable_data<T>() + in, best.data(),
                        where.data());
            }
          }
        });
        return absl::OkStatus();
      });
    });
  }
};

class MaxPoolGradGradKernel : public PoolKernel {
 public:
  using PoolKernel::PoolKernel;

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const WindowAttrs attrs, Attrs(context, 3));
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs, context.input(0).shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(pool.batch, pool.windows, pool.channels));
    RETURN_IF_ERROR(CheckShape("orig_output", context.input(1), shape));
    RETURN_IF_ERROR(CheckShape("grad", context.input(2), context.input(0).shape()));
    ASSIGN_OR_RETURN(const Tensor x, Widened(context, context.input(0)));
    ASSIGN_OR_RETURN(const Tensor ddx, Widened(context, context.input(2)));
    return ComputeWide(context, shape, [&](Tensor* output) {
      return Dispatch(PoolTypes(), x.dtype(), [&]<typename T>() {
        context.ParallelFor(pool.batch, pool.nanos(), [&](int64_t begin, int64_t end) {
          std::vector<T> best(pool.channels);
          std::vector<int32_t> where(pool.channels);
          for (int64_t b = begin; b < end; ++b) {
            const int64_t in = b * pool.input_image();
            GradGradImage(pool, x.data<T>() + in, ddx.data<T>() + in,
                          output->mutable_data<T>() + b * pool.output_image(), best.data(), where.data());
          }
        });
        return absl::OkStatus();
      });
    });
  }
};

class MaxPoolWithArgmaxKernel : public PoolKernel {
 public:
  MaxPoolWithArgmaxKernel() : PoolKernel(2) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(include_batch_, init.Attr<bool>("include_batch_in_index"));
    return PoolKernel::Init(init);
  }

  absl::Status Compute(KernelContext& context) override {
    if (context.input(0).rank() == 4 && context.input(0).num_elements() == 0) {
      return InvalidArgument("tensor_in must not be empty (2)");
    }
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs_, context.input(0).shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(pool.batch, pool.windows, pool.channels));
    ASSIGN_OR_RETURN(const Tensor x, Widened(context, context.input(0)));
    ASSIGN_OR_RETURN(Tensor * argmax, context.Allocate(1, shape));
    return ComputeWide(context, shape, [&](Tensor* output) {
      return Dispatch(PoolTypes(), x.dtype(), [&]<typename T>() {
        std::vector<int32_t> where(pool.channels);
        T* best = output->mutable_data<T>();
        int64_t i = 0;
        for (int64_t b = 0; b < pool.batch; ++b) {
          for (int64_t o = 0; o < OutputPositions(pool.windows); ++o, best += pool.channels) {
            FirstLargest(pool, x.data<T>() + b * pool.input_image(), o, best, where.data());
            for (int64_t c = 0; c < pool.channels; ++c, ++i) {
              const int64_t index = where[c] * pool.channels + c + (include_batch_ ? b * pool.input_image() : 0);
              if (argmax->dtype() == kInt64) {
                argmax->mutable_data<int64_t>()[i] = index;
              } else {
                argmax->mutable_data<int32_t>()[i] = static_cast<int32_t>(index);
              }
            }
          }
        }
        return absl::OkStatus();
      });
    });
  }

 private:
  bool include_batch_ = false;
};

class MaxPoolGradWithArgmaxKernel : public PoolKernel {
 public:
  MaxPoolGradWithArgmaxKernel() : PoolKernel(2) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(include_batch_, init.Attr<bool>("include_batch_in_index"));
    return PoolKernel::Init(init);
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& argmax = context.input(2);
    ASSIGN_OR_RETURN(const Pool pool, PoolOf(attrs_, context.input(0).shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(pool.batch, pool.windows, pool.channels));
    RETURN_IF_ERROR(CheckShape("grad", context.input(1), shape));
    RETURN_IF_ERROR(CheckShape("argmax", argmax, shape));
    ASSIGN_OR_RETURN(const Tensor dy, Widened(context, context.input(1)));
    const int64_t image = pool.input_image();
    return ComputeWide(context, context.input(0).shape(), [&](Tensor* dx) {
      return Dispatch(PoolTypes(), dy.dtype(), [&]<typename T>() -> absl::Status {
        std::fill_n(dx->mutable_data<T>(), dx->num_elements(), T(0));
        for (int64_t i = 0; i < dy.num_elements(); ++i) {
          const int64_t start = i / pool.output_image() * image;
          int64_t index = argmax.dtype() == kInt64 ? argmax.data<int64_t>()[i] : argmax.data<int32_t>()[i];
          if (!include_batch_ && index >= 0 && index < image) index += start;
          if (index < start || index >= start + image) {
            return InvalidArgument("Invalid input backprop index: ", index, ", ", start, ", ", start + image);
          }
          dx->mutable_data<T>()[index] += dy.data<T>()[i];
        }
        return absl::OkStatus();
      });
    });
  }

 private:
  bool include_batch_ = false;
};

// ---- Shapes ----

template <int spatial>
absl::Status PoolShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), spatial));
  if (attrs.padding != "EXPLICIT" && attrs.channels_first && c.input(0).has_rank() && c.input(0).rank() == 5 &&
      spatial == 2) {
    return absl::OkStatus();  // NCHW_VECT_C
  }
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, attrs.rank()));
  int64_t channels = input.dim(attrs.channel_dim());
  const int64_t window = attrs.ksize[attrs.channel_dim()];
  if (channels > 0 && window > 1) channels /= window;
  ASSIGN_OR_RETURN(
      PartialShape output,
      attrs.InferOutput(input, absl::MakeConstSpan(attrs.ksize).subspan(attrs.spatial_dim(0), spatial), channels));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, output);
  return absl::OkStatus();
}

// Of those with the window as an input.
absl::Status PoolV2Shape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(WindowAttrs attrs, WindowAttrs::Read(c.node().def(), 2));
  const std::optional<Tensor> ksize = c.Constant(1), strides = c.Constant(2);
  PartialShape output = PartialShape::OfRank(4);
  if (ksize && strides && ksize->num_elements() == 4 && strides->num_elements() == 4) {
    attrs.ksize.assign(ksize->data<int32_t>(), ksize->data<int32_t>() + 4);
    attrs.strides.assign(strides->data<int32_t>(), strides->data<int32_t>() + 4);
    RETURN_IF_ERROR(attrs.Check());
    int64_t channels = input.dim(attrs.channel_dim());
    if (channels > 0) channels /= attrs.ksize[attrs.channel_dim()];
    ASSIGN_OR_RETURN(
        output, attrs.InferOutput(input, absl::MakeConstSpan(attrs.ksize).subspan(attrs.spatial_dim(0), 2), channels));
  }
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

absl::Status LikeInput1(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

// ---- Gradients ----

std::vector<AttrArg> SharedAttrs(const Node& node) {
  std::vector<AttrArg> attrs;
  for (const char* name :
       {"ksize", "strides", "padding", "explicit_paddings", "data_format", "include_batch_in_index"}) {
    const auto it = node.def().attr().find(name);
    if (it != node.def().attr().end()) attrs.emplace_back(name, it->second);
  }
  return attrs;
}

template <int spatial>
absl::Status MaxPoolGradient(GradientContext& g) {
  const char* op = spatial == 2 ? "MaxPoolGrad" : "MaxPool3DGrad";
  g.set_dx(0, Output(g.scope().Add(op, {g.input(0), g.output(0), g.dy()}, SharedAttrs(*g.node()))));
  return absl::OkStatus();
}

absl::Status MaxPoolV2Gradient(GradientContext& g) {
  g.set_dx(0, Output(g.scope().Add("MaxPoolGradV2", {g.input(0), g.output(0), g.dy(), g.input(1), g.input(2)},
                                   SharedAttrs(*g.node()))));
  return absl::OkStatus();
}

absl::Status MaxPoolWithArgmaxGradient(GradientContext& g) {
  g.set_dx(0,
           Output(g.scope().Add("MaxPoolGradWithArgmax", {g.input(0), g.dy(), g.output(1)}, SharedAttrs(*g.node()))));
  return absl::OkStatus();
}

// By the gradient that came in; what was the largest does not change by a
// little.
template <int spatial>
absl::Status MaxPoolGradGradient(GradientContext& g) {
  const char* op = spatial == 2 ? "MaxPoolGradGrad" : "MaxPool3DGradGrad";
  std::vector<AttrArg> attrs = SharedAttrs(*g.node());
  std::erase_if(attrs, [](const AttrArg& a) { return a.name == "explicit_paddings"; });
  g.set_dx(2, Output(g.scope().Add(op, {g.input(0), g.input(1), g.dy()}, std::move(attrs))));
  return absl::OkStatus();
}

// ---- Registration ----

constexpr char kSameValid[] = "padding: {'SAME', 'VALID'}";
constexpr char kExplicit[] = "padding: {'SAME', 'VALID', 'EXPLICIT'}";
constexpr char kImageFormat[] = "data_format: {'NHWC', 'NCHW'} = 'NHWC'";
constexpr char kVolumeFormat[] = "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'";
constexpr char kPooled[] =
    "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = DT_FLOAT";

Op Grad(const char* name, const char* type, const char* type_of_originals) {
  return Op(name)
      .Input(absl::StrCat("orig_input: ", type_of_originals))
      .Input(absl::StrCat("orig_output: ", type_of_originals))
      .Input(absl::StrCat("grad: ", type))
      .Output(absl::StrCat("output: ", type));
}

const OpRegistration kOps[] = {
    Op("MaxPool")
        .Input("input: T")
        .Output("output: T")
        .Attr(kPooled)
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kExplicit)
        .Attr("explicit_paddings: list(int) = []")
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Shape(PoolShape<2>)
        .Kernel<MaxPoolKernel>(2)
        .Gradient(MaxPoolGradient<2>),
    Op("MaxPoolV2")
        .Input("input: T")
        .Input("ksize: int32")
        .Input("strides: int32")
        .Output("output: T")
        .Attr(kPooled)
        .Attr(kSameValid)
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Shape(PoolV2Shape)
        .Kernel<MaxPoolKernel>(2)
        .Gradient(MaxPoolV2Gradient),
    Grad("MaxPoolGrad", "T", "T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kExplicit)
        .Attr("explicit_paddings: list(int) = []")
        .Attr(kImageFormat)
        .Attr("T: realnumbertype = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradKernel>(2)
        .Gradient(MaxPoolGradGradient<2>),
    Grad("MaxPoolGradV2", "T", "T")
        .Input("ksize: int32")
        .Input("strides: int32")
        .Attr(kSameValid)
        .Attr(kImageFormat)
        .Attr("T: realnumbertype = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradKernel>(2),
    Grad("MaxPoolGradGrad", "T", "T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kSameValid)
        .Attr(kImageFormat)
        .Attr("T: realnumbertype")
        .Shape(LikeInput1)
        .Kernel<MaxPoolGradGradKernel>(2),
    Grad("MaxPoolGradGradV2", "T", "T")
        .Input("ksize: int32")
        .Input("strides: int32")
        .Attr(kSameValid)
        .Attr(kImageFormat)
        .Attr("T: realnumbertype")
        .Shape(LikeInput1)
        .Kernel<MaxPoolGradGradKernel>(2),
    Op("MaxPoolWithArgmax")
        .Input("input: T")
        .Output("output: T")
        .Output("argmax: Targmax")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr("Targmax: {int32, int64} = DT_INT64")
        .Attr(kSameValid)
        .Attr("include_batch_in_index: bool = false")
        .Attr("T: realnumbertype")
        .Shape(PoolShape<2>)
        .Kernel<MaxPoolWithArgmaxKernel>()
        .Gradient(MaxPoolWithArgmaxGradient),
    Op("MaxPoolGradWithArgmax")
        .Input("input: T")
        .Input("grad: T")
        .Input("argmax: Targmax")
        .Output("output: T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kSameValid)
        .Attr("include_batch_in_index: bool = false")
        .Attr("Targmax: {int32, int64}")
        .Attr("T: realnumbertype")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradWithArgmaxKernel>(),
    Op("MaxPool3D")
        .Input("input: T")
        .Output("output: T")
        .Attr("ksize: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr(kSameValid)
        .Attr(kVolumeFormat)
        .Attr("T: {half, bfloat16, float}")
        .Shape(PoolShape<3>)
        .Kernel<MaxPoolKernel>(3)
        .Gradient(MaxPoolGradient<3>),
    Grad("MaxPool3DGrad", "T", "TInput")
        .Attr("ksize: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr(kSameValid)
        .Attr(kVolumeFormat)
        .Attr("T: {half, bfloat16, float} = DT_FLOAT")
        .Attr("TInput: {half, bfloat16, float} = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradKernel>(3)
        .Gradient(MaxPoolGradGradient<3>),
    Grad("MaxPool3DGradGrad", "T", "T")
        .Attr("ksize: list(int) >= 5")
        .Attr("strides: list(int) >= 5")
        .Attr(kSameValid)
        .Attr(kVolumeFormat)
        .Attr("T: realnumbertype")
        .Shape(LikeInput1)
        .Kernel<MaxPoolGradGradKernel>(3),
};

}  // namespace

Output MaxPool(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               absl::string_view padding) {
  return s.Add("MaxPool", {input}, {{"ksize", ksize}, {"strides", strides}, {"padding", padding}});
}
Output MaxPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 absl::string_view padding) {
  return s.Add("MaxPool3D", {input}, {{"ksize", ksize}, {"strides", strides}, {"padding", padding}});
}

}  // namespace thalweg
