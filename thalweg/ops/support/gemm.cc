// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/gemm.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <cstring>
#include <type_traits>

#include "oneapi/dnnl/dnnl.h"
#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

// A matrix as its elements lie: element (i, j) is data[i * row + j * column].
template <typename T>
struct View {
  const T* data;
  int64_t row;
  int64_t column;
};

// Plain loops, for small products and rare types. B's rows are contiguous: each
// element of A is multiplied with a row of B.
template <typename T>
THALWEG_SIMD void RowProduct(View<T> a, View<T> b, T* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i, c += n) {
    std::fill_n(c, n, T(0));
    for (int64_t p = 0; p < k; ++p) {
      const T x = a.data[i * a.row + p * a.column];
      const T* y = b.data + p * b.row;
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) c[j] = WrapAdd(c[j], WrapMul(x, y[j]));
    }
  }
}

// B is transposed: its columns are contiguous.
template <typename T>
void ColumnProduct(View<T> a, View<T> b, T* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum(0);
      for (int64_t p = 0; p < k; ++p) {
        sum = WrapAdd(sum, WrapMul(a.data[i * a.row + p * a.column], b.data[p * b.row + j * b.column]));
      }
      *c++ = sum;
    }
  }
}

template <typename T>
void PlainProduct(View<T> a, View<T> b, T* c, int64_t m, int64_t n, int64_t k) {
  if (b.column == 1) return RowProduct(a, b, c, m, n, k);
  ColumnProduct(a, b, c, m, n, k);
}

// Double precision after Goto and van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication": blocks of A and B are packed so that the innermost
// kernel reads them in order, and a tile of C stays in registers.
typedef double Vector __attribute__((vector_size(32), aligned(8)));  // clang passes over `aligned` after `using`
static_assert(alignof(Vector) == 8);
constexpr int64_t kTileRows = 4, kTileColumns = 8;
constexpr int64_t kBlockRows = 64, kBlockColumns = 256, kBlockDepth = 192;

// `rows` x `depth` of a matrix, as strips of kTileRows rows, each stored column
// by column and filled up with zeros.
void PackStrips(View<double> from, int64_t rows, int64_t depth, int64_t strip, double* to) {
  for (int64_t i = 0; i < rows; i += strip) {
    const int64_t height = std::min(strip, rows - i);
    for (int64_t p = 0; p < depth; ++p, to += strip) {
      const double* source = from.data + i * from.row + p * from.column;
      for (int64_t r = 0; r < height; ++r) to[r] = source[r * from.row];
      for (int64_t r = height; r < strip; ++r) to[r] = 0;
    }
  }
}

// Adds the products of packed strips to `rows` x `columns` of C.
THALWEG_SIMD void MultiplyPacked(const double* a, const double* b, int64_t rows, int64_t columns, int64_t depth,
                                 double* c, int64_t c_stride) {
  for (int64_t j = 0; j < columns; j += kTileColumns, b += depth * kTileColumns) {
    const double* strip = a;
    for (int64_t i = 0; i < rows; i += kTileRows, strip += depth * kTileRows) {
      Vector tile[kTileRows][2] = {};
      for (int64_t p = 0; p < depth; ++p) {
        const Vector y0 = *reinterpret_cast<const Vector*>(b + p * kTileColumns);
        const Vector y1 = *reinterpret_cast<const Vector*>(b + p * kTileColumns + 4);
#pragma GCC unroll 4
        for (int64_t r = 0; r < kTileRows; ++r) {
          const double x = strip[p * kTileRows + r];
          tile[r][0] += x * y0;
          tile[r][1] += x * y1;
        }
      }
      const int64_t height = std::min(kTileRows, rows - i), width = std::min(kTileColumns, columns - j);
      for (int64_t r = 0; r < height; ++r) {
        double values[kTileColumns];
        std::memcpy(values, tile[r], sizeof(values));
        double* to = c + (i + r) * c_stride + j;
        for (int64_t q = 0; q < width; ++q) to[q] += values[q];
      }
    }
  }
}

