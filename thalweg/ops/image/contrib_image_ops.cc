// SPDX-License-Identifier: Apache-2.0
// Ops of tf.contrib.image: AdjustHsvInYiq, BipartiteMatch, ImageConnectedComponents.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/types/span.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

using Matrix3 = std::array<float, 9>;  // by rows

Matrix3 Product(const Matrix3& a, const Matrix3& b) {
  Matrix3 product{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) product[3 * i + j] += a[3 * i + k] * b[3 * k + j];
    }
  }
  return product;
}

// RGB to YIQ; hue turns the chrominance (I, Q), saturation scales it, and value scales everything; then back to RGB.
Matrix3 HsvInYiq(float hue, float saturation, float value) {
  constexpr Matrix3 kToYiq = {0.299f, 0.587f, 0.114f, 0.596f, -0.274f, -0.322f, 0.211f, -0.523f, 0.312f};
  constexpr Matrix3 kFromYiq = {1, 0.95617069f, 0.62143257f, 1, -0.2726886f, -0.64681324f, 1, -1.103744f, 1.70062309f};
  const float u = value * saturation * std::cos(hue), w = value * saturation * std::sin(hue);
  return Product(Product(kFromYiq, {value, 0, 0, 0, u, -w, 0, w, u}), kToYiq);
}

absl::Status AdjustHsvInYiq(KernelContext& c) {
  const Tensor& images = c.input(0);
  if (images.rank() < 3) return InvalidArgument("input must be at least 3-D, got shape", images.shape());
  const char* const names[] = {"delta_h", "scale_s", "scale_v"};
  float arguments[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor& argument = c.input(1 + i);
    if (argument.rank() != 0) return InvalidArgument(names[i], " must be scalar: ", argument.shape());
    arguments[i] = argument.scalar<float>();
  }
  if (const int64_t channels = images.dim(images.rank() - 1); channels != 3) {
    return InvalidArgument("input must have 3 channels but instead has ", channels, " channels.");
  }
  if (images.dtype() != kFloat) return Unimplemented("AdjustHsvInYiq: no kernel for type ", images.dtype());
  const Matrix3 m = HsvInYiq(arguments[0], arguments[1], arguments[2]);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, images.shape()));
  c.ParallelFor(images.num_elements() / 3, 5, [&](int64_t begin, int64_t end) {
    const float* from = images.data<float>() + 3 * begin;
    float* to = out->mutable_data<float>() + 3 * begin;
    for (int64_t i = begin; i < end; ++i, from += 3, to += 3) {
      const float r = from[0], g = from[1], b = from[2];
      for (int j = 0; j < 3; ++j) to[j] = r * m[3 * j] + g * m[3 * j + 1] + b * m[3 * j + 2];
    }
  });
  return absl::OkStatus();
}

// Matches rows to columns greedily, the smallest distance first.
class BipartiteMatchKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(top_k_, init.Attr<int64_t>("top_k"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &distances = c.input(0), &valid_rows = c.input(1);
    if (distances.rank() != 2) {
      return InvalidArgument("distance_mat should be 2-dimensional, but got ", distances.shape());
    }
    const int64_t rows = distances.dim(0), columns = distances.dim(1);
    if (valid_rows.num_elements() != 1) {
      return InvalidArgument("num_valid_rows argument should be a tensor with 1 element, but got ",
                             valid_rows.num_elements());
    }
    const float wanted = valid_rows.data<float>()[0];
    const int64_t used = wanted >= 0 ? static_cast<int64_t>(std::min(static_cast<double>(wanted), 1e15) + 0.1) : rows;
    if (used > rows) {
      return InvalidArgument("There should be at least ", used, " rows in distance_mat, but only got ", rows, " rows.");
    }
    ASSIGN_OR_RETURN(Tensor* const column_of, c.Allocate(0, Shape({rows})));
    ASSIGN_OR_RETURN(Tensor* const row_of, c.Allocate(1, Shape({columns})));
    std::fill_n(column_of->mutable_data<int32_t>(), rows, -1);
    std::fill_n(row_of->mutable_data<int32_t>(), columns, -1);
    const float* const at = distances.data<float>();
    ASSIGN_OR_RETURN(Tensor pairs, c.AllocateTemporary(kInt64, Shape({used * columns})));
    int64_t* const begin = pairs.mutable_data<int64_t>();
    int64_t* end = begin;
    for (int64_t i = 0; i < used * columns; ++i) {
      if (!std::isnan(at[i])) *end++ = i;
    }
    std::sort(begin, end, [&](int64_t a, int64_t b) { return at[a] < at[b] || (at[a] == at[b] && a < b); });
    int64_t left = top_k_ > 0 ? top_k_ : used * columns;
    for (const int64_t pair : absl::MakeSpan(begin, end)) {
      int32_t &column = column_of->mutable_data<int32_t>()[pair / columns],
              &row = row_of->mutable_data<int32_t>()[pair % columns];
      if (column != -1 || row != -1) continue;
      column = static_cast<int32_t>(pair % columns);
      row = static_cast<int32_t>(pair / columns);
      if (--left == 0) break;
    }
    return absl::OkStatus();
  }

 private:
  int64_t top_k_ = -1;
};

