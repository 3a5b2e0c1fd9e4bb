// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/layers/recurrent_layers.h"

#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/while.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/train/layers/check_layer.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg::layers {
namespace {

Output ScalarOf(const Scope& s, double value, DType dtype) { return Hyperparameter(value).AsTensor(s, "Const", dtype); }

// The scope with that name, not made unique: the first call creates variables in it, and
// operations get unique names anyway.
Scope Within(const Scope& s, absl::string_view name) { return s.InScope(s.FullName(name)); }

// [x, h] * kernel + bias, with variables that are made by the first call.
class Gates {
 public:
  Gates(int64_t outputs, Initializer kernel, Initializer bias)
      : outputs_(outputs), kernel_initializer_(std::move(kernel)), bias_initializer_(std::move(bias)) {}

  Output Call(const Scope& s, Output x, Output h) {
    if (!s.ok()) return {};
    const PartialShape xs = x.shape(), hs = h.shape();
    if (xs.rank() != 2 || xs.dim(1) <= 0 || hs.rank() != 2 || hs.dim(1) <= 0) {
      s.Fail(InvalidArgument("RnnCell: input and state must be matrices of known width, got ", xs, " and ", hs));
      return {};
    }
    const int64_t width = xs.dim(1) + hs.dim(1);
    if (!kernel_) {
      const DType dtype = RemoveRef(x.dtype());
      kernel_ = MakeVariable(s, "kernel", {width, outputs_}, {.initializer = kernel_initializer_, .dtype = dtype});
      bias_ = MakeVariable(s, "bias", {outputs_}, {.initializer = bias_initializer_, .dtype = dtype});
    }
    if (s.ok() && kernel_.shape().dim(0) != width) {
      s.Fail(InvalidArgument("RnnCell: the kernel '", kernel_.name(), "' was made for inputs of width ",
                             kernel_.shape().dim(0) - hs.dim(1), ", got ", xs));
    }
    if (!s.ok()) return {};
    return BiasAdd(s, MatMul(s, Concat(s, {x, h}, 1), kernel_), bias_);
  }

 private:
  const int64_t outputs_;
  const Initializer kernel_initializer_;
  const Initializer bias_initializer_;
  Var kernel_;
  Var bias_;
};

// Returns false, with an error in the scope, if `state` does not fit the cell.
bool Fits(const Scope& s, const RnnCell& cell, const RnnCell::State& state) {
  const size_t expected = cell.state_sizes().size();
  if (state.size() != expected) {
    s.Fail(InvalidArgument("RnnCell: the state has ", state.size(), " tensors, expected ", expected));
  }
  return s.ok();
}

// A step without values, after an error.
RnnCell::Step NoStep(const RnnCell& cell) { return {Output(), RnnCell::State(cell.state_sizes().size())}; }

class Lstm : public RnnCell {
 public:
  Lstm(int64_t units, const LstmOptions& options)
      : units_(units),
        options_(options),
        sizes_{units, units},
        gates_(4 * units, options.initializer, initializers::Zeros()) {}

  const std::vector<int64_t>& state_sizes() const override { return sizes_; }
  int64_t output_size() const override { return units_; }

  Step Call(const Scope& scope, Output input, const State& state) override {
    if (!Fits(scope, *this, state)) return NoStep(*this);
    const Scope s = Within(scope, options_.name);
    const Output c = state[0];
    const Output all = gates_.Call(s, input, state[1]);
    if (!s.ok()) return NoStep(*this);
    const DType dtype = RemoveRef(input.dtype());
    if (options_.use_peepholes && !peephole_forget_) MakePeepholes(s, dtype);
    const std::vector<Output> parts = Split(s, all, 4, 1);
    const Output forget = Add(s, parts[2], ScalarOf(s, options_.forget_bias, dtype));
    Output new_c = Add(s, Mul(s, Sigmoid(s, Peep(s, forget, peephole_forget_, c)), c),
                       Mul(s, Sigmoid(s, Peep(s, parts[0], peephole_input_, c)), Tanh(s, parts[1])));
    if (options_.cell_clip) {
      new_c = ClipByValue(s, new_c, ScalarOf(s, -*options_.cell_clip, dtype), ScalarOf(s, *options_.cell_clip, dtype));
    }
    const Output h = Mul(s, Sigmoid(s, Peep(s, parts[3], peephole_output_, new_c)), Tanh(s, new_c));
    return {h, {new_c, h}};
  }