absl::Status BlockedProduct(View<double> a, View<double> b, double* c, int64_t m, int64_t n, int64_t k) {
  const auto round_up = [](int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; };
  const int64_t depth = std::min(k, kBlockDepth);
  const int64_t a_size = round_up(std::min(m, kBlockRows), kTileRows) * depth;
  const int64_t b_size = round_up(std::min(n, kBlockColumns), kTileColumns) * depth;
  ASSIGN_OR_RETURN(Tensor packed, Tensor::Allocate(kDouble, Shape({a_size + b_size})));
  double* const packed_a = packed.mutable_data<double>();
  double* const packed_b = packed_a + a_size;
  std::fill_n(c, m * n, 0.0);
  for (int64_t j = 0; j < n; j += kBlockColumns) {
    const int64_t columns = std::min(kBlockColumns, n - j);
    for (int64_t p = 0; p < k; p += kBlockDepth) {
      const int64_t part = std::min(kBlockDepth, k - p);
      // Strips of columns of B are strips of rows of its transpose.
      PackStrips({b.data + p * b.row + j * b.column, b.column, b.row}, columns, part, kTileColumns, packed_b);
      for (int64_t i = 0; i < m; i += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, m - i);
        PackStrips({a.data + i * a.row + p * a.column, a.row, a.column}, rows, part, kTileRows, packed_a);
        MultiplyPacked(packed_a, packed_b, rows, columns, part, c + i * n + j, n);
      }
    }
  }
  return absl::OkStatus();
}

void Sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
           const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  UseOneOpenMpThread();
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  CHECK(status == dnnl_success) << "dnnl_sgemm: " << status;
}

// The library goes down the columns of B, and of a transposed A, where they lie.
// Rows that are a multiple of 2 KB apart fall into so few sets of the caches that
// this takes up to twice as long. Panels of such matrices are copied, with rows a
// cache line further apart.
constexpr int64_t kPanelWidth = 512, kPanelDepth = 256, kPanelStride = kPanelWidth + 16;

bool WorthCopying(int64_t stride, int64_t uses) { return stride % 512 == 0 && uses >= 16; }

// Larger products the library packs itself.
bool LeavesInPlace(int64_t m, int64_t n) {
  return 1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n) > 0.0038;
}

void CopyPanel(const float* from, int64_t stride, int64_t depth, int64_t width, float* to) {
  for (int64_t p = 0; p < depth; ++p) std::memcpy(to + p * kPanelStride, from + p * stride, width * sizeof(float));
}

// A block of rows and columns of C.
struct Block {
  int64_t row, rows;
  int64_t column, columns;
};

// The blocks that one of `shards` threads computes: columns, in whole tiles of the library, and a share of the
// rows of the remaining columns. 500 columns are about 10.4 tiles: without the second block, one of two threads
// would wait for the other.
//
// The work is split by rows only if C is narrow, or is the gradient of weights (A is transposed) with more rows
// than columns. Every thread then reads all of B. Reading is cheap, but B is often a weight, and the thread that
// updates it next pays for every cache line that another core holds.
std::array<Block, 2> BlocksOf(const Gemm& gemm, int64_t shard, int64_t shards) {
  constexpr int64_t kTileRows = 8, kTileColumns = 48, kLeastTileColumns = 16;
  const int64_t row_tiles = (gemm.m + kTileRows - 1) / kTileRows;
  const int64_t row = row_tiles * shard / shards * kTileRows;
  const int64_t rows = std::min(row_tiles * (shard + 1) / shards * kTileRows, gemm.m) - row;
  const bool by_columns = gemm.n > gemm.m || (!gemm.transpose_a && gemm.n >= 2 * kTileColumns * shards);
  if (!by_columns) return {Block{row, rows, 0, gemm.n}, Block{}};
  const int64_t tile = row_tiles >= shards ? kTileColumns : kLeastTileColumns;
  const int64_t columns = gemm.n / tile / shards * tile;
  return {Block{0, gemm.m, shard * columns, columns}, Block{row, rows, shards * columns, gemm.n - shards * columns}};
}

