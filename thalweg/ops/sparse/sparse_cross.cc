// SPDX-License-Identifier: Apache-2.0
// SparseCross, SparseCrossV2, SparseCrossHashed, and SparseFeatureCross and SparseFeatureCrossV2 of tf.contrib.layers
// (TensorFlow 1): crosses of features. Inputs
// are columns, sparse or dense matrices of strings or numbers with a row per
// example; the result has for each row all combinations of one feature of every
// column, joined by a separator, or as a hash of their hashes. The hashes are
// TensorFlow's: models are trained on them.
#include <farmhash.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/string/string_hash.h"

namespace thalweg {
namespace {

// One column: where the features of each row are.
struct Column {
  const Tensor* values;
  bool sparse;
  std::vector<std::vector<int64_t>> rows;
};

// The fingerprint of two fingerprints.
uint64_t Join(uint64_t a, uint64_t b) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  const auto mix = [](uint64_t x) { return x ^ (x >> 47); };
  uint64_t result = ((a ^ kMultiplier) ^ (mix(b * kMultiplier) * kMultiplier)) * kMultiplier;
  result = mix(result) * kMultiplier;
  return mix(result);
}

// How SparseFeatureCross combines two fingerprints. The right shift keeps the sign.
uint64_t Combine(uint64_t a, uint64_t b) {
  return a ^ (b + 0x9e3779b97f4a7800 + (a << 10) + static_cast<uint64_t>(static_cast<int64_t>(a) >> 4));
}

enum class Form { kV1, kV2, kHashed, kContrib, kContribV2 };

bool HasAttrs(Form form) { return form != Form::kV2 && form != Form::kHashed; }

class SparseCrossKernel final : public Kernel {
 public:
  explicit SparseCrossKernel(Form form) : form_(form) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(sparse_, init.Attr<int64_t>("N"));
    ASSIGN_OR_RETURN(const std::vector<DType> types, init.Attr<std::vector<DType>>("sparse_types"));
    if (static_cast<int64_t>(types.size()) != sparse_) {
      return InvalidArgument("Expected values count ", sparse_, ", one for each indices, got ", types.size());
    }
    hashed_ = form_ == Form::kHashed;
    if (!HasAttrs(form_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(hashed_, init.Attr<bool>("hashed_output"));
    ASSIGN_OR_RETURN(buckets_, init.Attr<int64_t>("num_buckets"));
    if (form_ == Form::kContrib) {
      key_ = 0xDECAFCAFFE;
    } else {
      ASSIGN_OR_RETURN(const int64_t key, init.Attr<int64_t>("hash_key"));
      key_ = static_cast<uint64_t>(key);
    }
    ASSIGN_OR_RETURN(internal_, init.Attr<DType>("internal_type"));
    ASSIGN_OR_RETURN(const DType out, init.Attr<DType>("out_type"));
    if ((out == kInt64) != hashed_) {
      return InvalidArgument("hashed_output is ", hashed_ ? "true" : "false", ", which gives ",
                             hashed_ ? "int64" : "string", ", but out_type is ", out);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    Rule rule{.separator = "_X_", .buckets = buckets_, .key = {key_, 0}};
    RETURN_IF_ERROR(ReadRule(c, &rule));
    std::vector<Column> columns;
    ASSIGN_OR_RETURN(const int64_t rows, ReadColumns(c, rule, &columns));
    std::vector<std::string> texts;
    std::vector<int64_t> hashes, places;
    int64_t longest = 0;
    constexpr size_t kMost = 1 << 26;
    for (int64_t r = 0; r < rows; ++r) {
      // All combinations, the last column changing fastest.
      std::vector<size_t> at(columns.size(), 0);
      bool more = std::none_of(columns.begin(), columns.end(), [&](const Column& x) { return x.rows[r].empty(); });
      for (int64_t k = 0; more; ++k) {
        if (hashed_) {
          hashes.push_back(HashOf(columns, r, at, rule));
        } else {
          texts.push_back(TextOf(columns, r, at, rule));
        }
        if (texts.size() + hashes.size() > kMost) return ResourceExhausted("more than ", kMost, " crosses");
        places.insert(places.end(), {r, k});
        longest = std::max(longest, k + 1);
        more = false;
        for (size_t i = columns.size(); i-- > 0 && !more;) {
          at[i] = (at[i] + 1) % columns[i].rows[r].size();
          more = at[i] != 0;
        }
      }
    }
    const int64_t count = static_cast<int64_t>(places.size() / 2);
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, Shape({count, 2})));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(1, Shape({count})));
    ASSIGN_OR_RETURN(Tensor* const shape, c.Allocate(2, Shape({2})));
    std::copy(places.begin(), places.end(), indices->mutable_data<int64_t>());
    if (hashed_) {
      std::copy(hashes.begin(), hashes.end(), values->mutable_data<int64_t>());
    } else {
      std::move(texts.begin(), texts.end(), values->mutable_data<std::string>());
    }
    shape->mutable_data<int64_t>()[0] = rows;
    shape->mutable_data<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

