#include "thalweg/kernel/variable.h"

#include "absl/strings/str_cat.h"

namespace thalweg {

std::string Variable::Describe() const {
  MutexLock lock(&mutex_);
  return absl::StrCat("variable '", name_, "' of ", ToString(dtype_), " ",
                      value_.has_value() ? value_.shape().ToString() : "(not initialized)");
}

void MakeWritable(Tensor& value) {
  if (!value.unique()) value = value.Clone();
}

}  // namespace thalweg
