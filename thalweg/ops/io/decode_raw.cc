// SPDX-License-Identifier: Apache-2.0
// DecodeRaw reads the bytes of strings as numbers, along a new last dimension;
// DecodePaddedRaw does so for strings of any length, which it cuts or fills with
// zeros. DecodeCompressed undoes zlib or gzip.
#include <zlib.h>

#include <cstring>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

class RawKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(little_endian_, init.Attr<bool>("little_endian"));
    return absl::OkStatus();
  }

 protected:
  // Row i is the bytes of string i, and zeros if it has less than `size`.
  absl::Status Decode(KernelContext& c, int64_t size) const {
    const Tensor& input = c.input(0);
    const DType dtype = c.output_type(0);
    const int64_t width = static_cast<int64_t>(ElementSize(dtype));
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    dims.push_back(size / width);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    const int64_t unit = IsComplex(dtype) ? width / 2 : width;
    char* to = static_cast<char*>(out->raw());
    for (int64_t i = 0; i < input.num_elements(); ++i, to += size) {
      const std::string& bytes = input.data<std::string>()[i];
      const int64_t count = std::min(size, static_cast<int64_t>(bytes.size()));
      std::memcpy(to, bytes.data(), count);
      std::memset(to + count, 0, size - count);
      if (dtype == kBool) {
        for (int64_t k = 0; k < size; ++k) to[k] = to[k] != 0 ? 1 : 0;  // a bool is nothing else
      }
      if (little_endian_ || unit == 1) continue;
      for (int64_t k = 0; k < size; k += unit) std::reverse(to + k, to + k + unit);
    }
    return absl::OkStatus();
  }

 private:
  bool little_endian_ = true;
};

class DecodeRawKernel : public RawKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const size_t width = ElementSize(c.output_type(0));
    const size_t size = input.num_elements() == 0 ? 0 : input.data<std::string>()[0].size();
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const size_t other = input.data<std::string>()[i].size();
      if (other != size) {
        return InvalidArgument("DecodeRaw requires input strings to all be the same size, but element ", i,
                               " has size ", size, " != ", other);
      }
    }
    if (size % width != 0) {
      return InvalidArgument("Input to DecodeRaw has length ", size, " that is not a multiple of ", width,
                             ", the size of ", c.output_type(0));
    }
    return Decode(c, static_cast<int64_t>(size));
  }
};

class DecodePaddedRawKernel : public RawKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    if (c.input(1).rank() != 0) return InvalidArgument("k must be scalar, got shape ", c.input(1).shape());
    const int32_t size = c.input(1).scalar<int32_t>();
    const int64_t width = static_cast<int64_t>(ElementSize(c.output_type(0)));
    if (size % width != 0) {
      return InvalidArgument("fixed_length (", size, ") must be a multiple of the size of out_type (", width, ")");
    }
    if (size <= 0) return InvalidArgument("fixed_length (", size, ") must be greater than zero.");
    return Decode(c, size);
  }
};

// All that can be had of a stream that is cut off, as in TensorFlow.
absl::StatusOr<std::string> Inflate(const std::string& bytes, int window_bits) {
  z_stream stream{};
  if (inflateInit2(&stream, window_bits) != Z_OK) return ResourceExhausted("no memory for zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string result;
  int code = Z_OK;
  while (code == Z_OK && result.size() < std::numeric_limits<int32_t>::max()) {
    char chunk[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(chunk);
    stream.avail_out = sizeof(chunk);
    code = inflate(&stream, Z_SYNC_FLUSH);
    result.append(chunk, sizeof(chunk) - stream.avail_out);
    if (code == Z_STREAM_END && stream.avail_in > 0) code = inflateReset(&stream);  // another one follows
  }
  const std::string message = stream.msg == nullptr ? "" : stream.msg;
  inflateEnd(&stream);
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
    return DataLoss("inflate() failed with error ", code, ": ", message);
  }
  return result;
}

class DecodeCompressedKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(type_, init.Attr<std::string>("compression_type"));
    if (!type_.empty() && type_ != "ZLIB" && type_ != "GZIP") {
      return InvalidArgument("Only ZLIB, GZIP or NONE are supported compressions");
    }
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& bytes = input.data<std::string>()[i];
      std::string& result = out->mutable_data<std::string>()[i];
      if (type_.empty()) {
        result = bytes;
        continue;
      }
      if (bytes.size() > std::numeric_limits<int32_t>::max()) return InvalidArgument("compressed input is too large");
      ASSIGN_OR_RETURN(result, Inflate(bytes, type_ == "GZIP" ? MAX_WBITS + 16 : MAX_WBITS));
    }
    return absl::OkStatus();
  }

 private:
  std::string type_;
};

absl::Status RawShape(ShapeContext& c) {
  c.set_output(0, Concatenate(c.input(0), {PartialShape::kUnknown}));
  return absl::OkStatus();
}

const OpRegistration kDecodeRawOps[] = {
    Op("DecodeRaw")
        .Input("bytes: string")
        .Output("output: out_type")
        .Attr("out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, bool, "
              "bfloat16}")
        .Attr("little_endian: bool = true")
        .Shape(RawShape)
        .Kernel<DecodeRawKernel>()
        .NotDifferentiable(),
    Op("DecodePaddedRaw")
        .Input("input_bytes: string")
        .Input("fixed_length: int32")
        .Output("output: out_type")
        .Attr("out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}")
        .Attr("little_endian: bool = true")
        .Shape(RawShape)
        .Kernel<DecodePaddedRawKernel>()
        .NotDifferentiable(),
    Op("DecodeCompressed")
        .Input("bytes: string")
        .Output("output: string")
        .Attr("compression_type: string = ''")
        .Shape(shapes::LikeInput0)
        .Kernel<DecodeCompressedKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output DecodeRaw(const Scope& s, Output bytes, DType out_type, const DecodeRawOptions& options) {
  return s.Add("DecodeRaw", {bytes}, {{"out_type", out_type}, {"little_endian", options.little_endian}});
}
Output DecodePaddedRaw(const Scope& s, Output input_bytes, const IntArg& fixed_length, DType out_type,
                       const DecodeRawOptions& options) {
  return s.Add("DecodePaddedRaw", {input_bytes, fixed_length.AsTensor(s, "fixed_length")},
               {{"out_type", out_type}, {"little_endian", options.little_endian}});
}
Output DecodeCompressed(const Scope& s, Output bytes, CompressionType compression) {
  return s.Add("DecodeCompressed", {bytes}, {{"compression_type", NameOf(compression)}});
}

}  // namespace thalweg
