// Neural networks: convolution, pooling, normalization, activations, biases,
// softmax and losses.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/graph/scope.h"

namespace thalweg {

// Images are [batch, height, width, channels], volumes [batch, depth, height,
// width, channels]. Strides, windows and dilations have an entry per dimension,
// 1 for batch and channels; padding is "SAME", "VALID" or, where it is allowed,
// "EXPLICIT".
struct ConvOptions {
  std::vector<int64_t> explicit_paddings;  // before and after, per dimension
  std::vector<int64_t> dilations;          // empty: none
  std::string data_format;                 // empty: channels last
};
// The filter is [window..., input channels, output channels].
Output Conv2D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
              absl::string_view padding, ConvOptions options = {});
Output Conv2DBackpropInput(const Scope& s, Output input_sizes, Output filter, Output out_backprop,
                           const std::vector<int64_t>& strides, absl::string_view padding, ConvOptions options = {});
Output Conv2DBackpropFilter(const Scope& s, Output input, Output filter_sizes, Output out_backprop,
                            const std::vector<int64_t>& strides, absl::string_view padding, ConvOptions options = {});
Output Conv3D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
              absl::string_view padding, ConvOptions options = {});
// Each channel has filters of its own: [window, channels, multiplier].
Output DepthwiseConv2dNative(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
                             absl::string_view padding, ConvOptions options = {});

Output MaxPool(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               absl::string_view padding);
Output AvgPool(const Scope& s, Output value, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               absl::string_view padding);
Output MaxPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 absl::string_view padding);
Output AvgPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 absl::string_view padding);

// input / (bias + alpha * sum of squares of the 2 * depth_radius + 1 channels
// around) ^ beta.
struct LrnOptions {
  int64_t depth_radius = 5;
  float bias = 1;
  float alpha = 1;
  float beta = 0.5f;
};
Output Lrn(const Scope& s, Output input, LrnOptions options = {});

// Normalizes each channel over everything else; mean and variance are inputs
// when it is not training, and the batch's otherwise.
struct FusedBatchNormOptions {
  float epsilon = 0.0001f;
  float exponential_avg_factor = 1;
  bool is_training = true;
  std::string data_format = "NHWC";
};
struct FusedBatchNormResult {
  Output y;
  Output batch_mean;
  Output batch_variance;
};
FusedBatchNormResult FusedBatchNorm(const Scope& s, Output x, Output scale, Output offset, Output mean, Output variance,
                                    FusedBatchNormOptions options = {});

struct BiasAddOptions {
  std::string data_format = "NHWC";  // or "NCHW": where the channels are
};
Output BiasAdd(const Scope& s, Output value, Output bias, BiasAddOptions options = {});
Output BiasAddGrad(const Scope& s, Output out_backprop, BiasAddOptions options = {});

Output Relu(const Scope& s, Output features);
Output Relu6(const Scope& s, Output features);
struct LeakyReluOptions {
  float alpha = 0.2f;
};
Output LeakyRelu(const Scope& s, Output features, LeakyReluOptions options = {});
Output Elu(const Scope& s, Output features);
Output Selu(const Scope& s, Output features);
Output Softplus(const Scope& s, Output features);
Output Softsign(const Scope& s, Output features);

// Over the last dimension.
Output Softmax(const Scope& s, Output logits);
Output LogSoftmax(const Scope& s, Output logits);

// Per row of [batch, classes]: the loss and its derivative by the features.
// Labels are a distribution per row, or for the sparse form a class number.
struct CrossEntropy {
  Output loss;
  Output backprop;
};
CrossEntropy SoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels);
CrossEntropy SparseSoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels);

// Half the sum of the squares.
Output L2Loss(const Scope& s, Output t);

// Whether the target class of each row is among the k best predictions.
Output InTopK(const Scope& s, Output predictions, Output targets, Output k);

struct TopKOptions {
  bool sorted = true;
};
struct TopKResult {
  Output values;
  Output indices;
};
// The k largest elements along the last dimension.
TopKResult TopK(const Scope& s, Output input, Output k, TopKOptions options = {});

}  // namespace thalweg
