// SPDX-License-Identifier: Apache-2.0
// How the process's malloc is set up.
#pragma once

namespace thalweg {

// Tells malloc to keep the memory that it has (mmap threshold 1 GB, no trimming): to
// give a buffer back and take it again costs a page fault per 4 KB. What it keeps is
// bounded by two arenas per core. Servers and sessions call it when they are made. Only
// the first call has an effect.
void ConfigureMalloc();

}  // namespace thalweg
