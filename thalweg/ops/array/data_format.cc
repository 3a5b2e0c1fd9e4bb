// SPDX-License-Identifier: Apache-2.0
// DataFormatDimMap: where dimensions of one layout of images are in another
// ("NHWC" to "NCHW"). DataFormatVecPermute: a vector with an entry (or pair) per
// dimension, or per spatial dimension, reordered in the same way.
#include <algorithm>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class DataFormatKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(from_, init.Attr<std::string>("src_format"));
    ASSIGN_OR_RETURN(to_, init.Attr<std::string>("dst_format"));
    for (const std::string* format : {&from_, &to_}) {
      if (format->size() != 4 && format->size() != 5) {
        return InvalidArgument(format == &from_ ? "Source" : "Destination",
                               " format must be of length 4 or 5, received ", format == &from_ ? "src" : "dst",
                               "_format = ", *format);
      }
    }
    if (!std::is_permutation(from_.begin(), from_.end(), to_.begin(), to_.end())) {
      return InvalidArgument("Destination and source format must determine a permutation, got ", from_, " and ", to_);
    }
    return absl::OkStatus();
  }

 protected:
  std::string from_;
  std::string to_;
};

class DimMapKernel : public DataFormatKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.shape()));
    const int64_t rank = static_cast<int64_t>(from_.size());
    return Dispatch(IndexTypes(), x.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t dim = (static_cast<int64_t>(x.data<T>()[i]) % rank + rank) % rank;
        y->mutable_data<T>()[i] = static_cast<T>(to_.find(from_[dim]));
      }
      return absl::OkStatus();
    });
  }
};

class VecPermuteKernel : public DataFormatKernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (x.rank() != 1 && x.rank() != 2) {
      return InvalidArgument("input must be a vector or 2D tensor, but got shape ", x.shape());
    }
    std::string from = from_, to = to_;
    const int64_t count = x.dim(0), full = static_cast<int64_t>(from.size());
    if (count != full && count != full - 2) {
      return InvalidArgument("1D input must be of size ", full - 2, " or ", full, ", but got shape ", x.shape());
    }
    if (x.rank() == 2 && x.dim(1) != 2) {
      return InvalidArgument("Second dimension of 2D input must be of size 2, but got shape ", x.shape());
    }
    if (count == full - 2) {
      for (std::string* format : {&from, &to}) std::erase_if(*format, [](char c) { return c == 'N' || c == 'C'; });
      if (static_cast<int64_t>(from.size()) != count) return InvalidArgument("format without N and C: ", from_);
    }
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.shape()));
    const int64_t width = x.rank() == 2 ? 2 : 1;
    return Dispatch(IndexTypes(), x.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(x.data<T>() + static_cast<int64_t>(from.find(to[i])) * width, width,
                    y->mutable_data<T>() + i * width);
      }
      return absl::OkStatus();
    });
  }
};

Op DataFormat(const char* name) {
  return Op(name)
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {int32, int64} = DT_INT32")
      .Attr("src_format: string = 'NHWC'")
      .Attr("dst_format: string = 'NCHW'")
      .Shape(shapes::LikeInput0)
      .NotDifferentiable();
}

const OpRegistration kDataFormatOps[] = {
    DataFormat("DataFormatDimMap").Kernel<DimMapKernel>(),
    DataFormat("DataFormatVecPermute").Kernel<VecPermuteKernel>(),
};

}  // namespace
}  // namespace thalweg