 private:
  struct Rule {
    std::string separator;
    int64_t buckets = 0;  // 0: as many as there are numbers
    uint64_t key[2] = {};
    bool strong = false;
  };

  // Reads the last inputs.
  absl::Status ReadRule(KernelContext& c, Rule* rule) const {
    const int n = c.num_inputs();
    if (form_ == Form::kV2) {
      const Tensor& sep = c.input(n - 1);
      if (sep.rank() != 0) return InvalidArgument("Input separator should be a scalar. Received: ", sep.shape());
      rule->separator = sep.scalar<std::string>();
    }
    if (form_ != Form::kHashed) return absl::OkStatus();
    const Tensor &buckets = c.input(n - 3), &strong = c.input(n - 2), &salt = c.input(n - 1);
    if (buckets.rank() != 0) return InvalidArgument("num_buckets should be a scalar. Received: ", buckets.shape());
    if (strong.rank() != 0) return InvalidArgument("strong_hash should be a scalar. Received: ", strong.shape());
    if (salt.rank() != 1 || salt.dim(0) != 2) {
      return InvalidArgument("salt should be a vector of 2 elements. Received: ", salt.shape());
    }
    rule->buckets = buckets.scalar<int64_t>();
    if (rule->buckets < 0) return InvalidArgument("num_buckets must be >= 0, got ", rule->buckets);
    rule->strong = strong.scalar<bool>();
    for (int i = 0; i < 2; ++i) rule->key[i] = static_cast<uint64_t>(salt.data<int64_t>()[i]);
    return absl::OkStatus();
  }

  // The number of rows.
  absl::StatusOr<int64_t> ReadColumns(KernelContext& c, const Rule& rule, std::vector<Column>* columns) const {
    const int n = static_cast<int>(sparse_), after = HasAttrs(form_) ? 0 : form_ == Form::kV2 ? 1 : 3;
    const int dense = c.num_inputs() - after - 3 * n;
    if (n + dense == 0) return InvalidArgument("There must be at least one column");
    int64_t rows = -1;
    const auto add = [&](const Tensor& values, bool sparse, int64_t count) -> absl::Status {
      const int64_t most = (1 << 24) / (n + dense);  // empty rows cost memory too
      if (rows >= 0 && count != rows) return InvalidArgument("Expected batch size ", rows, " got ", count);
      if (count > most) return ResourceExhausted("too many rows to cross: ", count);
      if (values.dtype() != kString && internal_ == kString) {
        return InvalidArgument("Input values should be of internal type ", internal_, " but received ", values.dtype());
      }
      if (rule.strong && !sparse && values.dtype() != kString) {
        return InvalidArgument("strong_hash takes no numbers that are dense");
      }
      rows = count;
      columns->push_back({&values, sparse, std::vector<std::vector<int64_t>>(rows)});
      return absl::OkStatus();
    };
    for (int i = 0; i < n; ++i) {
      const Tensor& values = c.input(n + i);
      ASSIGN_OR_RETURN(const SparseValue x,
                       SparseValue::Make(c.input(i), values, c.input(2 * n + i), SparseValue::kUnordered));
      if (x.rank() != 2) return InvalidArgument("Expected D2 of index to be 2 got ", x.rank(), " at position ", i);
      RETURN_IF_ERROR(add(values, true, x.dims[0]));
      for (int64_t k = 0; k < x.count(); ++k) columns->back().rows[x.row(k)[0]].push_back(k);
    }
    for (int i = 0; i < dense; ++i) {
      const Tensor& t = c.input(3 * n + i);
      if (t.rank() != 2) return InvalidArgument("Dense inputs should be a matrix but received shape ", t.shape());
      RETURN_IF_ERROR(add(t, false, t.dim(0)));
      for (int64_t k = 0; k < t.num_elements(); ++k) columns->back().rows[k / t.dim(1)].push_back(k);
    }
    return rows;
  }

