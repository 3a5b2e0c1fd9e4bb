// SPDX-License-Identifier: Apache-2.0
// StringSplitV2 splits strings at a separator, as Python's str.split does;
// StringSplit at every character of a set, or into characters if there is none.
// Either gives a sparse matrix with a row for every string.
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

using Parts = std::vector<absl::string_view>;

Parts SplitAtCharacters(absl::string_view text, absl::string_view characters, bool skip_empty) {
  if (text.empty()) return {};
  if (characters.empty()) {
    Parts parts;
    for (size_t i = 0; i < text.size(); ++i) parts.push_back(text.substr(i, 1));
    return parts;
  }
  if (skip_empty) return absl::StrSplit(text, absl::ByAnyChar(characters), absl::SkipEmpty());
  return absl::StrSplit(text, absl::ByAnyChar(characters));
}

Parts SplitAtWhitespace(absl::string_view text, int64_t maxsplit) {
  Parts parts;
  text = absl::StripLeadingAsciiWhitespace(text);
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size() && !absl::ascii_isspace(text[end])) ++end;
    parts.push_back(text.substr(0, end));
    text = absl::StripLeadingAsciiWhitespace(text.substr(end));
    if (maxsplit > 0 && static_cast<int64_t>(parts.size()) == maxsplit) {
      parts.push_back(text);
      break;
    }
  }
  return parts;
}

Parts SplitAtText(absl::string_view text, absl::string_view sep, int64_t maxsplit) {
  if (maxsplit == 0) return {text};
  if (sep.empty()) return SplitAtWhitespace(text, maxsplit);
  Parts parts;
  for (size_t at = text.find(sep); at != absl::string_view::npos; at = text.find(sep)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + sep.size());
    if (maxsplit > 0 && static_cast<int64_t>(parts.size()) == maxsplit) break;
  }
  parts.push_back(text);
  return parts;
}

class StringSplitKernel : public Kernel {
 public:
  explicit StringSplitKernel(bool v2) : v2_(v2) {}

  absl::Status Init(const KernelInit& init) override {
    if (v2_) {
      ASSIGN_OR_RETURN(maxsplit_, init.Attr<int64_t>("maxsplit"));
    } else {
      ASSIGN_OR_RETURN(skip_empty_, init.Attr<bool>("skip_empty"));
    }
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    if (!input.shape().is_vector()) return InvalidArgument("input must be a vector, got shape: ", input.shape());
    if (!c.input(1).shape().is_scalar()) {
      return InvalidArgument(v2_ ? "sep" : "delimiter", " must be a scalar, got shape: ", c.input(1).shape());
    }
    const std::string& sep = c.input(1).scalar<std::string>();
    std::vector<Parts> rows;
    int64_t count = 0, width = 0;
    for (const std::string& text : input.flat<std::string>()) {
      rows.push_back(v2_ ? SplitAtText(text, sep, maxsplit_) : SplitAtCharacters(text, sep, skip_empty_));
      count += static_cast<int64_t>(rows.back().size());
      width = std::max(width, static_cast<int64_t>(rows.back().size()));
    }
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, Shape({count, 2})));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(1, Shape({count})));
    int64_t* index = indices->mutable_data<int64_t>();
    std::string* value = values->mutable_data<std::string>();
    for (size_t row = 0; row < rows.size(); ++row) {
      for (size_t column = 0; column < rows[row].size(); ++column) {
        *index++ = static_cast<int64_t>(row);
        *index++ = static_cast<int64_t>(column);
        value++->assign(rows[row][column].data(), rows[row][column].size());
      }
    }
    c.set_output(2, Tensor::Vector<int64_t>({input.dim(0), width}));
    return absl::OkStatus();
  }

 private:
  const bool v2_;
  int64_t maxsplit_ = -1;
  bool skip_empty_ = true;
};

absl::Status SplitShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, {PartialShape::kUnknown, 2});
  c.set_output(1, {PartialShape::kUnknown});
  c.set_output(2, {2});
  return absl::OkStatus();
}

const OpRegistration kStringSplitOps[] = {
    Op("StringSplit")
        .Input("input: string")
        .Input("delimiter: string")
        .Output("indices: int64")
        .Output("values: string")
        .Output("shape: int64")
        .Attr("skip_empty: bool = true")
        .Shape(SplitShape)
        .Kernel<StringSplitKernel>(false)
        .NotDifferentiable(),
    Op("StringSplitV2")
        .Input("input: string")
        .Input("sep: string")
        .Output("indices: int64")
        .Output("values: string")
        .Output("shape: int64")
        .Attr("maxsplit: int = -1")
        .Shape(SplitShape)
        .Kernel<StringSplitKernel>(true)
        .NotDifferentiable(),
};

}  // namespace

StringSplitResult StringSplit(const Scope& s, Output input, const ScalarArg& sep, int64_t maxsplit) {
  Node* const node = s.Add("StringSplitV2", {input, sep.AsTensor(s, "sep")}, {{"maxsplit", maxsplit}});
  return {Output(node, 0), Output(node, 1), Output(node, 2)};
}

}  // namespace thalweg
