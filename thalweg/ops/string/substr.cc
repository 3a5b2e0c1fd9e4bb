// SPDX-License-Identifier: Apache-2.0
// Substr cuts `len` bytes or characters from `pos` on out of every string; a
// negative pos counts from the end. pos and len are broadcast against the
// strings. StringLength counts bytes or characters.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Whether a byte is a continuation byte of UTF-8.
bool IsTrail(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Moves `at` over `count` characters, forward or back; false if there are fewer.
bool Forward(absl::string_view text, int64_t count, size_t* at) {
  for (; count > 0 && *at < text.size(); --count) {
    do {
      ++*at;
    } while (*at < text.size() && IsTrail(text[*at]));
  }
  return count <= 0;
}
bool Back(absl::string_view text, int64_t count, size_t* at) {
  for (; count > 0 && *at > 0; --count) {
    do {
      --*at;
    } while (*at > 0 && IsTrail(text[*at]));
  }
  return count <= 0;
}

// False if pos is not in the text.
bool CutBytes(absl::string_view text, int64_t pos, int64_t len, absl::string_view* part) {
  const int64_t size = static_cast<int64_t>(text.size());
  if (pos < -size || pos > size) return false;
  // A negative length is all that is left, as in TensorFlow.
  *part = text.substr(pos < 0 ? pos + size : pos, static_cast<size_t>(len));
  return true;
}

bool CutCharacters(absl::string_view text, int64_t pos, int64_t len, absl::string_view* part) {
  size_t begin = 0;
  if (pos >= 0) {
    if (!Forward(text, pos, &begin)) return false;
  } else {
    begin = text.size();
    if (pos < -static_cast<int64_t>(text.size()) || len < 0 || !Back(text, -pos, &begin)) return false;
  }
  size_t end = begin;
  Forward(text, len, &end);
  *part = text.substr(begin, end - begin);
  return true;
}

class UnitKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string unit, init.Attr<std::string>("unit"));
    characters_ = unit == "UTF8_CHAR";
    return absl::OkStatus();
  }

 protected:
  bool characters_ = false;
};

class SubstrKernel : public UnitKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& pos = c.input(1);
    const Tensor& len = c.input(2);
    if (pos.shape() != len.shape()) {
      return InvalidArgument("pos and len should have the same shape, got: ", pos.shape(), " vs. ", len.shape());
    }
    const absl::StatusOr<PartialShape> joint = BroadcastShape(input.shape(), pos.shape());
    if (!joint.ok()) return InvalidArgument("Incompatible shapes: ", input.shape(), " vs. ", pos.shape());
    if (joint->rank() > 2 && pos.rank() > 0 && pos.shape() != input.shape()) {  // as in TensorFlow
      return Unimplemented("Substr broadcast not implemented for ", joint->rank(), " dimensions");
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(joint->dims()));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const std::string& text = input.data<std::string>()[Place(i, shape, input.shape())];
      const int64_t place = Place(i, shape, pos.shape());
      const int64_t p = ReadInteger(pos, place), n = ReadInteger(len, place);
      absl::string_view part;
      if (!(characters_ ? CutCharacters(text, p, n, &part) : CutBytes(text, p, n, &part))) {
        return characters_ ? InvalidArgument("pos ", p, " out of range for string at index ", i)
                           : InvalidArgument("pos ", p, " out of range for string b'", text, "' at index ", i);
      }
      out->mutable_data<std::string>()[i].assign(part.data(), part.size());
    }
    return absl::OkStatus();
  }

 private:
  // The index in a tensor of shape `from`, broadcast to `shape`, of element i.
  static int64_t Place(int64_t i, const Shape& shape, const Shape& from) {
    if (from.num_elements() == 1) return 0;
    if (from == shape) return i;
    int64_t place = 0, stride = 1;
    for (int d = shape.rank() - 1, f = from.rank() - 1; f >= 0; --d, --f) {
      if (from.dim(f) > 1) place += i % shape.dim(d) * stride;
      i /= shape.dim(d);
      stride *= from.dim(f);
    }
    return place;
  }
};

class StringLengthKernel : public UnitKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.data<std::string>()[i];
      const int64_t skipped = characters_ ? std::count_if(text.begin(), text.end(), IsTrail) : 0;
      out->mutable_data<int32_t>()[i] = static_cast<int32_t>(static_cast<int64_t>(text.size()) - skipped);
    }
    return absl::OkStatus();
  }
};

absl::Status SubstrShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape where, PartialShape::Merge(c.input(1), c.input(2)));
  ASSIGN_OR_RETURN(PartialShape shape, BroadcastShape(c.input(0), where));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

const OpRegistration kSubstrOps[] = {
    Op("Substr")
        .Input("input: string")
        .Input("pos: T")
        .Input("len: T")
        .Output("output: string")
        .Attr("T: {int32, int64}")
        .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
        .Shape(SubstrShape)
        .Kernel<SubstrKernel>()
        .NotDifferentiable(),
    Op("StringLength")
        .Input("input: string")
        .Output("output: int32")
        .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
        .Shape(shapes::LikeInput0)
        .Kernel<StringLengthKernel>()
        .NotDifferentiable(),
};

}  // namespace

static const char* NameOf(StringUnit unit) { return unit == StringUnit::kByte ? "BYTE" : "UTF8_CHAR"; }

Output Substr(const Scope& s, Output input, const IntArg& pos, const IntArg& len, StringUnit unit) {
  const DType type = pos.dtype() == kInvalid ? len.dtype() : pos.dtype();
  return s.Add("Substr", {input, pos.AsTensor(s, "pos", type), len.AsTensor(s, "len", type)}, {{"unit", NameOf(unit)}});
}
Output StringLength(const Scope& s, Output input, StringUnit unit) {
  return s.Add("StringLength", {input}, {{"unit", NameOf(unit)}});
}

}  // namespace thalweg
