// SPDX-License-Identifier: Apache-2.0
// Einsum: sums of products of one or two tensors, by an equation of labels, one
// per dimension ("ij,jk->ik"): labels that the result lacks are summed over, and
// one that repeats in an operand takes its diagonal. "..." stands for dimensions
// without labels, which broadcast.
//
// Each operand is first brought to its own labels (diagonals taken, what only it
// has summed), then both to [batch, rows, inner] and [batch, inner, columns],
// whose products are the result but for the order of its dimensions.
#include <algorithm>
#include <complex>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/gemm.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using Labels = std::vector<int>;  // letters; broadcast dimensions are -1, -2, ... from the last
using EinsumTypes = Types<float, double, int32_t, int64_t, std::complex<float>, std::complex<double>, Half, BFloat16>;

struct Equation {
  std::vector<std::string> operands;  // labels, with '.' for "..."
  std::string result;
};

absl::StatusOr<Equation> Parse(const std::string& text, int operands) {
  const std::vector<std::string> sides = absl::StrSplit(absl::StrReplaceAll(text, {{" ", ""}, {"...", "."}}), "->");
  if (sides.size() != 2) return InvalidArgument("Expecting exactly one '->' in einsum equation: ", text);
  Equation e{absl::StrSplit(sides[0], ','), sides[1]};
  if (static_cast<int>(e.operands.size()) != operands) {
    return InvalidArgument("Expected ", e.operands.size(), " inputs for equation ", text, " but got: ", operands);
  }
  if (operands > 2)
    return InvalidArgument("Expecting 1 or 2 input subscripts in equation '", text, "' but got: ", operands);
  std::set<char> known;
  for (const std::string* part : {&e.operands[0], &e.operands[operands - 1], &e.result}) {
    if (std::count(part->begin(), part->end(), '.') > 1) {
      return InvalidArgument("Expected at most one ellipsis in equation '", text, "'");
    }
    for (const char c : *part) {
      if (!absl::ascii_isalpha(static_cast<unsigned char>(c)) && c != '.') {
        return InvalidArgument("Invalid einsum equation: ", text);
      }
      if (part == &e.result && c != '.' && !known.contains(c)) {
        return InvalidArgument("Output subscripts contain the label '", std::string(1, c),
                               "' not present in the input subscripts: ", text);
      }
      if (part == &e.result && std::count(part->begin(), part->end(), c) > 1) {
        return InvalidArgument("Output subscripts have a repeated label: ", text);
      }
      known.insert(c);
    }
  }
  return e;
}

// The labels of an operand of that rank.
absl::StatusOr<Labels> Expand(const std::string& text, int rank) {
  Labels labels;
  const bool dots = text.find('.') != std::string::npos;
  const int named = static_cast<int>(text.size()) - (dots ? 1 : 0), unnamed = rank - named;
  if (unnamed < 0 || (!dots && unnamed > 0)) {
    return InvalidArgument("Expected input to have rank ", dots ? "at least " : "", named, " but got: ", rank);
  }
  for (const char c : text) {
    if (c != '.') labels.push_back(c);
    for (int i = unnamed; c == '.' && i > 0; --i) labels.push_back(-i);
  }
  return labels;
}

using Sizes = std::map<int, int64_t>;

// Dimensions of labels must agree; those of "..." may be 1.
absl::Status AddSizes(const Labels& labels, const Shape& shape, Sizes* sizes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t dim = shape.dim(static_cast<int>(i));
    const auto [it, is_new] = sizes->emplace(labels[i], dim);
    if (is_new || it->second == dim) continue;
    if (labels[i] < 0 && (dim == 1 || it->second == 1)) {
      it->second = std::max(dim, it->second) == 1 ? 1 : (dim == 1 ? it->second : dim);
      continue;
    }
    return InvalidArgument("Expected dimension ", it->second, " at axis ", i, " of the input shaped ", shape,
                           " but got dimension ", dim);
  }
  return absl::OkStatus();
}

