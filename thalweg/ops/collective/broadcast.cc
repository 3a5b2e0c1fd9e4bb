// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_kernel.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

class BcastSendKernel : public CollectiveKernel {
 public:
  BcastSendKernel() : CollectiveKernel(CollectiveKind::kBroadcast, true) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(CollectiveKernel::Init(init));
    const auto shape = init.Attr<PartialShape>("shape");
    if (shape.ok()) shape_ = *shape;
    return absl::OkStatus();
  }

 protected:
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    if (!shape_.Accepts(c.input(0).shape())) {
      return Internal("Declared shape of op ", c.node().name(),
                      ": Broadcast(1) does not match shape of input: ", shape_, " vs. ", c.input(0).shape());
    }
    call->values = c.input(0);
    c.set_output(0, call->values);
    return absl::OkStatus();
  }

 private:
  PartialShape shape_;
};

class BcastRecvKernel : public CollectiveKernel {
 public:
  BcastRecvKernel() : CollectiveKernel(CollectiveKind::kBroadcast) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(CollectiveKernel::Init(init));
    const auto shape = init.Attr<PartialShape>("shape");
    if (!shape.ok()) return absl::OkStatus();
    shape_ = shape->AsShape();
    if (!shape_.has_value()) return InvalidArgument("The shape to receive must be fully known, got ", *shape);
    return absl::OkStatus();
  }

 protected:
  int first_key_input() const override { return 0; }
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    std::optional<Shape> shape = shape_;
    if (!shape.has_value()) {
      const Tensor& sizes = c.input(3);
      if (sizes.rank() != 1) return InvalidArgument("shape must be a vector, got ", sizes.shape());
      Dims dims;
      for (int64_t i = 0; i < sizes.num_elements(); ++i) {
        dims.push_back(sizes.dtype() == kInt32 ? sizes.data<int32_t>()[i] : sizes.data<int64_t>()[i]);
      }
      ASSIGN_OR_RETURN(shape, Shape::Make(dims));
    }
    return AllocateResult(c, collectives, *shape, call);
  }

 private:
  std::optional<Shape> shape_;
};

absl::Status BcastRecvV2Shape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(3));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

constexpr char kBcastT[] = "T: {bool, float, half, double, int32, int64}";

Op BcastSend() {
  Op op = Collective("CollectiveBcastSend").Input("input: T").Output("data: T").Attr(kBcastT);
  return Hints(Keys(op).Attr("shape: shape")).Shape(shapes::FromShapeAttr).Kernel<BcastSendKernel>();
}

Op BcastRecv() {
  Op op = Collective("CollectiveBcastRecv").Output("data: T").Attr(kBcastT);
  return Hints(Keys(op).Attr("shape: shape")).Shape(shapes::FromShapeAttr).Kernel<BcastRecvKernel>();
}

Op BcastSendV2() {
  Op op = Collective("CollectiveBcastSendV2").Input("input: T").Output("data: T").Attr(kBcastT);
  return Hints(KeyInputs(op)).Shape(shapes::LikeInput0).Kernel<BcastSendKernel>();
}

Op BcastRecvV2() {
  Op op = Collective("CollectiveBcastRecvV2").Output("data: T").Attr(kBcastT);
  KeyInputs(op).Input("shape: Tshape").Attr("Tshape: {int32, int64} = DT_INT32");
  return Hints(op).Shape(BcastRecvV2Shape).Kernel<BcastRecvKernel>();
}

const OpRegistration kBroadcastOps[] = {BcastSend(), BcastRecv(), BcastSendV2(), BcastRecvV2()};

}  // namespace
}  // namespace collective

Output CollectiveBcastSend(const Scope& s, Output input, const Shape& shape, const CollectiveOptions& options) {
  return s.Add("CollectiveBcastSend", {input}, collective::AttrsOf(options, {{"shape", PartialShape(shape)}}));
}

Output CollectiveBcastRecv(const Scope& s, DType dtype, const Shape& shape, const CollectiveOptions& options) {
  return s.Add("CollectiveBcastRecv", {}, collective::AttrsOf(options, {{"T", dtype}, {"shape", PartialShape(shape)}}));
}

}  // namespace thalweg
