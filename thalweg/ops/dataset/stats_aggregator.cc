// SPDX-License-Identifier: Apache-2.0
// Statistics of input pipelines, gathered while elements are made.
//
//   StatsAggregatorHandle() -> handle
//   SetStatsAggregator(x, handle, tag): the datasets in x count there, under names
//     that begin with the tag
//   LatencyStats(x, tag): the microseconds that every element of x took
//   BytesProducedStats(x, tag): the bytes of every element of x
//   StatsAggregatorSummary(handle) -> the numbers so far, as a Summary
#include "thalweg/ops/dataset/stats_aggregator.h"

#include "absl/time/clock.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

class StatsKernel final : public ResourceKernel<StatsAggregator> {
 private:
  absl::StatusOr<std::shared_ptr<StatsAggregator>> Make(const std::string&) override {
    return std::make_shared<StatsAggregator>();
  }
};

absl::Status ComputeSetStats(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::shared_ptr<StatsAggregator> stats, FindResource<StatsAggregator>(c, 1));
  ASSIGN_OR_RETURN(const std::string tag, StringArgument(c, 2, "tag"));
  RETURN_IF_ERROR(StringArgument(c, 3, "counter_prefix").status());
  return SetDataset(c, input->cardinality(), [input, stats, tag](Iteration& it) -> absl::StatusOr<Next> {
    const StatsSink outer = std::exchange(it.stats, StatsSink{stats, tag.empty() ? "" : absl::StrCat(tag, "_")});
    absl::StatusOr<Next> next = input->Iterate(it);
    it.stats = outer;
    return next;
  });
}

double BytesIn(const Element& element) {
  double bytes = 0;
  for (const Tensor& t : element) {
    if (t.dtype() == kString) {
      for (const std::string& s : t.flat<std::string>()) bytes += static_cast<double>(s.size());
    } else {
      bytes += static_cast<double>(t.num_elements()) * static_cast<double>(ElementSize(t.dtype()));
    }
  }
  return bytes;
}

// Records a statistic of every element, if there is an aggregator.
template <bool kLatency>
absl::Status ComputeCounted(KernelContext& c) {
  ASSIGN_OR_RETURN(const DatasetPtr input, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::string tag, StringArgument(c, 1, "tag"));
  return SetDataset(c, input->cardinality(), [input, tag](Iteration& start) -> absl::StatusOr<Next> {
    ASSIGN_OR_RETURN(Next next, input->Iterate(start));
    if (start.stats.aggregator == nullptr) return next;
    return [next = std::move(next), stats = start.stats.aggregator,
            name = absl::StrCat(start.stats.prefix, tag)](Iteration& it) mutable -> NextElement {
      const absl::Time begin = absl::Now();
      ASSIGN_OR_RETURN(std::optional<Element> element, next(it));
      if (element) stats->Add(name, kLatency ? absl::ToDoubleMicroseconds(absl::Now() - begin) : BytesIn(*element));
      return element;
    };
  });
}

absl::Status ComputeSummary(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::shared_ptr<StatsAggregator> stats, FindResource<StatsAggregator>(c, 0));
  tensorflow::Summary summary;
  stats->Fill(&summary);
  c.set_output(0, Tensor::Scalar(summary.SerializeAsString()));
  return absl::OkStatus();
}

Op Handle(absl::string_view name) {
  return SpecifiedOp(name, "", "handle: resource", "container: string = '', shared_name: string = ''")
      .Stateful()
      .Shape(shapes::Scalar)
      .Kernel<StatsKernel>();
}
Op SetStats(absl::string_view name) {
  return DatasetOp(name, "input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string",
                   "TYPES")
      .Stateful()
      .Compute(ComputeSetStats);
}
Op Counted(absl::string_view name, absl::Status (*compute)(KernelContext&)) {
  return DatasetOp(name, "input_dataset: variant, tag: string", "TYPES").Compute(compute);
}
Op Summary(absl::string_view name) {
  return SpecifiedOp(name, "iterator: resource", "summary: string", "")
      .Stateful()
      .Shape(shapes::Scalar)
      .Compute(ComputeSummary);
}

const OpRegistration kStatsAggregatorOps[] = {
    Handle("StatsAggregatorHandle"),
    Handle("ExperimentalStatsAggregatorHandle"),
    SetStats("SetStatsAggregatorDataset"),
    SetStats("ExperimentalSetStatsAggregatorDataset"),
    Counted("LatencyStatsDataset", ComputeCounted<true>),
    Counted("ExperimentalLatencyStatsDataset", ComputeCounted<true>),
    Counted("BytesProducedStatsDataset", ComputeCounted<false>),
    Counted("ExperimentalBytesProducedStatsDataset", ComputeCounted<false>),
    Summary("StatsAggregatorSummary"),
    Summary("ExperimentalStatsAggregatorSummary"),
};

}  // namespace
}  // namespace thalweg
