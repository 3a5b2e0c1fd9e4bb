// SPDX-License-Identifier: Apache-2.0
// The CNN of TensorFlow's CIFAR-10 tutorial, shared by cifar10.cc, cifar10_train.cc
// and cifar10_eval.cc.
#pragma once

#include <string>
#include <vector>

#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace cifar10 {

namespace tw = thalweg;

// Decay of the moving averages of the weights. Evaluation uses the averages because
// they are more accurate than the weights themselves.
inline constexpr double kAverageDecay = 0.9999;

inline tw::Output Convolution(const tw::Scope& s, tw::Output x, double bias) {
  return tw::layers::Conv2D(s, x, 64, 5,
                            {.padding = tw::Padding::kSame,
                             .activation = tw::Relu,
                             .kernel_initializer = tw::initializers::TruncatedNormal({.stddev = 0.05}),
                             .bias_initializer = tw::initializers::Constant(bias)});
}

inline tw::Output Pool(const tw::Scope& s, tw::Output x) {
  return tw::layers::MaxPooling2D(s, x, 3, 2, {.padding = tw::Padding::kSame});
}

inline tw::Output Norm(const tw::Scope& s, tw::Output x) {
  return tw::Lrn(s, x, {.depth_radius = 4, .bias = 1, .alpha = 0.001f / 9, .beta = 0.75f});
}

inline tw::Output Local(const tw::Scope& s, tw::Output x, int64_t units) {
  return tw::layers::Dense(s, x, units,
                           {.activation = tw::Relu,
                            .kernel_initializer = tw::initializers::TruncatedNormal({.stddev = 0.04}),
                            .bias_initializer = tw::initializers::Constant(0.1)});
}

struct Cnn {
  tw::Output images, labels, logits, accuracy;
};

inline Cnn BuildCnn(const tw::Scope& s) {
  Cnn c;
  c.images = tw::Placeholder(s, tw::kFloat, {-1, 24, 24, 3});
  c.labels = tw::Placeholder(s, tw::kInt32, {-1});
  auto net = Norm(s, Pool(s, Convolution(s, c.images, 0)));
  net = Pool(s, Norm(s, Convolution(s, net, 0.1)));
  net = Local(s, Local(s, tw::layers::Flatten(s, net), 384), 192);
  c.logits = tw::layers::Dense(s, net, tw::data::kCifar10Classes);
  c.accuracy = tw::Accuracy(s, c.logits, c.labels);
  return c;
}

inline tw::Output Loss(const tw::Scope& s, const Cnn& c) {
  auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, c.logits, c.labels));
  // L2 regularization of the two fully connected layers.
  for (const char* name : {"dense/kernel", "dense_1/kernel"}) {
    loss += tw::L2Loss(s, tw::GetVariable(s.graph(), name)) * 0.004f;
  }
  return loss;
}

// Divides the learning rate by 10 every 350 epochs of CIFAR-10.
inline tw::Output LearningRate(const tw::Scope& s, double first, tw::Output step, int batch_size) {
  return tw::ExponentialDecay(s, first, step,
                              {.decay_steps = 350 * 50000.0 / batch_size, .decay_rate = 0.1, .staircase = true});
}

inline absl::StatusOr<double> TestAccuracy(tw::Session& session, const Cnn& c, const std::string& folder) {
  ASSIGN_OR_RETURN(auto test, tw::data::Cifar10(folder, {.train = false, .batch_size = 100}));
  double correct = 0, count = 0;
  for (const tw::data::Tensors& batch : test) {
    ASSIGN_OR_RETURN(const auto out, session.Run({c.accuracy}, {{c.images, batch[0]}, {c.labels, batch[1]}}));
    correct += out[0].scalar<float>() * static_cast<double>(batch[1].dim(0));
    count += static_cast<double>(batch[1].dim(0));
  }
  RETURN_IF_ERROR(test.status());
  return correct / count;
}

}  // namespace cifar10
