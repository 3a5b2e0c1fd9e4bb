// SPDX-License-Identifier: Apache-2.0
// StringNGrams: the runs of `width` strings in each row of a ragged tensor,
// joined by a separator, for every width of a list. Rows are padded on both sides
// first: by pad_width strings, or by width - 1 if it is -1, and never by more.
#include <algorithm>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// Joined strings can be far larger than what a client sends for them.
constexpr double kMostBytes = 2e9;

class NGramsKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(separator_, init.Attr<std::string>("separator"));
    ASSIGN_OR_RETURN(left_pad_, init.Attr<std::string>("left_pad"));
    ASSIGN_OR_RETURN(right_pad_, init.Attr<std::string>("right_pad"));
    ASSIGN_OR_RETURN(widths_, init.Attr<std::vector<int64_t>>("ngram_widths"));
    ASSIGN_OR_RETURN(pad_width_, init.Attr<int64_t>("pad_width"));
    ASSIGN_OR_RETURN(preserve_short_, init.Attr<bool>("preserve_short_sequences"));
    for (const int64_t width : widths_) {
      if (width <= 0) return InvalidArgument("ngram_widths must contain positive values");
      if (width > kMost) return InvalidArgument("ngram_widths has ", width, ", at most ", kMost, " is allowed");
    }
    if (pad_width_ > kMost) return InvalidArgument("pad_width is ", pad_width_, ", at most ", kMost, " is allowed");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    return Dispatch(IndexTypes(), c.input(1).dtype(), [&]<typename T>() { return Compute<T>(c); });
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 31;

  template <typename T>
  absl::Status Compute(KernelContext& c) const {
    const Tensor &data = c.input(0), &splits = c.input(1);
    const absl::Span<const T> ends = splits.flat<T>();
    RETURN_IF_ERROR(CheckSplits(ends, data.num_elements()));
    ASSIGN_OR_RETURN(Tensor* const out_splits, c.Allocate(1, splits.shape()));
    const absl::Span<T> out_ends = out_splits->flat<T>();
    std::fill(out_ends.begin(), out_ends.end(), T(0));
    if (data.num_elements() == 0 || ends.empty()) return c.Allocate(0, data.shape()).status();
    ASSIGN_OR_RETURN(const int64_t total, Count(data.flat<std::string>(), ends, out_ends));
    ASSIGN_OR_RETURN(Tensor* const ngrams, c.Allocate(0, Shape({total})));
    std::string* next = ngrams->mutable_data<std::string>();
    for (size_t row = 0; row + 1 < ends.size(); ++row) {
      const absl::Span<const std::string> tokens =
          data.flat<std::string>().subspan(ends[row], ends[row + 1] - ends[row]);
      const int64_t length = static_cast<int64_t>(tokens.size());
      bool any = false;
      for (const int64_t width : widths_) {
        const int64_t pad = Pad(width), count = Grams(length, width);
        for (int64_t i = 0; i < count; ++i) *next++ = Join(tokens, i - pad, i - pad + width);
        any |= count > 0;
      }
      if (preserve_short_ && !any && length > 0) *next++ = Join(tokens, -pad_width_, length + pad_width_);
    }
    return absl::OkStatus();
  }

  template <typename T>
  static absl::Status CheckSplits(absl::Span<const T> splits, int64_t size) {
    if (splits.empty()) return absl::OkStatus();
    if (splits[0] != 0) return InvalidArgument("First split value must be 0, got ", splits[0]);
    for (size_t i = 1; i < splits.size(); ++i) {
      if (splits[i] < splits[i - 1] || splits[i] > size) {
        return InvalidArgument("Invalid split value ", splits[i], ", must be in [", splits[i - 1], ", ", size, "]");
      }
    }
    if (splits.back() == size) return absl::OkStatus();
    return InvalidArgument("Last split value must be data size. Expected ", size, ", got ", splits.back());
  }

  // Fills the splits of the result and gives the number of its strings.
  template <typename T>
  absl::StatusOr<int64_t> Count(absl::Span<const std::string> data, absl::Span<const T> ends,
                                absl::Span<T> out_ends) const {
    size_t longest = std::max(left_pad_.size(), right_pad_.size());
    for (const std::string& token : data) longest = std::max(longest, token.size());
    const double per_token = static_cast<double>(longest + separator_.size() + 1);
    double total = 0, bytes = 0;
    for (size_t row = 1; row < ends.size(); ++row) {
      const int64_t length = ends[row] - ends[row - 1];
      double count = 0;
      for (const int64_t width : widths_) {
        count += static_cast<double>(Grams(length, width));
        bytes += static_cast<double>(Grams(length, width)) * (per_token * static_cast<double>(width) + 32);
      }
      if (preserve_short_ && count == 0 && length > 0) {
        if (pad_width_ < 0) {
          return InvalidArgument(
              "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are "
              "not provided, got ",
              pad_width_);
        }
        count = 1;
        bytes += per_token * static_cast<double>(length + 2 * pad_width_);
      }
      total += count;
      if (bytes > kMostBytes || total > static_cast<double>(std::numeric_limits<T>::max())) {
        return ResourceExhausted("the n-grams of ", data.size(), " strings may take more than ",
                                 static_cast<int64_t>(kMostBytes), " bytes");
      }
      out_ends[row] = static_cast<T>(total);
    }
    return static_cast<int64_t>(total);
  }

  int64_t Pad(int64_t width) const { return std::min(pad_width_ < 0 ? width - 1 : pad_width_, width - 1); }
  int64_t Grams(int64_t length, int64_t width) const {
    return std::max<int64_t>(0, length + 2 * Pad(width) - width + 1);
  }

  // Tokens [begin, end); those outside of the row are padding.
  std::string Join(absl::Span<const std::string> tokens, int64_t begin, int64_t end) const {
    std::string text;
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) text += separator_;
      text += i < 0 ? left_pad_ : i >= static_cast<int64_t>(tokens.size()) ? right_pad_ : tokens[i];
    }
    return text;
  }

  std::string separator_, left_pad_, right_pad_;
  std::vector<int64_t> widths_;
  int64_t pad_width_ = 0;
  bool preserve_short_ = false;
};

absl::Status NGramsShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  ASSIGN_OR_RETURN(PartialShape splits, c.WithRank(1, 1));
  c.set_output(0, PartialShape::OfRank(1));
  c.set_output(1, std::move(splits));
  return absl::OkStatus();
}

const OpRegistration kNGrams = Op("StringNGrams")
                                   .Input("data: string")
                                   .Input("data_splits: Tsplits")
                                   .Output("ngrams: string")
                                   .Output("ngrams_splits: Tsplits")
                                   .Attr("separator: string")
                                   .Attr("ngram_widths: list(int) >= 0")
                                   .Attr("left_pad: string")
                                   .Attr("right_pad: string")
                                   .Attr("pad_width: int")
                                   .Attr("preserve_short_sequences: bool")
                                   .Attr("Tsplits: {int32, int64} = DT_INT64")
                                   .Shape(NGramsShape)
                                   .Kernel<NGramsKernel>()
                                   .NotDifferentiable();

}  // namespace
}  // namespace thalweg
