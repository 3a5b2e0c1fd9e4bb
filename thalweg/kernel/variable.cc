#include "thalweg/kernel/variable.h"

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"

namespace thalweg {

std::string Variable::Describe() const {
  MutexLock lock(&mutex_);
  return absl::StrCat("variable '", name_, "' of ", ToString(dtype_), " ",
                      value_.has_value() ? value_.shape().ToString() : "(not initialized)");
}

absl::Status MakeWritable(Tensor& value, Allocator& allocator) {
  if (value.unique()) return absl::OkStatus();
  ASSIGN_OR_RETURN(value, value.TryClone(allocator));
  return absl::OkStatus();
}

}  // namespace thalweg
