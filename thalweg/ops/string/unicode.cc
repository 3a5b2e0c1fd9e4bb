// SPDX-License-Identifier: Apache-2.0
// UnicodeEncode converts rows of code points to strings, UnicodeDecode (and
// UnicodeDecodeWithOffsets, which also outputs where each begins) strings to rows of code
// points, UnicodeTranscode strings to another encoding. Invalid characters are replaced,
// dropped, or an error.
#include "absl/strings/ascii.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/shape_arguments.h"
#include "thalweg/ops/support/utf8.h"

namespace thalweg {
namespace {

enum class Encoding { kUtf8, kUtf16Big, kUtf16Little, kUtf16, kUtf32Big, kUtf32Little, kUtf32, kLatin1, kAscii };

// By the names that people use for them: "UTF-8", "utf8", "UTF-16-BE", "UTF-16BE".
absl::StatusOr<Encoding> ParseEncoding(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (absl::ascii_isalnum(c)) plain.push_back(absl::ascii_tolower(c));
  }
  constexpr std::pair<const char*, Encoding> kNames[] = {
      {"utf8", Encoding::kUtf8},     {"utf16be", Encoding::kUtf16Big}, {"utf16le", Encoding::kUtf16Little},
      {"utf16", Encoding::kUtf16},   {"utf32be", Encoding::kUtf32Big}, {"utf32le", Encoding::kUtf32Little},
      {"utf32", Encoding::kUtf32},   {"iso88591", Encoding::kLatin1},  {"latin1", Encoding::kLatin1},
      {"usascii", Encoding::kAscii}, {"ascii", Encoding::kAscii}};
  for (const auto& [known, encoding] : kNames) {
    if (plain == known) return encoding;
  }
  return InvalidArgument("Could not create converter for input encoding: ", name);
}

// Removes a number of `width` bytes. Fewer bytes at the end are an invalid character.
Utf8Character TakeFixed(absl::string_view* text, int width, bool big) {
  Utf8Character c{.bytes = std::min<int>(width, static_cast<int>(text->size()))};
  if (c.bytes == width) {
    c.code = 0;
    for (int i = 0; i < width; ++i) {
      c.code = c.code << 8 | static_cast<unsigned char>((*text)[big ? i : width - 1 - i]);
    }
    c.valid = c.code <= 0x10ffff && (c.code < 0xd800 || c.code > 0xdfff);
  }
  text->remove_prefix(c.bytes);
  return c;
}

Utf8Character TakeUtf16(absl::string_view* text, bool big) {
  Utf8Character c = TakeFixed(text, 2, big);
  if (c.valid || c.bytes < 2) return c;
  absl::string_view rest = *text;
  if (c.code < 0xdc00 && rest.size() >= 2) {  // the first of a pair
    const Utf8Character second = TakeFixed(&rest, 2, big);
    if (second.code >= 0xdc00 && second.code < 0xe000) {
      *text = rest;
      return {0x10000 + ((c.code - 0xd800) << 10) + (second.code - 0xdc00), 4, true};
    }
  }
  c.code = kReplacementCharacter;
  return c;
}

// Calls `f` with every character of a string.
template <typename F>
void ForEachCharacter(absl::string_view text, Encoding encoding, F&& f) {
  int skipped = 0;  // size of the byte order mark
  if (encoding == Encoding::kUtf16 || encoding == Encoding::kUtf32) {
    const bool wide = encoding == Encoding::kUtf32;
    absl::string_view rest = text;
    const Utf8Character mark = TakeFixed(&rest, wide ? 4 : 2, true);
    const bool little = !text.empty() && (wide ? !mark.valid && text.substr(0, 2) == "\xff\xfe" : mark.code == 0xfffe);
    if (little || mark.code == 0xfeff) {
      skipped = mark.bytes;
      text = rest;
    }
    encoding = wide ? (little ? Encoding::kUtf32Little : Encoding::kUtf32Big)
                    : (little ? Encoding::kUtf16Little : Encoding::kUtf16Big);
  }
  while (!text.empty()) {
    Utf8Character c;
    switch (encoding) {
      case Encoding::kUtf8:
        c = TakeUtf8(&text);
        break;
      case Encoding::kUtf16Big:
      case Encoding::kUtf16Little:
        c = TakeUtf16(&text, encoding == Encoding::kUtf16Big);
        break;
      case Encoding::kUtf32Big:
      case Encoding::kUtf32Little:
        c = TakeFixed(&text, 4, encoding == Encoding::kUtf32Big);
        break;
      default:
        c = TakeFixed(&text, 1, true);
        c.valid = encoding == Encoding::kLatin1 || c.code < 0x80;
    }
    if (!c.valid) c.code = kReplacementCharacter;
    c.bytes += std::exchange(skipped, 0);
    f(c);
  }
}

void Append(char32_t code, Encoding encoding, std::string* text) {
  const auto append16 = [&](char32_t unit) {
    text->push_back(static_cast<char>(unit >> 8));
    text->push_back(static_cast<char>(unit));
  };
  if (encoding == Encoding::kUtf8) {
    AppendUtf8(code, text);
  } else if (encoding == Encoding::kUtf32Big) {
    append16(code >> 16);
    append16(code & 0xffff);
  } else if (code < 0x10000) {
    append16(code);
  } else {
    append16(0xd800 + ((code - 0x10000) >> 10));
    append16(0xdc00 + ((code - 0x10000) & 0x3ff));
  }
}

class UnicodeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string errors, init.Attr<std::string>("errors"));
    strict_ = errors == "strict";
    ignore_ = errors == "ignore";
    ASSIGN_OR_RETURN(const int64_t replacement, init.Attr<int64_t>("replacement_char"));
    if (replacement < 0 || replacement > 0x10ffff) {
      return InvalidArgument("replacement_char out of unicode codepoint range");
    }
    replacement_ = static_cast<char32_t>(replacement);
    if (HasAttr(init.node().def(), "replace_control_characters")) {
      ASSIGN_OR_RETURN(replace_control_, init.Attr<bool>("replace_control_characters"));
    }
    if (HasAttr(init.node().def(), "input_encoding")) {
      ASSIGN_OR_RETURN(const std::string name, init.Attr<std::string>("input_encoding"));
      ASSIGN_OR_RETURN(input_, ParseEncoding(name));
    }
    if (HasAttr(init.node().def(), "output_encoding")) {
      ASSIGN_OR_RETURN(const std::string name, init.Attr<std::string>("output_encoding"));
      ASSIGN_OR_RETURN(output_, ParseEncoding(name));
    }
    return absl::OkStatus();
  }

 protected:
  // Whether something is to be done about a character.
  bool IsBad(const Utf8Character& c) const { return !c.valid || (replace_control_ && c.code <= 0x1f); }

  bool strict_ = false;
  bool ignore_ = false;
  char32_t replacement_ = kReplacementCharacter;
  bool replace_control_ = false;
  Encoding input_ = Encoding::kUtf8;
  Encoding output_ = Encoding::kUtf8;
};

