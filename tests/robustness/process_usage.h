// SPDX-License-Identifier: Apache-2.0
// What the process uses, measured after every training of a soak, and how it grows.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg {

// Resources of the process.
struct ProcessUsage {
  // Megabytes: resident; allocated by malloc; kept for tensors, used or not.
  double seconds = 0, megabytes = 0, allocated = 0, tensors = 0, descriptors = 0, threads = 0;
};

// `start`: NowNanos() at the beginning.
ProcessUsage MeasureUsage(int64_t start);

// Prints the last measurement, and the growth per hour.
void PrintSlopes(const std::vector<ProcessUsage>& usage);

}  // namespace thalweg
