// SPDX-License-Identifier: Apache-2.0
#include <complex>
#include <cstring>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using Number = std::complex<double>;

Tensor Noise(const Shape& shape) {
  const Tensor re = TestValues(kDouble, shape), im = TestValues(kDouble, shape, -1, 1, 2);
  return (*RunOp("Complex", {re, im}, {{"Tout", kComplex128}}))[0];
}
const Tensor kLength6 = Tensor::Vector<int32_t>({6});

// Element k of the transform of a line, by definition.
Number Sum(const Tensor& x, int64_t k) {
  const int64_t n = x.dim(0);
  Number sum;
  for (int64_t j = 0; j < n; ++j) sum += x.data<Number>()[j] * std::polar(1.0, -2 * M_PI * (j * k % n) / n);
  return sum;
}

// Small factors, primes that need a cyclic convolution, and others (134, 167) that need a wider one.
TEST(FftTest, IsTheSumAndItsInverse) {
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 17, 35, 37, 64, 90, 97, 101, 128, 134, 163, 167}) {
    SCOPED_TRACE(n);
    const Tensor x = Noise({n});
    Tensor y(kComplex128, {n});
    for (int64_t k = 0; k < n; ++k) y.mutable_data<Number>()[k] = Sum(x, k);
    ExpectTensor(Result("FFT", {x}), y, 1e-10);
    ExpectTensor(Result("IFFT", {y}), x, 1e-10);
  }
}

// Lines that are too long for the cache, with sides that are multiples of the lanes and without, and convolutions of
// such lengths.
TEST(FftTest, LongLines) {
  for (const int64_t n : {6000, 4099, 7681, 8192, 12288}) {
    SCOPED_TRACE(n);
    const Tensor x = Noise({n}), y = Result("FFT", {x});
    for (const int64_t k : {int64_t{0}, int64_t{1}, n / 3, n - 1}) {
      EXPECT_LT(std::abs(y.data<Number>()[k] - Sum(x, k)), 1e-9) << k;
    }
    ExpectTensor(Result("IFFT", {y}), x, 1e-10);
  }
}

// Real lines are transformed one by one from some length on, if the length has the factors for it.
TEST(FftTest, RealLinesGiveWhatComplexOnesGive) {
  for (const DType type : {kFloat, kDouble}) {
    const DType complex = type == kFloat ? kComplex64 : kComplex128;
    const std::vector<AttrArg> attrs = {{"Treal", type}, {"Tcomplex", complex}};
    for (const int64_t n : {128, 254, 256, 384, 640, 1024, 8192}) {
      SCOPED_TRACE(n);
      const double tolerance = type == kFloat ? 1e-3 : 1e-11;
      const Tensor x = TestValues(type, {3, n}, -1, 1), length = Tensor::Vector<int32_t>({static_cast<int32_t>(n)});
      const Tensor zero = Result("ZerosLike", {x}), numbers = Result("Complex", {x, zero}, {{"Tout", complex}});
      const Tensor half = Tensor::Vector<int32_t>({3, static_cast<int32_t>(n / 2 + 1)});
      const Tensor expected = Result("Slice", {Result("FFT", {numbers}), Tensor::Vector<int32_t>({0, 0}), half});
      const Tensor y = Result("RFFT", {x, length}, attrs);
      ExpectTensor(y, expected, tolerance);
      ExpectTensor(Result("IRFFT", {y, length}, attrs), x, tolerance);
    }
  }
}

// Eight lines of floats, or four of doubles, fill the lanes of vectors; the last of these do not.
TEST(FftTest, ManyLinesGiveWhatEachGives) {
  constexpr int64_t kLines = 21;
  const auto line = [](const Tensor& x, int64_t i) {
    Tensor row(x.dtype(), {x.dim(1)});
    const size_t size = row.num_elements() * ElementSize(row.dtype());
    std::memcpy(row.raw(), static_cast<const char*>(x.raw()) + i * size, size);
    return row;
  };
  for (const int64_t n : {1, 2, 7, 16, 17, 67, 100}) {
    SCOPED_TRACE(n);
    const Tensor x = Noise({kLines, n}), real = TestValues(kDouble, {kLines, n});
    const Tensor length = Tensor::Vector<int32_t>({static_cast<int32_t>(n)});
    const auto transform = [&](const char* op, const Tensor& in) {
      return op[0] == 'R'   ? Result("RFFT", {in, length}, {{"Treal", kDouble}, {"Tcomplex", kComplex128}})
             : op[1] == 'R' ? Result("IRFFT", {in, length}, {{"Treal", kDouble}, {"Tcomplex", kComplex128}})
                            : Result(op, {in});
    };
    for (const char* const op : {"FFT", "IFFT", "RFFT", "IRFFT"}) {
      SCOPED_TRACE(op);
      const Tensor in = op[0] == 'R' ? real : x, all = transform(op, in);
      for (const int64_t i : {0, 7, 8, 15, 20}) ExpectTensor(line(all, i), transform(op, line(in, i)), 1e-12);
    }
    // Lines beside each other: along the first dimension.
    const Tensor order = Tensor::Vector<int32_t>({1, 0});
    const Tensor columns = Result("FFT", {Result("Transpose", {Result("FFT", {x}), order})});
    ExpectTensor(Result("FFT2D", {x}), Result("Transpose", {columns, order}), 1e-10);
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
