// SPDX-License-Identifier: Apache-2.0
// AudioSpectrogram: the spectrum of windows of audio, one after the other. Mfcc:
// mel-frequency cepstral coefficients of such spectra.
#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

using Spectrum = std::vector<std::complex<double>>;

// The discrete Fourier transform, in place (Cooley and Tukey 1965).
// REQUIRES: the size is a power of two.
void Transform(Spectrum& x) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {  // bits of the index in reverse
    size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (size_t length = 2; length <= n; length *= 2) {
    const double angle = -2 * std::numbers::pi / static_cast<double>(length);
    for (size_t k = 0; k < length / 2; ++k) {
      const std::complex<double> twiddle = std::polar(1.0, angle * static_cast<double>(k));
      for (size_t i = k; i < n; i += length) {
        const std::complex<double> odd = twiddle * x[i + length / 2];
        x[i + length / 2] = x[i] - odd;
        x[i] += odd;
      }
    }
  }
}

class SpectrogramKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(window_, init.Attr<int64_t>("window_size"));
    ASSIGN_OR_RETURN(stride_, init.Attr<int64_t>("stride"));
    ASSIGN_OR_RETURN(squared_, init.Attr<bool>("magnitude_squared"));
    constexpr int64_t kMost = 1 << 24;
    if (window_ < 2 || window_ > kMost)
      return InvalidArgument("window size must be in [2, ", kMost, "], got ", window_);
    if (stride_ < 1) return InvalidArgument("stride must be strictly positive, got ", stride_);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    if (input.rank() != 2) return InvalidArgument("input must be 2-dimensional", input.shape());
    const int64_t samples = input.dim(0), channels = input.dim(1);
    const int64_t length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window_)));
    const int64_t bins = 1 + length / 2, frames = samples < window_ ? 0 : 1 + (samples - window_) / stride_;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({channels, frames, bins}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    std::vector<double> hann(window_);
    for (int64_t i = 0; i < window_; ++i) {
      hann[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(window_));
    }
    c.ParallelFor(channels * frames, 20.0 * static_cast<double>(length), [&](int64_t begin, int64_t end) {
      Spectrum spectrum(length);
      for (int64_t k = begin; k < end; ++k) {
        const int64_t channel = k / frames, first = k % frames * stride_;
        for (int64_t i = 0; i < length; ++i) {
          spectrum[i] = i < window_ ? hann[i] * input.data<float>()[(first + i) * channels + channel] : 0;
        }
        Transform(spectrum);
        for (int64_t i = 0; i < bins; ++i) {
          const float power = static_cast<float>(std::norm(spectrum[i]));
          out->mutable_data<float>()[k * bins + i] = squared_ ? power : std::sqrt(power);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  int64_t window_ = 0, stride_ = 0;
  bool squared_ = false;
};

double Mel(double hertz) { return 1127.0 * std::log1p(hertz / 700.0); }

// Triangular bands of equal width on the mel scale.
class MelBands {
 public:
  MelBands(int64_t bins, double sample_rate, int64_t bands, double lower, double upper) : bands_(bands) {
    const double low = Mel(lower), spacing = (Mel(upper) - low) / static_cast<double>(bands + 1);
    const double per_bin = 0.5 * sample_rate / static_cast<double>(bins - 1);
    const auto center = [&](int64_t band) { return low + spacing * static_cast<double>(band + 1); };
    first_ = std::min(bins, static_cast<int64_t>(1.5 + lower / per_bin));
    last_ = std::min(bins - 1, static_cast<int64_t>(upper / per_bin));
    int64_t band = 0;
    for (int64_t i = first_; i <= last_; ++i) {
      const double mel = Mel(static_cast<double>(i) * per_bin);
      while (band < bands && center(band) < mel) ++band;
      const double left = band == 0 ? low : center(band - 1), right = center(band);
      slopes_.push_back({band - 1, (right - mel) / (right - left)});
    }
  }

  // The sum of magnitudes in each band.
  void Sum(const float* power, double* sums) const {
    std::fill_n(sums, bands_, 0.0);
    for (int64_t i = first_; i <= last_; ++i) {
      const auto& [band, weight] = slopes_[i - first_];
      const double magnitude = std::sqrt(static_cast<double>(power[i])), falling = magnitude * weight;
      if (band >= 0) sums[band] += falling;
      if (band + 1 < bands_) sums[band + 1] += magnitude - falling;
    }
  }

 private:
  struct Slope {
    int64_t band;   // that falls here; the next one rises. -1: only the first rises
    double weight;  // weight of the falling one
  };
  int64_t bands_, first_ = 0, last_ = -1;
  std::vector<Slope> slopes_;
};

class MfccKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(upper_, init.Attr<float>("upper_frequency_limit"));
    ASSIGN_OR_RETURN(lower_, init.Attr<float>("lower_frequency_limit"));
    ASSIGN_OR_RETURN(bands_, init.Attr<int64_t>("filterbank_channel_count"));
    ASSIGN_OR_RETURN(coefficients_, init.Attr<int64_t>("dct_coefficient_count"));
    constexpr int64_t kMost = 2048;  // the transform is a matrix of their square
    if (bands_ < 1 || bands_ > kMost) {
      return InvalidArgument("filterbank_channel_count must be in [1, ", kMost, "], got ", bands_);
    }
    if (coefficients_ < 1 || coefficients_ > bands_) {
      return InvalidArgument("dct_coefficient_count must be in [1, ", bands_, "], got ", coefficients_);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &input = c.input(0), &rate = c.input(1);
    if (input.rank() != 3) return InvalidArgument("spectrogram must be 3-dimensional", input.shape());
    if (rate.rank() != 0) return InvalidArgument("Input sample_rate should be a scalar tensor, got ", rate.shape());
    const int64_t frames = input.dim(0) * input.dim(1), bins = input.dim(2);
    const int32_t hertz = rate.scalar<int32_t>();
    if (bins < 2 || hertz <= 0 || !(lower_ >= 0) || !(upper_ > lower_) || !std::isfinite(upper_)) {
      return InvalidArgument("Mfcc initialization failed for channel count ", bins, ", sample rate ", hertz,
                             ", lower_frequency_limit ", lower_, " and upper_frequency_limit ", upper_);
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({input.dim(0), input.dim(1), coefficients_}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    const MelBands mel(bins, hertz, bands_, lower_, upper_);
    const std::vector<double> cosines = Cosines();
    c.ParallelFor(frames, static_cast<double>(2 * bins + bands_ * coefficients_), [&](int64_t begin, int64_t end) {
      std::vector<double> sums(bands_);
      for (int64_t frame = begin; frame < end; ++frame) {
        mel.Sum(input.data<float>() + frame * bins, sums.data());
        constexpr double kFloor = 1e-12;
        for (double& sum : sums) sum = std::log(std::max(sum, kFloor));
        for (int64_t k = 0; k < coefficients_; ++k) {
          double value = 0;
          for (int64_t j = 0; j < bands_; ++j) value += cosines[k * bands_ + j] * sums[j];
          out->mutable_data<float>()[frame * coefficients_ + k] = static_cast<float>(value);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  // The discrete cosine transform as a matrix.
  std::vector<double> Cosines() const {
    std::vector<double> cosines(coefficients_ * bands_);
    const double norm = std::sqrt(2.0 / static_cast<double>(bands_));
    const double arc = std::numbers::pi / static_cast<double>(bands_);
    for (int64_t k = 0; k < coefficients_; ++k) {
      for (int64_t j = 0; j < bands_; ++j) {
        cosines[k * bands_ + j] = norm * std::cos(static_cast<double>(k) * arc * (static_cast<double>(j) + 0.5));
      }
    }
    return cosines;
  }

  float upper_ = 0, lower_ = 0;
  int64_t bands_ = 0, coefficients_ = 0;
};

absl::Status SpectrogramShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 2));
  ASSIGN_OR_RETURN(const int64_t window, c.Attr<int64_t>("window_size"));
  ASSIGN_OR_RETURN(const int64_t stride, c.Attr<int64_t>("stride"));
  if (window < 2 || stride < 1) return absl::OkStatus();  // the kernel says why
  const int64_t samples = input.dim(0);
  const int64_t frames = samples < 0 ? PartialShape::kUnknown : samples < window ? 0 : 1 + (samples - window) / stride;
  const int64_t length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window)));
  c.set_output(0, PartialShape({input.dim(1), frames, 1 + length / 2}));
  return absl::OkStatus();
}

absl::Status MfccShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 3));
  RETURN_IF_ERROR(c.RequireScalar(1));
  ASSIGN_OR_RETURN(const int64_t coefficients, c.Attr<int64_t>("dct_coefficient_count"));
  c.set_output(0, PartialShape({input.dim(0), input.dim(1), coefficients}));
  return absl::OkStatus();
}

const OpRegistration kSpectrogramOps[] = {
    Op("AudioSpectrogram")
        .Input("input: float")
        .Output("spectrogram: float")
        .Attr("window_size: int")
        .Attr("stride: int")
        .Attr("magnitude_squared: bool = false")
        .Shape(SpectrogramShape)
        .Kernel<SpectrogramKernel>()
        .NotDifferentiable(),
    Op("Mfcc")
        .Input("spectrogram: float")
        .Input("sample_rate: int32")
        .Output("output: float")
        .Attr("upper_frequency_limit: float = 4000")
        .Attr("lower_frequency_limit: float = 20")
        .Attr("filterbank_channel_count: int = 40")
        .Attr("dct_coefficient_count: int = 13")
        .Shape(MfccShape)
        .Kernel<MfccKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
