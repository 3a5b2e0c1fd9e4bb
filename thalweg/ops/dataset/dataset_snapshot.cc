// SPDX-License-Identifier: Apache-2.0
// Elements in TensorFlow's files (data/snapshot.h).
//
//   Save(x, path): writes the elements, each to the shard that shard_func(element) names
//   SaveV2(x, path): passes the elements on and writes them on the way
//   Load(path): the elements, in the order of reader_func(a dataset of the shards' datasets)
//   Snapshot(x, path): SaveV2 if there is no snapshot of this pipeline yet, otherwise Load
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/data/snapshot.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/iterator.h"

namespace thalweg {
namespace {

using tensorflow::data::experimental::SnapshotMetadataRecord;

// "AUTO" and "NONE" are names of the Python clients.
absl::StatusOr<data::Compression> SnapshotCompression(const tensorflow::NodeDef& node) {
  ASSIGN_OR_RETURN(const std::string name, GetAttr<std::string>(node, "compression"));
  if (name == "AUTO") return data::Compression::kSnappy;
  return data::CompressionFromName(name == "NONE" ? "" : name);
}

// Chooses the shard of an element: 0 without a function.
struct ShardChoice {
  std::optional<CapturedFunction> function;

  absl::Status Prepare(IteratorContext& context) { return function ? function->Prepare(context) : absl::OkStatus(); }
  absl::StatusOr<int64_t> operator()(Iteration& it, const Element& element) const {
    if (!function) return 0;
    ASSIGN_OR_RETURN(const Element result, (*function)(it, element));
    return IntResult(result, "`shard_func`");
  }
};

std::vector<DType> ComponentTypes(const Element& element) {
  std::vector<DType> types;
  for (const Tensor& component : element) types.push_back(component.dtype());
  return types;
}

// Passes elements on and writes them on the way. The run is valid when the sequence has ended.
absl::StatusOr<Next> WriteThrough(const DatasetPtr& input, const std::string& folder,
                                  const data::SnapshotWriter::Options& options, ShardChoice shard, Iteration& start) {
  RETURN_IF_ERROR(shard.Prepare(start.context));
  ASSIGN_OR_RETURN(Next next, input->Iterate(start));
  ASSIGN_OR_RETURN(std::unique_ptr<data::SnapshotWriter> writer, data::SnapshotWriter::Create(folder, options));
  return [next = std::move(next), shard = std::move(shard),
          writer = std::move(writer)](Iteration& it) mutable -> NextElement {
    if (writer == nullptr) return std::nullopt;
    ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
    if (!element) {
      RETURN_IF_ERROR(writer->Finish());
      writer = nullptr;
      return std::nullopt;
    }
    ASSIGN_OR_RETURN(const int64_t number, shard(it, *element));
    RETURN_IF_ERROR(writer->Write(number, *element));
    return element;
  };
}

DatasetPtr ShardDataset(const std::string& folder, data::Compression compression, const std::vector<DType>& types) {
  return std::make_shared<const DatasetValue>(
      "SnapshotDatasetReader", DatasetValue::kUnknown, [=](Iteration&) -> absl::StatusOr<Next> {
        return [reader = data::SnapshotShardReader(folder, compression, types)](Iteration& it) mutable -> NextElement {
          RETURN_IF_ERROR(it.Check());
          return reader.Next();
        };
      });
}

// The elements of a run: those of all shards, one shard after the other, without a function.
absl::StatusOr<Next> ReadRun(const std::string& folder, const std::string& run, data::Compression compression,
                             const std::vector<DType>& types, std::optional<CapturedFunction> function,
                             Iteration& start) {
  ASSIGN_OR_RETURN(const std::vector<std::string> shards, data::SnapshotShards(folder, run));
  std::vector<Element> datasets;
  for (const std::string& shard : shards) datasets.push_back({TensorOf(ShardDataset(shard, compression, types))});
  if (function) {
    RETURN_IF_ERROR(function->Prepare(start.context));
    return function->Open(start, {TensorOf(ListedDataset("SnapshotNestedDatasetReader", std::move(datasets)))});
  }
  std::vector<Next> parts;
  for (const Element& shard : datasets) {
    ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(shard[0]));
    ASSIGN_OR_RETURN(Next part, dataset->Iterate(start));
    parts.push_back(std::move(part));
  }
  return [parts = std::move(parts), at = size_t{0}](Iteration& it) mutable -> NextElement {
    for (; at < parts.size(); ++at) {
      ASSIGN_OR_RETURN(std::optional<Element> element, parts[at](it));
      if (element) return element;
    }
    return std::nullopt;
  };
}

// Reads the shard function of SaveDataset, SaveDatasetV2.
class ShardAttr {
 public:
  absl::Status Read(const KernelInit& init) {
    ASSIGN_OR_RETURN(used_, init.Attr<bool>("use_shard_func"));
    return function_.Read(init, "shard_func", "Tshard_func_args");
  }
  ShardChoice Capture(KernelContext& c, int first) const {
    return used_ ? ShardChoice{function_.Capture(c, &first)} : ShardChoice{};
  }

