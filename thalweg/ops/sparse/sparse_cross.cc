// SPDX-License-Identifier: Apache-2.0
// SparseCross, SparseCrossV2, SparseCrossHashed, RaggedCross, and SparseFeatureCross and SparseFeatureCrossV2 of
// tf.contrib.layers (TensorFlow 1): crosses of features. Inputs
// are columns, sparse, ragged or dense matrices of strings or numbers with a row per
// example; the result has for each row all combinations of one feature of every
// column, joined by a separator, or as a hash of their hashes. The hashes are
// TensorFlow's: models are trained on them.
#include <farmhash.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/ragged/ragged.h"
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

// How the features of a cross are joined.
struct Rule {
  Form form = Form::kV1;
  std::string separator = "_X_";
  int64_t buckets = 0;  // 0: as many as there are numbers
  uint64_t key[2] = {};
  bool strong = false;
};

std::string TextOf(const std::vector<Column>& columns, int64_t row, const std::vector<size_t>& at, const Rule& rule) {
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
int64_t HashOf(const std::vector<Column>& columns, int64_t row, const std::vector<size_t>& at, const Rule& rule) {
  uint64_t hash = rule.key[0];
  for (size_t i = 0; i < columns.size(); ++i) {
    const Tensor& t = *columns[i].values;
    const int64_t k = columns[i].rows[row][at[i]];
    uint64_t feature;
    if (t.dtype() != kString && !(rule.form == Form::kHashed && columns[i].sparse)) {
      feature = static_cast<uint64_t>(t.data<int64_t>()[k]);
    } else {
      // TensorFlow hashes only the lower half of a sparse number.
      constexpr size_t kHalf = 4;
      const absl::string_view bytes =
          t.dtype() == kString ? absl::string_view(t.data<std::string>()[k])
                               : absl::string_view(reinterpret_cast<const char*>(t.data<int64_t>() + k), kHalf);
      feature = rule.strong ? SipHash(rule.key, bytes) : util::Fingerprint64(bytes.data(), bytes.size());
    }
    if (rule.form == Form::kContrib) {
      hash = Combine(hash, feature);
    } else {
      hash = i == 0 && rule.form == Form::kHashed ? feature : Join(hash, feature);
    }
  }
  const uint64_t buckets = rule.buckets > 0 ? rule.buckets : std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(hash % buckets);
}

// The crosses of all rows, row by row: texts, or hashes of them.
struct Crosses {
  std::vector<std::string> texts;
  std::vector<int64_t> hashes;
  std::vector<int64_t> counts;  // by row

  int64_t size() const { return static_cast<int64_t>(texts.size() + hashes.size()); }
  void MoveTo(Tensor& values) {
    if (values.dtype() == kInt64) {
      std::copy(hashes.begin(), hashes.end(), values.mutable_data<int64_t>());
    } else {
      std::move(texts.begin(), texts.end(), values.mutable_data<std::string>());
    }
  }
};

absl::StatusOr<Crosses> CrossAll(const std::vector<Column>& columns, int64_t rows, const Rule& rule, bool hashed) {
  constexpr int64_t kMost = 1 << 26;
  Crosses crosses;
  for (int64_t r = 0; r < rows; ++r) {
    // All combinations, the last column changing fastest.
    std::vector<size_t> at(columns.size(), 0);
    bool more = std::none_of(columns.begin(), columns.end(), [&](const Column& x) { return x.rows[r].empty(); });
    const int64_t before = crosses.size();
    while (more) {
      if (hashed) {
        crosses.hashes.push_back(HashOf(columns, r, at, rule));
      } else {
        crosses.texts.push_back(TextOf(columns, r, at, rule));
      }
      if (crosses.size() > kMost) return ResourceExhausted("more than ", kMost, " crosses");
      more = false;
      for (size_t i = columns.size(); i-- > 0 && !more;) {
        at[i] = (at[i] + 1) % columns[i].rows[r].size();
        more = at[i] != 0;
      }
    }
    crosses.counts.push_back(crosses.size() - before);
  }
  return crosses;
}

// Empty rows cost memory too.
absl::Status CheckRows(int64_t rows, size_t columns) {
  constexpr int64_t kMost = 1 << 24;
  if (rows <= kMost / static_cast<int64_t>(columns)) return absl::OkStatus();
  return ResourceExhausted("too many rows to cross: ", rows);
}

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
    Rule rule{.form = form_, .separator = "_X_", .buckets = buckets_, .key = {key_, 0}};
    RETURN_IF_ERROR(ReadRule(c, &rule));
    std::vector<Column> columns;
    ASSIGN_OR_RETURN(const int64_t rows, ReadColumns(c, rule, &columns));
    ASSIGN_OR_RETURN(Crosses crosses, CrossAll(columns, rows, rule, hashed_));
    ASSIGN_OR_RETURN(Tensor* const indices, c.Allocate(0, Shape({crosses.size(), 2})));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(1, Shape({crosses.size()})));
    ASSIGN_OR_RETURN(Tensor* const shape, c.Allocate(2, Shape({2})));
    int64_t* place = indices->mutable_data<int64_t>();
    int64_t longest = 0;
    for (int64_t r = 0; r < rows; ++r) {
      longest = std::max(longest, crosses.counts[r]);
      for (int64_t k = 0; k < crosses.counts[r]; ++k) {
        *place++ = r;
        *place++ = k;
      }
    }
    crosses.MoveTo(*values);
    shape->mutable_data<int64_t>()[0] = rows;
    shape->mutable_data<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

 private:
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
      return InvalidArgument("Input \"salt\" must have length 2 but has length ", salt.num_elements());
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
    int64_t rows = n + dense == 0 ? 0 : -1;
    const auto add = [&](const Tensor& values, bool sparse, int64_t count) -> absl::Status {
      if (rows >= 0 && count != rows) return InvalidArgument("Expected batch size ", rows, " got ", count);
      RETURN_IF_ERROR(CheckRows(count, n + dense));
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
      const Tensor &values = c.input(n + i), &shape = c.input(2 * n + i);
      if (shape.rank() != 1) {
        return InvalidArgument("Input shapes should be a vector but received shape ", shape.shape(), " at position ",
                               i);
      }
      ASSIGN_OR_RETURN(const SparseValue x, SparseValue::Make(c.input(i), values, shape, SparseValue::kUnordered));
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

  const Form form_;
  int64_t sparse_ = 0;
  bool hashed_ = false;
  int64_t buckets_ = 0;
  uint64_t key_ = 0;
  DType internal_ = kInvalid;
};

