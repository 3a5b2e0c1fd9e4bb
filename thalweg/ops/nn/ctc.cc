// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification (Graves et al. 2006). Inputs are
// logits [time, batch, classes]; the last class is "blank", of CTCLossV2 the
// first. CTCLoss: minus the log probability of the labels of each sequence,
// summed over all ways to spread them over time, and its gradient by the logits.
// CTCGreedyDecoder: the labels of the most likely class of each moment, without
// blanks.
#include "thalweg/ops/nn/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

absl::Status CheckSequences(const Tensor& inputs, const Tensor& lengths) {
  if (inputs.rank() != 3) return InvalidArgument("inputs is not a 3-Tensor");
  if (lengths.rank() != 1) return InvalidArgument("sequence_length is not a vector");
  if (inputs.dim(0) == 0) return InvalidArgument("Max time or first dimension of input cannot be 0.");
  if (inputs.dim(1) == 0) return InvalidArgument("batch_size must not be 0");
  if (inputs.dim(2) == 0) return InvalidArgument("there must be at least one class");
  if (lengths.dim(0) != inputs.dim(1)) {
    return InvalidArgument("len(sequence_length) != batch_size.  len(sequence_length):  ", lengths.dim(0),
                           " batch_size: ", inputs.dim(1));
  }
  for (int64_t b = 0; b < lengths.dim(0); ++b) {
    const int32_t length = lengths.data<int32_t>()[b];
    if (length < 0) return InvalidArgument("seq_len(", b, ") < 0");
    if (length > inputs.dim(0)) return FailedPrecondition("sequence_length(", b, ") <= ", inputs.dim(0));
  }
  return absl::OkStatus();
}

namespace {

// One sequence: `y` are the probabilities [time, classes], rows `stride` apart.
template <typename T>
struct Lattice {
  T* y;
  int64_t time, classes, stride;
  int blank;
  const std::vector<int>& states;  // blank, label, blank, label, ..., blank
  bool merge;