// x with the labels of `to`: takes elements with equal indices for equal labels, sums over labels
// that `to` lacks, and repeats where x has dimension 1 or none.
template <typename T, typename F>
absl::StatusOr<Tensor> Bring(KernelContext& context, const Tensor& x, const Labels& from, const Labels& to,
                             const Sizes& sizes) {
  const Dims strides = RowMajorStrides(x.shape().dims());
  std::map<int, int64_t> step;
  for (size_t i = 0; i < from.size(); ++i) {
    if (x.dim(static_cast<int>(i)) != 1) step[from[i]] += strides[i];
  }
  Labels order = to;  // then what is summed
  std::set<int> summed(from.begin(), from.end());
  for (const int label : to) summed.erase(label);
  order.insert(order.end(), summed.begin(), summed.end());
  Dims dims, steps, out_dims;
  for (size_t i = 0; i < order.size(); ++i) {
    dims.push_back(sizes.at(order[i]));
    steps.push_back(step.contains(order[i]) ? step[order[i]] : 0);
    if (i < to.size()) out_dims.push_back(dims.back());
  }
  ASSIGN_OR_RETURN(const Shape all, Shape::Make(dims));
  ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(out_dims));
  ASSIGN_OR_RETURN(Tensor result, context.AllocateTemporary(DTypeOf<F>, out_shape));
  F* const out = result.template mutable_data<F>();
  std::fill_n(out, out_shape.num_elements(), F(0));
  if (all.num_elements() == 0) return result;
  const int64_t inner = all.num_elements() / out_shape.num_elements();
  Dims at(order.size(), 0);
  int64_t place = 0;
  const T* const data = x.data<T>();
  for (int64_t i = 0; i < all.num_elements(); ++i) {
    out[i / inner] = WrapAdd(out[i / inner], static_cast<F>(data[place]));
    for (size_t d = order.size(); d-- > 0;) {
      place += steps[d];
      if (++at[d] < dims[d]) break;
      place -= steps[d] * dims[d];
      at[d] = 0;
    }
  }
  return result;
}

class EinsumKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string text, init.Attr<std::string>("equation"));
    ASSIGN_OR_RETURN(equation_, Parse(text, init.node().num_inputs()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const int n = context.num_inputs();
    std::vector<Labels> labels(n);
    Sizes sizes;
    int unnamed = 0;
    for (int i = 0; i < n; ++i) {
      ASSIGN_OR_RETURN(labels[i], Expand(equation_.operands[i], context.input(i).rank()));
      RETURN_IF_ERROR(AddSizes(labels[i], context.input(i).shape(), &sizes));
      unnamed = std::max(
          unnamed, static_cast<int>(std::count_if(labels[i].begin(), labels[i].end(), [](int l) { return l < 0; })));
    }
    const bool dots = equation_.result.find('.') != std::string::npos;
    if (!dots && unnamed > 0) {
      return InvalidArgument("Output subscripts lack the ellipsis of the input subscripts");
    }
    ASSIGN_OR_RETURN(const Labels result, Expand(equation_.result, static_cast<int>(equation_.result.size()) -
                                                                       (dots ? 1 : 0) + (dots ? unnamed : 0)));
    Dims dims;
    for (const int label : result) dims.push_back(sizes.at(label));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return Dispatch(EinsumTypes(), out->dtype(), [&]<typename T>() -> absl::Status {
      using F = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
      if (n == 1) {
        ASSIGN_OR_RETURN(const Tensor values, (Bring<T, F>(context, context.input(0), labels[0], result, sizes)));
        for (int64_t i = 0; i < values.num_elements(); ++i) {
          out->mutable_data<T>()[i] = static_cast<T>(values.template data<F>()[i]);
        }
        return absl::OkStatus();
      }
      return Multiply<T, F>(context, labels, result, sizes, out);
    });
  }

 private:
  template <typename T, typename F>
  absl::Status Multiply(KernelContext& context, const std::vector<Labels>& labels, const Labels& result,
                        const Sizes& sizes, Tensor* out) const {
    const std::set<int> a(labels[0].begin(), labels[0].end()), b(labels[1].begin(), labels[1].end());
    const std::set<int> kept(result.begin(), result.end());
    Labels batch, rows, columns, inner;
    for (const int label : result) {
      const bool in_a = a.contains(label), in_b = b.contains(label);
      (label < 0 || (in_a && in_b) ? batch : in_a ? rows : columns).push_back(label);
    }
    for (const int label : a) {
      if (b.contains(label) && !kept.contains(label)) inner.push_back(label);
    }
    const auto join = [](const Labels& x, const Labels& y, const Labels& z) {
      Labels all = x;
      all.insert(all.end(), y.begin(), y.end());
      all.insert(all.end(), z.begin(), z.end());
      return all;
    };
    const auto count = [&](const Labels& of) {
      int64_t product = 1;
      for (const int label : of) product *= sizes.at(label);
      return product;
    };
    ASSIGN_OR_RETURN(const Tensor x,
                     (Bring<T, F>(context, context.input(0), labels[0], join(batch, rows, inner), sizes)));
    ASSIGN_OR_RETURN(const Tensor y,
                     (Bring<T, F>(context, context.input(1), labels[1], join(batch, inner, columns), sizes)));
    const Gemm gemm{.m = count(rows), .n = count(columns), .k = count(inner)};
    ASSIGN_OR_RETURN(Tensor products, context.AllocateTemporary(DTypeOf<F>, Shape({out->num_elements()})));
    F* const z = products.template mutable_data<F>();
    for (int64_t i = 0; i < count(batch); ++i) {
      RETURN_IF_ERROR(gemm.Run(context, x.template data<F>() + i * gemm.m * gemm.k,
                               y.template data<F>() + i * gemm.k * gemm.n, z + i * gemm.m * gemm.n));
    }
    // Into the order of the result.
    const Labels have = join(batch, rows, columns);
    Dims have_dims;
    for (const int label : have) have_dims.push_back(sizes.at(label));
    const Dims strides = RowMajorStrides(have_dims);
    const Dims out_strides = RowMajorStrides(out->shape().dims());
    for (int64_t i = 0; i < out->num_elements(); ++i) {
      int64_t rest = i, from = 0;
      for (size_t d = 0; d < result.size(); ++d) {
        const int64_t at = rest / out_strides[d];
        rest %= out_strides[d];
        from += at * strides[std::find(have.begin(), have.end(), result[d]) - have.begin()];
      }
      out->mutable_data<T>()[i] = static_cast<T>(z[from]);
    }
    return absl::OkStatus();
  }

  Equation equation_;
};