 private:
  void MakePeepholes(const Scope& s, DType dtype) {
    const VarOptions options{.initializer = options_.initializer, .dtype = dtype};
    peephole_forget_ = MakeVariable(s, "w_f_diag", {units_}, options);
    peephole_input_ = MakeVariable(s, "w_i_diag", {units_}, options);
    peephole_output_ = MakeVariable(s, "w_o_diag", {units_}, options);
  }
  Output Peep(const Scope& s, Output gate, const Var& weights, Output c) const {
    return options_.use_peepholes ? Add(s, gate, Mul(s, weights, c)) : gate;
  }

  const int64_t units_;
  const LstmOptions options_;
  const std::vector<int64_t> sizes_;
  Gates gates_;
  Var peephole_forget_, peephole_input_, peephole_output_;
};

class Gru : public RnnCell {
 public:
  Gru(int64_t units, const GruOptions& options)
      : options_(options),
        sizes_{units},
        gates_(2 * units, options.kernel_initializer, initializers::Ones()),  // do not reset, at the beginning
        candidate_(units, options.kernel_initializer, initializers::Zeros()) {}

  const std::vector<int64_t>& state_sizes() const override { return sizes_; }
  int64_t output_size() const override { return sizes_[0]; }

  Step Call(const Scope& scope, Output input, const State& state) override {
    if (!Fits(scope, *this, state)) return NoStep(*this);
    const Scope s = Within(scope, options_.name);
    const Output h = state[0];
    const Output gates = gates_.Call(Within(s, "gates"), input, h);
    if (!s.ok()) return NoStep(*this);
    const std::vector<Output> parts = Split(s, Sigmoid(s, gates), 2, 1);
    const Output reset = parts[0], update = parts[1];
    const Output candidate = Tanh(s, candidate_.Call(Within(s, "candidate"), input, Mul(s, reset, h)));
    const Output one = ScalarOf(s, 1, RemoveRef(input.dtype()));
    const Output next = Add(s, Mul(s, update, h), Mul(s, Sub(s, one, update), candidate));
    return {next, {next}};
  }

 private:
  const GruOptions options_;
  const std::vector<int64_t> sizes_;
  Gates gates_;
  Gates candidate_;
};

// Dropout with a new mask for every call, derived from the seed.
class Masks {
 public:
  explicit Masks(const DropoutCellOptions& options)
      : options_(options), seeds_(static_cast<uint64_t>(options.seed.value_or(0))) {}

  Output DropInput(const Scope& s, Output x) { return Drop(s, x, options_.input_rate); }
  Output DropOutput(const Scope& s, Output x) { return Drop(s, x, options_.output_rate); }

 private:
  Output Drop(const Scope& s, Output x, double rate) {
    std::optional<int64_t> seed;
    if (options_.seed) seed = static_cast<int64_t>(seeds_());
    return Dropout(s, x, {.rate = rate, .training = options_.training, .seed = seed});
  }

  const DropoutCellOptions options_;
  std::mt19937_64 seeds_;
};

class Dropping : public RnnCell {
 public:
  Dropping(RnnCellPtr cell, const DropoutCellOptions& options) : cell_(std::move(cell)), masks_(options) {}

  const std::vector<int64_t>& state_sizes() const override { return cell_->state_sizes(); }
  int64_t output_size() const override { return cell_->output_size(); }

  Step Call(const Scope& s, Output input, const State& state) override {
    input = masks_.DropInput(s, input);
    Step step = cell_->Call(s, input, state);
    step.output = masks_.DropOutput(s, step.output);
    return step;
  }

 private:
  const RnnCellPtr cell_;
  Masks masks_;
};

class Stacked : public RnnCell {
 public:
  explicit Stacked(std::vector<RnnCellPtr> cells) : cells_(std::move(cells)) {
    for (const RnnCellPtr& cell : cells_) {
      sizes_.insert(sizes_.end(), cell->state_sizes().begin(), cell->state_sizes().end());
    }
  }

  const std::vector<int64_t>& state_sizes() const override { return sizes_; }
  int64_t output_size() const override { return cells_.empty() ? 0 : cells_.back()->output_size(); }

