// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset_ops.h"

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

Output Flag(const Scope& s, absl::string_view name, bool value) { return ScalarArg(value).AsTensor(s, name); }

std::vector<DType> TypesOf(const std::vector<Output>& outputs) {
  std::vector<DType> types;
  for (const Output& o : outputs) types.push_back(RemoveRef(o.dtype()));
  return types;
}

std::vector<PartialShape> ShapesOf(const std::vector<Output>& outputs) {
  std::vector<PartialShape> shapes;
  for (const Output& o : outputs) shapes.push_back(o.shape());
  return shapes;
}

PartialShape WithoutFirst(const PartialShape& shape) {
  if (!shape.has_rank() || shape.rank() == 0) return PartialShape();
  return PartialShape(Dims(shape.dims().begin() + 1, shape.dims().end()));
}

PartialShape Batched(const PartialShape& shape, int64_t size) {
  if (!shape.has_rank()) return PartialShape();
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin(), size);
  return PartialShape(std::move(dims));
}

}  // namespace

std::vector<AttrArg> Dataset::Signature(std::vector<AttrArg> more) const {
  more.emplace_back("output_types", types_);
  more.emplace_back("output_shapes", shapes_);
  return more;
}

Dataset Dataset::Then(absl::string_view op, std::vector<OpInput> arguments, std::vector<AttrArg> attrs) const {
  Dataset next(scope_, types_, shapes_);
  arguments.insert(arguments.begin(), handle_);
  next.handle_ = scope_.Add(op, std::move(arguments), Signature(std::move(attrs)));
  return next;
}

Dataset Dataset::FromTensors(const Scope& s, const std::vector<Output>& components) {
  Dataset d(s, TypesOf(components), ShapesOf(components));
  d.handle_ = s.Add("TensorDataset", {components}, {{"output_shapes", d.shapes_}});
  return d;
}

Dataset Dataset::FromTensorSlices(const Scope& s, const std::vector<Output>& components) {
  std::vector<PartialShape> shapes = ShapesOf(components);
  for (PartialShape& shape : shapes) shape = WithoutFirst(shape);
  Dataset d(s, TypesOf(components), std::move(shapes));
  d.handle_ = s.Add("TensorSliceDataset", {components}, {{"output_shapes", d.shapes_}});
  return d;
}

Dataset Dataset::FromRange(const Scope& s, const IntArg& start, const IntArg& stop, const IntArg& step) {
  Dataset d(s, {kInt64}, {PartialShape(Shape())});
  const std::vector<OpInput> inputs{start.AsTensor(s, "start", kInt64), stop.AsTensor(s, "stop", kInt64),
                                    step.AsTensor(s, "step", kInt64)};
  d.handle_ = s.Add("RangeDataset", inputs, d.Signature());
  return d;
}

Dataset Dataset::Files(const Scope& s, absl::string_view op, std::vector<OpInput> inputs) {
  Dataset d(s, {kString}, {PartialShape(Shape())});
  d.handle_ = s.Add(op, std::move(inputs));
  return d;
}

Dataset Dataset::FromTextLines(const Scope& s, Output filenames, CompressionType compression) {
  return Files(s, "TextLineDataset",
               {filenames, ScalarArg(NameOf(compression)).AsTensor(s, "compression_type"),
                IntArg(0).AsTensor(s, "buffer_size", kInt64)});
}

Dataset Dataset::FromTfRecords(const Scope& s, Output filenames, CompressionType compression) {
  return Files(s, "TFRecordDataset",
               {filenames, ScalarArg(NameOf(compression)).AsTensor(s, "compression_type"),
                IntArg(0).AsTensor(s, "buffer_size", kInt64)});
}

Dataset Dataset::FromFixedLengthRecords(const Scope& s, Output filenames, int64_t record_bytes, int64_t header_bytes,
                                        int64_t footer_bytes) {
  return Files(
      s, "FixedLengthRecordDataset",
      {filenames, IntArg(header_bytes).AsTensor(s, "header_bytes", kInt64),
       IntArg(record_bytes).AsTensor(s, "record_bytes", kInt64),
       IntArg(footer_bytes).AsTensor(s, "footer_bytes", kInt64), IntArg(0).AsTensor(s, "buffer_size", kInt64)});
}

