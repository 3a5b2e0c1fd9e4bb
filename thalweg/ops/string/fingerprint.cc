// SPDX-License-Identifier: Apache-2.0
// Fingerprint: eight bytes for every row, by FarmHash. Of a row of several
// strings, the fingerprint of their fingerprints.
#include <farmhash.h>

#include <cstring>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

constexpr int64_t kSize = sizeof(uint64_t);

absl::Status ComputeFingerprint(KernelContext& c) {
  const Tensor& data = c.input(0);
  const Tensor& method = c.input(1);
  const DType dtype = data.dtype();
  if (dtype == kResource || dtype == kVariant) return InvalidArgument("Data type not supported: ", dtype);
  if (method.rank() != 0) return InvalidArgument("`method` should be a scalar string: ", method.shape());
  if (method.scalar<std::string>() != "farmhash64") {
    return InvalidArgument("Unsupported fingerprint method: ", method.scalar<std::string>());
  }
  if (data.rank() < 1) return InvalidArgument("`data` should have at least one dimension: ", data.shape());
  const int64_t rows = data.dim(0);
  const int64_t width = rows == 0 ? 0 : data.num_elements() / rows;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({rows, kSize}));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  for (int64_t row = 0; row < rows; ++row) {
    uint64_t print;
    if (dtype == kString) {
      std::vector<uint64_t> prints;
      for (int64_t i = 0; i < width; ++i) {
        const std::string& text = data.data<std::string>()[row * width + i];
        prints.push_back(util::Fingerprint64(text.data(), text.size()));
      }
      print = width == 1 ? prints[0]
                         : util::Fingerprint64(reinterpret_cast<const char*>(prints.data()), prints.size() * kSize);
    } else {
      const size_t bytes = static_cast<size_t>(width) * ElementSize(dtype);
      print = util::Fingerprint64(static_cast<const char*>(data.raw()) + row * bytes, bytes);
    }
    std::memcpy(out->mutable_data<uint8_t>() + row * kSize, &print, kSize);
  }
  return absl::OkStatus();
}

absl::Status FingerprintShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  const PartialShape& data = c.input(0);
  if (data.has_rank() && data.rank() < 1) return InvalidArgument("`data` should have at least one dimension: ", data);
  c.set_output(0, {data.has_rank() ? data.dim(0) : PartialShape::kUnknown, kSize});
  return absl::OkStatus();
}

const OpRegistration kFingerprint = Op("Fingerprint")
                                        .Input("data: T")
                                        .Input("method: string")
                                        .Output("fingerprint: uint8")
                                        .Attr("T: type")
                                        .Shape(FingerprintShape)
                                        .Compute(ComputeFingerprint)
                                        .NotDifferentiable();

}  // namespace
}  // namespace thalweg
