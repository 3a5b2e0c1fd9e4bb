// SPDX-License-Identifier: Apache-2.0
// The only user of oneDNN's C++ interface, which throws: nothing of it leaves
// this file.
#include <limits>
#include <unordered_map>

#include "absl/strings/match.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "thalweg/base/status.h"
#include "thalweg/ops/nn/convolver.h"
#include "thalweg/ops/support/gemm.h"

namespace thalweg {
namespace {

using dnnl::memory;

const dnnl::engine& Engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

memory::desc AnyLayout(const memory::dims& dims) {
  return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
}

template <typename F>
absl::Status NoThrow(const F& f) {
  try {
    f();
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return Internal("oneDNN: ", e.what());
  }
}

memory View(const memory::desc& desc, const float* data) { return memory(desc, Engine(), const_cast<float*>(data)); }

// Sizes and layouts as the library counts them: channels come second, whatever
// the layout, and dilation 0 is a dense window.
struct Layouts {
  memory::dims strides, dilations, pads_before, pads_after;
  memory::desc input, output, plain_filter, any_filter;

  explicit Layouts(const ConvolutionSize& s) {
    const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
    memory::dims input_dims{s.batch, s.in_channels}, output_dims{s.batch, s.out_channels};
    memory::dims filter_dims, filter_strides;
    if (s.groups > 1) filter_dims.push_back(s.groups), filter_strides.push_back(out);
    filter_dims.insert(filter_dims.end(), {out, in});
    filter_strides.insert(filter_strides.end(), {1, s.out_channels});
    const bool volume = s.windows[0] != SlidingWindow();
    int64_t step = s.filter();
    for (size_t i = volume ? 0 : 1; i < s.windows.size(); ++i) {
      const SlidingWindow& w = s.windows[i];
      input_dims.push_back(w.input);
      output_dims.push_back(w.output);
      filter_dims.push_back(w.window);
      strides.push_back(w.stride);
      dilations.push_back(w.dilation - 1);
      pads_before.push_back(w.pad_before);
      pads_after.push_back(w.pad_after);
      step /= w.window;
      filter_strides.push_back(step);
    }
    const auto channels_last = volume ? memory::format_tag::ndhwc : memory::format_tag::nhwc;
    input = memory::desc(input_dims, memory::data_type::f32, channels_last);
    output = memory::desc(output_dims, memory::data_type::f32, channels_last);
    plain_filter = memory::desc(filter_dims, memory::data_type::f32, filter_strides);
    any_filter = AnyLayout(filter_dims);
  }
};

class MadeConvolution : public OneDnnConvolution {
 public:
  // False if the library has only its reference code for this.
  bool Init(ConvolutionKind kind, const ConvolutionSize& size) {
    const Layouts l(size);
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, l.input, l.any_filter, l.output, l.strides, l.dilations,
         l.pads_before, l.pads_after},
        attr, Engine(), /*allow_empty=*/true);
    if (!forward) return false;
    if (kind == ConvolutionKind::kForward) {
      return Take(forward, forward.weights_desc(), l, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST);
    }
    if (kind == ConvolutionKind::kBackpropInput) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {kDirect, l.input, l.any_filter, l.output, l.strides, l.dilations, l.pads_before, l.pads_after}, attr,
          Engine(), forward, /*allow_empty=*/true);
      if (!backward) return false;
      return Take(backward, backward.weights_desc(), l, DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST);
    }
    const dnnl::convolution_backward_weights::primitive_desc backward(
        {kDirect, l.input, l.any_filter, l.output, l.strides, l.dilations, l.pads_before, l.pads_after}, attr, Engine(),
        forward, /*allow_empty=*/true);
    if (!backward) return false;
    return Take(backward, backward.diff_weights_desc(), l, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST);
  }

  int64_t filter_floats() const override { return BytesToFloats(packed_.get_size()); }
  int64_t scratch_floats() const override { return BytesToFloats(scratch_.get_size()); }

  absl::Status PackFilter(const float* filter, float* packed) const override {
    return Reorder(plain_, filter, packed_, packed);
  }
  absl::Status UnpackFilter(const float* packed, float* filter) const override {
    return Reorder(packed_, packed, plain_, filter);
  }

  absl::Status Run(const float* input, const float* filter, const float* output, float* scratch) const override {
    UseOneOpenMpThread();
    return NoThrow([&] {
      dnnl::stream stream(Engine());
      primitive_.execute(stream, {{input_arg_, View(input_, input)},
                                  {filter_arg_, View(packed_, filter)},
                                  {output_arg_, View(output_, output)},
                                  {DNNL_ARG_SCRATCHPAD, View(scratch_, scratch)}});
    });
  }

 private:
  static int64_t BytesToFloats(size_t bytes) { return static_cast<int64_t>((bytes + 3) / sizeof(float)); }

  template <typename Desc>
  bool Take(const Desc& desc, const memory::desc& filter, const Layouts& l, int input_arg, int filter_arg,
            int output_arg) {
    if (absl::StrContains(desc.impl_info_str(), "ref")) return false;
    primitive_ = dnnl::primitive(desc);
    packed_ = filter;
    plain_ = l.plain_filter;
    input_ = l.input;
    output_ = l.output;
    scratch_ = desc.scratchpad_desc();
    input_arg_ = input_arg, filter_arg_ = filter_arg, output_arg_ = output_arg;
    return true;
  }

  static absl::Status Reorder(const memory::desc& from, const float* x, const memory::desc& to, float* y) {
    UseOneOpenMpThread();
    return NoThrow([&] {
      memory a = View(from, x), b = View(to, y);
      dnnl::stream stream(Engine());
      dnnl::reorder(a, b).execute(stream, a, b);
    });
  }

  dnnl::primitive primitive_;
  memory::desc packed_, plain_, input_, output_, scratch_;
  int input_arg_ = 0, filter_arg_ = 0, output_arg_ = 0;
};

}  // namespace

std::unique_ptr<OneDnnConvolution> OneDnnConvolution::Make(ConvolutionKind kind, const ConvolutionSize& size) {
  UseOneOpenMpThread();
  // The library counts with ints inside.
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (size.batch * size.input_image() > kMax || size.batch * size.output_image() > kMax || size.filter() > kMax) {
    return nullptr;
  }
  for (const SlidingWindow& w : size.windows) {
    if (w.pad_before >= kMax / 4 || w.pad_after >= kMax / 4 || w.dilation >= kMax / 4 || w.stride >= kMax / 4) {
      return nullptr;
    }
  }
  auto made = std::make_unique<MadeConvolution>();
  bool good = false;
  const absl::Status status = NoThrow([&] { good = made->Init(kind, size); });
  return status.ok() && good ? std::move(made) : nullptr;
}

}  // namespace thalweg
