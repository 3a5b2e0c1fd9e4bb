// SPDX-License-Identifier: Apache-2.0
// StringLower and StringUpper change letters, of ASCII or of all of Unicode;
// StringStrip takes white space off both ends.
#include <locale.h>
#include <wctype.h>

#include "absl/strings/ascii.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/support/utf8.h"

namespace thalweg {
namespace {

// One character for one: no "SS" for a sharp s.
std::string ChangeCase(absl::string_view text, bool upper) {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string result;
  while (!text.empty()) {
    const Utf8Character c = TakeUtf8(&text);
    const char32_t code = c.valid ? c.code : kReplacementCharacter;
    const wint_t wide = static_cast<wint_t>(code);
    AppendUtf8(locale == nullptr ? code : upper ? towupper_l(wide, locale) : towlower_l(wide, locale), &result);
  }
  return result;
}

class CaseKernel : public Kernel {
 public:
  explicit CaseKernel(bool upper) : upper_(upper) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string encoding, init.Attr<std::string>("encoding"));
    if (!encoding.empty() && encoding != "utf-8") {
      return InvalidArgument("only utf-8 or '' (no encoding) is supported, received ", encoding);
    }
    utf8_ = !encoding.empty();
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.data<std::string>()[i];
      out->mutable_data<std::string>()[i] = utf8_    ? ChangeCase(text, upper_)
                                            : upper_ ? absl::AsciiStrToUpper(text)
                                                     : absl::AsciiStrToLower(text);
    }
    return absl::OkStatus();
  }

 private:
  const bool upper_;
  bool utf8_ = false;
};

absl::Status ComputeStrip(KernelContext& c) {
  const Tensor& input = c.input(0);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    out->mutable_data<std::string>()[i] = std::string(absl::StripAsciiWhitespace(input.data<std::string>()[i]));
  }
  return absl::OkStatus();
}

const OpRegistration kStringCaseOps[] = {
    Op("StringLower")
        .Input("input: string")
        .Output("output: string")
        .Attr("encoding: string = ''")
        .Shape(shapes::LikeInput0)
        .Kernel<CaseKernel>(false)
        .NotDifferentiable(),
    Op("StringUpper")
        .Input("input: string")
        .Output("output: string")
        .Attr("encoding: string = ''")
        .Shape(shapes::LikeInput0)
        .Kernel<CaseKernel>(true)
        .NotDifferentiable(),
    Op("StringStrip")
        .Input("input: string")
        .Output("output: string")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeStrip)
        .NotDifferentiable(),
};

}  // namespace

Output StringLower(const Scope& s, Output input, StringEncoding encoding) {
  return s.Add("StringLower", {input}, {{"encoding", encoding == StringEncoding::kUtf8 ? "utf-8" : ""}});
}
Output StringUpper(const Scope& s, Output input, StringEncoding encoding) {
  return s.Add("StringUpper", {input}, {{"encoding", encoding == StringEncoding::kUtf8 ? "utf-8" : ""}});
}
Output StringStrip(const Scope& s, Output input) { return s.Add("StringStrip", {input}); }

}  // namespace thalweg