class UnicodeTranscodeKernel : public UnicodeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    bool bad = false;
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      std::string& text = out->mutable_data<std::string>()[i];
      text.clear();
      ForEachCharacter(input.data<std::string>()[i], input_, [&](const Utf8Character& character) {
        const bool is_bad = IsBad(character);
        bad = bad || is_bad;
        if (!is_bad || !ignore_) Append(is_bad ? replacement_ : character.code, output_, &text);
      });
    }
    if (bad && strict_) return InvalidArgument("Invalid formatting on input string");
    return absl::OkStatus();
  }
};

class UnicodeDecodeKernel : public UnicodeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    std::vector<int32_t> codes;
    std::vector<int64_t> offsets, splits = {0};
    bool malformed = false;
    for (const std::string& text : input.flat<std::string>()) {
      int64_t offset = 0;
      ForEachCharacter(text, input_, [&](const Utf8Character& character) {
        malformed = malformed || !character.valid;
        const bool is_bad = IsBad(character);
        if (!is_bad || !ignore_) {
          codes.push_back(static_cast<int32_t>(is_bad ? replacement_ : character.code));
          offsets.push_back(offset);
        }
        offset += character.bytes;
      });
      splits.push_back(static_cast<int64_t>(codes.size()));
    }
    if (malformed && strict_) return InvalidArgument("Invalid formatting on input string");
    ASSIGN_OR_RETURN(Tensor* const row_splits, c.Allocate(0, Shape({static_cast<int64_t>(splits.size())})));
    if (row_splits->dtype() == kInt64) {
      std::copy(splits.begin(), splits.end(), row_splits->mutable_data<int64_t>());
    } else {
      std::copy(splits.begin(), splits.end(), row_splits->mutable_data<int32_t>());
    }
    c.set_output(1, Tensor::Vector<int32_t>(codes));
    if (c.num_outputs() > 2) c.set_output(2, Tensor::Vector<int64_t>(offsets));
    return absl::OkStatus();
  }
};

