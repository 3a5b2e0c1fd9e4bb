// SPDX-License-Identifier: Apache-2.0
// EncodeBase64 and DecodeBase64: bytes as text of A-Z, a-z, 0-9, - and _, four
// characters for three bytes.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

bool IsBase64(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; }

std::string Encode(absl::string_view bytes, bool pad) {
  std::string text = absl::WebSafeBase64Escape(bytes);
  if (pad) text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

// Abseil passes over white space and takes any padding; TensorFlow does not.
absl::StatusOr<std::string> Decode(absl::string_view text) {
  if (text.size() % 4 == 0) {
    for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i) text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) return InvalidArgument("Base64 string length cannot be 1 modulo 4.");
  std::string bytes;
  if (!std::all_of(text.begin(), text.end(), IsBase64) || !absl::WebSafeBase64Unescape(text, &bytes)) {
    return InvalidArgument("Invalid character found in base64.");
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

const OpRegistration kBase64Ops[] = {
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

Output EncodeBase64(const Scope& s, Output input, const EncodeBase64Options& options) {
  return s.Add("EncodeBase64", {input}, {{"pad", options.pad}});
}
Output DecodeBase64(const Scope& s, Output input) { return s.Add("DecodeBase64", {input}); }

}  // namespace thalweg
