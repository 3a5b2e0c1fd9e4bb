// SPDX-License-Identifier: Apache-2.0
// K-means: KmeansPlusPlusInitialization and KMC2ChainInitialization choose the
// first centers, NearestNeighbors finds the centers that points belong to. With
// the same seeds they give TensorFlow's choices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/support/gemm.h"
#include "thalweg/ops/support/pool_vector.h"
#include "thalweg/ops/support/uniform_below.h"

namespace thalweg {
namespace {

absl::Status RequireMatrix(const Tensor& t, absl::string_view name) {
  if (t.rank() == 2) return absl::OkStatus();
  return InvalidArgument("Input ", name, " should be a matrix, got shape ", t.shape());
}
absl::Status RequireScalar(const Tensor& t, absl::string_view name) {
  if (t.rank() == 0) return absl::OkStatus();
  return InvalidArgument("Input ", name, " should be a scalar, got shape ", t.shape());
}

// Half the squared length of every row of a matrix.
PoolVector<float> HalfSquares(const Tensor& matrix) {
  const int64_t width = matrix.dim(1);
  PoolVector<float> squares(matrix.dim(0));
  for (int64_t i = 0; i < matrix.dim(0); ++i) {
    const float* const row = matrix.data<float>() + i * width;
    squares[i] = 0.5f * std::inner_product(row, row + width, row, 0.0f);
  }
  return squares;
}

// Chooses rows of a matrix one after the other: the first evenly, then each with
// a probability in proportion to its squared distance from the nearest that was
// chosen before (Arthur and Vassilvitskii, "k-means++", 2007). With retries the
// best of several candidates is taken.
class PlusPlusSampler {
 public:
  PlusPlusSampler(const Tensor& points, int64_t seed)
      : points_(points),
        half_squares_(HalfSquares(points)),
        distances_(points.dim(0), std::numeric_limits<float>::infinity()),
        sums_(points.dim(0)),
        random_(Philox(static_cast<uint64_t>(seed))) {}

  // The next row. CANCELLED if the step is.
  absl::StatusOr<int64_t> Next(int64_t retries, Cancellation* cancellation) {
    if (!chosen_.empty()) std::partial_sum(distances_.begin(), distances_.end(), sums_.begin());
    PoolVector<float> best_distances;
    float best_potential = std::numeric_limits<float>::infinity();
    int64_t best = 0;
    for (int64_t i = 0; i <= retries; ++i) {
      if (cancellation != nullptr && cancellation->cancelled()) return cancellation->status();
      const int64_t candidate = Draw();
      PoolVector<float> distances = With(candidate);
      const float potential = std::accumulate(distances.begin(), distances.end(), 0.0f);
      if (i > 0 && !(potential < best_potential)) continue;
      best_potential = potential;
      best = candidate;
      best_distances = std::move(distances);
    }
    distances_ = std::move(best_distances);
    chosen_.insert(best);
    return best;
  }

 private:
  // A row that was not chosen yet. There is one.
  int64_t Draw() {
    const int64_t rows = points_.dim(0);
    if (chosen_.empty()) return UniformBelow(rows, random_);
    while (true) {
      const float total = sums_.back();
      int64_t row = 0;
      if (total > 0) {
        row = std::upper_bound(sums_.begin(), sums_.end(), UniformFloat(random_) * total) - sums_.begin();
        row = std::min(row, rows - 1);
      } else {  // all points that are left lie on chosen ones
        row = UniformBelow(rows, random_);
      }
      if (!chosen_.contains(row)) return row;
      // Rounding may leave no weight to the others.
      if (++collisions_ > 100 * rows) {
        for (row = 0; chosen_.contains(row);) ++row;
        return row;
      }
    }
  }

  // The distances of all points from the nearest chosen one if this was one too.
  PoolVector<float> With(int64_t row) const {
    const int64_t width = points_.dim(1);
    const float* const y = points_.data<float>() + row * width;
    PoolVector<float> distances(points_.dim(0));
    for (int64_t i = 0; i < points_.dim(0); ++i) {
      const float* const x = points_.data<float>() + i * width;
      const float product = std::inner_product(x, x + width, y, 0.0f);
      distances[i] = std::min(distances_[i], half_squares_[i] - product + half_squares_[row]);
    }
    return distances;
  }

  const Tensor& points_;
  const PoolVector<float> half_squares_;
  PoolVector<float> distances_;  // distance of each point from the nearest chosen one, half squared
  PoolVector<float> sums_;       // sum of the distances up to each point
  absl::flat_hash_set<int64_t> chosen_;
  PhiloxSingle random_;
  int64_t collisions_ = 0;
};

absl::Status KmeansPlusPlusInitialization(KernelContext& context) {
  const Tensor& points = context.input(0);
  RETURN_IF_ERROR(RequireMatrix(points, "points"));
  constexpr absl::string_view kNames[] = {"points", "num_to_sample", "seed", "num_retries_per_sample"};
  for (int i = 1; i < 4; ++i) RETURN_IF_ERROR(RequireScalar(context.input(i), kNames[i]));
  const int64_t count = context.input(1).scalar<int64_t>(), seed = context.input(2).scalar<int64_t>();
  int64_t retries = context.input(3).scalar<int64_t>();
  if (points.dim(0) == 0) return InvalidArgument("Expected points.rows() > 0.");
  if (count <= 0) return InvalidArgument("Expected num_to_sample > 0, got ", count);
  if (count > points.dim(0)) {
    return InvalidArgument("Expected num_to_sample <= points.rows(). ", count, " vs ", points.dim(0), ".");
  }
  if (retries < 0) retries = 2 + static_cast<int64_t>(std::log(static_cast<double>(count)));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({count, points.dim(1)}));
  ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, shape));
  if (points.dim(1) == 0) return absl::OkStatus();  // the points may be any number
  PlusPlusSampler sampler(points, seed);
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const int64_t row, sampler.Next(retries, context.step().cancellation));
    std::copy_n(points.data<float>() + row * points.dim(1), points.dim(1),
                out->mutable_data<float>() + i * points.dim(1));
  }
  return absl::OkStatus();
}