// Whether to split a product by depth and add up the partial products. For small batches these are much smaller
// than the weights (B), and each thread reads only the rows of B that it updates at the end of the step. A cache
// line that another core has read costs its writer 9 ns, or 65 ns if the cores share no cache. The result does not
// depend on which thread computes which part.
bool SharesDepth(const Gemm& gemm, int64_t shards) {
  return !gemm.transpose_a && !gemm.transpose_b && 2 * gemm.m * shards <= gemm.k;
}

// Adds `count` parts of `size` elements to c, of which [begin, end).
THALWEG_SIMD void AddParts(const float* parts, int64_t count, int64_t size, int64_t begin, int64_t end, float* c) {
  for (int64_t part = 0; part < count; ++part) {
    const float* from = parts + part * size;
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) c[i] += from[i];
  }
}

// Conjugates a copy. REQUIRES: T is complex.
template <typename T>
absl::StatusOr<Tensor> Conjugated(const T* data, int64_t count) {
  ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(DTypeOf<T>, Shape({count})));
  std::transform(data, data + count, copy.mutable_data<T>(), Conjugate<T>);
  return copy;
}

}  // namespace

// oneDNN parallelizes with OpenMP, whose threads would compete with ours, so products run on the calling thread
// only. The setting is per thread. Other builds of the library (TBB, sequential) do not have this function.
void UseOneOpenMpThread() {
  static const auto set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  thread_local const bool done = (set_num_threads != nullptr ? set_num_threads(1) : void(), true);
  static_cast<void>(done);
}

void SingleThreadedSgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                         int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const bool copy_a = transpose_a && WorthCopying(lda, n), copy_b = !transpose_b && WorthCopying(ldb, m);
  absl::StatusOr<Tensor> panels;  // on failure, continues without copies, which is only slower
  if ((copy_a || copy_b) && LeavesInPlace(m, n))
    panels = Tensor::Allocate(kFloat, Shape({2, kPanelDepth * kPanelStride}));
  if (!panels.ok()) return Sgemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
  float* const panel_a = panels->mutable_data<float>();
  float* const panel_b = panel_a + kPanelDepth * kPanelStride;
  const int64_t row_step = copy_a ? kPanelWidth : m, column_step = copy_b ? kPanelWidth : n;
  for (int64_t j = 0; j < n; j += column_step) {
    const int64_t columns = std::min(column_step, n - j);
    for (int64_t p = 0; p < k; p += kPanelDepth) {
      const int64_t depth = std::min(kPanelDepth, k - p);
      const float* const from_b = b + (transpose_b ? j * ldb + p : p * ldb + j);
      if (copy_b) CopyPanel(from_b, ldb, depth, columns, panel_b);
      for (int64_t i = 0; i < m; i += row_step) {
        const int64_t rows = std::min(row_step, m - i);
        const float* const from_a = a + (transpose_a ? p * lda + i : i * lda + p);
        if (copy_a) CopyPanel(from_a, lda, depth, rows, panel_a);
        Sgemm(transpose_a, transpose_b, rows, columns, depth, copy_a ? panel_a : from_a, copy_a ? kPanelStride : lda,
              copy_b ? panel_b : from_b, copy_b ? kPanelStride : ldb, p == 0 ? beta : 1.0f, c + i * ldc + j, ldc);
      }
    }
  }
}

template <typename T>
absl::Status Gemm::Run(const T* a, const T* b, T* c) const {
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    std::fill_n(c, m * n, T(0));
    return absl::OkStatus();
  }
  if constexpr (kIsComplex<T>) {
    if (conjugate_a || conjugate_b) {
      Tensor copy_a, copy_b;
      if (conjugate_a) {
        ASSIGN_OR_RETURN(copy_a, Conjugated(a, m * k));
      }
      if (conjugate_b) {
        ASSIGN_OR_RETURN(copy_b, Conjugated(b, k * n));
      }
      Gemm plain = *this;
      plain.conjugate_a = plain.conjugate_b = false;
      return plain.Run(conjugate_a ? copy_a.data<T>() : a, conjugate_b ? copy_b.data<T>() : b, c);
    }
  }
  const View<T> va = transpose_a ? View<T>{a, 1, m} : View<T>{a, k, 1};
  const View<T> vb = transpose_b ? View<T>{b, 1, k} : View<T>{b, n, 1};
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (flops() >= 2 * 16 * 16 * 16) {
      if constexpr (std::is_same_v<T, double>) return BlockedProduct(va, vb, c, m, n, k);
      if constexpr (std::is_same_v<T, float>) {
        SingleThreadedSgemm(transpose_a, transpose_b, m, n, k, a, transpose_a ? m : k, b, transpose_b ? k : n, 0.0f, c,
                            n);
        return absl::OkStatus();
      }
    }
  }
  PlainProduct(va, vb, c, m, n, k);
  return absl::OkStatus();
}