absl::Status EinsumShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::string text, c.Attr<std::string>("equation"));
  ASSIGN_OR_RETURN(const Equation equation, Parse(text, c.num_inputs()));
  if (text.find('.') != std::string::npos) return absl::OkStatus();
  Sizes sizes;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& shape = c.input(i);
    if (!shape.has_rank()) continue;
    ASSIGN_OR_RETURN(const Labels labels, Expand(equation.operands[i], shape.rank()));
    for (size_t d = 0; d < labels.size(); ++d) {
      int64_t& size = sizes.emplace(labels[d], PartialShape::kUnknown).first->second;
      size = std::max(size, shape.dim(static_cast<int>(d)));
    }
  }
  Dims dims;
  for (const char label : equation.result)
    dims.push_back(sizes.contains(label) ? sizes[label] : PartialShape::kUnknown);
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// The gradient of each operand is an einsum of dy and the other operand: "ij,jk->ik" gives
// "ik,jk->ij" and "ij,ik->jk". Labels that only the operand has were summed over, so the gradient is
// repeated along them.
absl::Status EinsumGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const int n = g.node()->num_inputs();
  ASSIGN_OR_RETURN(const std::string text, g.Attr<std::string>("equation"));
  ASSIGN_OR_RETURN(const Equation equation, Parse(text, n));
  for (const std::string& operand : equation.operands) {
    const bool repeats = std::set<char>(operand.begin(), operand.end()).size() != operand.size();
    if (repeats || absl::StrContains(operand, '.')) {
      return Unimplemented("Einsum: no gradient of equations with \"...\" or a label that repeats in an operand: ",
                           text);
    }
  }
  for (int i = 0; i < n; ++i) {
    const std::string& own = equation.operands[i];
    const std::string others = n == 1 ? equation.result : absl::StrCat(equation.result, ",", equation.operands[1 - i]);
    std::string have;
    std::vector<int32_t> missing;
    for (size_t d = 0; d < own.size(); ++d) {
      if (absl::StrContains(others, own[d])) {
        have.push_back(own[d]);
      } else {
        missing.push_back(static_cast<int32_t>(d));
      }
    }
    std::vector<Output> inputs{g.dy()};
    if (n == 2) inputs.push_back(Conj(s, g.input(1 - i)));
    Output dx = s.Add("Einsum", {OpInput(inputs)}, {{"equation", absl::StrCat(others, "->", have)}});
    for (const int32_t d : missing) {
      const Output axis = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar(d)}});
      dx = s.Add("ExpandDims", {dx, axis});
    }
    if (!missing.empty()) dx = s.Add("BroadcastTo", {dx, Output(s.Add("Shape", {g.input(i)}))});
    g.set_dx(i, dx);
  }
  return absl::OkStatus();
}

const OpRegistration kEinsum = Op("Einsum")
                                   .Input("inputs: N * T")
                                   .Output("output: T")
                                   .Attr("equation: string")
                                   .Attr("N: int >= 1")
                                   .Attr("T: type")
                                   .Shape(EinsumShape)
                                   .Kernel<EinsumKernel>()
                                   .Gradient(EinsumGradient);

}  // namespace
}  // namespace thalweg
