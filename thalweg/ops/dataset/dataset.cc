// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset/dataset.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

absl::Status CheckScalar(const Tensor& t, absl::string_view name) {
  if (t.rank() == 0 && t.num_elements() == 1) return absl::OkStatus();
  return InvalidArgument(name, " must be a scalar, got shape ", t.shape());
}

}  // namespace

absl::StatusOr<Next> DatasetValue::Iterate(Iteration& iteration) const {
  iteration.path.push_back(absl::StrReplaceAll(kind_, {{"Dataset", ""}, {"Experimental", ""}}));
  const bool counted = std::exchange(iteration.counted, std::exchange(iteration.counts_input, false));
  absl::StatusOr<Next> next = start_(iteration);
  iteration.counted = counted;
  iteration.path.pop_back();
  return next;
}

absl::StatusOr<DatasetPtr> DatasetIn(const Tensor& tensor) {
  if (tensor.dtype() != kVariant || tensor.rank() != 0) {
    return InvalidArgument("Dataset tensor must be a scalar of dtype DT_VARIANT.");
  }
  auto dataset = std::dynamic_pointer_cast<const DatasetValue>(tensor.scalar<Variant>().shared());
  if (dataset == nullptr) return InvalidArgument("Tensor must be a Dataset object.");
  return dataset;
}

Tensor TensorOf(DatasetPtr dataset) { return Tensor::Scalar(Variant(std::move(dataset))); }

absl::Status SetDataset(KernelContext& c, int64_t cardinality, DatasetValue::Start start,
                        DatasetValue::StartRounds start_rounds) {
  DatasetOrigin origin{.node = c.node().def()};
  for (int i = 0; i < c.num_inputs(); ++i) origin.inputs.push_back(c.input(i));
  c.set_output(0, TensorOf(std::make_shared<const DatasetValue>(c.node().op(), cardinality, std::move(start),
                                                                std::move(start_rounds), std::move(origin))));
  return absl::OkStatus();
}

DatasetPtr ListedDataset(std::string kind, std::vector<Element> elements) {
  const int64_t count = static_cast<int64_t>(elements.size());
  const auto list = std::make_shared<const std::vector<Element>>(std::move(elements));
  return std::make_shared<const DatasetValue>(std::move(kind), count, [list](Iteration&) -> absl::StatusOr<Next> {
    return [list, at = size_t{0}](Iteration&) mutable -> NextElement {
      if (at >= list->size()) return std::nullopt;
      return (*list)[at++];
    };
  });
}

absl::StatusOr<Next> ShardOf(const DatasetValue& input, const Shard& shard, bool require, Iteration& start) {
  ASSIGN_OR_RETURN(Next next, input.Iterate(start));
  return [shard, require, next = std::move(next), k = int64_t{0}](Iteration& it) mutable -> NextElement {
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
      if (!element) return std::nullopt;
      RETURN_IF_ERROR(it.Check());
      if (k++ % shard.count != shard.index) continue;
      for (; require && k < shard.count; ++k) {
        ASSIGN_OR_RETURN(const std::optional<Element> other, next(it));
        RETURN_IF_ERROR(it.Check());
        if (other) continue;
        return InvalidArgument(
            "Dataset does not have enough data for each shard to have at least one element (# elems = ", k,
            ", # shards = ", shard.count, "). Use fewer shards or, if files are sharded, more files.");
      }
      return element;
    }
  };
}

absl::StatusOr<int64_t> IntArgument(KernelContext& c, int i, absl::string_view name) {
  const Tensor& t = c.input(i);
  RETURN_IF_ERROR(CheckScalar(t, name));
  return t.dtype() == kInt32 ? t.scalar<int32_t>() : t.scalar<int64_t>();
}

absl::StatusOr<bool> BoolArgument(KernelContext& c, int i, absl::string_view name) {
  RETURN_IF_ERROR(CheckScalar(c.input(i), name));
  return c.input(i).scalar<bool>();
}

absl::StatusOr<std::string> StringArgument(KernelContext& c, int i, absl::string_view name) {
  RETURN_IF_ERROR(CheckScalar(c.input(i), name));
  return c.input(i).scalar<std::string>();
}

absl::Status Collect(Next& next, int64_t count, Iteration& it, std::vector<Element>* elements) {
  const int64_t outer = it.wanted;
  for (int64_t i = 0; i < count; ++i) {
    it.wanted = count - i;
    ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
    if (!element) break;
    elements->push_back(*std::move(element));
    RETURN_IF_ERROR(it.Check());
  }
  it.wanted = outer;
  return absl::OkStatus();
}

absl::StatusOr<Element> MakeBatch(const std::vector<Element>& rows) {
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
  for (size_t k = 0; k < rows[0].size(); ++k) {
    types.push_back(rows[0][k].dtype());
    shapes.push_back(rows[0][k].shape());
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i].size() == rows[0].size() && rows[i][k].dtype() == types[k] &&
          rows[i][k].shape() == rows[0][k].shape()) {
        continue;
      }
      return InvalidArgument("Cannot batch tensors with different shapes in component ", k,
                             ". First element had shape ", rows[0][k].shape(), " and element ", i, " had shape ",
                             k < rows[i].size() ? rows[i][k].shape() : Shape(), ".");
    }
  }
  return BatchTuples(rows, types, shapes);
}

int64_t BatchCardinality(int64_t n, int64_t size, bool drop_remainder) {
  return n < 0 ? n : n / size + (n % size > 0 && !drop_remainder ? 1 : 0);
}

}  // namespace thalweg
