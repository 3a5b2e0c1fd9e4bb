// SPDX-License-Identifier: Apache-2.0
// Datasets of what is given: tensors, numbers, the records of files.
//
//   TensorDataset(components): one element
//   TensorSliceDataset(components): the rows of the components
//   RangeDataset(start, stop, step): numbers
//   TFRecordDataset, TextLineDataset, FixedLengthRecordDataset: strings, file after file
#include <limits>

#include "thalweg/base/file_system.h"
#include "thalweg/base/status.h"
#include "thalweg/data/byte_stream.h"
#include "thalweg/data/tfrecord.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

Element Inputs(KernelContext& c) {
  Element inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  return inputs;
}

absl::Status ComputeTensor(KernelContext& c) {
  return SetDataset(c, 1, [components = Inputs(c)](Iteration&) -> absl::StatusOr<Next> {
    return [components, done = false](Iteration&) mutable -> NextElement {
      if (std::exchange(done, true)) return std::nullopt;
      return components;
    };
  });
}

absl::Status ComputeSlices(KernelContext& c) {
  Element components = Inputs(c);
  for (const Tensor& t : components) {
    if (t.rank() == 0) return InvalidArgument("All components must be at least 1-dimensional");
    if (t.dim(0) != components[0].dim(0)) {
      return InvalidArgument("All components must have the same size in the 0th dimension; got ", t.shape(), " and ",
                             components[0].shape());
    }
  }
  const int64_t rows = components[0].dim(0);
  return SetDataset(c, rows, [components = std::move(components), rows](Iteration&) -> absl::StatusOr<Next> {
    return [components, rows, row = int64_t{0}](Iteration&) mutable -> NextElement {
      if (row >= rows) return std::nullopt;
      return CopyRow(components, row++);
    };
  });
}

absl::Status ComputeRange(KernelContext& c) {
  ASSIGN_OR_RETURN(const int64_t start, IntArgument(c, 0, "start"));
  ASSIGN_OR_RETURN(const int64_t stop, IntArgument(c, 1, "stop"));
  ASSIGN_OR_RETURN(const int64_t step, IntArgument(c, 2, "step"));
  if (step == 0) return InvalidArgument("step must be a non-zero integer.");
  ASSIGN_OR_RETURN(const std::vector<DType> types, GetAttr<std::vector<DType>>(c.node().def(), "output_types"));
  const DType type = types.empty() ? kInt64 : types[0];
  // In more than 64 bits: the bounds may be at both ends of the range.
  const __int128 span = step > 0 ? __int128{stop} - start : __int128{start} - stop;
  const __int128 width = step > 0 ? __int128{step} : -__int128{step};
  const int64_t count =
      span <= 0
          ? 0
          : static_cast<int64_t>(std::min<__int128>((span + width - 1) / width, std::numeric_limits<int64_t>::max()));
  return SetDataset(c, count, [start, step, count, type](Iteration&) -> absl::StatusOr<Next> {
    return [=, k = int64_t{0}](Iteration&) mutable -> NextElement {
      if (k >= count) return std::nullopt;
      const int64_t value =
          static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(k++) * static_cast<uint64_t>(step));
      Tensor t(type, Shape());
      RETURN_IF_ERROR(Dispatch(RealTypes(), type, [&]<typename T>() {
        *t.mutable_data<T>() = static_cast<T>(value);
        return absl::OkStatus();
      }));
      return Element{std::move(t)};
    };
  });
}

// Gives the records of one file, one after the other; false at its end.
using ReadRecord = absl::AnyInvocable<absl::StatusOr<bool>(std::string*)>;
using OpenFile = std::function<absl::StatusOr<ReadRecord>(const std::string& path, int64_t number)>;

