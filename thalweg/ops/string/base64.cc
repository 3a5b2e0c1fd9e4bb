// EncodeBase64 and DecodeBase64: bytes as text of A-Z, a-z, 0-9, - and _, four
// characters for three bytes.
#include <array>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

constexpr absl::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string Encode(absl::string_view bytes, bool pad) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(bytes.size() - i, 3);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k <= n; ++k) text.push_back(kAlphabet[group >> (18 - 6 * k) & 63]);
    if (pad) text.append(3 - n, '=');
  }
  return text;
}

constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (int i = 0; i < 64; ++i) values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  return values;
}();

absl::StatusOr<std::string> Decode(absl::string_view text) {
  if (text.size() % 4 == 0) {
    for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i) text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) return InvalidArgument("Base64 string length cannot be 1 modulo 4.");
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return InvalidArgument("Invalid character found in base64.");
    group = group << 6 | static_cast<uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(group >> bits));
  }
  return bytes;
}

class EncodeBase64Kernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(pad_, init.Attr<bool>("pad"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      out->mutable_data<std::string>()[i] = Encode(input.data<std::string>()[i], pad_);
    }
    return absl::OkStatus();
  }

 private:
  bool pad_ = false;
};

absl::Status ComputeDecode(KernelContext& c) {
  const Tensor& input = c.input(0);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    ASSIGN_OR_RETURN(out->mutable_data<std::string>()[i], Decode(input.data<std::string>()[i]));
  }
  return absl::OkStatus();
}

const OpRegistration kOps[] = {
    Op("EncodeBase64")
        .Input("input: string")
        .Output("output: string")
        .Attr("pad: bool = false")
        .Shape(shapes::LikeInput0)
        .Kernel<EncodeBase64Kernel>()
        .NotDifferentiable(),
    Op("DecodeBase64")
        .Input("input: string")
        .Output("output: string")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeDecode)
        .NotDifferentiable(),
};

}  // namespace

Output EncodeBase64(const Scope& s, Output input, bool pad) { return s.Add("EncodeBase64", {input}, {{"pad", pad}}); }
Output DecodeBase64(const Scope& s, Output input) { return s.Add("DecodeBase64", {input}); }

}  // namespace thalweg