 private:
  bool used_ = true;
  FunctionAttr function_;
};

class SaveKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(compression_, SnapshotCompression(init.node().def()));
    return shard_.Read(init);
  }
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<DatasetPtr> dataset = DatasetIn(c.input(0));
    if (!dataset.ok()) return done(dataset.status());
    absl::StatusOr<std::string> path = StringArgument(c, 1, "path");
    if (!path.ok()) return done(path.status());
    IterateAsync(
        c, *std::move(dataset),
        [this, path = *path, shard = shard_.Capture(c, 2)](RunningSequence& sequence,
                                                           Cancellation& cancellation) mutable {
          return Save(path, shard, sequence, cancellation);
        },
        std::move(done));
  }

 private:
  absl::Status Save(const std::string& path, ShardChoice& shard, RunningSequence& sequence,
                    Cancellation& cancellation) const {
    RETURN_IF_ERROR(shard.Prepare(sequence.context()));
    Iteration it{sequence.context(), cancellation};
    std::unique_ptr<data::SnapshotWriter> writer;
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<Element> element, sequence.Take(cancellation));
      if (writer == nullptr) {  // an empty dataset does not say its types
        const std::vector<DType> types = element ? ComponentTypes(*element) : std::vector<DType>();
        ASSIGN_OR_RETURN(writer, data::SnapshotWriter::Create(path, {.types = types, .compression = compression_}));
      }
      if (!element) return writer->Finish();
      RETURN_IF_ERROR(it.Check());
      ASSIGN_OR_RETURN(const int64_t number, shard(it, *element));
      RETURN_IF_ERROR(writer->Write(number, *element));
    }
  }

  data::Compression compression_ = data::Compression::kNone;
  ShardAttr shard_;
};

class SaveV2Kernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(options_.compression, SnapshotCompression(init.node().def()));
    ASSIGN_OR_RETURN(options_.types, init.Attr<std::vector<DType>>("output_types"));
    return shard_.Read(init);
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    ASSIGN_OR_RETURN(const std::string path, StringArgument(c, 1, "path"));
    return SetDataset(c, input->cardinality(),
                      [input, path, options = options_, shard = shard_.Capture(c, 2)](Iteration& start) {
                        return WriteThrough(input, path, options, shard, start);
                      });
  }

 private:
  data::SnapshotWriter::Options options_;
  ShardAttr shard_;
};

class LoadKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(compression_, SnapshotCompression(init.node().def()));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("output_types"));
    return reader_.Read(init, "reader_func", "Treader_func_args");
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::string path, StringArgument(c, 0, "path"));
    ASSIGN_OR_RETURN(const std::optional<SnapshotMetadataRecord> metadata, data::ReadSnapshotMetadata(path));
    if (!metadata) return NotFound("Could not find metadata file [", path, "]");
    int first = 1;
    return SetDataset(c, metadata->num_elements(),
                      [path, run = metadata->run_id(), compression = compression_, types = types_,
                       reader = reader_.Capture(c, &first)](Iteration& start) {
                        return ReadRun(path, run, compression, types, reader, start);
                      });
  }

 private:
  data::Compression compression_ = data::Compression::kNone;
  std::vector<DType> types_;
  FunctionAttr reader_;
};

