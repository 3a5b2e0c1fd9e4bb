#include "thalweg/cluster/request_id.h"

#include <random>

#include "absl/strings/str_format.h"

namespace thalweg {
namespace {

uint64_t Random64() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

}  // namespace

int64_t NewRequestId() { return static_cast<int64_t>(Random64() | 1); }
int64_t NewStepId() { return static_cast<int64_t>(Random64() & ((uint64_t{1} << 57) - 1)); }
std::string NewHandle() { return absl::StrFormat("%016x", Random64()); }

}  // namespace thalweg
