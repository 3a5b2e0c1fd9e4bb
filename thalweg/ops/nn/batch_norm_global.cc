// SPDX-License-Identifier: Apache-2.0
// BatchNormWithGlobalNormalization and its gradient: the batch normalization of
// TensorFlow's first graphs, with a mean and a variance that are given.
//
//   y = (t - m) / sqrt(v + epsilon) * gamma + beta
#include <cmath>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

using BatchNormTypes = Types<float, double>;

class GlobalNormKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const float epsilon, init.Attr<float>("variance_epsilon"));
    ASSIGN_OR_RETURN(scale_, init.Attr<bool>("scale_after_normalization"));
    epsilon_ = epsilon;
    return absl::OkStatus();
  }

 protected:
  // The channels. `vectors`: which inputs have one element each.
  static absl::StatusOr<int64_t> Check(KernelContext& c, std::initializer_list<int> vectors) {
    const Tensor& t = c.input(0);
    if (t.rank() != 4) return InvalidArgument("input must be 4-dimensional", t.shape());
    for (const int i : vectors) {
      if (c.input(i).rank() != 1 || c.input(i).dim(0) != t.dim(3)) {
        return InvalidArgument("input ", i, " must be a vector of ", t.dim(3), " elements, got ", c.input(i).shape());
      }
    }
    return t.dim(3);
  }

  double epsilon_ = 0;
  bool scale_ = false;
};

class ForwardKernel final : public GlobalNormKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const int64_t channels, Check(c, {1, 2, 3, 4}));
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
    return Dispatch(BatchNormTypes(), x.dtype(), [&]<typename T>() {
      const T *const mean = c.input(1).data<T>(), *const variance = c.input(2).data<T>();
      const T *const beta = c.input(3).data<T>(), *const gamma = c.input(4).data<T>();
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t k = i % channels;
        const double factor = (scale_ ? gamma[k] : T(1)) / std::sqrt(variance[k] + epsilon_);
        y->mutable_data<T>()[i] = static_cast<T>((x.data<T>()[i] - mean[k]) * factor + beta[k]);
      }
      return absl::OkStatus();
    });
  }
};

class GradKernel final : public GlobalNormKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const int64_t channels, Check(c, {1, 2, 3}));
    const Tensor x = c.input(0), dy = c.input(4);
    if (!(dy.shape() == x.shape()))
      return InvalidArgument("backprop must have the shape ", x.shape(), ", got ", dy.shape());
    Tensor* out[5];
    for (int i = 0; i < 5; ++i) {
      ASSIGN_OR_RETURN(out[i], c.Allocate(i, i == 0 ? x.shape() : Shape({channels})));
    }
    return Dispatch(BatchNormTypes(), x.dtype(), [&]<typename T>() {
      const T *const mean = c.input(1).data<T>(), *const variance = c.input(2).data<T>();
      const T* const gamma = c.input(3).data<T>();
      std::vector<double> sums(channels), products(channels);
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t k = i % channels;
        const double gradient = dy.data<T>()[i],
                     factor = (scale_ ? gamma[k] : T(1)) / std::sqrt(variance[k] + epsilon_);
        out[0]->mutable_data<T>()[i] = static_cast<T>(gradient * factor);
        sums[k] += gradient;
        products[k] += gradient * (x.data<T>()[i] - mean[k]);
      }
      for (int64_t k = 0; k < channels; ++k) {
        const double inverse = 1 / std::sqrt(variance[k] + epsilon_), scale = scale_ ? gamma[k] : T(1);
        out[1]->mutable_data<T>()[k] = static_cast<T>(-sums[k] * scale * inverse);
        out[2]->mutable_data<T>()[k] = static_cast<T>(-0.5 * products[k] * scale * inverse * inverse * inverse);
        out[3]->mutable_data<T>()[k] = static_cast<T>(sums[k]);
        out[4]->mutable_data<T>()[k] = static_cast<T>(scale_ ? products[k] * inverse : 0);
      }
      return absl::OkStatus();
    });
  }
};

absl::Status GradShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  for (int i = 1; i < 5; ++i) c.set_output(i, c.input(1));
  return absl::OkStatus();
}

Op Normalized(absl::string_view name, bool gradient) {
  Op op(name);
  op.Input("t: T").Input("m: T").Input("v: T");
  if (gradient) {
    op.Input("gamma: T").Input("backprop: T");
    op.Output("dx: T").Output("dm: T").Output("dv: T").Output("db: T").Output("dg: T");
  } else {
    op.Input("beta: T").Input("gamma: T").Output("result: T");
  }
  return op.Attr("T: numbertype")
      .Attr("variance_epsilon: float")
      .Attr("scale_after_normalization: bool")
      .NotDifferentiable();
}

const OpRegistration kBatchNormGlobalOps[] = {
    Normalized("BatchNormWithGlobalNormalization", false).Shape(shapes::LikeInput0).Kernel<ForwardKernel>(),
    Normalized("BatchNormWithGlobalNormalizationGrad", true).Shape(GradShape).Kernel<GradKernel>(),
};

}  // namespace
}  // namespace thalweg
