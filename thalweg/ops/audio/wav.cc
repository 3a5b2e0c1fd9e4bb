// SPDX-License-Identifier: Apache-2.0
// EncodeWav and DecodeWav: 16-bit PCM audio in WAV files, as samples in [-1, 1].
#include "thalweg/ops/audio/wav.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

constexpr float kScale = 1 << 15;

absl::Status ComputeEncode(KernelContext& c) {
  const Tensor &audio = c.input(0), &rate = c.input(1);
  if (audio.rank() != 2) return InvalidArgument("audio must be 2-dimensional", audio.shape());
  if (rate.rank() != 0) return InvalidArgument("Input sample_rate should be a scalar tensor, got ", rate.shape());
  const int64_t channels = audio.dim(1), samples = audio.num_elements();
  if (channels > std::numeric_limits<uint16_t>::max()) {
    return InvalidArgument("at most ", std::numeric_limits<uint16_t>::max(), " channels fit, got ", channels);
  }
  constexpr int64_t kHeader = 44, kSampleBytes = 2;
  if (samples > (std::numeric_limits<uint32_t>::max() - kHeader) / kSampleBytes) {
    return InvalidArgument("Provided channels and samples cannot be encoded as a WAV.");
  }
  if (rate.scalar<int32_t>() <= 0)
    return InvalidArgument("sample_rate must be in (0, 2^32), got: ", rate.scalar<int32_t>());
  const uint32_t hertz = static_cast<uint32_t>(rate.scalar<int32_t>());
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  *out->mutable_data<std::string>() = EncodeWav(audio.flat<float>(), hertz, static_cast<uint16_t>(channels));
  return absl::OkStatus();
}

// Reads a file from front to back.
class WavReader {
 public:
  explicit WavReader(absl::string_view bytes) : rest_(bytes) {}