absl::Status SetFiles(KernelContext& c, OpenFile open) {
  if (c.input(0).rank() > 1) return InvalidArgument("`filenames` must be a scalar or a vector.");
  const Tensor names = c.input(0);
  return SetDataset(c, DatasetValue::kUnknown, [names, open](Iteration&) -> absl::StatusOr<Next> {
    return [names, open, at = int64_t{0}, read = ReadRecord()](Iteration& it) mutable -> NextElement {
      while (true) {
        RETURN_IF_ERROR(it.Check());
        if (!read) {
          if (at >= names.num_elements()) return std::nullopt;
          ASSIGN_OR_RETURN(read, open(names.data<std::string>()[at], at));
        }
        std::string record;
        const absl::StatusOr<bool> more = read(&record);
        if (more.ok() && *more) return Element{Tensor::Scalar(std::move(record))};
        // After its end, and where it is damaged, comes the next file.
        read = nullptr;
        ++at;
        RETURN_IF_ERROR(more.status());
      }
    };
  });
}

absl::Status ComputeTfRecords(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::string name, StringArgument(c, 1, "compression_type"));
  ASSIGN_OR_RETURN(const data::Compression compression, data::CompressionFromName(name));
  std::vector<int64_t> offsets(c.input(0).num_elements());  // where to start in each file
  if (c.num_inputs() > 3) {
    const Tensor& given = c.input(3);
    if (given.rank() > 1) return InvalidArgument("`byte_offsets` must be a scalar or a vector.");
    if (!(given.shape() == c.input(0).shape())) {
      return InvalidArgument("`byte_offsets` must be of same size as `filenames`");
    }
    offsets.assign(given.flat<int64_t>().begin(), given.flat<int64_t>().end());
    for (const int64_t offset : offsets) {
      if (offset < 0) return InvalidArgument("`byte_offsets` must be >= 0, got ", offset);
    }
  }
  return SetFiles(c, [compression, offsets](const std::string& path, int64_t number) -> absl::StatusOr<ReadRecord> {
    ASSIGN_OR_RETURN(std::unique_ptr<data::RecordReader> reader, data::RecordReader::Open(path, compression));
    RETURN_IF_ERROR(reader->Skip(offsets[number]));
    return [reader = std::move(reader)](std::string* record) { return reader->Next(record); };
  });
}

absl::Status ComputeLines(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::string name, StringArgument(c, 1, "compression_type"));
  ASSIGN_OR_RETURN(const data::Compression compression, data::CompressionFromName(name));
  return SetFiles(c, [compression](const std::string& path, int64_t) -> absl::StatusOr<ReadRecord> {
    ASSIGN_OR_RETURN(std::unique_ptr<data::ByteStream> stream, data::OpenByteStream(path, compression));
    return [stream = std::move(stream)](std::string* line) { return stream->ReadLine(line); };
  });
}

