// SPDX-License-Identifier: Apache-2.0
// StringJoin joins the strings of its inputs, element by element, with a
// separator between them; scalars are repeated. StringFormat puts tensors into
// a template, in the places of a placeholder.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "thalweg/base/string_memory.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/summary/summarize.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

class StringJoinKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(separator_, init.Attr<std::string>("separator"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    Shape shape;
    bool has_shape = false;
    for (int i = 0; i < c.num_inputs(); ++i) {
      if (c.input(i).rank() == 0) continue;
      if (has_shape && c.input(i).shape() != shape) {
        return InvalidArgument("Input shapes do not match: ", shape, " vs. ", c.input(i).shape());
      }
      shape = c.input(i).shape();
      has_shape = true;
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    for (int64_t k = 0; k < shape.num_elements(); ++k) {
      const auto part = [&](int i) -> const std::string& {
        return c.input(i).data<std::string>()[c.input(i).rank() == 0 ? 0 : k];
      };
      size_t size = separator_.size() * std::max(c.num_inputs() - 1, 0);
      for (int i = 0; i < c.num_inputs(); ++i) size += part(i).size();
      ReserveStringMemory(size);
      std::string& text = out->mutable_data<std::string>()[k];
      text.reserve(size);
      for (int i = 0; i < c.num_inputs(); ++i) {
        if (i > 0) text += separator_;
        text += part(i);
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string separator_;
};

absl::Status StringJoinShape(ShapeContext& c) {
  PartialShape shape({});
  bool all_known = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& input = c.input(i);
    all_known = all_known && input.has_rank();
    if (!input.has_rank() || input.rank() == 0) continue;
    if (shape.rank() == 0) {
      shape = input;
    } else {
      ASSIGN_OR_RETURN(shape, PartialShape::Merge(shape, input));
    }
  }
  // One that is not known could be a scalar, unless others are all scalars.
  if (all_known || shape.rank() > 0) c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

class StringFormatKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string text, init.Attr<std::string>("template"));
    ASSIGN_OR_RETURN(const std::string placeholder, init.Attr<std::string>("placeholder"));
    ASSIGN_OR_RETURN(summarize_, init.Attr<int64_t>("summarize"));
    if (placeholder.empty()) return InvalidArgument("placeholder must not be empty");
    parts_ = absl::StrSplit(text, placeholder);
    if (static_cast<int>(parts_.size()) - 1 != init.node().num_inputs()) {
      return InvalidArgument("num placeholders in template and num inputs must match: ", parts_.size() - 1, " vs. ",
                             init.node().num_inputs());
    }
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
    std::string& text = *out->mutable_data<std::string>();
    text = parts_[0];
    for (int i = 0; i < c.num_inputs(); ++i)
      absl::StrAppend(&text, SummarizeNested(c.input(i), summarize_), parts_[i + 1]);
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> parts_;
  int64_t summarize_ = 3;
};

const OpRegistration kStringJoinOps[] = {
    Op("StringJoin")
        .Input("inputs: N * string")
        .Output("output: string")
        .Attr("N: int >= 0")
        .Attr("separator: string = ''")
        .Shape(StringJoinShape)
        .Kernel<StringJoinKernel>()
        .NotDifferentiable(),
    Op("StringFormat")
        .Input("inputs: T")
        .Output("output: string")
        .Attr("T: list(type) >= 0")
        .Attr("template: string = '%s'")
        .Attr("placeholder: string = '%s'")
        .Attr("summarize: int = 3")
        .Shape(shapes::Scalar)
        .Kernel<StringFormatKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output StringJoin(const Scope& s, const std::vector<Output>& inputs, absl::string_view separator) {
  return s.Add("StringJoin", {inputs}, {{"separator", separator}});
}

}  // namespace thalweg