  Step Call(const Scope& scope, Output input, const State& state) override {
    if (cells_.empty()) scope.Fail(InvalidArgument("MultiCell: there are no cells"));
    if (!Fits(scope, *this, state)) return NoStep(*this);
    const Scope s = Within(scope, "multi_rnn_cell");
    Step all{input, {}};
    auto begin = state.begin();
    for (size_t i = 0; i < cells_.size() && s.ok(); ++i) {
      const auto end = begin + static_cast<int64_t>(cells_[i]->state_sizes().size());
      Step one = cells_[i]->Call(Within(s, absl::StrCat("cell_", i)), all.output, State(begin, end));
      all.output = one.output;
      all.state.insert(all.state.end(), one.state.begin(), one.state.end());
      begin = end;
    }
    return s.ok() ? all : NoStep(*this);
  }

 private:
  const std::vector<RnnCellPtr> cells_;
  std::vector<int64_t> sizes_;
};

// A result without a value, after an error.
RnnResult Nothing(size_t states) { return {Output(), RnnCell::State(states)}; }

// A state of zeros for the batch that is dimension `axis` of `like`.
RnnCell::State Zeros(const Scope& s, const std::vector<int64_t>& sizes, Output like, int axis) {
  RnnCell::State state(sizes.size());
  if (!like) s.Fail(InvalidArgument("ZeroState: the tensor that it is for is missing"));
  if (!s.ok()) return state;
  const DType dtype = RemoveRef(like.dtype());
  const int64_t known = like.shape().rank() > axis ? like.shape().dim(axis) : -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[i];
    if (known >= 0) {
      state[i] = initializers::Zeros()(s, {known, size}, dtype);
      continue;
    }
    const Output batch = Slice(s, ShapeOf(s, like), Const(s, {axis}), Const(s, {1}));
    const Output dims = Concat(s, {batch, Const(s, {static_cast<int32_t>(size)})}, 0);
    state[i] = EnsureShape(s, Fill(s, dims, ScalarOf(s, 0, dtype)), {-1, size});
  }
  return state;
}

absl::Status CheckRnn(const RnnCellPtr& cell, const Output& inputs, const RnnOptions& options) {
  if (cell == nullptr) return InvalidArgument("the cell is missing");
  RETURN_IF_ERROR(CheckFloating(inputs));
  const PartialShape& shape = inputs.shape();
  if (shape.rank() != 3 || shape.dim(2) <= 0) {
    return InvalidArgument("inputs must be of rank 3 with a known depth, got ", shape);
  }
  for (const int64_t size : cell->state_sizes()) {
    if (size <= 0) return InvalidArgument("a cell of ", size, " units");
  }
  if (!options.initial_state.empty() && options.initial_state.size() != cell->state_sizes().size()) {
    return InvalidArgument("the initial state has ", options.initial_state.size(), " tensors, the cell has ",
                           cell->state_sizes().size());
  }
  for (size_t i = 0; i < options.initial_state.size(); ++i) {
    const PartialShape expected({shape.dim(options.time_major ? 1 : 0), cell->state_sizes()[i]});
    if (!options.initial_state[i]) return InvalidArgument("tensor ", i, " of the initial state is missing");
    if (PartialShape::Merge(options.initial_state[i].shape(), expected).ok()) continue;
    return InvalidArgument("tensor ", i, " of the initial state must be ", expected, ", got ",
                           options.initial_state[i].shape());
  }
  const Output& lengths = options.sequence_length;
  if (lengths &&
      (!IsInteger(RemoveRef(lengths.dtype())) || (lengths.shape().has_rank() && lengths.shape().rank() != 1))) {
    return InvalidArgument("sequence_length must be a vector of integers, got ", lengths.dtype(), lengths.shape());
  }
  return absl::OkStatus();
}

// Behind the end of a sequence, outputs are zeros and the state stays. `lengths`
// is [batch, 1].
void CopyThrough(const Scope& s, Output lengths, Output time, const RnnCell::State& before, RnnCell::Step* step) {
  if (!lengths || !s.ok()) return;
  const Output live = Greater(s, lengths, time);
  step->output = Select(s, live, step->output, ZerosLike(s, step->output));
  for (size_t i = 0; i < before.size(); ++i) step->state[i] = Select(s, live, step->state[i], before[i]);
}