// Where a snapshot is, and how it is written and read.
struct SnapshotPlan {
  std::string reader_folder, writer_folder;
  data::SnapshotWriter::Options options;
  ShardChoice shard;
  std::optional<CapturedFunction> reader;
  std::string mode = "auto";
  absl::Duration expiry = absl::ZeroDuration();  // when a run that another iterator may be writing counts as abandoned
};

absl::StatusOr<Next> StartSnapshot(const DatasetPtr& input, const SnapshotPlan& plan, Iteration& start) {
  ASSIGN_OR_RETURN(const std::optional<SnapshotMetadataRecord> found, data::ReadSnapshotMetadata(plan.reader_folder));
  if (plan.mode == "read" && !found) return NotFound("Metadata file does not exist.");
  if (plan.mode == "passthrough") return input->Iterate(start);
  if (plan.mode == "read" || (plan.mode == "auto" && found && found->finalized())) {
    return ReadRun(plan.reader_folder, found->run_id(), plan.options.compression, plan.options.types, plan.reader,
                   start);
  }
  if (plan.mode == "auto" && found && absl::FromUnixMicros(found->creation_timestamp()) >= absl::Now() - plan.expiry) {
    return input->Iterate(start);
  }
  return WriteThrough(input, plan.writer_folder, plan.options, plan.shard, start);
}

std::string JoinPath(const std::string& prefix, const std::string& path) {
  return prefix.empty() ? path : absl::StrCat(prefix, path.starts_with('/') || prefix.ends_with('/') ? "" : "/", path);
}

absl::Status SetSnapshot(KernelContext& c, const std::string& reader_prefix, const std::string& writer_prefix,
                         const std::string& name, SnapshotPlan plan) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::string path, StringArgument(c, 1, "path"));
  ASSIGN_OR_RETURN(plan.options.compression, SnapshotCompression(c.node().def()));
  ASSIGN_OR_RETURN(plan.options.types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  plan.options.graph_hash = name;
  plan.reader_folder = absl::StrCat(JoinPath(reader_prefix, path), "/", name);
  plan.writer_folder = absl::StrCat(JoinPath(writer_prefix, path), "/", name);
  return SetDataset(c, input->cardinality(),
                    [input, plan = std::move(plan)](Iteration& start) { return StartSnapshot(input, plan, start); });
}

// The snapshot of TensorFlow 1.15, and what TensorFlow 2 calls the legacy one.
absl::Status ComputeSnapshot(KernelContext& c) {
  const tensorflow::NodeDef& node = c.node().def();
  ASSIGN_OR_RETURN(const std::string compression, GetAttr<std::string>(node, "compression"));
  if (!compression.empty() && compression != "GZIP" && compression != "SNAPPY") {
    return InvalidArgument("compression must be either '', 'GZIP' or 'SNAPPY'.");
  }
  SnapshotPlan plan;
  ASSIGN_OR_RETURN(plan.mode, GetAttr<std::string>(node, "mode"));
  if (plan.mode != "auto" && plan.mode != "read" && plan.mode != "write" && plan.mode != "passthrough") {
    return InvalidArgument("mode must be either 'auto', 'read', 'write', or 'passthrough'.");
  }
  ASSIGN_OR_RETURN(const int64_t expiry, GetAttr<int64_t>(node, "pending_snapshot_expiry_seconds"));
  if (expiry < 1 && expiry != -1) {
    return InvalidArgument("pending_snapshot_expiry_seconds must be at least 1 second.");
  }
  plan.expiry = expiry == -1 ? absl::Hours(24) : absl::Seconds(expiry);
  ASSIGN_OR_RETURN(const std::string reader_prefix, GetAttr<std::string>(node, "reader_path_prefix"));
  ASSIGN_OR_RETURN(const std::string writer_prefix, GetAttr<std::string>(node, "writer_path_prefix"));
  ASSIGN_OR_RETURN(std::string name, GetAttr<std::string>(node, "snapshot_name"));
  if (name.empty()) {
    ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
    name = absl::StrCat(absl::Hex(FingerprintOf(*input), absl::kZeroPad16));
  }
  return SetSnapshot(c, reader_prefix, writer_prefix, name, std::move(plan));
}

