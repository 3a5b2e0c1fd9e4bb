// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/summary/summarize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/tensor/float8.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

// Uses few digits that read back as the same number: first tries six (or fifteen for double), then
// nine (or seventeen).
std::string FloatText(float v) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  char text[32];
  snprintf(text, sizeof(text), "%.6g", static_cast<double>(v));
  if (std::isfinite(v) && strtof(text, nullptr) != v) snprintf(text, sizeof(text), "%.9g", static_cast<double>(v));
  return text;
}
std::string DoubleText(double v) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  char text[40];
  snprintf(text, sizeof(text), "%.15g", v);
  if (std::isfinite(v) && strtod(text, nullptr) != v) snprintf(text, sizeof(text), "%.17g", v);
  return text;
}

template <typename T>
std::string ElementText(const T& v, bool quoted) {
  if constexpr (std::is_same_v<T, std::string>) {
    return quoted ? absl::StrCat("\"", absl::Utf8SafeCEscape(v), "\"") : absl::CEscape(v);
  } else if constexpr (std::is_same_v<T, bool>) {
    return v ? "1" : "0";
  } else if constexpr (std::is_same_v<T, double>) {
    return DoubleText(v);
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return FloatText(static_cast<float>(v));
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return "?";
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    return absl::StrCat("<ResourceHandle(name=\"", v.name, "\", device=\"", v.device, "\", container=\"", v.container,
                        "\", type=\"", v.type_name, "\")>");
  } else if constexpr (std::is_same_v<T, Variant>) {
    return v.empty() ? "Variant<type: <empty>>" : absl::StrCat("Variant<", v.get()->ToString(), ">");
  } else {
    return std::to_string(v);
  }
}

// Elements [*next, limit) of dimension d on, with brackets around the inner
// dimensions.
template <typename T>
void AppendRows(const Tensor& t, int d, int64_t limit, int64_t* next, std::string* text) {
  const T* const values = static_cast<const T*>(t.raw());
  for (int64_t i = 0; i < t.dim(d); ++i) {
    if (*next >= limit) {
      // Cut inside of a row: of a vector, the caller says so.
      if (d > 0 && d + 1 == t.rank()) *text += "...";
      return;
    }
    if (d + 1 == t.rank()) {
      absl::StrAppend(text, i == 0 ? "" : " ", ElementText(values[(*next)++], false));
    } else {
      text->push_back('[');
      AppendRows<T>(t, d + 1, limit, next, text);
      text->push_back(']');
    }
  }
}

// Dimension d on, from element `begin`.
template <typename T>
void AppendNested(const Tensor& t, int d, int64_t begin, int64_t stride, int64_t edge, std::string* text) {
  if (d == t.rank()) {
    absl::StrAppend(text, edge == 0 ? "..." : ElementText(static_cast<const T*>(t.raw())[begin], true));
    return;
  }
  const int64_t n = t.dim(d);
  const int64_t inner = n == 0 ? 0 : stride / n;
  const bool shortened = edge >= 0 && 2 * edge < n;
  // Rows of matrices are on lines of their own, indented as their brackets.
  const std::string separator =
      d + 1 == t.rank() ? " " : absl::StrCat(std::string(t.rank() - d - 1, '\n'), std::string(d + 1, ' '));
  text->push_back('[');
  for (int64_t i = 0; i < n; ++i) {
    // Rows of nothing may be more than any text can hold.
    constexpr size_t kMostTextOfNothing = 1 << 16;
    if (t.num_elements() == 0 && text->size() > kMostTextOfNothing) {
      absl::StrAppend(text, separator, "...");
      break;
    }
    if (shortened && i == edge) {
      absl::StrAppend(text, separator, "...");
      i = n - edge;
      if (i >= n) break;
    }
    if (i > 0) absl::StrAppend(text, separator);
    AppendNested<T>(t, d + 1, begin + i * inner, inner, edge, text);
  }
  text->push_back(']');
}

// Float8 elements as floats, which have the same values.
Tensor WithTextType(const Tensor& t) {
  if (!IsFloat8(t.dtype())) return t;
  Tensor floats(kFloat, t.shape());
  const uint8_t* const bits = static_cast<const uint8_t*>(t.raw());
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    floats.mutable_data<float>()[i] = Float8ToFloat(FormatOf(t.dtype()), bits[i]);
  }
  return floats;
}

}  // namespace

std::string SummarizeValue(const Tensor& value, int64_t max_entries) {
  const Tensor t = WithTextType(value);
  const int64_t limit = max_entries < 0 ? t.num_elements() : std::min(max_entries, t.num_elements());
  std::string text;
  const absl::Status status = Dispatch(AllTypes(), StorageType(t.dtype()), [&]<typename T>() {
    if (t.rank() == 0) {
      if (limit > 0) text = ElementText(*static_cast<const T*>(t.raw()), false);
    } else {
      int64_t next = 0;
      AppendRows<T>(t, 0, limit, &next, &text);
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return std::string(status.message());
  if (t.num_elements() > limit) text += "...";
  return text;
}

std::string SummarizeNested(const Tensor& value, int64_t max_entries) {
  const Tensor t = WithTextType(value);
  std::string text;
  const absl::Status status = Dispatch(AllTypes(), StorageType(t.dtype()), [&]<typename T>() {
    AppendNested<T>(t, 0, 0, t.num_elements(), max_entries, &text);
    return absl::OkStatus();
  });
  return status.ok() ? text : std::string(status.message());
}

}  // namespace thalweg