  T LogY(int64_t t, int64_t u) const { return std::log(y[t * stride + states[u]]); }
  // Whether the state before the one before u leads to u: no blank between
  // different labels is needed.
  bool Skips(int64_t u) const { return u >= 2 && states[u] != blank && !(merge && states[u] == states[u - 2]); }
  bool Stays(int64_t u) const { return merge || states[u] == blank; }
};

// The loss; y becomes the gradient. `memory` is for 2 * time * states elements.
template <typename T>
T Loss(const Lattice<T>& l, T* memory) {
  const int64_t n = static_cast<int64_t>(l.states.size());
  std::fill_n(memory, 2 * l.time * n, kLogZero<T>);
  T *const alpha = memory, *const beta = memory + l.time * n;
  for (int64_t u = 0; u < std::min<int64_t>(2, n); ++u) alpha[u] = l.LogY(0, u);
  for (int64_t t = 1; t < l.time; ++t) {
    for (int64_t u = 0; u < n; ++u) {
      const T* const before = &alpha[(t - 1) * n];
      T sum = l.Stays(u) ? before[u] : kLogZero<T>;
      if (u > 0) sum = LogSum(sum, before[u - 1]);
      if (l.Skips(u)) sum = LogSum(sum, before[u - 2]);
      alpha[t * n + u] = sum + l.LogY(t, u);
    }
  }
  for (int64_t u = std::max<int64_t>(0, n - 2); u < n; ++u) beta[(l.time - 1) * n + u] = 0;
  for (int64_t t = l.time - 2; t >= 0; --t) {
    for (int64_t u = 0; u < n; ++u) {
      const T* const after = &beta[(t + 1) * n];
      T sum = l.Stays(u) ? after[u] + l.LogY(t + 1, u) : kLogZero<T>;
      if (u + 1 < n) sum = LogSum(sum, after[u + 1] + l.LogY(t + 1, u + 1));
      if (u + 2 < n && l.Skips(u + 2)) sum = LogSum(sum, after[u + 2] + l.LogY(t + 1, u + 2));
      beta[t * n + u] = sum;
    }
  }
  T log_p = kLogZero<T>;
  for (int64_t u = 0; u < n; ++u) log_p = LogSum(log_p, alpha[u] + beta[u]);
  if (log_p == kLogZero<T>) return -log_p;  // no way at all
  std::vector<T> sums(l.classes);
  for (int64_t t = 0; t < l.time; ++t) {
    std::fill(sums.begin(), sums.end(), kLogZero<T>);
    for (int64_t u = 0; u < n; ++u) {
      sums[l.states[u]] = LogSum(sums[l.states[u]], alpha[t * n + u] + beta[t * n + u]);
    }
    for (int64_t c = 0; c < l.classes; ++c) l.y[t * l.stride + c] -= std::exp(sums[c] - log_p);
  }
  return -log_p;
}

class CtcLossKernel : public Kernel {
 public:
  explicit CtcLossKernel(bool blank_first) : blank_first_(blank_first) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(collapse_, init.Attr<bool>("preprocess_collapse_repeated"));
    ASSIGN_OR_RETURN(merge_, init.Attr<bool>("ctc_merge_repeated"));
    ASSIGN_OR_RETURN(ignore_, init.Attr<bool>("ignore_longer_outputs_than_inputs"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &inputs = context.input(0), &lengths = context.input(3);
    absl::Status status = CheckSequences(inputs, lengths);
    if (absl::IsFailedPrecondition(status)) status = InvalidArgument(status.message());  // TensorFlow's code here
    RETURN_IF_ERROR(status);
    const int64_t batch = inputs.dim(1), classes = inputs.dim(2);
    const int blank = blank_first_ ? 0 : static_cast<int>(classes) - 1;
    ASSIGN_OR_RETURN(const std::vector<std::vector<int>> labels, ReadLabels(context, batch));
    std::vector<std::vector<int>> states(batch);
    std::vector<int64_t> begins(batch, -1);  // by sequence: the offset of its memory; -1 for sequences without a loss
    int64_t elements = 0;
    for (int64_t b = 0; b < batch; ++b) {
      ASSIGN_OR_RETURN(states[b], StatesOf(labels[b], classes, blank, b));
      const int64_t time = lengths.data<int32_t>()[b], needed = static_cast<int64_t>(labels[b].size());
      if (!ignore_ && needed > time) {
        return InvalidArgument("Not enough time for target transition sequence (required: ", needed,
                               ", available: ", time, ")", b,
                               "You can turn this error into a warning by using the flag "
                               "ignore_longer_outputs_than_inputs");
      }
      if (time == 0 || needed > time) continue;
      begins[b] = elements;
      elements += 2 * time * static_cast<int64_t>(states[b].size());
    }
    // Time by labels: more than the inputs are.
    ASSIGN_OR_RETURN(Tensor memory, context.AllocateTemporary(inputs.dtype(), Shape({elements})));
    ASSIGN_OR_RETURN(Tensor * loss, context.Allocate(0, Shape({batch})));
    ASSIGN_OR_RETURN(Tensor * gradient, context.Allocate(1, inputs.shape()));
    ClearElements(loss);
    ClearElements(gradient);
    return Dispatch(Types<float, double>(), inputs.dtype(), [&]<typename T>() {
      context.ParallelFor(batch, 50.0 * static_cast<double>(inputs.dim(0) * classes), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          if (begins[b] < 0) continue;
          const int64_t time = lengths.data<int32_t>()[b], stride = batch * classes;
          T* const y = gradient->mutable_data<T>() + b * classes;
          for (int64_t t = 0; t < time; ++t) {
            Softmax(inputs.data<T>() + t * stride + b * classes, classes, y + t * stride);
          }
          loss->mutable_data<T>()[b] = Loss(Lattice<T>{y, time, classes, stride, blank, states[b], merge_},
                                            memory.mutable_data<T>() + begins[b]);
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  static void Softmax(const T* x, int64_t n, T* y) {
    const T most = *std::max_element(x, x + n);
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - most);
    for (int64_t i = 0; i < n; ++i) y[i] /= sum;
  }

  static absl::StatusOr<std::vector<std::vector<int>>> ReadLabels(KernelContext& context, int64_t batch) {
    const Tensor &indices = context.input(1), &values = context.input(2);
    if (indices.rank() != 2) return InvalidArgument("labels_indices is not a matrix");
    if (indices.dim(1) != 2) {
      return InvalidArgument("labels_indices second dimension must be 2. Received ", indices.dim(1));
    }
    if (values.rank() != 1) return InvalidArgument("labels_values is not a vector");
    if (values.dim(0) != indices.dim(0)) {
      return InvalidArgument("labels_indices and labels_values must contain the same number of rows, but saw shapes: ",
                             indices.shape(), " vs. ", values.shape());
    }
    const int64_t dims[] = {batch, std::numeric_limits<int64_t>::max()};
    RETURN_IF_ERROR(Prepend(CheckSparseIndices(indices.flat<int64_t>(), dims, SparseValue::kOrdered),
                            "label SparseTensor is not valid: "));
    std::vector<std::vector<int>> labels(batch);
    for (int64_t i = 0; i < values.dim(0); ++i) {
      labels[indices.data<int64_t>()[2 * i]].push_back(values.data<int32_t>()[i]);
    }
    return labels;
  }

  // The labels with blanks around. A blank at the end ends the labels; if it is
  // the last class, so does everything beyond.
  absl::StatusOr<std::vector<int>> StatesOf(const std::vector<int>& labels, int64_t classes, int blank,
                                            int64_t b) const {
    if (labels.empty() && !blank_first_) return InvalidArgument("Labels length is zero in batch ", b);
    std::vector<int> states{blank};
    bool finished = false;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (collapse_ && i > 0 && labels[i] == labels[i - 1]) continue;
      if (labels[i] == blank || (!blank_first_ && labels[i] > blank)) {
        finished = true;
        continue;
      }
      if (finished) {
        return blank_first_ ? InvalidArgument("Saw a label ", labels[i], " following a blank one (0), batch: ", b)
                            : InvalidArgument(
                                  "Saw a non-null label (index >= num_classes - 1) following a null label, batch: ", b,
                                  " num_classes: ", classes);
      }
      if (labels[i] < 0) return InvalidArgument("All labels must be nonnegative integers, batch: ", b);
      if (labels[i] >= classes) {
        return InvalidArgument("got label ", labels[i], " in batch ", b, ", expected one of ", classes, " classes");
      }
      states.insert(states.end(), {labels[i], blank});
    }
    return states;
  }

  const bool blank_first_;
  bool collapse_ = false;
  bool merge_ = true;
  bool ignore_ = false;
};

class CtcGreedyDecoderKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(merge_, init.Attr<bool>("merge_repeated"));
    ASSIGN_OR_RETURN(blank_, init.Attr<int64_t>("blank_index"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &inputs = context.input(0), &lengths = context.input(1);
    RETURN_IF_ERROR(CheckSequences(inputs, lengths));
    const int64_t batch = inputs.dim(1), classes = inputs.dim(2);
    const int64_t blank = blank_ < 0 ? blank_ + classes : blank_;
    if (blank < 0 || blank >= classes) {
      return InvalidArgument("blank_index expected to be between ", -classes, " and ", classes - 1, " but was ",
                             blank_);
    }
    ASSIGN_OR_RETURN(Tensor * scores, context.Allocate(3, Shape({batch, 1})));
    std::vector<int64_t> places, values;
    int64_t longest = 0;
    RETURN_IF_ERROR(Dispatch(Types<float, double>(), inputs.dtype(), [&]<typename T>() {
      for (int64_t b = 0; b < batch; ++b) {
        T score = 0;
        int64_t previous = -1, count = 0;
        for (int64_t t = 0; t < lengths.data<int32_t>()[b]; ++t) {
          const T* const x = inputs.data<T>() + (t * batch + b) * classes;
          const int64_t best = std::max_element(x, x + classes) - x;
          score -= x[best];
          if (best != blank && !(merge_ && best == previous)) {
            places.insert(places.end(), {b, count++});
            values.push_back(best);
          }
          previous = best;
        }
        longest = std::max(longest, count);
        scores->mutable_data<T>()[b] = score;
      }
      return absl::OkStatus();
    }));
    const int64_t count = static_cast<int64_t>(values.size());
    ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({count, 2})));
    ASSIGN_OR_RETURN(Tensor * decoded, context.Allocate(1, Shape({count})));
    ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(2, Shape({2})));
    std::copy(places.begin(), places.end(), indices->mutable_data<int64_t>());
    std::copy(values.begin(), values.end(), decoded->mutable_data<int64_t>());
    shape->mutable_data<int64_t>()[0] = batch;
    shape->mutable_data<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

 private:
  bool merge_ = false;
  int64_t blank_ = -1;
};

absl::Status LossShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape inputs, c.WithRank(0, 3));
  c.set_output(0, PartialShape({inputs.dim(1)}));
  c.set_output(1, inputs);
  return absl::OkStatus();
}
absl::Status DecoderShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape inputs, c.WithRank(0, 3));
  c.set_output(0, PartialShape({-1, 2}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, PartialShape({2}));
  c.set_output(3, PartialShape({inputs.dim(1), 1}));
  return absl::OkStatus();
}

