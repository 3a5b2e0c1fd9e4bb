// SPDX-License-Identifier: Apache-2.0
// Generator: elements that functions make of a state. init_func() -> state, then
// next_func(state) -> element until it fails with OUT_OF_RANGE, then
// finalize_func(state).
#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/kernel/script_functions.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/dataset_schema.h"

namespace thalweg {
namespace {

class Generator {
 public:
  Generator(CapturedFunction init, CapturedFunction next, CapturedFunction finalize)
      : init_(std::move(init)), next_(std::move(next)), finalize_(std::move(finalize)) {}

  // `counted`: the consumer tells how many elements it wants.
  absl::Status Prepare(IteratorContext& context, bool counted) {
    counted_ = counted && next_.function().is_script_call();
    RETURN_IF_ERROR(init_.Prepare(context));
    RETURN_IF_ERROR(next_.Prepare(context));
    return finalize_.Prepare(context);
  }

  NextElement Take(Iteration& it) {
    if (ended_) return std::nullopt;
    if (!state_) {
      ASSIGN_OR_RETURN(Element state, init_(it, {}));
      state_ = std::move(state);
    }
    ahead_->wanted = static_cast<uint32_t>(std::clamp<int64_t>(it.wanted, 1, kMostAhead));
    absl::StatusOr<Element> element = next_(it, *state_, counted_ ? ahead_ : nullptr);
    if (element.ok()) return *std::move(element);
    if (!absl::IsOutOfRange(element.status())) return element.status();
    ended_ = true;
    RETURN_IF_ERROR(finalize_(it, *state_).status());
    return std::nullopt;
  }

 private:
  static constexpr int64_t kMostAhead = 1024;

  CapturedFunction init_, next_, finalize_;
  std::optional<Element> state_;
  bool counted_ = false;
  // Elements that the consumer wants, made with an earlier one.
  std::shared_ptr<ScriptReadAhead> ahead_ = std::make_shared<ScriptReadAhead>();
  bool ended_ = false;
};

class GeneratorKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(init_.Read(init, "init_func", "Tinit_func_args"));
    RETURN_IF_ERROR(next_.Read(init, "next_func", "Tnext_func_args"));
    return finalize_.Read(init, "finalize_func", "Tfinalize_func_args");
  }
  absl::Status Compute(KernelContext& c) override {
    int input = 0;
    const CapturedFunction init = init_.Capture(c, &input);
    const CapturedFunction next = next_.Capture(c, &input);
    const CapturedFunction finalize = finalize_.Capture(c, &input);
    return SetDataset(c, DatasetValue::kUnknown, [init, next, finalize](Iteration& start) -> absl::StatusOr<Next> {
      Generator generator(init, next, finalize);
      RETURN_IF_ERROR(generator.Prepare(start.context, start.counted));
      return [generator = std::move(generator)](Iteration& it) mutable { return generator.Take(it); };
    });
  }

 private:
  FunctionAttr init_, next_, finalize_;
};

const OpRegistration kGenerator =
    DatasetOp("GeneratorDataset",
              "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, "
              "finalize_func_other_args: Tfinalize_func_args",
              "init_func: func, next_func: func, finalize_func: func, Tinit_func_args: list(type) >= 0, "
              "Tnext_func_args: list(type) >= 0, Tfinalize_func_args: list(type) >= 0, TYPES, METADATA")
        .Stateful()
        .Kernel<GeneratorKernel>();

}  // namespace
}  // namespace thalweg
