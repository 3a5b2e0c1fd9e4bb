// SPDX-License-Identifier: Apache-2.0
// Neural networks: convolution, pooling, normalization, activations, biases, softmax and
// losses.
//
// Images are [batch, height, width, channels], volumes [batch, depth, height, width,
// channels]. Strides, windows and dilations have an entry per dimension, 1 for batch and
// channels.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- convolution ----

// The paddings, dilations and layout of a convolution.
struct ConvOptions {
  std::vector<int64_t> explicit_paddings;              // zeros before and after, per dimension; for Padding::kExplicit
  std::vector<int64_t> dilations;                      // distance of the taps, per dimension; empty: 1
  DataFormat data_format = DataFormat::kChannelsLast;  // layout of input and output
};
// Convolution of images with a filter [height, width, input channels, output channels]:
// Conv2D(s, x, w, {1, 1, 1, 1}, Padding::kSame).
Output Conv2D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides, Padding padding,
              const ConvOptions& options = {});
// The gradient of Conv2D with respect to its input of the given sizes; also known as
// transposed convolution.
Output Conv2DBackpropInput(const Scope& s, const IntsArg& input_sizes, Output filter, Output out_backprop,
                           const std::vector<int64_t>& strides, Padding padding, const ConvOptions& options = {});
// The gradient of Conv2D with respect to its filter of the given sizes.
Output Conv2DBackpropFilter(const Scope& s, Output input, const IntsArg& filter_sizes, Output out_backprop,
                            const std::vector<int64_t>& strides, Padding padding, const ConvOptions& options = {});
// Convolution of volumes with a filter [depth, height, width, input channels, output
// channels].
Output Conv3D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides, Padding padding,
              const ConvOptions& options = {});
// Convolution in which each channel has filters of its own: the filter is [height, width,
// channels, multiplier], the result has channels * multiplier channels.
Output DepthwiseConv2dNative(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
                             Padding padding, const ConvOptions& options = {});
// Grayscale dilation: the maximum over a window of input + filter, a filter [height,
// width, channels]. `rates` are dilations.
Output Dilation2D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
                  const std::vector<int64_t>& rates, Padding padding);

// ---- pooling ----

// The largest element of every window of an image (MaxPool) or volume (MaxPool3D), per
// channel:
Output MaxPool(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               Padding padding);
Output MaxPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 Padding padding);

// The mean of every window of an image (AvgPool) or volume (AvgPool3D), per channel:
Output AvgPool(const Scope& s, Output value, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
               Padding padding);
Output AvgPool3D(const Scope& s, Output input, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides,
                 Padding padding);

// The maxima of windows, and where they were.
struct MaxPoolWithArgmaxResult {
  Output output;  // as MaxPool
  Output argmax;  // int64: where each maximum was in its image: (y * width + x) * channels + c
};
// MaxPool, and where the maxima were.
MaxPoolWithArgmaxResult MaxPoolWithArgmax(const Scope& s, Output input, const std::vector<int64_t>& ksize,
                                          const std::vector<int64_t>& strides, Padding padding);

// ---- normalization and bias ----

// The parameters of Lrn's formula.
struct LrnOptions {
  int64_t depth_radius = 5;  // channels on either side
  float bias = 1;            // added to the sum, so that the divisor is not 0
  float alpha = 1;           // weight of the sum of squares
  float beta = 0.5f;         // exponent of the divisor
};
// Local response normalization: input / (bias + alpha * sum of squares of the
// 2 * depth_radius + 1 channels around)^beta (Krizhevsky et al. 2012).
Output Lrn(const Scope& s, Output input, const LrnOptions& options = {});

// The constants and the layout of FusedBatchNorm, and whether it trains.
struct FusedBatchNormOptions {
  float epsilon = 0.0001f;                             // added to the variance
  float exponential_avg_factor = 1;                    // weight of the batch in the moving averages
  bool is_training = true;                             // normalize by the batch's own mean and variance
  DataFormat data_format = DataFormat::kChannelsLast;  // layout of input and output
};
// The normalized values, and the statistics of the batch.
struct FusedBatchNormResult {
  Output y;               // the normalized input
  Output batch_mean;      // [channels]
  Output batch_variance;  // [channels]
};
// Batch normalization of images per channel: (x - mean) / sqrt(variance + epsilon) *
// scale + offset. While training, mean and variance are those of the batch, and the
// inputs are empty or moving averages. scale, offset, mean and variance are [channels].
FusedBatchNormResult FusedBatchNorm(const Scope& s, Output x, Output scale, Output offset, Output mean, Output variance,
                                    const FusedBatchNormOptions& options = {});

// The layout of the values that BiasAdd adds to.
struct BiasAddOptions {
  DataFormat data_format = DataFormat::kChannelsLast;  // where the channels are
};
// Adds bias[c] to every element of channel c.
Output BiasAdd(const Scope& s, Output value, Output bias, const BiasAddOptions& options = {});
// The gradient of BiasAdd with respect to the bias: sums per channel.
Output BiasAddGrad(const Scope& s, Output out_backprop, const BiasAddOptions& options = {});

