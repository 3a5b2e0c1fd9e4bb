// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/single_thread.h"

namespace thalweg {
namespace {

thread_local bool is_alone = false;

}  // namespace

ScopedSingleThread::ScopedSingleThread(bool alone) : before_(is_alone) { is_alone = before_ || alone; }
ScopedSingleThread::~ScopedSingleThread() { is_alone = before_; }
bool ScopedSingleThread::Get() { return is_alone; }

}  // namespace thalweg