// The op has computed it already.
absl::Status LossGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output axis = s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(-1)}});
  g.set_dx(0, Output(s.Add("Mul", {Output(s.Add("ExpandDims", {g.dy(0), axis})), g.output(1)})));
  return absl::OkStatus();
}

Op LossOp(absl::string_view name, bool blank_first) {
  const char* const type = blank_first ? "float" : "T";
  Op op(name);
  op.Input(absl::StrCat("inputs: ", type))
      .Input("labels_indices: int64")
      .Input("labels_values: int32")
      .Input("sequence_length: int32")
      .Output(absl::StrCat("loss: ", type))
      .Output(absl::StrCat("gradient: ", type))
      .Attr("preprocess_collapse_repeated: bool = false")
      .Attr("ctc_merge_repeated: bool = true")
      .Attr("ignore_longer_outputs_than_inputs: bool = false");
  if (!blank_first) op.Attr("T: {float, double} = DT_FLOAT");
  return op.Shape(LossShape).Kernel<CtcLossKernel>(blank_first).Gradient(LossGradient);
}

const OpRegistration kCtcOps[] = {
    LossOp("CTCLoss", false),
    LossOp("CTCLossV2", true),
    Op("CTCGreedyDecoder")
        .Input("inputs: T")
        .Input("sequence_length: int32")
        .Output("decoded_indices: int64")
        .Output("decoded_values: int64")
        .Output("decoded_shape: int64")
        .Output("log_probability: T")
        .Attr("merge_repeated: bool = false")
        .Attr("blank_index: int = -1")
        .Attr("T: {float, double} = DT_FLOAT")
        .Shape(DecoderShape)
        .Kernel<CtcGreedyDecoderKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