Dataset Dataset::Zip(const std::vector<Dataset>& datasets) {
  CHECK(!datasets.empty()) << "Zip of no datasets";
  std::vector<Output> handles;
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
  for (const Dataset& d : datasets) {
    handles.push_back(d.handle_);
    types.insert(types.end(), d.types_.begin(), d.types_.end());
    shapes.insert(shapes.end(), d.shapes_.begin(), d.shapes_.end());
  }
  Dataset zipped(datasets[0].scope_, std::move(types), std::move(shapes));
  zipped.handle_ = zipped.scope_.Add("ZipDataset", {handles}, zipped.Signature());
  return zipped;
}

Dataset Dataset::Batch(const IntArg& batch_size, const DatasetBatchOptions& options) const {
  Dataset batched = *this;
  const int64_t rows = options.drop_remainder ? batch_size.value().value_or(-1) : -1;
  for (PartialShape& shape : batched.shapes_) shape = Batched(shape, rows);
  const std::vector<OpInput> inputs{handle_, batch_size.AsTensor(scope_, "batch_size", kInt64),
                                    Flag(scope_, "drop_remainder", options.drop_remainder)};
  batched.handle_ = scope_.Add("BatchDatasetV2", inputs, batched.Signature());
  return batched;
}

Dataset Dataset::Unbatch() const {
  Dataset rows = *this;
  for (PartialShape& shape : rows.shapes_) shape = WithoutFirst(shape);
  rows.handle_ = scope_.Add("UnbatchDataset", {handle_}, rows.Signature());
  return rows;
}

Dataset Dataset::Shuffle(const IntArg& buffer_size, const DatasetShuffleOptions& options) const {
  return Then("ShuffleDataset", {buffer_size.AsTensor(scope_, "buffer_size", kInt64),
                                 IntArg(options.seed).AsTensor(scope_, "seed", kInt64),
                                 IntArg(options.seed2).AsTensor(scope_, "seed2", kInt64)});
}
Dataset Dataset::Repeat(const IntArg& count) const {
  return Then("RepeatDataset", {count.AsTensor(scope_, "count", kInt64)});
}
Dataset Dataset::Take(const IntArg& count) const {
  return Then("TakeDataset", {count.AsTensor(scope_, "count", kInt64)});
}
Dataset Dataset::Skip(const IntArg& count) const {
  return Then("SkipDataset", {count.AsTensor(scope_, "count", kInt64)});
}
Dataset Dataset::Shard(const IntArg& num_shards, const IntArg& index) const {
  return Then("ShardDataset",
              {num_shards.AsTensor(scope_, "num_shards", kInt64), index.AsTensor(scope_, "index", kInt64)});
}
Dataset Dataset::Prefetch(const IntArg& buffer_size) const {
  return Then("PrefetchDataset", {buffer_size.AsTensor(scope_, "buffer_size", kInt64)});
}
Dataset Dataset::Cache(const ScalarArg& filename) const {
  return Then("CacheDataset", {filename.AsTensor(scope_, "filename")});
}
Dataset Dataset::Concatenate(const Dataset& other) const {
  Dataset both = *this;
  if (other.types_ != types_) {
    scope_.Fail(InvalidArgument("Concatenate: the datasets have components of different types"));
    return both;
  }
  // Where the shapes differ, nothing is known.
  for (size_t i = 0; i < shapes_.size(); ++i) {
    if (!(shapes_[i] == other.shapes_[i])) both.shapes_[i] = PartialShape();
  }
  both.handle_ = scope_.Add("ConcatenateDataset", {handle_, other.handle_}, both.Signature());
  return both;
}

DatasetIterator Dataset::MakeIterator(const std::string& shared_name) const {
  DatasetIterator iterator;
  iterator.handle = scope_.Add("IteratorV2", {}, Signature({{"shared_name", shared_name}, {"container", ""}}));
  iterator.initializer = Output(scope_.Add("MakeIterator", {handle_, iterator.handle}));
  Node* const next = scope_.Add("IteratorGetNext", {iterator.handle}, Signature());
  for (size_t i = 0; i < types_.size(); ++i) iterator.components.emplace_back(next, static_cast<int>(i));
  return iterator;
}

}  // namespace thalweg