absl::Status BipartiteMatchShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape distances, c.WithRank(0, 2));
  c.set_output(0, PartialShape({distances.dim(0)}));
  c.set_output(1, PartialShape({distances.dim(1)}));
  return absl::OkStatus();
}

// Components of pixels with the same value that touch along an edge, by union-find. The root of a component is its
// first pixel, so that the numbers are in row-major order.
template <typename T>
void LabelComponents(const T* pixels, int64_t images, int64_t height, int64_t width, int64_t* labels) {
  const int64_t n = images * height * width;
  std::iota(labels, labels + n, 0);
  const auto root_of = [&](int64_t i) {
    while (labels[i] != i) i = labels[i] = labels[labels[i]];
    return i;
  };
  const auto join = [&](int64_t a, int64_t b) {
    if (!(pixels[a] == pixels[b])) return;
    a = root_of(a);
    b = root_of(b);
    labels[std::max(a, b)] = std::min(a, b);
  };
  for (int64_t i = 0; i < n; ++i) {
    if (i % width > 0) join(i - 1, i);
    if (i / width % height > 0) join(i - width, i);
  }
  // A root comes before all other pixels of its component, so it is replaced by its label first: as a negative
  // number, which tells it from a parent.
  for (int64_t i = 0; i < n; ++i) {
    const int64_t parent = labels[i];
    labels[i] = pixels[i] == T() ? -1 : parent == i ? -(i + 2) : labels[parent];
  }
  for (int64_t i = 0; i < n; ++i) labels[i] = -labels[i] - 1;
}

absl::Status ConnectedComponents(KernelContext& c) {
  const Tensor& images = c.input(0);
  if (images.rank() != 3) return InvalidArgument("Input images must have rank 3");
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, images.shape()));
  if (images.num_elements() == 0) return absl::OkStatus();
  return Dispatch(Types<int64_t, int32_t, uint16_t, int16_t, uint8_t, int8_t, Half, float, double, bool, std::string>(),
                  images.dtype(), [&]<typename T>() {
                    LabelComponents(images.data<T>(), images.dim(0), images.dim(1), images.dim(2),
                                    out->mutable_data<int64_t>());
                    return absl::OkStatus();
                  });
}

const OpRegistration kContribImageOps[] = {
    Op("AdjustHsvInYiq")
        .Input("images: T")
        .Input("delta_h: float")
        .Input("scale_s: float")
        .Input("scale_v: float")
        .Output("output: T")
        .Attr("T: {uint8, int8, int16, int32, int64, half, float, double}")
        .Shape(shapes::LikeInput0)
        .Compute(AdjustHsvInYiq)
        .NotDifferentiable(),
    Op("BipartiteMatch")
        .Input("distance_mat: float")
        .Input("num_valid_rows: float")
        .Output("row_to_col_match_indices: int32")
        .Output("col_to_row_match_indices: int32")
        .Attr("top_k: int = -1")
        .Stateful()
        .Shape(BipartiteMatchShape)
        .Kernel<BipartiteMatchKernel>()
        .NotDifferentiable(),
    Op("ImageConnectedComponents")
        .Input("image: dtype")
        .Output("components: int64")
        .Attr("dtype: {int64, int32, uint16, int16, uint8, int8, half, float, double, bool, string}")
        .Shape(shapes::LikeInput0)
        .Compute(ConnectedComponents)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