  static std::string TextOf(const std::vector<Column>& columns, int64_t row, const std::vector<size_t>& at,
                            const Rule& rule) {
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) {
      const Tensor& t = *columns[i].values;
      const int64_t k = columns[i].rows[row][at[i]];
      if (i > 0) text.append(rule.separator);
      if (t.dtype() == kString) {
        text.append(t.data<std::string>()[k]);
      } else {
        absl::StrAppend(&text, t.data<int64_t>()[k]);
      }
    }
    return text;
  }

  // The first form starts with its key, the other with the first feature.
  int64_t HashOf(const std::vector<Column>& columns, int64_t row, const std::vector<size_t>& at,
                 const Rule& rule) const {
    uint64_t hash = rule.key[0];
    for (size_t i = 0; i < columns.size(); ++i) {
      const Tensor& t = *columns[i].values;
      const int64_t k = columns[i].rows[row][at[i]];
      uint64_t feature;
      if (t.dtype() != kString && !(form_ == Form::kHashed && columns[i].sparse)) {
        feature = static_cast<uint64_t>(t.data<int64_t>()[k]);
      } else {
        // TensorFlow hashes only the lower half of a sparse number.
        constexpr size_t kHalf = 4;
        const absl::string_view bytes =
            t.dtype() == kString ? absl::string_view(t.data<std::string>()[k])
                                 : absl::string_view(reinterpret_cast<const char*>(t.data<int64_t>() + k), kHalf);
        feature = rule.strong ? SipHash(rule.key, bytes) : util::Fingerprint64(bytes.data(), bytes.size());
      }
      if (form_ == Form::kContrib) {
        hash = Combine(hash, feature);
      } else {
        hash = i == 0 && form_ == Form::kHashed ? feature : Join(hash, feature);
      }
    }
    const uint64_t buckets = rule.buckets > 0 ? rule.buckets : std::numeric_limits<int64_t>::max();
    return static_cast<int64_t>(hash % buckets);
  }

  const Form form_;
  int64_t sparse_ = 0;
  bool hashed_ = false;
  int64_t buckets_ = 0;
  uint64_t key_ = 0;
  DType internal_ = kInvalid;
};

absl::Status CrossShape(ShapeContext& c) {
  c.set_output(0, PartialShape({-1, 2}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape({2}));
  return absl::OkStatus();
}

Op Cross(absl::string_view name, Form form) {
  Op op(name);
  op.Input("indices: N * int64")
      .Input("values: sparse_types")
      .Input("shapes: N * int64")
      .Input(form == Form::kContrib || form == Form::kContribV2 ? "dense: dense_types" : "dense_inputs: dense_types");
  if (form == Form::kV2) op.Input("sep: string");
  if (form == Form::kHashed) op.Input("num_buckets: int64").Input("strong_hash: bool").Input("salt: int64");
  op.Output("output_indices: int64")
      .Output(HasAttrs(form)      ? "output_values: out_type"
              : form == Form::kV2 ? "output_values: string"
                                  : "output_values: int64")
      .Output("output_shape: int64")
      .Attr("N: int >= 0");
  if (HasAttrs(form)) op.Attr("hashed_output: bool").Attr("num_buckets: int >= 0");
  if (HasAttrs(form) && form != Form::kContrib) op.Attr("hash_key: int");
  op.Attr("sparse_types: list({int64, string}) >= 0").Attr("dense_types: list({int64, string}) >= 0");
  if (HasAttrs(form)) op.Attr("out_type: {int64, string}").Attr("internal_type: {int64, string}");
  return op.Shape(CrossShape).Kernel<SparseCrossKernel>(form).NotDifferentiable();
}

const OpRegistration kSparseCrossOps[] = {
    Cross("SparseCross", Form::kV1),
    Cross("SparseCrossV2", Form::kV2),
    Cross("SparseCrossHashed", Form::kHashed),
    Cross("SparseFeatureCross", Form::kContrib),
    Cross("SparseFeatureCrossV2", Form::kContribV2),
};

}  // namespace
}  // namespace thalweg