template <typename T>
absl::Status Gemm::Run(KernelContext& context, const T* a, const T* b, T* c) const {
  // At least about 10 us of work per shard; less is never worth a second thread.
  const double flops_per_shard = std::is_same_v<T, float> ? 1e6 : std::is_same_v<T, double> ? 5e5 : 5e4;
  const double threads = context.device().intra_op_pool().concurrency();
  const int64_t shards = static_cast<int64_t>(std::clamp(flops() / flops_per_shard, 1.0, threads));
  // The cost makes ParallelFor() use one thread per shard.
  const auto for_shards = [&](auto&& body) {
    context.ParallelFor(shards, 1e6, [&](int64_t begin, int64_t end) {
      for (int64_t shard = begin; shard < end; ++shard) body(shard);
    });
  };
  if constexpr (std::is_same_v<T, float>) {
    if (shards > 1 && m * n > 0 && k > 0) {
      const int64_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
      if (SharesDepth(*this, shards)) {
        ASSIGN_OR_RETURN(Tensor parts, Tensor::Allocate(kFloat, Shape({shards - 1, m, n})));
        float* const others = parts.mutable_data<float>();
        for_shards([&](int64_t shard) {
          const int64_t begin = k * shard / shards, end = k * (shard + 1) / shards;
          SingleThreadedSgemm(false, false, m, n, end - begin, a + begin, lda, b + begin * n, ldb, 0.0f,
                              shard == 0 ? c : others + (shard - 1) * m * n, n);
        });
        context.ParallelFor(m * n, 0.1 * static_cast<double>(shards),
                            [&](int64_t begin, int64_t end) { AddParts(others, shards - 1, m * n, begin, end, c); });
        return absl::OkStatus();
      }
      for_shards([&](int64_t shard) {
        for (const Block& block : BlocksOf(*this, shard, shards)) {
          if (block.rows == 0 || block.columns == 0) continue;
          SingleThreadedSgemm(transpose_a, transpose_b, block.rows, block.columns, k,
                              a + block.row * (transpose_a ? 1 : k), lda, b + block.column * (transpose_b ? k : 1), ldb,
                              0.0f, c + block.row * n + block.column, n);
        }
      });
      return absl::OkStatus();
    }
  } else if (shards > 1 && !transpose_a && m >= shards) {
    // Rows of A and C that belong together.
    std::atomic<bool> failed = false;
    for_shards([&](int64_t shard) {
      const int64_t begin = m * shard / shards, end = m * (shard + 1) / shards;
      Gemm part = *this;
      part.m = end - begin;
      if (!part.Run(a + begin * k, b, c + begin * n).ok()) failed = true;
    });
    return failed ? ResourceExhausted("no memory to pack matrices into") : absl::OkStatus();
  }
  return Run(a, b, c);
}

#define THALWEG_GEMM_(T)                                               \
  template absl::Status Gemm::Run(const T* a, const T* b, T* c) const; \
  template absl::Status Gemm::Run(KernelContext& context, const T* a, const T* b, T* c) const;
THALWEG_GEMM_(float)
THALWEG_GEMM_(double)
THALWEG_GEMM_(int8_t)
THALWEG_GEMM_(int16_t)
THALWEG_GEMM_(int32_t)
THALWEG_GEMM_(int64_t)
THALWEG_GEMM_(uint8_t)
THALWEG_GEMM_(uint16_t)
THALWEG_GEMM_(uint32_t)
THALWEG_GEMM_(uint64_t)
THALWEG_GEMM_(std::complex<float>)
THALWEG_GEMM_(std::complex<double>)
#undef THALWEG_GEMM_

}  // namespace thalweg