RnnResult RunCopies(const Scope& s, RnnCell& cell, Output inputs, int steps, const RnnOptions& options) {
  const int time_axis = options.time_major ? 0 : 1;
  const std::vector<Output> slices = Unpack(s, inputs, steps, time_axis);
  if (!s.ok()) return {};
  RnnResult result{{}, options.initial_state};
  if (result.state.empty()) result.state = ZeroState(s, cell, slices[0]);
  std::vector<Output> outputs;
  Output lengths;
  if (options.sequence_length) lengths = ExpandDims(s, Cast(s, options.sequence_length, kInt32), 1);
  for (int t = 0; t < steps && s.ok(); ++t) {
    RnnCell::Step step = cell.Call(s, slices[t], result.state);
    CopyThrough(s, lengths, lengths ? Const(s, int32_t{t}) : Output(), result.state, &step);
    outputs.push_back(step.output);
    result.state = std::move(step.state);
  }
  if (!s.ok()) return {};
  result.outputs = Pack(s, outputs, time_axis);
  return result;
}

// A dimension of x that is known when the graph runs.
Output SizeOf(const Scope& s, Output x, int axis) {
  return StridedSlice(s, ShapeOf(s, x), Const(s, {axis}), Const(s, {axis + 1}), Const(s, {1}), {.shrink_axis_mask = 1});
}

// Each iteration takes its input from the end of a list, and puts its output to
// the end of another: lists are values, through which gradients go.
RnnResult RunLoop(const Scope& s, RnnCell& cell, Output inputs, const RnnOptions& options) {
  const Output x = options.time_major ? inputs : Transpose(s, inputs, {1, 0, 2});
  if (!s.ok()) return {};
  const DType dtype = RemoveRef(x.dtype());
  const int64_t batch = x.shape().dim(1), depth = x.shape().dim(2);
  const Output time = SizeOf(s, x, 0);
  Output steps = time, lengths;
  if (options.sequence_length) {
    lengths = Cast(s, options.sequence_length, kInt32);
    steps = Minimum(s, time, Maximum(s, ReduceMax(s, lengths, {0}), Const(s, 0)));
    lengths = ExpandDims(s, lengths, 1);
  }
  const Output any = Const(s, -1);  // size or shape
  std::vector<Output> values = {Const(s, 0), s.Add("TensorListFromTensor", {Reverse(s, x, Const(s, {0})), any}),
                                s.Add("EmptyTensorList", {any, any}, {{"element_dtype", dtype}})};
  std::vector<PartialShape> shapes(3, Shape());
  const RnnCell::State initial =
      options.initial_state.empty() ? Zeros(s, cell.state_sizes(), x, 1) : options.initial_state;
  values.insert(values.end(), initial.begin(), initial.end());
  for (const int64_t size : cell.state_sizes()) shapes.push_back(PartialShape({batch, size}));

  const std::vector<Output> ends = While(
      s, values, [&](const Scope& in, const std::vector<Output>& v) { return Less(in, v[0], steps); },
      [&](const Scope& body, const std::vector<Output>& v) -> std::vector<Output> {
        // Give the cell's variables the names that they have without a loop.
        const Scope in = body.InScope(absl::StripSuffix(s.FullName(""), "/"));
        Node* const pop = in.Add("TensorListPopBack", {v[1], any}, {{"element_dtype", dtype}});
        if (pop == nullptr) return {};
        const RnnCell::State state(v.begin() + 3, v.end());
        RnnCell::Step step = cell.Call(in, EnsureShape(in, pop->out(1), {batch, depth}), state);
        CopyThrough(in, lengths, v[0], state, &step);
        std::vector<Output> next = {Add(in, v[0], Const(in, 1)), pop->out(0),
                                    in.Add("TensorListPushBack", {v[2], step.output})};
        next.insert(next.end(), step.state.begin(), step.state.end());
        return next;
      },
      {.shapes = shapes});
  const Output row = Pack(s, {SizeOf(s, x, 1), Const(s, static_cast<int32_t>(cell.output_size()))});
  Output y = s.Add("TensorListStack", {ends[2], row}, {{"element_dtype", dtype}});
  if (lengths) {
    const Output behind = Pack(s, {Const(s, 0), Sub(s, time, steps)});
    y = Pad(s, y, Pack(s, {behind, Const(s, {0, 0}), Const(s, {0, 0})}));
  }
  y = EnsureShape(s, y, {x.shape().dim(0), batch, cell.output_size()});
  if (!options.time_major) y = Transpose(s, y, {1, 0, 2});
  if (!s.ok()) return {};
  return {y, RnnCell::State(ends.begin() + 3, ends.end())};
}

}  // namespace