// The columns come in the order of the letters of input_order: R(agged), S(parse), D(ense).
class RaggedCrossKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::vector<DType> ragged, init.Attr<std::vector<DType>>("ragged_values_types"));
    ASSIGN_OR_RETURN(const std::vector<DType> splits, init.Attr<std::vector<DType>>("ragged_splits_types"));
    ASSIGN_OR_RETURN(const std::vector<DType> sparse, init.Attr<std::vector<DType>>("sparse_values_types"));
    ASSIGN_OR_RETURN(const std::vector<DType> dense, init.Attr<std::vector<DType>>("dense_types"));
    ASSIGN_OR_RETURN(const int64_t sparse_count, init.Attr<int64_t>("Nsparse"));
    if (ragged.size() != splits.size()) return InvalidArgument("ragged values and splits must have the same length");
    if (sparse_count != static_cast<int64_t>(sparse.size())) {
      return InvalidArgument("sparse indices and values must have the same length");
    }
    ragged_ = static_cast<int>(ragged.size());
    sparse_ = static_cast<int>(sparse.size());
    ASSIGN_OR_RETURN(order_, init.Attr<std::string>("input_order"));
    const auto letters = [&](char letter) { return std::count(order_.begin(), order_.end(), letter); };
    if (order_.size() != ragged.size() + sparse.size() + dense.size() || letters('R') != ragged_ ||
        letters('S') != sparse_ || letters('D') != static_cast<int64_t>(dense.size())) {
      return InvalidArgument("input_order \"", order_, "\" must have a letter R, S or D for each of ", ragged.size(),
                             " ragged, ", sparse.size(), " sparse and ", dense.size(), " dense inputs");
    }
    ASSIGN_OR_RETURN(const bool hashed, init.Attr<bool>("hashed_output"));
    ASSIGN_OR_RETURN(rule_.buckets, init.Attr<int64_t>("num_buckets"));
    ASSIGN_OR_RETURN(const int64_t key, init.Attr<int64_t>("hash_key"));
    rule_.key[0] = static_cast<uint64_t>(key);
    ASSIGN_OR_RETURN(const DType out, init.Attr<DType>("out_values_type"));
    if ((out == kInt64) == hashed) return absl::OkStatus();
    return InvalidArgument("hashed_output is ", hashed ? "true" : "false", ", but out_values_type is ", out);
  }

  absl::Status Compute(KernelContext& c) override {
    std::vector<Column> columns;
    int64_t rows = order_.empty() ? 0 : -1;
    int ragged = 0, sparse = 2 * ragged_, dense = 2 * ragged_ + 3 * sparse_;  // the next input of each kind
    for (const char letter : order_) {
      if (letter == 'R') {
        RETURN_IF_ERROR(AddRagged(c.input(ragged), c.input(ragged_ + ragged), &columns));
        ++ragged;
      } else if (letter == 'S') {
        RETURN_IF_ERROR(AddSparse(c.input(sparse), c.input(sparse + sparse_), c.input(sparse + 2 * sparse_), &columns));
        ++sparse;
      } else {
        RETURN_IF_ERROR(AddDense(c.input(dense++), &columns));
      }
      const int64_t count = static_cast<int64_t>(columns.back().rows.size());
      if (rows >= 0 && count != rows) {
        return InvalidArgument("inputs must all have the same batch dimension size, got ", rows, " and ", count);
      }
      rows = count;
    }
    const bool hashed = c.output_type(0) == kInt64;
    ASSIGN_OR_RETURN(Crosses crosses, CrossAll(columns, rows, rule_, hashed));
    ASSIGN_OR_RETURN(Tensor* const values, c.Allocate(0, Shape({crosses.size()})));
    ASSIGN_OR_RETURN(Tensor* const splits, c.Allocate(1, Shape({rows + 1})));
    crosses.MoveTo(*values);
    std::vector<int64_t> ends(1);
    for (const int64_t count : crosses.counts) ends.push_back(ends.back() + count);
    return WriteSplits(ends, splits);
  }

 private:
  absl::Status AddColumn(const Tensor& values, bool sparse, int64_t rows, std::vector<Column>* columns) const {
    RETURN_IF_ERROR(CheckRows(rows, order_.size()));
    columns->push_back({&values, sparse, std::vector<std::vector<int64_t>>(rows)});
    return absl::OkStatus();
  }
  absl::Status AddRagged(const Tensor& values, const Tensor& splits, std::vector<Column>* columns) const {
    if (values.rank() != 1) {
      return InvalidArgument("tf.ragged.cross only supports inputs with rank=2, got ragged values of shape ",
                             values.shape());
    }
    const absl::StatusOr<std::vector<int64_t>> read = ReadSplits(splits, values.dim(0));
    if (!read.ok()) return InvalidArgument("Invalid RaggedTensor: ", read.status().message());
    const std::vector<int64_t>& ends = *read;
    RETURN_IF_ERROR(AddColumn(values, false, static_cast<int64_t>(ends.size()) - 1, columns));
    for (size_t r = 0; r + 1 < ends.size(); ++r) {
      for (int64_t k = ends[r]; k < ends[r + 1]; ++k) columns->back().rows[r].push_back(k);
    }
    return absl::OkStatus();
  }
  absl::Status AddSparse(const Tensor& indices, const Tensor& values, const Tensor& shape,
                         std::vector<Column>* columns) const {
    ASSIGN_OR_RETURN(const SparseValue x, SparseValue::Make(indices, values, shape, SparseValue::kUnordered));
    if (x.rank() != 2) {
      return InvalidArgument("tf.ragged.cross only supports inputs with rank=2, got a sparse tensor of rank ",
                             x.rank());
    }
    RETURN_IF_ERROR(AddColumn(values, true, x.dims[0], columns));
    for (int64_t k = 0; k < x.count(); ++k) columns->back().rows[x.row(k)[0]].push_back(k);
    return absl::OkStatus();
  }
  absl::Status AddDense(const Tensor& values, std::vector<Column>* columns) const {
    if (values.rank() != 2) {
      return InvalidArgument("tf.ragged.cross only supports inputs with rank=2, got a tensor of shape ",
                             values.shape());
    }
    RETURN_IF_ERROR(AddColumn(values, false, values.dim(0), columns));
    for (int64_t k = 0; k < values.num_elements(); ++k) columns->back().rows[k / values.dim(1)].push_back(k);
    return absl::OkStatus();
  }

  int ragged_ = 0, sparse_ = 0;
  std::string order_;
  Rule rule_;
};