class UnicodeEncodeKernel : public UnicodeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(0);
    const Tensor& splits = c.input(1);
    if (values.rank() != 1 || splits.rank() != 1) {
      return InvalidArgument("Both the input_tensor and input_splits should be of rank 1. ");
    }
    if (splits.num_elements() == 0) {
      return InvalidArgument("Input_splits should contain elements, but given input_values has 0 elements");
    }
    const int64_t rows = splits.num_elements() - 1;
    if (ReadInteger(splits, 0) != 0) return InvalidArgument("First value in input_splits must be zero.");
    if (ReadInteger(splits, rows) != values.num_elements()) {
      return InvalidArgument("Last value in input_splits must be equal to length of input_tensor.");
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({rows})));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t begin = ReadInteger(splits, row), end = ReadInteger(splits, row + 1);
      if (begin > end) {
        return InvalidArgument("Values in input_splits must be equal or in ascending order.");
      }
      if (end > values.num_elements()) {
        return InvalidArgument("Values in input_splits must be less than or equal to input_tensor length.");
      }
      std::string& text = out->mutable_data<std::string>()[row];
      for (int64_t i = begin; i < end; ++i) {
        char32_t code = static_cast<char32_t>(values.data<int32_t>()[i]);
        if (!IsCharacter(code)) {
          if (strict_) return InvalidArgument("Code point is out of range for Unicode, or a noncharacter.");
          if (ignore_ && (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))) continue;
          if (!ignore_) code = replacement_;
        }
        Append(code, output_, &text);
      }
    }
    return absl::OkStatus();
  }

 private:
  static bool IsCharacter(char32_t code) {
    return code < 0xd800 ||
           (code > 0xdfff && code <= 0x10ffff && (code & 0xfffe) != 0xfffe && (code < 0xfdd0 || code > 0xfdef));
  }
};

absl::Status DecodeShape(ShapeContext& c) {
  const int64_t count = c.input(0).num_elements();
  c.set_output(0, {count < 0 ? PartialShape::kUnknown : count + 1});
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, {PartialShape::kUnknown});
  return absl::OkStatus();
}

absl::Status EncodeShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  ASSIGN_OR_RETURN(const PartialShape splits, c.WithRank(1, 1));
  c.set_output(0, {splits.dim(0) <= 0 ? PartialShape::kUnknown : splits.dim(0) - 1});
  return absl::OkStatus();
}

Op DecodeOp(absl::string_view name, bool offsets) {
  Op op(name);
  op.Input("input: string").Output("row_splits: Tsplits").Output("char_values: int32");
  if (offsets) op.Output("char_to_byte_starts: int64");
  return op.Attr("input_encoding: string")
      .Attr("errors: {'strict', 'replace', 'ignore'} = 'replace'")
      .Attr("replacement_char: int = 65533")
      .Attr("replace_control_characters: bool = false")
      .Attr("Tsplits: {int32, int64} = DT_INT64")
      .Shape(DecodeShape)
      .Kernel<UnicodeDecodeKernel>()
      .NotDifferentiable();
}

const OpRegistration kUnicodeOps[] = {
    DecodeOp("UnicodeDecode", false),
    DecodeOp("UnicodeDecodeWithOffsets", true),
    Op("UnicodeEncode")
        .Input("input_values: int32")
        .Input("input_splits: Tsplits")
        .Output("output: string")
        .Attr("errors: {'ignore', 'replace', 'strict'} = 'replace'")
        .Attr("output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}")
        .Attr("replacement_char: int = 65533")
        .Attr("Tsplits: {int32, int64} = DT_INT64")
        .Shape(EncodeShape)
        .Kernel<UnicodeEncodeKernel>()
        .NotDifferentiable(),
    Op("UnicodeTranscode")
        .Input("input: string")
        .Output("output: string")
        .Attr("input_encoding: string")
        .Attr("output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}")
        .Attr("errors: {'strict', 'replace', 'ignore'} = 'replace'")
        .Attr("replacement_char: int = 65533")
        .Attr("replace_control_characters: bool = false")
        .Shape(shapes::LikeInput0)
        .Kernel<UnicodeTranscodeKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