// The last state of a Markov chain over the points, which moves on to the next
// with probability min(1, its distance / that of the present one) (Bachem et al.,
// "Approximate k-means++ in sublinear time", 2016).
absl::Status Kmc2ChainInitialization(KernelContext& context) {
  const Tensor& distances = context.input(0);
  if (distances.rank() != 1) return InvalidArgument("Input distances should be a vector, got ", distances.shape());
  RETURN_IF_ERROR(RequireScalar(context.input(1), "seed"));
  if (distances.dim(0) == 0) return InvalidArgument("Expected distances_tensor.size() > 0.");
  PhiloxSingle random(Philox(static_cast<uint64_t>(context.input(1).scalar<int64_t>())));
  const float* const d = distances.data<float>();
  int64_t selected = 0;
  for (int64_t i = 1; i < distances.dim(0); ++i) {
    if (d[i] > UniformFloat(random) * d[selected]) selected = i;
  }
  ASSIGN_OR_RETURN(Tensor* const out, context.Allocate(0, Shape()));
  *out->mutable_data<int64_t>() = selected;
  return absl::OkStatus();
}

// The k nearest centers of every point, and their squared distances:
// |x - c|^2 = |x|^2 + 2 (|c|^2 / 2 - x c).
absl::Status NearestNeighbors(KernelContext& context) {
  const Tensor &points = context.input(0), &centers = context.input(1);
  RETURN_IF_ERROR(RequireMatrix(points, "points"));
  RETURN_IF_ERROR(RequireMatrix(centers, "centers"));
  RETURN_IF_ERROR(RequireScalar(context.input(2), "k"));
  if (points.dim(0) == 0) return InvalidArgument("Expected points.rows() > 0.");
  if (points.dim(1) != centers.dim(1)) {
    return InvalidArgument("Expected point_dimensions == center_dimensions: ", points.dim(1), " vs ", centers.dim(1),
                           ".");
  }
  const int64_t wanted = context.input(2).scalar<int64_t>();
  if (wanted < 0) return InvalidArgument("Expected k >= 0, got ", wanted);
  const int64_t rows = points.dim(0), count = centers.dim(0), width = points.dim(1), k = std::min(wanted, count);
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({rows, k}));
  ASSIGN_OR_RETURN(Tensor* const indices, context.Allocate(0, shape));
  ASSIGN_OR_RETURN(Tensor* const distances, context.Allocate(1, shape));
  if (k == 0) return absl::OkStatus();
  if (width == 0) {  // all points and centers are the same, and may be any number
    for (int64_t i = 0; i < rows * k; ++i) indices->mutable_data<int64_t>()[i] = i % k;
    std::fill_n(distances->mutable_data<float>(), rows * k, 0.0f);
    return absl::OkStatus();
  }
  const PoolVector<float> half_squares = HalfSquares(centers);

  // Points in blocks whose products with all centers stay in the cache.
  const int64_t block = std::clamp<int64_t>((1 << 18) / std::max<int64_t>(count, 1), 1, 256);
  absl::Status first;
  Mutex mutex;
  const double cost = 0.1 * static_cast<double>(block) * static_cast<double>(count) * static_cast<double>(width + 10);
  context.ParallelFor((rows + block - 1) / block, cost, [&](int64_t begin, int64_t end) {
    PoolVector<float> products(block * count);
    std::vector<std::pair<float, int64_t>> nearest(count);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t start = b * block, size = std::min(block, rows - start);
      const Gemm gemm{.transpose_b = true, .m = size, .n = count, .k = width};
      const absl::Status status =
          gemm.Run<float>(points.data<float>() + start * width, centers.data<float>(), products.data());
      if (!status.ok()) {
        MutexLock lock(&mutex);
        first.Update(status);
        return;
      }
      for (int64_t i = 0; i < size; ++i) {
        const float* const x = points.data<float>() + (start + i) * width;
        const float half_square = 0.5f * std::inner_product(x, x + width, x, 0.0f);
        for (int64_t j = 0; j < count; ++j) nearest[j] = {half_squares[j] - products[i * count + j], j};
        std::partial_sort(nearest.begin(), nearest.begin() + k, nearest.end());
        for (int64_t j = 0; j < k; ++j) {
          indices->mutable_data<int64_t>()[(start + i) * k + j] = nearest[j].second;
          distances->mutable_data<float>()[(start + i) * k + j] = 2.0f * (half_square + nearest[j].first);
        }
      }
    }
  });
  return first;
}

const OpRegistration kKmeansOps[] = {
    Op("KmeansPlusPlusInitialization")
        .Input("points: float")
        .Input("num_to_sample: int64")
        .Input("seed: int64")
        .Input("num_retries_per_sample: int64")
        .Output("samples: float")
        .Shape(shapes::Unknown)
        .Compute(KmeansPlusPlusInitialization)
        .NotDifferentiable(),
    Op("KMC2ChainInitialization")
        .Input("distances: float")
        .Input("seed: int64")
        .Output("index: int64")
        .Shape(shapes::Scalar)
        .Compute(Kmc2ChainInitialization)
        .NotDifferentiable(),
    Op("NearestNeighbors")
        .Input("points: float")
        .Input("centers: float")
        .Input("k: int64")
        .Output("nearest_center_indices: int64")
        .Output("nearest_center_distances: float")
        .Shape(shapes::Unknown)
        .Compute(NearestNeighbors)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