absl::Status ComputeFixedLength(KernelContext& c) {
  int64_t sizes[3];
  const char* const names[] = {"header_bytes", "record_bytes", "footer_bytes"};
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(sizes[i], IntArgument(c, 1 + i, names[i]));
    if (sizes[i] < 0 || sizes[i] > int64_t{1} << 40) return InvalidArgument(names[i], " is ", sizes[i]);
  }
  if (sizes[1] == 0) return InvalidArgument("record_bytes must be > 0");
  data::Compression compression = data::Compression::kNone;
  if (c.num_inputs() > 5) {
    ASSIGN_OR_RETURN(const std::string name, StringArgument(c, 5, "compression_type"));
    ASSIGN_OR_RETURN(compression, data::CompressionFromName(name));
  }
  return SetFiles(c,
                  [compression, header = sizes[0], size = sizes[1], footer = sizes[2]](
                      const std::string& path, int64_t) -> absl::StatusOr<ReadRecord> {
                    ASSIGN_OR_RETURN(std::unique_ptr<data::ByteStream> stream, data::OpenByteStream(path, compression));
                    if (compression == data::Compression::kNone) {
                      ASSIGN_OR_RETURN(const uint64_t all, PosixFileSystem().FileSize(path));
                      const int64_t body = static_cast<int64_t>(all) - header - footer;
                      if (body < 0 || body % size != 0) {
                        return InvalidArgument("Excluding the header (", header, " bytes) and footer (", footer,
                                               " bytes), input file \"", path, "\" has body length ", body,
                                               " bytes, which is not an exact multiple of the record length (", size,
                                               " bytes).");
                      }
                    }
                    ASSIGN_OR_RETURN(const uint64_t skipped, stream->Skip(header));
                    if (skipped < static_cast<uint64_t>(header))
                      return InvalidArgument(path, " is shorter than its header");
                    // Reads ahead by the size of the footer, which may turn out to be the end.
                    return [stream = std::move(stream), path, size, footer,
                            ahead = std::string()](std::string* record) mutable -> absl::StatusOr<bool> {
                      RETURN_IF_ERROR(stream->Append(size + footer - ahead.size(), &ahead).status());
                      if (static_cast<int64_t>(ahead.size()) < size + footer) {
                        if (static_cast<int64_t>(ahead.size()) == footer) return false;
                        return InvalidArgument("Excluding the header and footer, ", path,
                                               " is not a multiple of the record length ", size, " bytes.");
                      }
                      *record = ahead.substr(0, size);
                      ahead.erase(0, size);
                      return true;
                    };
                  });
}

Op Files(absl::string_view name) { return Op(name).Stateful().Shape(shapes::Scalar).NotDifferentiable(); }

const OpRegistration kDatasetSourcesOps[] = {
    Op("TensorDataset")
        .Input("components: Toutput_types")
        .Output("handle: variant")
        .Attr("Toutput_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("metadata: string = ''")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeTensor)
        .NotDifferentiable(),
    Op("TensorSliceDataset")
        .Input("components: Toutput_types")
        .Output("handle: variant")
        .Attr("Toutput_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("is_files: bool = false")
        .Attr("metadata: string = ''")
        .Attr("replicate_on_split: bool = false")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeSlices)
        .NotDifferentiable(),
    Op("RangeDataset")
        .Input("start: int64")
        .Input("stop: int64")
        .Input("step: int64")
        .Output("handle: variant")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Attr("metadata: string = ''")
        .Attr("replicate_on_split: bool = false")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeRange)
        .NotDifferentiable(),
    Files("TFRecordDataset")
        .Input("filenames: string")
        .Input("compression_type: string")
        .Input("buffer_size: int64")
        .Output("handle: variant")
        .Attr("metadata: string = ''")
        .Compute(ComputeTfRecords),
    Files("TFRecordDatasetV2")
        .Input("filenames: string")
        .Input("compression_type: string")
        .Input("buffer_size: int64")
        .Input("byte_offsets: int64")
        .Output("handle: variant")
        .Attr("metadata: string = ''")
        .Compute(ComputeTfRecords),
    Files("TextLineDataset")
        .Input("filenames: string")
        .Input("compression_type: string")
        .Input("buffer_size: int64")
        .Output("handle: variant")
        .Attr("metadata: string = ''")
        .Compute(ComputeLines),
    Files("FixedLengthRecordDataset")
        .Input("filenames: string")
        .Input("header_bytes: int64")
        .Input("record_bytes: int64")
        .Input("footer_bytes: int64")
        .Input("buffer_size: int64")
        .Output("handle: variant")
        .Attr("metadata: string = ''")
        .Compute(ComputeFixedLength),
    Files("FixedLengthRecordDatasetV2")
        .Input("filenames: string")
        .Input("header_bytes: int64")
        .Input("record_bytes: int64")
        .Input("footer_bytes: int64")
        .Input("buffer_size: int64")
        .Input("compression_type: string")
        .Output("handle: variant")
        .Attr("metadata: string = ''")
        .Compute(ComputeFixedLength),
};

}  // namespace
}  // namespace thalweg
