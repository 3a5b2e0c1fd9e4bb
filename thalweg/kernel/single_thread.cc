// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/single_thread.h"

namespace thalweg {
namespace {

thread_local bool is_single = false;

}  // namespace

ScopedSingleThread::ScopedSingleThread(bool single) : before_(is_single) { is_single = before_ || single; }
ScopedSingleThread::~ScopedSingleThread() { is_single = before_; }
bool ScopedSingleThread::Get() { return is_single; }

}  // namespace thalweg
