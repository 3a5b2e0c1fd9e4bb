// SPDX-License-Identifier: Apache-2.0
// EditDistance: the Levenshtein distances between sequences, which are the last
// dimension of two sparse tensors; divided by the length of the truth if
// `normalize` (then infinite where that is 0 and the other not).
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// The rows of a sparse tensor, by where they belong: [first, last) of its
// elements.
using Sequences = std::map<std::vector<int64_t>, std::pair<int64_t, int64_t>>;

Sequences Group(const SparseValue& sparse) {
  Sequences sequences;
  for (int64_t i = 0; i < sparse.count(); ++i) {
    auto [it, is_new] =
        sequences.try_emplace(std::vector<int64_t>(sparse.row(i), sparse.row(i) + sparse.rank() - 1), i, i);
    it->second.second = i + 1;
  }
  return sequences;
}

template <typename T>
int64_t Levenshtein(absl::Span<const T> a, absl::Span<const T> b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

class EditDistanceKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(normalize_, init.Attr<bool>("normalize"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    RETURN_IF_ERROR(CheckPlaces(context.input(3), context.input(5), context.input(2)));
    ASSIGN_OR_RETURN(const SparseValue guess,
                     SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kOrdered));
    ASSIGN_OR_RETURN(const SparseValue truth,
                     SparseValue::Make(context.input(3), context.input(4), context.input(5), SparseValue::kOrdered));
    if (truth.rank() < 2) {
      return InvalidArgument("Input SparseTensors must have rank at least 2, but truth_shape rank is: ", truth.rank());
    }
    if (truth.rank() != guess.rank()) {
      return InvalidArgument("Expected truth and hypothesis to have matching ranks, but their shapes are: ",
                             context.input(5).shape(), " and ", context.input(2).shape());
    }
    Dims dims;
    for (int d = 0; d + 1 < truth.rank(); ++d) dims.push_back(std::max(truth.dims[d], guess.dims[d]));
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    if (shape.num_elements() == 0) return InvalidArgument("Got output shape ", shape, " which has 0 elements");
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    std::fill_n(out->mutable_data<float>(), shape.num_elements(), 0.0f);
    Sequences guesses = Group(guess);
    const Dims strides = RowMajorStrides(dims);
    const auto set = [&](const std::vector<int64_t>& where, float distance) {
      int64_t place = 0;
      for (size_t d = 0; d < where.size(); ++d) place += where[d] * strides[d];
      out->mutable_data<float>()[place] = distance;
    };
    return DispatchBySize(truth.values.dtype(), [&]<typename T>() {
      const auto span = [](const Tensor& values, const std::pair<int64_t, int64_t>& range) {
        return absl::MakeConstSpan(ElementData<T>(values) + range.first, range.second - range.first);
      };
      if constexpr (requires(T a) { a == a; }) {
        for (const auto& [where, range] : Group(truth)) {
          const float length = static_cast<float>(range.second - range.first);
          const auto it = guesses.find(where);
          const float distance =
              it == guesses.end()
                  ? length
                  : static_cast<float>(Levenshtein<T>(span(truth.values, range), span(guess.values, it->second)));
          set(where, normalize_ ? distance / length : distance);
          if (it != guesses.end()) guesses.erase(it);
        }
        for (const auto& [where, range] : guesses) {  // hypotheses without a truth
          set(where,
              normalize_ ? std::numeric_limits<float>::infinity() : static_cast<float>(range.second - range.first));
        }
        return absl::OkStatus();
      } else {
        return Unimplemented("no kernel for type ", truth.values.dtype());
      }
    });
  }

 private:
  // INTERNAL, in TensorFlow's words, if a truth has a negative place in the output.
  static absl::Status CheckPlaces(const Tensor& indices, const Tensor& truth_shape, const Tensor& guess_shape) {
    const int64_t rank = truth_shape.num_elements();
    if (indices.rank() != 2 || indices.dim(1) != rank || guess_shape.num_elements() != rank || rank < 2) {
      return absl::OkStatus();  // told by other checks
    }
    for (int64_t i = 0; i < indices.dim(0); ++i) {
      const int64_t* const place = indices.data<int64_t>() + i * rank;
      double product = 0, stride = 1;
      for (int64_t d = rank - 2; d >= 0; --d) {
        product += static_cast<double>(place[d]) * stride;
        stride *= static_cast<double>(std::max(truth_shape.data<int64_t>()[d], guess_shape.data<int64_t>()[d]));
      }
      if (product >= 0 || stride <= 0) continue;
      return Internal("Got an inner product ", static_cast<int64_t>(product),
                      " which would require writing to outside of the buffer for the output tensor (max elements ",
                      static_cast<int64_t>(stride), ")");
    }
    return absl::OkStatus();
  }

  bool normalize_ = true;
};

absl::Status EditDistanceShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape guess, c.ConstantAsShape(2));
  ASSIGN_OR_RETURN(const PartialShape truth, c.ConstantAsShape(5));
  if (!guess.has_rank() || !truth.has_rank() || guess.rank() != truth.rank() || truth.rank() < 1) {
    return absl::OkStatus();
  }
  Dims dims;
  for (int d = 0; d + 1 < truth.rank(); ++d) {
    dims.push_back(truth.dim(d) < 0 || guess.dim(d) < 0 ? PartialShape::kUnknown
                                                        : std::max(truth.dim(d), guess.dim(d)));
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

const OpRegistration kEditDistance = Op("EditDistance")
                                         .Input("hypothesis_indices: int64")
                                         .Input("hypothesis_values: T")
                                         .Input("hypothesis_shape: int64")
                                         .Input("truth_indices: int64")
                                         .Input("truth_values: T")
                                         .Input("truth_shape: int64")
                                         .Output("output: float")
                                         .Attr("normalize: bool = true")
                                         .Attr("T: type")
                                         .Shape(EditDistanceShape)
                                         .Kernel<EditDistanceKernel>()
                                         .NotDifferentiable();

}  // namespace
}  // namespace thalweg
