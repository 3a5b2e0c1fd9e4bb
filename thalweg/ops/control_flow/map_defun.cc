// SPDX-License-Identifier: Apache-2.0
// MapDefun: f(x[i], y[i], ..., captured) for every row i of its arguments, with
// the results as rows of the outputs.
#include <memory>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/dataset/dataset_function.h"
#include "thalweg/ops/dataset/iterator_context.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

// The rows of an argument.
Tensor RowOf(const Tensor& t, int64_t i) {
  Shape shape = t.shape();
  shape.RemoveDim(0);
  return t.Rows(i, i + 1).WithShape(std::move(shape));
}

class MapDefunKernel final : public AsyncKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(function_, CarriedFunction::Read(init.node().def(), "f"));
    ASSIGN_OR_RETURN(const std::vector<DType> arguments, init.Attr<std::vector<DType>>("Targuments"));
    arguments_ = static_cast<int>(arguments.size());
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("output_types"));
    ASSIGN_OR_RETURN(shapes_, init.Attr<std::vector<PartialShape>>("output_shapes"));
    if (types_.size() != shapes_.size()) {
      return InvalidArgument("got ", types_.size(), " output_types and ", shapes_.size(), " output_shapes");
    }
    return absl::OkStatus();
  }

  void ComputeAsync(KernelContext& c, Done done) override {
    std::vector<Tensor> inputs;
    for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
    Run* const run = Prepare(c);
    // The function may wait: that must not hold up the threads of steps.
    run->thread.Schedule(
        [this, run, &c, inputs = std::move(inputs), done = std::move(done)]() mutable { done(Map(*run, c, inputs)); });
  }

 private:
  struct Run {
    Run(Device& device, ThreadPool* pool) : context(device, pool), thread(pool) {}
    IteratorContext context;
    SerialThread thread;  // ends before the context does
  };

  Run* Prepare(KernelContext& c) {
    MutexLock lock(&mutex_);
    if (run_ == nullptr) run_ = std::make_unique<Run>(c.device(), c.step().pool);
    return run_.get();
  }

  absl::Status Map(Run& run, KernelContext& c, const std::vector<Tensor>& inputs) const {
    int64_t rows = -1;
    for (int i = 0; i < arguments_; ++i) {
      if (inputs[i].rank() == 0) {
        return InvalidArgument("All inputs must have rank at least 1. Input ", i, " has a rank of 0.");
      }
      if (rows >= 0 && inputs[i].dim(0) != rows) {
        return InvalidArgument("All inputs must have the same dimension 0. Input ", i, " has leading dimension ",
                               inputs[i].dim(0), ", while all previous inputs have leading dimension ", rows);
      }
      rows = inputs[i].dim(0);
    }
    ASSIGN_OR_RETURN(const std::shared_ptr<CompiledFunction> function, run.context.Compile(function_));
    std::vector<std::vector<Tensor>> results;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<Tensor> args;
      for (size_t i = 0; i < inputs.size(); ++i) {
        args.push_back(static_cast<int>(i) < arguments_ ? RowOf(inputs[i], row) : inputs[i]);
      }
      ASSIGN_OR_RETURN(results.emplace_back(), run.context.Call(*function, args, *c.step().cancellation));
      RETURN_IF_ERROR(CheckResults(results.back(), results.front()));
    }
    return SetOutputs(c, results);
  }

  // The results of all calls must fit into one tensor.
  absl::Status CheckResults(const std::vector<Tensor>& row, const std::vector<Tensor>& first) const {
    if (row.size() != types_.size()) {
      return InvalidArgument("the function gave ", row.size(), " results, expected ", types_.size());
    }
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].dtype() != types_[i])
        return InvalidArgument("result ", i, " is of type ", row[i].dtype(), ", expected ", types_[i]);
      if (!shapes_[i].Accepts(row[i].shape()) || !(row[i].shape() == first[i].shape())) {
        return InvalidArgument("MapDefun: result ", i, " has shape ", row[i].shape(), ", expected ", shapes_[i],
                               " and that of the first row, ", first[i].shape());
      }
    }
    return absl::OkStatus();
  }

  absl::Status SetOutputs(KernelContext& c, const std::vector<std::vector<Tensor>>& results) const {
    std::vector<PartialShape> shapes = shapes_;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (!results.empty()) shapes[i] = results.front()[i].shape();
      if (!shapes[i].fully_known()) {
        return InvalidArgument("MapDefun of no rows: the shape of output ", i, " is not known: ", shapes[i]);
      }
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> outputs, BatchTuples(results, types_, shapes));
    for (size_t i = 0; i < outputs.size(); ++i) c.set_output(static_cast<int>(i), std::move(outputs[i]));
    return absl::OkStatus();
  }

  std::shared_ptr<const CarriedFunction> function_;
  int arguments_ = 0;
  std::vector<DType> types_;
  std::vector<PartialShape> shapes_;
  Mutex mutex_;
  std::unique_ptr<Run> run_ ABSL_GUARDED_BY(mutex_);
};

absl::Status MapDefunShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  const int64_t rows = c.input(0).has_rank() && c.input(0).rank() > 0 ? c.input(0).dim(0) : PartialShape::kUnknown;
  for (size_t i = 0; i < shapes.size() && static_cast<int>(i) < c.num_outputs(); ++i) {
    if (!shapes[i].has_rank()) continue;
    Dims dims(shapes[i].dims().begin(), shapes[i].dims().end());
    dims.insert(dims.begin(), rows);
    c.set_output(static_cast<int>(i), PartialShape(std::move(dims)));
  }
  return absl::OkStatus();
}

const OpRegistration kMapDefun = Op("MapDefun")
                                     .Input("arguments: Targuments")
                                     .Input("captured_inputs: Tcaptured")
                                     .Output("output: output_types")
                                     .Attr("Targuments: list(type) >= 1")
                                     .Attr("Tcaptured: list(type) >= 0 = []")
                                     .Attr("output_types: list(type) >= 1")
                                     .Attr("output_shapes: list(shape) >= 1")
                                     .Attr("f: func")
                                     .Attr("max_intra_op_parallelism: int = 1")
                                     .Shape(MapDefunShape)
                                     .Kernel<MapDefunKernel>()
                                     .NotDifferentiable();

}  // namespace
}  // namespace thalweg