RnnCellPtr LstmCell(int64_t units, const LstmOptions& options) { return std::make_shared<Lstm>(units, options); }
RnnCellPtr GruCell(int64_t units, const GruOptions& options) { return std::make_shared<Gru>(units, options); }
RnnCellPtr DropoutCell(RnnCellPtr cell, const DropoutCellOptions& options) {
  return std::make_shared<Dropping>(std::move(cell), options);
}
RnnCellPtr MultiCell(std::vector<RnnCellPtr> cells) { return std::make_shared<Stacked>(std::move(cells)); }

RnnCell::State ZeroState(const Scope& s, const RnnCell& cell, Output like) {
  return Zeros(s, cell.state_sizes(), like, 0);
}

RnnResult Rnn(const Scope& scope, const RnnCellPtr& cell, Output inputs, const RnnOptions& options) {
  RnnResult nothing = Nothing(cell == nullptr ? 0 : cell->state_sizes().size());
  if (!CheckLayer(scope, "Rnn", options.name, inputs, [&] { return CheckRnn(cell, inputs, options); })) return nothing;
  const Scope s = scope.SubScope(options.name);
  const int64_t steps = inputs.shape().dim(options.time_major ? 0 : 1);
  const bool loop = !options.unroll || steps <= 0;
  RnnResult result =
      loop ? RunLoop(s, *cell, inputs, options) : RunCopies(s, *cell, inputs, static_cast<int>(steps), options);
  return s.ok() ? result : nothing;
}

namespace {

// Selects from states [time, batch, units] the last one of each sequence, or `initial` for
// sequences of length 0.
Output AtTheEnd(const Scope& s, Output states, Output initial, Output lengths) {
  const auto last = [&](Output x) {
    return StridedSlice(s, x, Const(s, {-1}), Const(s, {0}), Const(s, {1}), {.end_mask = 1, .shrink_axis_mask = 1});
  };
  if (!lengths && states.shape().dim(0) > 0) return last(states);
  const Output all = Concat(s, {ExpandDims(s, initial, 0), states}, 0);
  if (!lengths) return last(all);
  const Output rows =
      Range(s, Const(s, 0), Reshape(s, Size(s, lengths), Const(s, std::vector<int32_t>())), Const(s, 1));
  return GatherNd(s, all, Pack(s, {lengths, rows}, 1));
}

absl::Status CheckLstmLayers(const Output& inputs, const std::vector<int64_t>& units, const RnnOptions& options) {
  if (units.empty()) return InvalidArgument("there are no layers");
  RETURN_IF_ERROR(CheckFloating(inputs));
  for (const int64_t n : units) {
    if (n <= 0) return InvalidArgument("units must be positive, got ", n);
  }
  if (inputs.shape().rank() != 3 || inputs.shape().dim(2) <= 0) {
    return InvalidArgument("inputs must be of rank 3 with a known depth, got ", inputs.shape());
  }
  if (!options.initial_state.empty() && options.initial_state.size() != 2 * units.size()) {
    return InvalidArgument("the initial state has ", options.initial_state.size(), " tensors, not ", 2 * units.size());
  }
  return absl::OkStatus();
}

// One layer over x [time, batch, depth], with its variables in `s`.
RnnResult RunLstm(const Scope& s, Output x, int64_t units, const LstmOptions& cell, const RnnOptions& options) {
  if (!s.ok()) return {};
  const Scope own = Within(s, cell.name);
  const DType dtype = RemoveRef(x.dtype());
  const Var kernel = MakeVariable(own, "kernel", {x.shape().dim(2) + units, 4 * units},
                                  {.initializer = cell.initializer, .dtype = dtype});
  const Var bias = MakeVariable(own, "bias", {4 * units}, {.initializer = initializers::Zeros(), .dtype = dtype});
  std::vector<Output> peepholes;  // forget, input, output
  for (const char* name : {"w_f_diag", "w_i_diag", "w_o_diag"}) {
    const VarOptions variable{.initializer = cell.initializer, .dtype = dtype};
    peepholes.push_back(cell.use_peepholes ? Output(MakeVariable(own, name, {units}, variable))
                                           : initializers::Zeros()(own, {units}, dtype));
  }
  RnnCell::State initial = options.initial_state;
  if (initial.empty()) initial = Zeros(s, {units, units}, x, 1);
  Output lengths, mask;
  Output steps = Slice(s, ShapeOf(s, x, kInt64), Const(s, {0}), Const(s, {1}));
  if (options.sequence_length) {
    const Output end = Reshape(s, Cast(s, steps, kInt32), Const(s, std::vector<int32_t>()));
    lengths = Minimum(s, Maximum(s, Cast(s, options.sequence_length, kInt32), Const(s, 0)), end);
    const Output time = Range(s, Const(s, 0), end, Const(s, 1));
    const Output live = Less(s, ExpandDims(s, time, 1), ExpandDims(s, lengths, 0));  // [time, batch]
    mask = ExpandDims(s, Cast(s, live, dtype), 2);
    steps = Cast(s, ReduceMax(s, lengths, {0}), kInt64);
  }
  steps = Reshape(s, steps, Const(s, std::vector<int32_t>()));
  Node* const lstm = own.Add(
      "BlockLSTM", {steps, x, initial[0], initial[1], kernel.read, peepholes[1], peepholes[0], peepholes[2], bias.read},
      {{"forget_bias", static_cast<float>(cell.forget_bias)},
       {"cell_clip", static_cast<float>(cell.cell_clip.value_or(-1))},
       {"use_peephole", cell.use_peepholes}});
  if (lstm == nullptr) return {};
  const Output c = lstm->out(1), h = lstm->out(6);
  RnnResult result{mask ? Mul(s, h, mask) : h, {}};
  result.state = {AtTheEnd(s, c, initial[0], lengths), AtTheEnd(s, h, initial[1], lengths)};
  return result;
}

// Calls `run` for inputs with the time in front.
template <typename F>
RnnResult TimeMajor(const Scope& s, Output inputs, const RnnOptions& options, F run) {
  RnnResult result = run(options.time_major ? inputs : Transpose(s, inputs, {1, 0, 2}));
  if (s.ok() && !options.time_major) result.outputs = Transpose(s, result.outputs, {1, 0, 2});
  return result;
}

}  // namespace

