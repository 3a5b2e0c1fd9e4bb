// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using Number = std::complex<double>;

Tensor Noise(const Shape& shape) {
  const Tensor re = TestValues(kDouble, shape), im = TestValues(kDouble, shape, -1, 1, 2);
  return (*RunOp("Complex", {re, im}, {{"Tout", kComplex128}}))[0];
}
const Tensor kLength6 = Tensor::Vector<int32_t>({6});

// Small factors, and primes that need a convolution.
TEST(FftTest, IsTheSumAndItsInverse) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 17, 35, 37, 64, 90, 97, 101, 128}) {
    SCOPED_TRACE(n);
    const Tensor x = Noise({n});
    Tensor y(kComplex128, {n});
    for (int64_t k = 0; k < n; ++k) {
      Number sum;
      for (int64_t j = 0; j < n; ++j) sum += x.data<Number>()[j] * std::polar(1.0, -2 * M_PI * (j * k % n) / n);
      y.mutable_data<Number>()[k] = sum;
    }
    ExpectTensor(Result("FFT", {x}), y, 1e-10);
    ExpectTensor(Result("IFFT", {y}), x, 1e-10);
  }
}

TEST(FftTest, Gradients) {
  const auto check = [](const char* op, const Shape& shape, const Tensor& length, bool complex_in) {
    SCOPED_TRACE(op);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& x) {
          Output in = x[0];
          if (complex_in) in = s.Add("Complex", {x[0], x[1]}, {{"Tout", kComplex128}});
          std::vector<OpInput> inputs{in};
          std::vector<AttrArg> attrs;
          if (length.has_value()) {
            inputs.push_back(Output(s.Add("Const", {}, {{"dtype", kInt32}, {"value", length}})));
            attrs = {{"Treal", kDouble}, {"Tcomplex", kComplex128}};
          }
          const Output y = s.Add(op, inputs, attrs);
          if (y.dtype() == kDouble) return y;
          const Output re = s.Add("Real", {y}, {{"Tout", kDouble}}), im = s.Add("Imag", {y}, {{"Tout", kDouble}});
          return Output(s.Add("Sub", {re, im}));
        },
        {TestValues(kDouble, shape), TestValues(kDouble, shape, -1, 1, 2)});
  };
  check("FFT", {2, 5}, Tensor(), true);
  check("IFFT2D", {2, 3}, Tensor(), true);
  check("IRFFT", {2, 4}, kLength6, true);
  check("IRFFT", {2, 5}, Tensor::Vector<int32_t>({7}), true);
  check("IRFFT2D", {3, 3}, Tensor::Vector<int32_t>({3, 4}), true);
  // x[1] is not used then: added, so that it has a gradient.
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& x) {
        const Output length = s.Add("Const", {}, {{"dtype", kInt32}, {"value", kLength6}});
        const Output y = s.Add("RFFT", {x[0], length}, {{"Treal", kDouble}, {"Tcomplex", kComplex128}});
        const Output re = s.Add("Real", {y}, {{"Tout", kDouble}}), im = s.Add("Imag", {y}, {{"Tout", kDouble}});
        return Output(s.Add("Sub", {re, im}));
      },
      {TestValues(kDouble, {2, 7})});
}

// Without an input, fft_length may be anything: nothing of that size is transformed.
TEST(FftTest, OfNothing) {
  const auto y =
      RunOp("RFFT", {Tensor::Zeros(kFloat, {2, 0}), kLength6}, {{"Treal", kFloat}, {"Tcomplex", kComplex64}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Zeros(kComplex64, {2, 4}));
}

TEST(FftTest, BadInputIsAnError) {
  EXPECT_FALSE(RunOp("FFT", {Tensor::Scalar<Number>(1)}).ok());
  EXPECT_FALSE(RunOp("FFT2D", {Noise({3})}).ok());
  const auto real = [](const Tensor& length, DType type = kComplex128) {
    return RunOp("RFFT", {TestValues(kDouble, {2, 6}), length}, {{"Treal", kDouble}, {"Tcomplex", type}}).ok();
  };
  EXPECT_TRUE(real(kLength6));
  EXPECT_FALSE(real(kLength6, kComplex64));
  EXPECT_FALSE(real(Tensor::Vector<int32_t>({-1})));
  EXPECT_FALSE(real(Tensor::Vector<int32_t>({7})));
  EXPECT_FALSE(real(Tensor::Vector<int32_t>({2, 6})));
  EXPECT_FALSE(real(Tensor::Scalar<int32_t>(6)));
}

}  // namespace
}  // namespace thalweg
