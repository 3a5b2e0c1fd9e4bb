// SPDX-License-Identifier: Apache-2.0
// Numbers to strings (AsString) and back (StringToNumber).
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

class AsStringKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const int64_t precision, init.Attr<int64_t>("precision"));
    ASSIGN_OR_RETURN(const bool scientific, init.Attr<bool>("scientific"));
    ASSIGN_OR_RETURN(const bool shortest, init.Attr<bool>("shortest"));
    ASSIGN_OR_RETURN(const int64_t width, init.Attr<int64_t>("width"));
    ASSIGN_OR_RETURN(const std::string fill, init.Attr<std::string>("fill"));
    const DType dtype = init.node().input_type(0);
    const bool fraction = IsFloating(dtype) || IsComplex(dtype);
    if (fill.size() > 1) return InvalidArgument("Fill string must be one or fewer characters");
    if (scientific && shortest) return InvalidArgument("Cannot select both scientific and shortest notation");
    if ((scientific || shortest) && !fraction) {
      return InvalidArgument("scientific and shortest format not supported for datatype ", dtype);
    }
    if (precision > -1 && !fraction) return InvalidArgument("precision not supported for datatype ", dtype);
    if (!fill.empty() && std::string(" +-0#").find(fill[0]) == std::string::npos) {
      return InvalidArgument("Fill argument not supported: \"", fill, "\"");
    }
    if (precision > 400 || width > 1 << 20)
      return InvalidArgument("precision ", precision, " or width ", width, " too large");
    format_ = absl::StrCat("%", fill);
    if (width > -1) absl::StrAppend(&format_, width);
    if (precision > -1) absl::StrAppend(&format_, ".", precision);
    format_ += !fraction ? (dtype == kBool || dtype == kString ? "s" : "d") : shortest ? "g" : scientific ? "e" : "f";
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    if (input.dtype() == kVariant) {
      for (int64_t i = 0; i < input.num_elements(); ++i) {
        const VariantValue* const value = input.data<Variant>()[i].get();
        out->mutable_data<std::string>()[i] =
            value == nullptr ? "Variant<type: <empty>>"
                             : absl::StrCat("Variant<type: ", value->TypeName(), " value: ", value->ToString(), ">");
      }
      return absl::OkStatus();
    }
    return Dispatch(Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                          uint64_t, std::complex<float>, std::complex<double>, bool, std::string>(),
                    input.dtype(), [&]<typename T>() {
                      for (int64_t i = 0; i < input.num_elements(); ++i) {
                        out->mutable_data<std::string>()[i] = Text(input.data<T>()[i]);
                      }
                      return absl::OkStatus();
                    });
  }

 private:
  template <typename... Args>
  std::string Format(const Args&... args) const {
    std::string text;
    const absl::UntypedFormatSpec format(format_);
    CHECK(absl::FormatUntyped(&text, format, {absl::FormatArg(args)...})) << format_;
    return text;
  }
  template <typename T>
  std::string Text(const T& value) const {
    if constexpr (std::is_same_v<T, bool>) {
      return Format(absl::string_view(value ? "true" : "false"));
    } else if constexpr (std::is_same_v<T, std::string>) {
      return Format(absl::string_view(value));
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      return absl::StrCat("(", Format(static_cast<double>(value.real())), ",",
                          Format(static_cast<double>(value.imag())), ")");
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      return Format(value);
    } else if constexpr (std::is_integral_v<T>) {
      return Format(static_cast<int64_t>(value));
    } else {
      return Format(static_cast<double>(value));
    }
  }

  std::string format_;
};

template <typename T>
bool Parse(const std::string& text, T* value) {
  if constexpr (std::is_same_v<T, float>) {
    return absl::SimpleAtof(text, value);
  } else if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(text, value);
  } else {
    return absl::SimpleAtoi(text, value);
  }
}

absl::Status ComputeStringToNumber(KernelContext& c) {
  const Tensor& input = c.input(0);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
  return Dispatch(Types<float, double, int32_t, int64_t>(), out->dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.data<std::string>()[i];
      if (!Parse(text, &out->mutable_data<T>()[i])) {
        return InvalidArgument("StringToNumberOp could not correctly convert string: ", text);
      }
    }
    return absl::OkStatus();
  });
}

const OpRegistration kStringNumberOps[] = {
    Op("AsString")
        .Input("input: T")
        .Output("output: string")
        .Attr("T: {realnumbertype, complex64, complex128, bool, variant, string}")
        .Attr("precision: int = -1")
        .Attr("scientific: bool = false")
        .Attr("shortest: bool = false")
        .Attr("width: int = -1")
        .Attr("fill: string = ''")
        .Shape(shapes::LikeInput0)
        .Kernel<AsStringKernel>()
        .NotDifferentiable(),
    Op("StringToNumber")
        .Input("string_tensor: string")
        .Output("output: out_type")
        .Attr("out_type: {float, double, int32, int64} = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeStringToNumber)
        .NotDifferentiable(),
};

}  // namespace

Output AsString(const Scope& s, Output input, const AsStringOptions& options) {
  return s.Add("AsString", {input},
               {{"precision", options.precision},
                {"scientific", options.scientific},
                {"shortest", options.shortest},
                {"width", options.width},
                {"fill", options.fill}});
}
Output StringToNumber(const Scope& s, Output string_tensor, DType out_type) {
  return s.Add("StringToNumber", {string_tensor}, {{"out_type", out_type}});
}

}  // namespace thalweg
