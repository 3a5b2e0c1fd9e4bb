// SPDX-License-Identifier: Apache-2.0
// DecodeLibsvm of tf.contrib: lines "label index:value index:value ..." to labels and a sparse tensor of features.
#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

using LibsvmTypes = Types<float, double, int32_t, int64_t>;

template <typename T>
bool ParseNumber(absl::string_view text, T* value) {
  if constexpr (std::is_same_v<T, float>) {
    return absl::SimpleAtof(text, value);
  } else if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(text, value);
  } else {
    return absl::SimpleAtoi(text, value);
  }
}

// The words of a line: the label, and then the features.
std::vector<absl::string_view> WordsOf(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty());
}

class DecodeLibsvmKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_features_, init.Attr<int64_t>("num_features"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& lines = c.input(0);
    int64_t features = 0;
    for (int64_t i = 0; i < lines.num_elements(); ++i) {
      const std::string& line = lines.data<std::string>()[i];
      const size_t words = WordsOf(line).size();
      if (words == 0) return InvalidArgument("No label found for input[", i, "]: \"", line, "\"");
      features += static_cast<int64_t>(words) - 1;
    }
    ASSIGN_OR_RETURN(Tensor* const labels, c.Allocate(0, lines.shape()));
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(1, Shape({features, lines.rank() + 1})));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(2, Shape({features})));
    ASSIGN_OR_RETURN(Tensor* const shape, c.Allocate(3, Shape({lines.rank() + 1})));
    std::copy_n(lines.shape().dims().begin(), lines.rank(), shape->mutable_data<int64_t>());
    shape->mutable_data<int64_t>()[lines.rank()] = num_features_;
    int64_t feature = 0;
    for (int64_t i = 0; i < lines.num_elements(); ++i) {
      const std::vector<absl::string_view> words = WordsOf(lines.data<std::string>()[i]);
      RETURN_IF_ERROR(SetNumber(words[0], labels, i, "Label"));
      for (size_t w = 1; w < words.size(); ++w, ++feature) {
        int64_t* const place = indices->mutable_data<int64_t>() + feature * (lines.rank() + 1);
        SetPlace(lines.shape(), i, place);
        RETURN_IF_ERROR(SetFeature(words[w], place + lines.rank(), values, feature));
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status SetNumber(absl::string_view text, Tensor* t, int64_t i, absl::string_view what,
                                absl::string_view shown = {}) {
    return Dispatch(LibsvmTypes(), t->dtype(), [&]<typename T>() {
      if (ParseNumber(text, &t->mutable_data<T>()[i])) return absl::OkStatus();
      return InvalidArgument(what, " format incorrect: ", shown.empty() ? text : shown);
    });
  }

  static absl::Status SetFeature(absl::string_view word, int64_t* index, Tensor* values, int64_t feature) {
    const size_t colon = word.find(':');
    if (colon == word.npos) return InvalidArgument("Invalid feature \"", word, "\"");
    if (!absl::SimpleAtoi(word.substr(0, colon), index)) return InvalidArgument("Feature format incorrect: ", word);
    if (*index < 0) return InvalidArgument("Feature index should be >= 0, got ", *index);
    return SetNumber(word.substr(colon + 1), values, feature, "Feature", word);
  }

  // The coordinates of element i.
  static void SetPlace(const Shape& shape, int64_t i, int64_t* place) {
    for (int d = shape.rank() - 1; d >= 0; --d) {
      place[d] = i % shape.dim(d);
      i /= shape.dim(d);
    }
  }

  int64_t num_features_ = 0;
};

absl::Status DecodeLibsvmShape(ShapeContext& c) {
  constexpr int64_t kUnknown = PartialShape::kUnknown;
  c.set_output(0, c.input(0));
  c.set_output(1, PartialShape({kUnknown, kUnknown}));
  c.set_output(2, PartialShape({kUnknown}));
  c.set_output(3, PartialShape({kUnknown}));
  return absl::OkStatus();
}

const OpRegistration kDecodeLibsvm = Op("DecodeLibsvm")
                                         .Input("input: string")
                                         .Output("label: label_dtype")
                                         .Output("feature_indices: int64")
                                         .Output("feature_values: dtype")
                                         .Output("feature_shape: int64")
                                         .Attr("dtype: {float, double, int32, int64} = DT_FLOAT")
                                         .Attr("label_dtype: {float, double, int32, int64} = DT_INT64")
                                         .Attr("num_features: int >= 1")
                                         .Shape(DecodeLibsvmShape)
                                         .Kernel<DecodeLibsvmKernel>()
                                         .NotDifferentiable();

}  // namespace
}  // namespace thalweg
