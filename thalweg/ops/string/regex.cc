// SPDX-License-Identifier: Apache-2.0
// RegexFullMatch: whether all of a string matches a regular expression.
// RegexReplace: puts another text in the place of what matches, once or
// everywhere. The static forms have the expression as an attribute.
#include <re2/re2.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"

namespace thalweg {
namespace {

absl::StatusOr<std::shared_ptr<const re2::RE2>> Compile(const std::string& pattern) {
  // No message on stderr for what the status says.
  auto regex = std::make_shared<const re2::RE2>(pattern, re2::RE2::Quiet);
  if (!regex->ok()) return InvalidArgument("Invalid pattern: ", pattern, ", error: ", regex->error());
  return regex;
}

absl::StatusOr<std::string> ScalarInput(const KernelContext& c, int i, absl::string_view name) {
  if (c.input(i).rank() != 0) return InvalidArgument(name, " must be scalar, but received ", c.input(i).shape());
  return c.input(i).scalar<std::string>();
}

// The expression of a kernel: that of the attribute, or the last that came as an
// input, which is mostly the same in every step.
class RegexKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    if (!HasAttr(init.node().def(), "pattern")) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string pattern, init.Attr<std::string>("pattern"));
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(regex_, Compile(pattern));
    is_static_ = true;
    return absl::OkStatus();
  }

 protected:
  bool is_static() const { return is_static_; }

  absl::StatusOr<std::shared_ptr<const re2::RE2>> Regex(const KernelContext& c) {
    std::string pattern;
    if (!is_static_) {
      ASSIGN_OR_RETURN(pattern, ScalarInput(c, 1, "Pattern"));
    }
    {
      MutexLock lock(&mutex_);
      if (is_static_ || (regex_ != nullptr && regex_->pattern() == pattern)) return regex_;
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const re2::RE2> regex, Compile(pattern));
    MutexLock lock(&mutex_);
    regex_ = regex;
    return regex;
  }

 private:
  bool is_static_ = false;
  Mutex mutex_;
  std::shared_ptr<const re2::RE2> regex_ ABSL_GUARDED_BY(mutex_);
};

class RegexFullMatchKernel : public RegexKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<const re2::RE2> regex, Regex(c));
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      out->mutable_data<bool>()[i] = re2::RE2::FullMatch(input.data<std::string>()[i], *regex);
    }
    return absl::OkStatus();
  }
};

class RegexReplaceKernel : public RegexKernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(RegexKernel::Init(init));
    ASSIGN_OR_RETURN(replace_global_, init.Attr<bool>("replace_global"));
    if (!is_static()) return absl::OkStatus();
    ASSIGN_OR_RETURN(rewrite_, init.Attr<std::string>("rewrite"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<const re2::RE2> regex, Regex(c));
    std::string rewrite = rewrite_;
    if (!is_static()) {
      ASSIGN_OR_RETURN(rewrite, ScalarInput(c, 2, "Rewrite"));
    }
    // One that asks for groups that are not there changes nothing, as in
    // TensorFlow; RE2 would complain on stderr for every string.
    std::string error;
    const bool possible = regex->CheckRewriteString(rewrite, &error);
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      std::string& text = out->mutable_data<std::string>()[i] = input.data<std::string>()[i];
      if (!possible) continue;
      if (replace_global_) {
        re2::RE2::GlobalReplace(&text, *regex, rewrite);
      } else {
        re2::RE2::Replace(&text, *regex, rewrite);
      }
    }
    return absl::OkStatus();
  }

 private:
  bool replace_global_ = true;
  std::string rewrite_;
};

absl::Status RegexShape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  return shapes::LikeInput0(c);
}

const OpRegistration kRegexOps[] = {
    Op("StaticRegexFullMatch")
        .Input("input: string")
        .Output("output: bool")
        .Attr("pattern: string")
        .Shape(RegexShape)
        .Kernel<RegexFullMatchKernel>()
        .NotDifferentiable(),
    Op("RegexFullMatch")
        .Input("input: string")
        .Input("pattern: string")
        .Output("output: bool")
        .Shape(RegexShape)
        .Kernel<RegexFullMatchKernel>()
        .NotDifferentiable(),
    Op("StaticRegexReplace")
        .Input("input: string")
        .Output("output: string")
        .Attr("pattern: string")
        .Attr("rewrite: string")
        .Attr("replace_global: bool = true")
        .Shape(RegexShape)
        .Kernel<RegexReplaceKernel>()
        .NotDifferentiable(),
    Op("RegexReplace")
        .Input("input: string")
        .Input("pattern: string")
        .Input("rewrite: string")
        .Output("output: string")
        .Attr("replace_global: bool = true")
        .Shape(RegexShape)
        .Kernel<RegexReplaceKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output RegexFullMatch(const Scope& s, Output input, Output pattern) {
  return s.Add("RegexFullMatch", {input, pattern});
}
Output RegexFullMatch(const Scope& s, Output input, absl::string_view pattern) {
  return s.Add("StaticRegexFullMatch", {input}, {{"pattern", pattern}});
}
Output RegexReplace(const Scope& s, Output input, Output pattern, Output rewrite, const RegexReplaceOptions& options) {
  return s.Add("RegexReplace", {input, pattern, rewrite}, {{"replace_global", options.replace_global}});
}
Output RegexReplace(const Scope& s, Output input, absl::string_view pattern, absl::string_view rewrite,
                    const RegexReplaceOptions& options) {
  return s.Add("StaticRegexReplace", {input},
               {{"pattern", pattern}, {"rewrite", rewrite}, {"replace_global", options.replace_global}});
}

}  // namespace thalweg