class SnapshotV2Kernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(reader_prefix_, init.Attr<std::string>("reader_prefix"));
    ASSIGN_OR_RETURN(writer_prefix_, init.Attr<std::string>("writer_prefix"));
    ASSIGN_OR_RETURN(const bool valid, init.Attr<bool>("hash_valid"));
    if (valid) {
      ASSIGN_OR_RETURN(hash_, init.Attr<int64_t>("hash"));
    }
    RETURN_IF_ERROR(reader_.Read(init, "reader_func", "Treader_func_args"));
    return shard_.Read(init, "shard_func", "Tshard_func_args");
  }
  absl::Status Compute(KernelContext& c) override {
    int input = 2;
    SnapshotPlan plan;
    plan.reader = reader_.Capture(c, &input);
    plan.shard.function = shard_.Capture(c, &input);
    ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetIn(c.input(0)));
    const uint64_t hash = hash_ ? static_cast<uint64_t>(*hash_) : FingerprintOf(*dataset);
    return SetSnapshot(c, reader_prefix_, writer_prefix_, absl::StrCat(hash), std::move(plan));
  }

 private:
  std::string reader_prefix_, writer_prefix_;
  std::optional<int64_t> hash_;
  FunctionAttr reader_, shard_;
};

const OpRegistration kDatasetSnapshotOps[] = {
    SpecifiedOp("SaveDataset", "input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args", "",
                "compression: string = '', shard_func: func, use_shard_func: bool = true, "
                "Tshard_func_args: list(type) >= 0")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<SaveKernel>(),
    DatasetOp("SaveDatasetV2", "input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args",
              "compression: string = '', shard_func: func, use_shard_func: bool = true, "
              "Tshard_func_args: list(type) >= 0, TYPES")
        .Stateful()
        .Kernel<SaveV2Kernel>(),
    DatasetOp("LoadDataset", "path: string, reader_func_other_args: Treader_func_args",
              "TYPES, compression: string = '', reader_func: func, Treader_func_args: list(type) >= 0")
        .Stateful()
        .Kernel<LoadKernel>(),
    DatasetOp("SnapshotDataset", "input_dataset: variant, path: string",
              "TYPES, compression: string = '', reader_path_prefix: string = '', writer_path_prefix: string = '', "
              "shard_size_bytes: int = 10737418240, pending_snapshot_expiry_seconds: int = 86400, "
              "num_reader_threads: int = 1, reader_buffer_size: int = 1, num_writer_threads: int = 1, "
              "writer_buffer_size: int = 1, shuffle_on_read: bool = false, seed: int = 0, seed2: int = 0, "
              "mode: string = 'auto', snapshot_name: string = ''")
        .Compute(ComputeSnapshot),
    DatasetOp("SnapshotDatasetV2",
              "input_dataset: variant, path: string, reader_func_other_args: Treader_func_args, "
              "shard_func_other_args: Tshard_func_args",
              "TYPES, compression: string = '', reader_prefix: string = '', writer_prefix: string = '', "
              "hash_valid: bool = false, hash: int = 0, reader_func: func, shard_func: func, "
              "Treader_func_args: list(type) >= 0, Tshard_func_args: list(type) >= 0, METADATA")
        .Kernel<SnapshotV2Kernel>(),
};

}  // namespace
}  // namespace thalweg