absl::Status CrossShape(ShapeContext& c) {
  c.set_output(0, PartialShape({-1, 2}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape({2}));
  return absl::OkStatus();
}

absl::Status RaggedCrossShape(ShapeContext& c) {
  c.set_output(0, PartialShape::OfRank(1));
  c.set_output(1, PartialShape::OfRank(1));
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
    Op("RaggedCross")
        .Input("ragged_values: ragged_values_types")
        .Input("ragged_row_splits: ragged_splits_types")
        .Input("sparse_indices: Nsparse * int64")
        .Input("sparse_values: sparse_values_types")
        .Input("sparse_shape: Nsparse * int64")
        .Input("dense_inputs: dense_types")
        .Output("output_values: out_values_type")
        .Output("output_row_splits: out_row_splits_type")
        .Attr("Nsparse: int >= 0")
        .Attr("input_order: string")
        .Attr("hashed_output: bool")
        .Attr("num_buckets: int >= 0")
        .Attr("hash_key: int")
        .Attr("ragged_values_types: list({int64, string}) >= 0")
        .Attr("ragged_splits_types: list({int32, int64}) >= 0")
        .Attr("sparse_values_types: list({int64, string}) >= 0")
        .Attr("dense_types: list({int64, string}) >= 0")
        .Attr("out_values_type: {int64, string}")
        .Attr("out_row_splits_type: {int32, int64}")
        .Shape(RaggedCrossShape)
        .Kernel<RaggedCrossKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
