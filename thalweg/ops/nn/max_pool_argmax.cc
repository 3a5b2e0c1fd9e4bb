// SPDX-License-Identifier: Apache-2.0
// MaxPoolWithArgmax also gives the places of the largest elements, as indices into
// a flattened image or, with include_batch_in_index, into the whole input.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/nn/max_pool.h"
#include "thalweg/ops/support/pool_vector.h"

namespace thalweg {
namespace {

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
    ASSIGN_OR_RETURN(const Tensor x, AsFloat(context, context.input(0)));
    ASSIGN_OR_RETURN(Tensor * argmax, context.Allocate(1, shape));
    return ComputeInFloat(context, shape, [&](Tensor* output) {
      return Dispatch(MaxPoolTypes(), x.dtype(), [&]<typename T>() {
        PoolVector<int32_t> where(pool.channels);
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
    ASSIGN_OR_RETURN(const Tensor dy, AsFloat(context, context.input(1)));
    const int64_t image = pool.input_image();
    return ComputeInFloat(context, context.input(0).shape(), [&](Tensor* dx) {
      return Dispatch(MaxPoolTypes(), dy.dtype(), [&]<typename T>() -> absl::Status {
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

absl::Status MaxPoolWithArgmaxGradient(GradientContext& g) {
  g.set_dx(0,
           Output(g.scope().Add("MaxPoolGradWithArgmax", {g.input(0), g.dy(), g.output(1)}, MaxPoolAttrs(*g.node()))));
  return absl::OkStatus();
}

const OpRegistration kMaxPoolArgmaxOps[] = {
    Op("MaxPoolWithArgmax")
        .Input("input: T")
        .Output("output: T")
        .Output("argmax: Targmax")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr("Targmax: {int32, int64} = DT_INT64")
        .Attr(kPoolPadding)
        .Attr("include_batch_in_index: bool = false")
        .Attr("T: realnumbertype")
        .Shape(MaxPoolShape<2>)
        .Kernel<MaxPoolWithArgmaxKernel>()
        .Gradient(MaxPoolWithArgmaxGradient),
    Op("MaxPoolGradWithArgmax")
        .Input("input: T")
        .Input("grad: T")
        .Input("argmax: Targmax")
        .Output("output: T")
        .Attr("ksize: list(int) >= 4")
        .Attr("strides: list(int) >= 4")
        .Attr(kPoolPadding)
        .Attr("include_batch_in_index: bool = false")
        .Attr("Targmax: {int32, int64}")
        .Attr("T: realnumbertype")
        .Shape(shapes::LikeInput0)
        .Kernel<MaxPoolGradWithArgmaxKernel>(),
};

}  // namespace
}  // namespace thalweg