  template <typename T>
  absl::StatusOr<T> Read() {
    if (rest_.size() < sizeof(T)) return InvalidArgument("Data too short when trying to read a number of the WAV");
    T value;
    memcpy(&value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  absl::StatusOr<absl::string_view> Take(size_t n) {
    if (rest_.size() < n) return InvalidArgument("Data too short when trying to read string");
    const absl::string_view bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  absl::Status Expect(absl::string_view text) {
    ASSIGN_OR_RETURN(const absl::string_view found, Take(text.size()));
    if (found == text) return absl::OkStatus();
    return InvalidArgument("Header mismatch: Expected ", text, " but found ", found);
  }
  bool at_end() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

 private:
  absl::string_view rest_;
};

struct Wav {
  uint16_t channels = 0;
  uint32_t sample_rate = 0;
  absl::string_view samples;  // two bytes each
};

absl::StatusOr<Wav> Parse(absl::string_view bytes) {
  WavReader in(bytes);
  Wav wav;
  RETURN_IF_ERROR(in.Expect("RIFF"));
  RETURN_IF_ERROR(in.Read<uint32_t>().status());
  RETURN_IF_ERROR(in.Expect("WAVE"));
  RETURN_IF_ERROR(in.Expect("fmt "));
  ASSIGN_OR_RETURN(const uint32_t format_size, in.Read<uint32_t>());
  if (format_size != 16 && format_size != 18) {
    return InvalidArgument("Bad file size for WAV: Expected 16 or 18, but got", format_size);
  }
  ASSIGN_OR_RETURN(const uint16_t format, in.Read<uint16_t>());
  if (format != 1 && format != 3) {
    return InvalidArgument("Bad audio format for WAV: Expected 1 (PCM) or 3 (IEEE float), but got", format);
  }
  ASSIGN_OR_RETURN(wav.channels, in.Read<uint16_t>());
  if (wav.channels < 1)
    return InvalidArgument("Bad number of channels for WAV: Expected at least 1, but got ", wav.channels);
  ASSIGN_OR_RETURN(wav.sample_rate, in.Read<uint32_t>());
  ASSIGN_OR_RETURN(const uint32_t bytes_per_second, in.Read<uint32_t>());
  ASSIGN_OR_RETURN(const uint16_t bytes_per_frame, in.Read<uint16_t>());
  ASSIGN_OR_RETURN(const uint16_t bits, in.Read<uint16_t>());
  if (format != 1 || bits != 16) return InvalidArgument("Can only read 16-bit WAV files, but received ", bits);
  const uint32_t expected_frame = bits / 8u * wav.channels;
  if (bytes_per_frame != expected_frame) {
    return InvalidArgument("Bad bytes per sample in WAV header: Expected ", expected_frame, " but got ",
                           bytes_per_frame);
  }
  if (const uint64_t expected = uint64_t{expected_frame} * wav.sample_rate; bytes_per_second != expected) {
    return InvalidArgument("Bad bytes per second in WAV header: Expected ", expected, " but got ", bytes_per_second,
                           " (sample_rate=", wav.sample_rate, ", bytes_per_sample=", bytes_per_frame, ")");
  }
  if (format_size == 18) RETURN_IF_ERROR(in.Read<uint16_t>().status());
  while (!in.at_end()) {
    ASSIGN_OR_RETURN(const absl::string_view chunk, in.Take(4));
    ASSIGN_OR_RETURN(const uint32_t size, in.Read<uint32_t>());
    if (chunk == "data") {
      ASSIGN_OR_RETURN(wav.samples, in.Take(size));
      return wav;
    }
    RETURN_IF_ERROR(in.Take(size).status());
  }
  return InvalidArgument("No data chunk found in WAV");
}

class DecodeWavKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(channels_, init.Attr<int64_t>("desired_channels"));
    ASSIGN_OR_RETURN(samples_, init.Attr<int64_t>("desired_samples"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& contents = c.input(0);
    if (contents.rank() != 0) return InvalidArgument("contents must be scalar, got shape ", contents.shape());
    if (contents.scalar<std::string>().size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return InvalidArgument("WAV contents are too large for int: ", contents.scalar<std::string>().size());
    }
    ASSIGN_OR_RETURN(const Wav wav, Parse(contents.scalar<std::string>()));
    const int64_t found = static_cast<int64_t>(wav.samples.size()) / (2 * wav.channels);
    const int64_t channels = channels_ == -1 ? wav.channels : channels_, samples = samples_ == -1 ? found : samples_;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({samples, channels}));
    ASSIGN_OR_RETURN(Tensor* const audio, c.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor* const rate, c.Allocate(1, Shape()));
    *rate->mutable_data<int32_t>() = static_cast<int32_t>(wav.sample_rate);
    float* to = audio->mutable_data<float>();
    for (int64_t i = 0; i < samples; ++i) {
      for (int64_t k = 0; k < channels; ++k, ++to) {
        // Channels that the file does not have repeat its last one.
        const int64_t channel = std::min<int64_t>(k, wav.channels - 1);
        int16_t sample = 0;
        if (i < found) memcpy(&sample, wav.samples.data() + 2 * (i * wav.channels + channel), sizeof(sample));
        *to = static_cast<float>(sample) / kScale;
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t channels_ = -1, samples_ = -1;
};

absl::Status DecodeShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(0));
  ASSIGN_OR_RETURN(const int64_t channels, c.Attr<int64_t>("desired_channels"));
  ASSIGN_OR_RETURN(const int64_t samples, c.Attr<int64_t>("desired_samples"));
  if (channels != -1 && channels < 0) return InvalidArgument("channels must be non-negative, got ", channels);
  if (samples != -1 && samples < 0) return InvalidArgument("samples must be non-negative, got ", samples);
  c.set_output(0, PartialShape({samples, channels}));
  c.set_output(1, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status EncodeShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 2).status());
  RETURN_IF_ERROR(c.RequireScalar(1));
  return shapes::Scalar(c);
}

const OpRegistration kWavOps[] = {
    Op("DecodeWav")
        .Input("contents: string")
        .Output("audio: float")
        .Output("sample_rate: int32")
        .Attr("desired_channels: int = -1")
        .Attr("desired_samples: int = -1")
        .Shape(DecodeShape)
        .Kernel<DecodeWavKernel>()
        .NotDifferentiable(),
    Op("EncodeWav")
        .Input("audio: float")
        .Input("sample_rate: int32")
        .Output("contents: string")
        .Shape(EncodeShape)
        .Compute(ComputeEncode)
        .NotDifferentiable(),
};

}  // namespace

// RIFF, little endian: a head of 44 bytes and the samples, channel by channel.
std::string EncodeWav(absl::Span<const float> samples, uint32_t rate, uint16_t channels) {
  std::string wav;
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) wav.push_back(static_cast<char>(value >> (8 * i)));
  };
  const uint32_t size = static_cast<uint32_t>(samples.size() * 2);
  wav.append("RIFF");
  put(36 + size, 4);
  wav.append("WAVEfmt ");
  put(16, 4);
  put(1, 2);  // not compressed
  put(channels, 2);
  put(rate, 4);
  put(rate * 2 * channels, 4);
  put(2 * channels, 2);
  put(16, 2);
  wav.append("data");
  put(size, 4);
  for (const float sample : samples) {
    const float scaled = std::round(sample * 32768.0f);
    put(static_cast<uint16_t>(static_cast<int16_t>(std::min(std::max(-32768.0f, scaled), 32767.0f))), 2);
  }
  return wav;
}

}  // namespace thalweg
