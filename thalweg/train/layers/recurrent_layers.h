// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: cells, which compute one time step, and functions that run them over
// sequences. Variables have the names, shapes and gate order of TensorFlow 1's cells.
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

// Computes one time step. A cell creates its variables in the first call; every later call in
// the graph uses the same ones.
class RnnCell {
 public:
  // Tensors [batch, size], one for each of state_sizes().
  using State = std::vector<Output>;
  // The results of one time step.
  struct Step {
    Output output;  // [batch, output_size()]
    State state;    // the next state
  };

  virtual ~RnnCell() = default;
  virtual const std::vector<int64_t>& state_sizes() const = 0;  // sizes of the state's tensors
  virtual int64_t output_size() const = 0;                      // size of the output
  // Adds one time step for `input` [batch, depth].
  virtual Step Call(const Scope& s, Output input, const State& state) = 0;
};
// A cell, shared by the layers that use it.
using RnnCellPtr = std::shared_ptr<RnnCell>;

// The variant, initial kernel and name of an LSTM cell.
struct LstmOptions {
  double forget_bias = 1;                                   // added to the forget gate, so that cells remember at first
  bool use_peepholes = false;                               // connect the gates to the cell state
  std::optional<double> cell_clip;                          // limits the absolute value of the cell state
  Initializer initializer = initializers::GlorotUniform();  // initial kernel
  std::string name =
      "lstm_cell";  // prefix of the variables; "basic_lstm_cell" for checkpoints of tf.nn.rnn_cell.BasicLSTMCell
};
// An LSTM cell (Hochreiter and Schmidhuber 1997; peepholes: Sak et al. 2014). The state is
// {c, h}, the variables are `name/kernel` [depth + units, 4 * units], with the
// gates in the order input, candidate, forget, output, and `name/bias`; with
// peepholes also `name/w_f_diag`, `w_i_diag` and `w_o_diag`.
RnnCellPtr LstmCell(int64_t units, const LstmOptions& options = {});

// The initial kernels and the name of a GRU cell.
struct GruOptions {
  Initializer kernel_initializer = initializers::GlorotUniform();  // initial kernels
  std::string name = "gru_cell";                                   // prefix of the variables
};
// A GRU cell (Cho et al. 2014). The state is {h}, the variables are `name/gates/kernel`
// [depth + units, 2 * units] (reset, update), `name/candidate/kernel` [depth +
// units, units], and their biases.
RnnCellPtr GruCell(int64_t units, const GruOptions& options = {});

// How many inputs and outputs of a cell are dropped, and when.
struct DropoutCellOptions {
  double input_rate = 0;        // fraction of the input that is dropped
  double output_rate = 0;       // fraction of the output that is dropped
  Training training = true;     // drops only if true
  std::optional<int64_t> seed;  // without one, every run draws differently
};
// Adds dropout to the input and output of a cell, not to its state. Each time step has masks of
// its own, which depend on the seed.
RnnCellPtr DropoutCell(RnnCellPtr cell, const DropoutCellOptions& options);

// A stack of cells: the output of each is the input of the next. The state has the states of all
// cells, in order. Variables are in `multi_rnn_cell/cell_0/...`, `multi_rnn_cell/cell_1/...`.
RnnCellPtr MultiCell(std::vector<RnnCellPtr> cells);

// The initial state, the sequence lengths and the layout of an RNN's input.
struct RnnOptions {
  RnnCell::State initial_state;  // empty: zeros
  Output sequence_length;        // int [batch]: later outputs are zeros and the state stays; empty: all steps
  bool time_major = false;       // [time, batch, depth] instead of [batch, time, depth], here and in the outputs
  bool unroll = true;            // add a copy of the cell per time step, if their number is known
  std::string name = "rnn";      // name scope of the variables
};
// The outputs of all steps and the last state.
struct RnnResult {
  Output outputs;        // [batch, time, output_size]
  RnnCell::State state;  // the final state
};

// Runs a cell over the sequences `inputs` [batch, time, depth], as tf.nn.dynamic_rnn does. If the
// number of time steps is known and `unroll` is true, the cell's operations are added once per
// step. Otherwise a loop is added, which ends at the largest `sequence_length`.
RnnResult Rnn(const Scope& s, const RnnCellPtr& cell, Output inputs, const RnnOptions& options = {});

// The same variables and results as Rnn of LstmCell(units), as one operation over all time steps.
// It is faster, and the number of steps need not be known. For float. Gradients pass through
// clipped cells as if they were not clipped.
RnnResult LstmLayer(const Scope& s, Output inputs, int64_t units, const LstmOptions& cell = {},
                    const RnnOptions& options = {});
// A stack of LSTM layers with dropout: the variables, results and states of Rnn of a MultiCell
// with a DropoutCell of an LstmCell for each of `units`.
RnnResult LstmLayers(const Scope& s, Output inputs, const std::vector<int64_t>& units, const LstmOptions& cell = {},
                     const DropoutCellOptions& dropout = {}, const RnnOptions& options = {});

// A state of zeros for the batch size of `like` [batch, ...].
RnnCell::State ZeroState(const Scope& s, const RnnCell& cell, Output like);

}  // namespace thalweg::layers