// ---- activations ----

// max(x, 0).
Output Relu(const Scope& s, Output features);
// min(max(x, 0), 6).
Output Relu6(const Scope& s, Output features);
// The slope of LeakyRelu for negative values.
struct LeakyReluOptions {
  float alpha = 0.2f;  // the slope below 0
};
// x, but alpha * x below 0.
Output LeakyRelu(const Scope& s, Output features, const LeakyReluOptions& options = {});
// x, but exp(x) - 1 below 0 (Clevert et al. 2015).
Output Elu(const Scope& s, Output features);
// Elu with the scale that keeps mean and variance (Klambauer et al. 2017).
Output Selu(const Scope& s, Output features);
// log(exp(x) + 1).
Output Softplus(const Scope& s, Output features);
// x / (|x| + 1).
Output Softsign(const Scope& s, Output features);

// exp(x) / sum(exp(x)) over the last dimension.
Output Softmax(const Scope& s, Output logits);
// The logarithm of Softmax.
Output LogSoftmax(const Scope& s, Output logits);

// ---- losses ----

// The loss of each example and its derivative.
struct CrossEntropyResult {
  Output loss;      // [batch]
  Output backprop;  // [batch, classes]: the derivative of the loss by the features
};
// Cross entropy of softmax(features) and labels, both [batch, classes]; each row of the
// labels is a distribution. SoftmaxCrossEntropy in losses.h has only the loss.
CrossEntropyResult SoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels);
// Cross entropy of softmax(features), [batch, classes], and labels that are class numbers, int32 or int64 [batch].
CrossEntropyResult SparseSoftmaxCrossEntropyWithLogits(const Scope& s, Output features, Output labels);
// Half the sum of the squares, a scalar.
Output L2Loss(const Scope& s, Output t);

// How CtcLoss treats repeated labels and long sequences.
struct CtcLossOptions {
  bool preprocess_collapse_repeated = false;       // merge labels that repeat, before the loss
  bool ctc_merge_repeated = true;                  // merge predictions that repeat
  bool ignore_longer_outputs_than_inputs = false;  // give such examples no loss, instead of an error
};
// The loss of each sequence and its derivative.
struct CtcLossResult {
  Output loss;      // [batch]: the negative logarithm of the probability
  Output gradient;  // [time, batch, classes]
};
// Connectionist temporal classification (Graves et al. 2006) of logits `inputs` [time,
// batch, classes]; the last class is the blank. Labels are a sparse matrix: int64
// labels_indices [n, 2] (example, position) and int32 labels_values [n].
CtcLossResult CtcLoss(const Scope& s, Output inputs, Output labels_indices, Output labels_values,
                      Output sequence_length, const CtcLossOptions& options = {});
// Results of the CTC decoders: the labels as a sparse tensor, and their probability.
struct CtcDecoded {
  Output indices;          // int64 [n, 2]: example, position
  Output values;           // int64 [n]: classes
  Output shape;            // int64 [2]
  Output log_probability;  // float [batch, 1]
};
// How CtcGreedyDecoder treats repeated classes.
struct CtcGreedyDecoderOptions {
  bool merge_repeated = false;  // classes that repeat without a blank between them become one
};
// The best class of every time step, blanks removed. `inputs` are logits [time, batch, classes].
CtcDecoded CtcGreedyDecoder(const Scope& s, Output inputs, Output sequence_length,
                            const CtcGreedyDecoderOptions& options = {});
// How CtcBeamSearchDecoder treats repeated classes.
struct CtcBeamSearchDecoderOptions {
  bool merge_repeated = true;  // labels that repeat in the result become one
};
// The best label sequence that a beam of `beam_width` finds.
CtcDecoded CtcBeamSearchDecoder(const Scope& s, Output inputs, Output sequence_length, int beam_width,
                                const CtcBeamSearchDecoderOptions& options = {});

// ---- the best ----

// True for each row of predictions [batch, classes] whose target class, int [batch], is
// among the k largest.
Output InTopK(const Scope& s, Output predictions, Output targets, const IntArg& k);
// The order of the elements that TopK returns.
struct TopKOptions {
  bool sorted = true;  // largest first
};
// The largest elements of each row, and where they were.
struct TopKResult {
  Output values;   // [..., k]
  Output indices;  // int32 [..., k]: their places in the last dimension
};
// The k largest elements along the last dimension: TopK(s, x, 5).values.
TopKResult TopK(const Scope& s, Output input, const IntArg& k, const TopKOptions& options = {});
// The order in which NthElement counts.
struct NthElementOptions {
  bool reverse = false;  // from the largest on
};
// Element `n` along the last dimension, were it sorted from the smallest on.
Output NthElement(const Scope& s, Output input, const IntArg& n, const NthElementOptions& options = {});

}  // namespace thalweg
