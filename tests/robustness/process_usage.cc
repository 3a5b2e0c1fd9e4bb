// SPDX-License-Identifier: Apache-2.0
#include "process_usage.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "thalweg/base/clock.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/base/memory.h"

namespace thalweg {

ProcessUsage MeasureUsage(int64_t start) {
  const auto count = [](const char* folder) {
    std::error_code error;
    const std::filesystem::directory_iterator entries(folder, error);
    return static_cast<double>(std::distance(begin(entries), end(entries)));
  };
  malloc_trim(0);  // free memory that malloc keeps is not a leak
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  const struct mallinfo2 heap = mallinfo2();
  return {.seconds = (NowNanos() - start) / 1e9,
          .megabytes = resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6,
          .allocated = static_cast<double>(heap.uordblks + heap.hblkhd) / 1e6,
          .tensors = static_cast<double>(HostAllocator().Stats().bytes_reserved) / 1e6 +
                     static_cast<double>(ExportedMemory::Global().bytes_resident()) / 1e6,
          .descriptors = count("/proc/self/fd"),
          .threads = count("/proc/self/task")};
}

namespace {

// Growth per hour, by least squares over all but the first quarter, in which pools fill.
double Slope(const std::vector<ProcessUsage>& usage, double ProcessUsage::*what) {
  const size_t first = usage.size() / 4;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = first; i < usage.size(); ++i) {
    const double at = usage[i].seconds / 3600, value = usage[i].*what;
    n += 1, x += at, y += value, xx += at * at, xy += at * value;
  }
  const double spread = n * xx - x * x;
  return spread > 0 ? (n * xy - x * y) / spread : 0;
}

}  // namespace

void PrintSlopes(const std::vector<ProcessUsage>& usage) {
  const ProcessUsage& last = usage.back();
  std::printf(
      "after %.0f s: %.0f MB (%.1f MB allocated, %.0f MB for tensors), %.0f descriptors, %.0f threads; growth per "
      "hour: "
      "%.1f MB (%.1f MB allocated, %.1f MB for tensors), %.1f descriptors, %.1f threads\n",
      last.seconds, last.megabytes, last.allocated, last.tensors, last.descriptors, last.threads,
      Slope(usage, &ProcessUsage::megabytes), Slope(usage, &ProcessUsage::allocated),
      Slope(usage, &ProcessUsage::tensors), Slope(usage, &ProcessUsage::descriptors),
      Slope(usage, &ProcessUsage::threads));
}

}  // namespace thalweg
