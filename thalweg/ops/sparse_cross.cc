// SparseCrossV2: crosses of features. Inputs are columns, sparse or dense
// matrices of strings or numbers with a row per example; the result has for each
// row all combinations of one feature of every column, joined by `sep`.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse.h"

namespace thalweg {
namespace {

std::string TextOf(const Tensor& t, int64_t i) {
  return t.dtype() == kString ? t.data<std::string>()[i] : absl::StrCat(t.data<int64_t>()[i]);
}

class SparseCrossKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(sparse_, init.Attr<int64_t>("N"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const int n = static_cast<int>(sparse_), dense = context.num_inputs() - 1 - 3 * n;
    const Tensor& sep = context.input(context.num_inputs() - 1);
    if (sep.rank() != 0) return InvalidArgument("Input separator should be a scalar. Received: ", sep.shape());
    if (n + dense == 0) return InvalidArgument("There must be at least one column");
    int64_t rows = -1;
    const auto check_rows = [&](int64_t count) -> absl::Status {
      if (rows >= 0 && count != rows) return InvalidArgument("Expected batch size ", rows, " got ", count);
      rows = count;
      return absl::OkStatus();
    };
    // Of each column, the features of every row.
    std::vector<std::vector<std::vector<std::string>>> columns;
    for (int i = 0; i < n; ++i) {
      const Tensor& values = context.input(n + i);
      ASSIGN_OR_RETURN(const SparseValue x,
                       SparseValue::Make(context.input(i), values, context.input(2 * n + i), SparseValue::kUnordered));
      if (x.rank() != 2) return InvalidArgument("Input shapes should have length 2, got ", x.rank());
      RETURN_IF_ERROR(check_rows(x.dims[0]));
      constexpr int64_t kMostRows = 1 << 26;
      if (rows > kMostRows) return InvalidArgument("too many rows to cross: ", rows);
      std::vector<std::vector<std::string>>& features = columns.emplace_back(rows);
      for (int64_t k = 0; k < x.count(); ++k) features[x.row(k)[0]].push_back(TextOf(values, k));
    }
    for (int i = 0; i < dense; ++i) {
      const Tensor& t = context.input(3 * n + i);
      if (t.rank() != 2) return InvalidArgument("Dense inputs should be a matrix but received shape ", t.shape());
      RETURN_IF_ERROR(check_rows(t.dim(0)));
      std::vector<std::vector<std::string>>& features = columns.emplace_back(rows);
      for (int64_t k = 0; k < t.num_elements(); ++k) features[k / t.dim(1)].push_back(TextOf(t, k));
    }
    std::vector<std::string> crosses;
    std::vector<int64_t> places;
    int64_t longest = 0;
    constexpr size_t kMost = 1 << 26;
    for (int64_t r = 0; r < rows; ++r) {
      // All combinations, the last column changing fastest.
      std::vector<size_t> at(columns.size(), 0);
      bool more = std::none_of(columns.begin(), columns.end(), [&](const auto& c) { return c[r].empty(); });
      for (int64_t k = 0; more; ++k) {
        std::vector<absl::string_view> parts;
        for (size_t c = 0; c < columns.size(); ++c) parts.push_back(columns[c][r][at[c]]);
        crosses.push_back(absl::StrJoin(parts, sep.scalar<std::string>()));
        if (crosses.size() > kMost) return ResourceExhausted("more than ", kMost, " crosses");
        places.insert(places.end(), {r, k});
        longest = std::max(longest, k + 1);
        more = false;
        for (size_t c = columns.size(); c-- > 0 && !more;) {
          at[c] = (at[c] + 1) % columns[c][r].size();
          more = at[c] != 0;
        }
      }
    }
    const int64_t count = static_cast<int64_t>(crosses.size());
    ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({count, 2})));
    ASSIGN_OR_RETURN(Tensor * values, context.Allocate(1, Shape({count})));
    ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(2, Shape({2})));
    std::copy(places.begin(), places.end(), indices->mutable_data<int64_t>());
    std::move(crosses.begin(), crosses.end(), values->mutable_data<std::string>());
    shape->mutable_data<int64_t>()[0] = rows;
    shape->mutable_data<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

 private:
  int64_t sparse_ = 0;
};

absl::Status CrossShape(ShapeContext& c) {
  c.set_output(0, PartialShape({-1, 2}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape({2}));
  return absl::OkStatus();
}

const OpRegistration kSparseCross = Op("SparseCrossV2")
                                        .Input("indices: N * int64")
                                        .Input("values: sparse_types")
                                        .Input("shapes: N * int64")
                                        .Input("dense_inputs: dense_types")
                                        .Input("sep: string")
                                        .Output("output_indices: int64")
                                        .Output("output_values: string")
                                        .Output("output_shape: int64")
                                        .Attr("N: int >= 0")
                                        .Attr("sparse_types: list({int64, string}) >= 0")
                                        .Attr("dense_types: list({int64, string}) >= 0")
                                        .Shape(CrossShape)
                                        .Kernel<SparseCrossKernel>()
                                        .NotDifferentiable();

}  // namespace
}  // namespace thalweg
