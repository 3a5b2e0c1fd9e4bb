// SPDX-License-Identifier: Apache-2.0
// Readers of files: of whole ones, of lines, of records of one length, of
// TFRecords, of LMDB databases, and one that gives the names themselves. Keys say where a record
// comes from: "file:number".
#include "absl/strings/match.h"
#include "thalweg/base/status.h"
#include "thalweg/data/byte_stream.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/io/reader.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/lmdb/lmdb.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

// One record for each file, under its name: what it contains, or the name again.
class FileSource final : public RecordSource {
 public:
  explicit FileSource(bool reads) : reads_(reads) {}

  absl::Status Start(const std::string& file) override { return file_ = file, absl::OkStatus(); }
  absl::StatusOr<bool> Next(Record* record) override {
    record->key = record->value = file_;
    if (reads_) {
      ASSIGN_OR_RETURN(record->value, PosixFileSystem().ReadFileToString(file_));
    }
    return true;
  }
  void Stop() override {}
  bool has_state() const override { return false; }
  bool one_record_per_file() const override { return true; }

 private:
  const bool reads_;
  std::string file_;
};

class LineSource final : public RecordSource {
 public:
  explicit LineSource(int64_t skip) : skip_(skip) {}

  absl::Status Start(const std::string& file) override {
    file_ = file;
    ASSIGN_OR_RETURN(stream_, data::OpenByteStream(file));
    std::string line;
    for (number_ = 0; number_ < skip_; ++number_) {
      ASSIGN_OR_RETURN(const bool found, stream_->ReadLine(&line));
      if (!found) break;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(Record* record) override {
    ASSIGN_OR_RETURN(const bool found, stream_->ReadLine(&record->value));
    if (found) record->key = absl::StrCat(file_, ":", ++number_);
    return found;
  }
  void Stop() override { stream_.reset(); }

 private:
  const int64_t skip_;
  std::string file_;
  std::unique_ptr<data::ByteStream> stream_;
  int64_t number_ = 0;  // number of the previous line, from 1
};

struct FixedLengths {
  int64_t header = 0, record = 0, footer = 0, hop = 0;  // bytes; hop: from one record to the next
};

class FixedLengthSource final : public RecordSource {
 public:
  FixedLengthSource(const FixedLengths& lengths, data::Compression compression)
      : lengths_(lengths), hop_(lengths.hop == 0 ? lengths.record : lengths.hop), compression_(compression) {}

  absl::Status Start(const std::string& file) override {
    file_ = file;
    number_ = 0;
    ahead_.clear();
    ASSIGN_OR_RETURN(stream_, data::OpenByteStream(file, compression_));
    ASSIGN_OR_RETURN(const uint64_t skipped, stream_->Skip(lengths_.header));
    if (static_cast<int64_t>(skipped) < lengths_.header) {
      return OutOfRange("reached end of file: ", file, " has fewer than ", lengths_.header, " bytes of header");
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(Record* record) override {
    if (number_ > 0) {
      ASSIGN_OR_RETURN(const bool there, Hop());
      if (!there) return false;
    }
    const uint64_t missing = lengths_.record + lengths_.footer - ahead_.size();
    ASSIGN_OR_RETURN(const uint64_t got, stream_->Append(missing, &ahead_));
    if (got < missing) return false;
    record->key = absl::StrCat(file_, ":", number_++);
    record->value = ahead_.substr(0, lengths_.record);
    return true;
  }
  void Stop() override {
    stream_.reset();
    ahead_.clear();
  }

 private:
  absl::StatusOr<bool> Hop() {
    const auto held = static_cast<int64_t>(ahead_.size());
    ahead_.erase(0, std::min(hop_, held));
    if (hop_ <= held) return true;
    ASSIGN_OR_RETURN(const uint64_t skipped, stream_->Skip(hop_ - held));
    return static_cast<int64_t>(skipped) == hop_ - held;
  }

  const FixedLengths lengths_;
  const int64_t hop_;
  const data::Compression compression_;
  std::string file_;
  std::unique_ptr<data::ByteStream> stream_;
  std::string ahead_;  // the record before and its footer: they may overlap the next
  int64_t number_ = 0;
};

class TfRecordSource final : public RecordSource {
 public:
  explicit TfRecordSource(data::Compression compression) : compression_(compression) {}

  absl::Status Start(const std::string& file) override {
    file_ = file;
    ASSIGN_OR_RETURN(reader_, data::RecordReader::Open(file, compression_));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(Record* record) override {
    record->key = absl::StrCat(file_, ":", reader_->offset());
    return reader_->Next(&record->value);
  }
  void Stop() override { reader_.reset(); }

 private:
  const data::Compression compression_;
  std::string file_;
  std::unique_ptr<data::RecordReader> reader_;
};

// The key and the value of every record of an LMDB database.
class LmdbSource final : public RecordSource {
 public:
  absl::Status Start(const std::string& file) override {
    ASSIGN_OR_RETURN(records_, LmdbRecords::Open(file));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Next(Record* record) override { return records_->Next(&record->key, &record->value); }
  void Stop() override { records_.reset(); }

 private:
  std::unique_ptr<LmdbRecords> records_;
};

// As TensorFlow: a compression it does not know is none.
data::Compression CompressionOf(const std::string& name) {
  const absl::StatusOr<data::Compression> compression = data::CompressionFromName(name);
  if (!compression.ok()) LOG(WARNING) << compression.status() << "; no compression will be used";
  return compression.ok() ? *compression : data::Compression::kNone;
}

// Makes readers of one kind: "TextLine", ...
class ReaderKernel final : public ResourceKernel<Reader> {
 public:
  explicit ReaderKernel(const char* kind) : kind_(kind) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    reader_name_ = absl::StrCat(kind_, "Reader '", init.node().name(), "'");
    if (kind_ == "TextLine") {
      ASSIGN_OR_RETURN(skip_lines_, NonNegative(init, "skip_header_lines"));
    } else if (kind_ == "TFRecord") {
      ASSIGN_OR_RETURN(const std::string compression, init.Attr<std::string>("compression_type"));
      compression_ = CompressionOf(compression);
    } else if (kind_ == "FixedLengthRecord") {
      ASSIGN_OR_RETURN(lengths_.header, NonNegative(init, "header_bytes"));
      ASSIGN_OR_RETURN(lengths_.record, NonNegative(init, "record_bytes"));
      ASSIGN_OR_RETURN(lengths_.footer, NonNegative(init, "footer_bytes"));
      ASSIGN_OR_RETURN(lengths_.hop, NonNegative(init, "hop_bytes"));
      if (lengths_.record == 0 && lengths_.hop == 0) return InvalidArgument("records of 0 bytes never end");
      constexpr int64_t kMax = int64_t{1} << 40;
      if (lengths_.record > kMax || lengths_.footer > kMax) return InvalidArgument("records are too large");
      if (HasAttr(init.node().def(), "encoding")) {
        ASSIGN_OR_RETURN(const std::string encoding, init.Attr<std::string>("encoding"));
        compression_ = CompressionOf(encoding);
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<int64_t> NonNegative(const KernelInit& init, const char* attr) {
    ASSIGN_OR_RETURN(const int64_t value, init.Attr<int64_t>(attr));
    if (value < 0) return InvalidArgument(attr, " must be >= 0 not ", value);
    return value;
  }
  absl::StatusOr<std::shared_ptr<Reader>> Make(const std::string&) override {
    return std::make_shared<Reader>(reader_name_, NewSource());
  }
  std::unique_ptr<RecordSource> NewSource() const {
    if (kind_ == "TextLine") return std::make_unique<LineSource>(skip_lines_);
    if (kind_ == "TFRecord") return std::make_unique<TfRecordSource>(compression_);
    if (kind_ == "FixedLengthRecord") return std::make_unique<FixedLengthSource>(lengths_, compression_);
    if (kind_ == "LMDB") return std::make_unique<LmdbSource>();
    return std::make_unique<FileSource>(kind_ == "WholeFile");
  }

  const std::string kind_;
  std::string reader_name_;
  int64_t skip_lines_ = 0;
  FixedLengths lengths_;
  data::Compression compression_ = data::Compression::kNone;
};

WaitingCaller CallerOf(KernelContext& c) { return {.cancellation = c.step().cancellation, .pool = c.step().pool}; }

class ReadKernel final : public AsyncKernel {
 public:
  explicit ReadKernel(bool up_to) : up_to_(up_to) {}

  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Reader>> reader = FindResource<Reader>(c, 0);
    if (!reader.ok()) return done(reader.status());
    absl::StatusOr<std::shared_ptr<Queue>> queue = FindResource<Queue>(c, 1);
    if (!queue.ok()) return done(queue.status());
    int64_t n = 1;
    if (up_to_) {
      if (!c.input(2).shape().is_scalar()) return done(InvalidArgument("num_records must be a scalar"));
      n = c.input(2).scalar<int64_t>();
      if (n <= 0) return done(n == 0 ? SetOutputs(c, {}) : InvalidArgument("num_records must be >= 0, got ", n));
    }
    (*reader)->Read(
        n, *queue, CallerOf(c),
        [this, &c, done = std::move(done)](const absl::Status& status, std::vector<Record> records) mutable {
          done(status.ok() ? SetOutputs(c, std::move(records)) : status);
        });
  }

 private:
  absl::Status SetOutputs(KernelContext& c, std::vector<Record> records) const {
    const Shape shape = up_to_ ? Shape({static_cast<int64_t>(records.size())}) : Shape();
    ASSIGN_OR_RETURN(Tensor * keys, c.Allocate(0, shape));
    ASSIGN_OR_RETURN(Tensor * values, c.Allocate(1, shape));
    for (size_t i = 0; i < records.size(); ++i) {
      keys->mutable_data<std::string>()[i] = std::move(records[i].key);
      values->mutable_data<std::string>()[i] = std::move(records[i].value);
    }
    return absl::OkStatus();
  }

  const bool up_to_;
};

class ReaderSaveKernel final : public AsyncKernel {
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Reader>> reader = FindResource<Reader>(c, 0);
    if (!reader.ok()) return done(reader.status());
    absl::StatusOr<Tensor*> out = c.Allocate(0, Shape());
    if (!out.ok()) return done(out.status());
    (*reader)->Save(CallerOf(c), (*out)->mutable_data<std::string>(), std::move(done));
  }
};

class ReaderRestoreKernel final : public AsyncKernel {
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Reader>> reader = FindResource<Reader>(c, 0);
    if (!reader.ok()) return done(reader.status());
    const Tensor& state = c.input(1);
    if (!state.shape().is_scalar()) {
      return done(InvalidArgument("Reader state must be scalar, but had shape: ", state.shape()));
    }
    (*reader)->Restore(state.scalar<std::string>(), CallerOf(c), std::move(done));
  }
};

class ResetKernel final : public AsyncKernel {
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<Reader>> reader = FindResource<Reader>(c, 0);
    if (!reader.ok()) return done(reader.status());
    (*reader)->Reset(CallerOf(c), std::move(done));
  }
};

absl::Status RecordsProduced(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Reader> reader, FindResource<Reader>(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int64_t>() = reader->records_produced();
  return absl::OkStatus();
}

absl::Status FilesCompleted(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Reader> reader, FindResource<Reader>(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int64_t>() = reader->files_completed();
  return absl::OkStatus();
}

absl::Status ReadUpToShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(2));
  for (int i = 0; i < 2; ++i) c.set_output(i, PartialShape({PartialShape::kUnknown}));
  return absl::OkStatus();
}

bool IsV2(absl::string_view name) { return absl::EndsWith(name, "V2"); }

// `kind`: with "Reader" (and "V2") the name of the op.
Op Make(const char* kind, const char* version) {
  const std::string name = absl::StrCat(kind, "Reader", version);
  Op op(name);
  op.Output(IsV2(name) ? "reader_handle: resource" : "reader_handle: Ref(string)");
  if (absl::StartsWith(name, "TextLine")) op.Attr("skip_header_lines: int = 0");
  if (absl::StartsWith(name, "FixedLength")) {
    op.Attr("header_bytes: int = 0").Attr("record_bytes: int").Attr("footer_bytes: int = 0").Attr("hop_bytes: int = 0");
  }
  op.Attr("container: string = ''").Attr("shared_name: string = ''");
  if (name == "FixedLengthRecordReaderV2") op.Attr("encoding: string = ''");
  if (absl::StartsWith(name, "TFRecord")) op.Attr("compression_type: string = ''");
  op.Stateful().Shape(HandleShape).Kernel<ReaderKernel>(kind).NotDifferentiable();
  return op;
}

Op Use(absl::string_view name) { return HandleUser(name, "reader_handle", IsV2(name)); }

Op ReadOp(absl::string_view name) {
  return Use(name)
      .Input(IsV2(name) ? "queue_handle: resource" : "queue_handle: Ref(string)")
      .Output("key: string")
      .Output("value: string")
      .Shape(shapes::Scalar)
      .Kernel<ReadKernel>(false);
}
Op ReadUpToOp(absl::string_view name) {
  return Use(name)
      .Input(IsV2(name) ? "queue_handle: resource" : "queue_handle: Ref(string)")
      .Input("num_records: int64")
      .Output("keys: string")
      .Output("values: string")
      .Shape(ReadUpToShape)
      .Kernel<ReadKernel>(true);
}
Op RecordsOp(absl::string_view name) {
  return Use(name).Output("records_produced: int64").Shape(shapes::Scalar).Compute(RecordsProduced);
}
Op FilesOp(absl::string_view name) {
  return Use(name).Output("units_completed: int64").Shape(shapes::Scalar).Compute(FilesCompleted);
}
Op SaveOp(absl::string_view name) {
  return Use(name).Output("state: string").Shape(shapes::Scalar).Kernel<ReaderSaveKernel>();
}
Op RestoreOp(absl::string_view name) {
  return Use(name).Input("state: string").Shape(shapes::NoOutputs).Kernel<ReaderRestoreKernel>();
}
Op ResetOp(absl::string_view name) { return Use(name).Shape(shapes::NoOutputs).Kernel<ResetKernel>(); }

const OpRegistration kReaderOps[] = {
    Make("WholeFile", ""),
    Make("WholeFile", "V2"),
    Make("TextLine", ""),
    Make("TextLine", "V2"),
    Make("FixedLengthRecord", ""),
    Make("FixedLengthRecord", "V2"),
    Make("TFRecord", ""),
    Make("TFRecord", "V2"),
    Make("Identity", ""),
    Make("Identity", "V2"),
    Make("LMDB", ""),
    ReadOp("ReaderRead"),
    ReadOp("ReaderReadV2"),
    ReadUpToOp("ReaderReadUpTo"),
    ReadUpToOp("ReaderReadUpToV2"),
    RecordsOp("ReaderNumRecordsProduced"),
    RecordsOp("ReaderNumRecordsProducedV2"),
    FilesOp("ReaderNumWorkUnitsCompleted"),
    FilesOp("ReaderNumWorkUnitsCompletedV2"),
    SaveOp("ReaderSerializeState"),
    SaveOp("ReaderSerializeStateV2"),
    RestoreOp("ReaderRestoreState"),
    RestoreOp("ReaderRestoreStateV2"),
    ResetOp("ReaderReset"),
    ResetOp("ReaderResetV2"),
};

RecordResult Both(Node* node) { return node == nullptr ? RecordResult{} : RecordResult{node->out(0), node->out(1)}; }

}  // namespace

Output WholeFileReader(const Scope& s) { return s.Add("WholeFileReaderV2"); }
Output TextLineReader(const Scope& s, int64_t skip_header_lines) {
  return s.Add("TextLineReaderV2", {}, {{"skip_header_lines", skip_header_lines}});
}
Output FixedLengthRecordReader(const Scope& s, int64_t record_bytes, const FixedLengthReaderOptions& a) {
  return s.Add("FixedLengthRecordReaderV2", {},
               {{"record_bytes", record_bytes},
                {"header_bytes", a.header_bytes},
                {"footer_bytes", a.footer_bytes},
                {"hop_bytes", a.hop_bytes},
                {"encoding", NameOf(a.compression)}});
}
Output TFRecordReader(const Scope& s, CompressionType compression) {
  return s.Add("TFRecordReaderV2", {}, {{"compression_type", NameOf(compression)}});
}
RecordResult ReaderRead(const Scope& s, Output reader, Output queue) {
  return Both(s.Add("ReaderReadV2", {reader, queue}));
}
RecordResult ReaderReadUpTo(const Scope& s, Output reader, Output queue, const IntArg& num_records) {
  return Both(s.Add("ReaderReadUpToV2", {reader, queue, num_records.AsTensor(s, "num_records", kInt64)}));
}
Output ReaderNumRecordsProduced(const Scope& s, Output reader) { return s.Add("ReaderNumRecordsProducedV2", {reader}); }
Output ReaderNumWorkUnitsCompleted(const Scope& s, Output reader) {
  return s.Add("ReaderNumWorkUnitsCompletedV2", {reader});
}
Output ReaderReset(const Scope& s, Output reader) { return s.Add("ReaderResetV2", {reader}); }

}  // namespace thalweg
