// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: cells, which make one step, and what runs them over
// sequences. Variables have the names, shapes and order of gates of TensorFlow
// 1's cells.
//
//   const auto cell = MultiCell({LstmCell(200), LstmCell(200)});
//   const RnnResult r = Rnn(s, cell, inputs);            // inputs [batch, time, depth]
//   Dense(s, r.outputs, 10000)                           // [batch, time, 200]
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thalweg/train/layers/layers.h"

namespace thalweg::layers {

// A cell keeps its variables from the first call on: every later call, of any
// Rnn of the graph, uses the same ones.
class RnnCell {
 public:
  // Tensors [batch, size], one for each of state_sizes().
  using State = std::vector<Output>;
  // The results of one time step.
  struct Step {
    Output output;
    State state;
  };

  virtual ~RnnCell() = default;
  virtual const std::vector<int64_t>& state_sizes() const = 0;
  virtual int64_t output_size() const = 0;
  // One step for `input` [batch, depth].
  virtual Step Call(const Scope& s, Output input, const State& state) = 0;
};
// A cell, shared by the layers that use it.
using RnnCellPtr = std::shared_ptr<RnnCell>;

struct LstmOptions {
  double forget_bias = 1;  // added to the forget gate: remember, at the beginning
  bool use_peepholes = false;
  std::optional<double> cell_clip;
  Initializer initializer = initializers::GlorotUniform();
  std::string name = "lstm_cell";  // "basic_lstm_cell" for what tf.nn.rnn_cell.BasicLSTMCell saved
};
// Hochreiter and Schmidhuber 1997; peepholes as Sak et al. 2014. The state is
// {c, h}, the variables are `name/kernel` [depth + units, 4 * units], with the
// gates in the order input, candidate, forget, output, and `name/bias`; with
// peepholes also `name/w_f_diag`, `w_i_diag` and `w_o_diag`.
RnnCellPtr LstmCell(int64_t units, const LstmOptions& options = {});

struct GruOptions {
  Initializer kernel_initializer = initializers::GlorotUniform();
  std::string name = "gru_cell";
};
// Cho et al. 2014. The state is {h}, the variables are `name/gates/kernel`
// [depth + units, 2 * units] (reset, update), `name/candidate/kernel` [depth +
// units, units], and their biases.
RnnCellPtr GruCell(int64_t units, const GruOptions& options = {});

struct DropoutCellOptions {
  double input_rate = 0;  // what part is dropped
  double output_rate = 0;
  Training training = true;
  std::optional<int64_t> seed;  // without one, every run draws differently
};
// A cell with dropout before and behind it; states pass whole. Each time step
// has masks of its own, which follow from the seed.
RnnCellPtr DropoutCell(RnnCellPtr cell, const DropoutCellOptions& options);

// The output of each cell is the input of the next; all their states, in order.
// Variables are in `multi_rnn_cell/cell_0/...`, `multi_rnn_cell/cell_1/...`.
RnnCellPtr MultiCell(std::vector<RnnCellPtr> cells);

struct RnnOptions {
  RnnCell::State initial_state;  // zeros, if empty
  Output sequence_length;        // int [batch]: behind it outputs are zeros and the state stays; all, if not given
  bool time_major = false;       // [time, batch, depth] instead of [batch, time, depth], here and in the outputs
  bool unroll = true;            // a copy of the cell for each time step, if their number is known
  std::string name = "rnn";
};
struct RnnResult {
  Output outputs;  // [batch, time, output_size]
  RnnCell::State state;
};

// Runs a cell over the sequences of `inputs`, as tf.nn.dynamic_rnn does. If the
// number of time steps is known, there is a copy of the cell's operations for
// each; else, or with `unroll` off, there is a loop, which ends with the longest
// of `sequence_length`.
RnnResult Rnn(const Scope& s, const RnnCellPtr& cell, Output inputs, const RnnOptions& options = {});

// Rnn of LstmCell(units), with the same variables and results, as one operation
// over all time steps: faster, and their number need not be known. For float.
// Clipped cells pass gradients on as if they were not.
RnnResult LstmLayer(const Scope& s, Output inputs, int64_t units, const LstmOptions& cell = {},
                    const RnnOptions& options = {});
// Several of them, as Rnn of MultiCell of a DropoutCell of LstmCell for each of
// `units`: with their variables, results and states.
RnnResult LstmLayers(const Scope& s, Output inputs, const std::vector<int64_t>& units, const LstmOptions& cell = {},
                     const DropoutCellOptions& dropout = {}, const RnnOptions& options = {});

// Zeros for `like`'s batch: like is [batch, ...].
RnnCell::State ZeroState(const Scope& s, const RnnCell& cell, Output like);

}  // namespace thalweg::layers
