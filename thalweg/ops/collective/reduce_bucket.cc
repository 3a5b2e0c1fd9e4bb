// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <optional>
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective/reduce_kernel.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

// Where the elements of a bucket's inputs begin: at the next cache line each, so that outputs can be parts of the
// result.
int64_t PaddedElements(int64_t elements, DType wire) {
  const int64_t line = 64 / static_cast<int64_t>(ElementSize(wire));
  return (elements + line - 1) / line * line;
}

template <typename T>
void Compress(const float* from, T* to, int64_t n, float scale) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i] * scale);
}
template <typename T>
void Expand(const T* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

// All inputs are copied one after the other into the memory of one collective, converted to the wire type if that is
// another one. Without conversion, the outputs are parts of that memory.
class ReduceBucketKernel final : public ReduceKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    // ReduceKernel's would read attributes that this op does not have.
    RETURN_IF_ERROR(CollectiveKernel::Init(init));  // NOLINT(bugprone-parent-virtual-call)
    ASSIGN_OR_RETURN(const std::string merge, init.Attr<std::string>("merge_op"));
    ASSIGN_OR_RETURN(const std::string finish, init.Attr<std::string>("final_op"));
    ASSIGN_OR_RETURN(const DType dtype, init.Attr<DType>("T"));
    ASSIGN_OR_RETURN(wire_, init.Attr<DType>("Twire"));
    ASSIGN_OR_RETURN(const int64_t inputs, init.Attr<int64_t>("N"));
    inputs_ = static_cast<int>(inputs);
    if (wire_ == dtype) return InitReduction(init, dtype, merge, finish);
    if (dtype != kFloat || (wire_ != kHalf && wire_ != kBfloat16) || merge != "Add") {
      return InvalidArgument(init.node().op(), ": ", dtype, " cannot travel as ", wire_, " to be combined by ", merge,
                             "; only sums of float can, as half or bfloat16");
    }
    compresses_ = true;
    mean_ = finish == "Div";
    return InitReduction(init, wire_, merge, "Id");
  }

 protected:
  int first_key_input() const override { return inputs_; }
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    int64_t total = 0;
    for (int i = 0; i < inputs_; ++i) total += PaddedElements(c.input(i).num_elements(), wire_);
    SharedValues values;
    if (auto shared = collectives.AllocateShared(call->group_key, *call->device, wire_, Shape({total}))) {
      values = *std::move(shared);
    } else {
      ASSIGN_OR_RETURN(values.values, Tensor::Allocate(wire_, Shape({total})));
    }
    char* const first = static_cast<char*>(values.values.raw());
    std::vector<Tensor> outputs;
    const auto size = static_cast<int64_t>(ElementSize(wire_));
    int64_t at = 0;
    for (int i = 0; i < inputs_; ++i) {
      const Tensor input = c.input(i);
      const int64_t n = input.num_elements(), padded = PaddedElements(n, wire_);
      char* const to = first + at * size;
      if (compresses_) {
        CompressTo(input, to, call->group_size);
        ASSIGN_OR_RETURN(Tensor* const output, c.Allocate(i, input.shape()));
        outputs.push_back(*output);
      } else {
        CopyOrLeave(input, at, values, call);
        c.set_output(i, Tensor(wire_, input.shape(), values.values.buffer(), to));
      }
      std::memset(to + n * size, 0, (padded - n) * size);
      at += padded;
    }
    if (compresses_) {
      *finish = [wire = wire_, values = values.values, outputs = std::move(outputs)] {
        CopyOut(wire, values, outputs);
      };
    }
    call->values = std::move(values.values);
    SetReduction(call);
    return absl::OkStatus();
  }

 private:
  static void CopyOut(DType wire, const Tensor& values, const std::vector<Tensor>& outputs) {
    const char* from = static_cast<const char*>(values.raw());
    for (const Tensor& output : outputs) {
      const int64_t n = output.num_elements();
      auto* const to = static_cast<float*>(output.raw());
      if (wire == kHalf) {
        Expand(reinterpret_cast<const Half*>(from), to, n);
      } else {
        Expand(reinterpret_cast<const BFloat16*>(from), to, n);
      }
      from += PaddedElements(n, wire) * static_cast<int64_t>(ElementSize(wire));
    }
  }

  void CompressTo(const Tensor& input, char* to, int members) const {
    const int64_t n = input.num_elements();
    const float scale = mean_ ? 1.f / static_cast<float>(members) : 1.f;
    if (wire_ == kHalf) {
      Compress(input.data<float>(), reinterpret_cast<Half*>(to), n, scale);
    } else {
      Compress(input.data<float>(), reinterpret_cast<BFloat16*>(to), n, scale);
    }
  }

  int inputs_ = 0;
  DType wire_ = kInvalid;
  bool compresses_ = false;
  bool mean_ = false;
};

absl::Status BucketShapes(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t inputs, c.Attr<int64_t>("N"));
  for (int i = 0; i < inputs; ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

// In the second form, the keys are inputs.
Op ReduceBucket(absl::string_view name, Op& (*keys)(Op&)) {
  Op op = Collective(name).Input("inputs: N * T").Output("outputs: N * T").Attr("N: int >= 1");
  op.Attr(kReduceT).Attr("Twire: {bfloat16, float, half, double, int32, int64}");
  return Hints(MergeAttrs(keys(op))).Shape(BucketShapes).Kernel<ReduceBucketKernel>().NotDifferentiable();
}

const OpRegistration kReduceBucketOps[] = {ReduceBucket("ThalwegCollectiveReduceBucket", Keys),
                                           ReduceBucket("ThalwegCollectiveReduceBucketV2", KeyInputs)};

}  // namespace
}  // namespace collective

std::vector<Output> CollectiveReduceBucket(const Scope& s, const std::vector<Output>& inputs,
                                           const CollectiveOptions& options, const CollectiveReduceOptions& reduce,
                                           DType wire) {
  if (inputs.empty()) {
    s.Fail(InvalidArgument("CollectiveReduceBucket: there are no inputs"));
    return {};
  }
  if (wire == kInvalid) wire = RemoveRef(inputs[0].dtype());
  std::vector<AttrArg> attrs = collective::ReduceAttrsOf(reduce);
  attrs.emplace_back("Twire", wire);
  Node* node = nullptr;
  if (options.group) {
    node = s.Add("ThalwegCollectiveReduceBucketV2", collective::WithKeyInputs(s, {inputs}, options),
                 collective::KeyInputAttrsOf(options, std::move(attrs)));
  } else {
    node = s.Add("ThalwegCollectiveReduceBucket", {inputs}, collective::AttrsOf(options, std::move(attrs)));
  }
  std::vector<Output> outputs;
  for (int i = 0; node != nullptr && i < node->num_outputs(); ++i) outputs.emplace_back(node, i);
  return outputs;
}

}  // namespace thalweg
