#include "thalweg/kernel/alone.h"

namespace thalweg {
namespace {

thread_local bool is_alone = false;

}  // namespace

ScopedAlone::ScopedAlone(bool alone) : before_(is_alone) { is_alone = before_ || alone; }
ScopedAlone::~ScopedAlone() { is_alone = before_; }
bool ScopedAlone::Get() { return is_alone; }

}  // namespace thalweg