RnnResult LstmLayer(const Scope& scope, Output inputs, int64_t units, const LstmOptions& cell,
                    const RnnOptions& options) {
  RnnResult nothing = Nothing(2);
  const auto check = [&] { return CheckLstmLayers(inputs, {units}, options); };
  if (!CheckLayer(scope, "LstmLayer", options.name, inputs, check)) return nothing;
  const Scope s = scope.SubScope(options.name);
  RnnResult result = TimeMajor(s, inputs, options, [&](Output x) { return RunLstm(s, x, units, cell, options); });
  return s.ok() ? result : nothing;
}

RnnResult LstmLayers(const Scope& scope, Output inputs, const std::vector<int64_t>& units, const LstmOptions& cell,
                     const DropoutCellOptions& dropout, const RnnOptions& options) {
  RnnResult nothing = Nothing(2 * units.size());
  const auto check = [&] { return CheckLstmLayers(inputs, units, options); };
  if (!CheckLayer(scope, "LstmLayers", options.name, inputs, check)) return nothing;
  const Scope s = Within(scope.SubScope(options.name), "multi_rnn_cell");
  RnnResult result = TimeMajor(s, inputs, options, [&](Output x) {
    RnnResult all{x, {}};
    RnnOptions own = options;
    Masks masks(dropout);
    for (size_t i = 0; i < units.size() && s.ok(); ++i) {
      const auto state = options.initial_state.begin() + 2 * static_cast<int64_t>(i);
      if (!options.initial_state.empty()) own.initial_state.assign(state, state + 2);
      x = masks.DropInput(s, all.outputs);
      const RnnResult layer = RunLstm(Within(s, absl::StrCat("cell_", i)), x, units[i], cell, own);
      all.outputs = masks.DropOutput(s, layer.outputs);
      all.state.insert(all.state.end(), layer.state.begin(), layer.state.end());
    }
    return all;
  });
  return s.ok() ? result : nothing;
}

}  // namespace thalweg::layers
