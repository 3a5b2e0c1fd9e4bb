// SPDX-License-Identifier: Apache-2.0
// Print passes its first input on and logs the others; PrintV2 writes a string.
// Assert fails, showing its data, if its condition does not hold.
#include <atomic>
#include <cstdio>

#include "absl/strings/match.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/summary/summarize.h"

namespace thalweg {
namespace {

// One write, so that lines of several threads do not mix.
void Write(FILE* stream, const std::string& text) {
  fwrite(text.data(), 1, text.size(), stream);
  fflush(stream);
}

class PrintKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(message_, init.Attr<std::string>("message"));
    ASSIGN_OR_RETURN(first_n_, init.Attr<int64_t>("first_n"));
    ASSIGN_OR_RETURN(summarize_, init.Attr<int64_t>("summarize"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (first_n_ < 0 || calls_.fetch_add(1, std::memory_order_relaxed) < first_n_) {
      std::string text = message_;
      for (int i = 1; i < c.num_inputs(); ++i) absl::StrAppend(&text, "[", SummarizeValue(c.input(i), summarize_), "]");
      Write(stderr, text + "\n");
    }
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  std::string message_;
  int64_t first_n_ = -1;
  int64_t summarize_ = 3;
  std::atomic<int64_t> calls_{0};
};

absl::Status PrintGradient(GradientContext& c) {
  c.set_dx(0, c.raw_dy(0));
  return absl::OkStatus();
}

class PrintV2Kernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(stream_, init.Attr<std::string>("output_stream"));
    ASSIGN_OR_RETURN(end_, init.Attr<std::string>("end"));
    if (absl::StartsWith(stream_, "file://")) return absl::OkStatus();
    for (const char* known : {"stderr", "stdout", "log(info)", "log(warning)", "log(error)"}) {
      if (stream_ == known) return absl::OkStatus();
    }
    return InvalidArgument("Unknown output stream: ", stream_,
                           ", Valid streams are: log(info), log(warning), log(error), stdout, stderr");
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    if (input.rank() != 0) return InvalidArgument("Input is expected to be scalar, but got ", input.shape());
    const std::string text = absl::StrCat(input.scalar<std::string>(), end_);
    if (stream_ == "stderr") {
      Write(stderr, text);
    } else if (stream_ == "stdout") {
      Write(stdout, text);
    } else if (stream_ == "log(info)") {
      LOG(INFO) << text;
    } else if (stream_ == "log(warning)") {
      LOG(WARNING) << text;
    } else if (stream_ == "log(error)") {
      LOG(ERROR) << text;
    } else {
      return AppendToFile(stream_.substr(7), text);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AppendToFile(const std::string& path, const std::string& text) {
    MutexLock lock(&mutex_);
    absl::StatusOr<std::unique_ptr<WritableFile>> file = PosixFileSystem().NewWritableFile(path, WriteMode::kAppend);
    if (!file.ok()) return Prepend(file.status(), "Cannot append to a file: ");
    RETURN_IF_ERROR((*file)->Append(text));
    return (*file)->Close();
  }

  std::string stream_;
  std::string end_;
  Mutex mutex_;
};

class AssertKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(summarize_, init.Attr<int64_t>("summarize"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& condition = c.input(0);
    if (condition.rank() != 0) return InvalidArgument("In[0] should be a scalar: ", condition.shape());
    if (condition.scalar<bool>()) return absl::OkStatus();
    std::string text = "assertion failed: ";
    for (int i = 1; i < c.num_inputs(); ++i) {
      absl::StrAppend(&text, i == 1 ? "" : " ", "[", SummarizeValue(c.input(i), summarize_), "]");
    }
    return InvalidArgument(text);
  }

 private:
  int64_t summarize_ = 3;
};

const OpRegistration kPrintOps[] = {
    Op("Print")
        .Input("input: T")
        .Input("data: U")
        .Output("output: T")
        .Attr("T: type")
        .Attr("U: list(type) >= 0")
        .Attr("message: string = ''")
        .Attr("first_n: int = -1")
        .Attr("summarize: int = 3")
        .Stateful()
        .Shape(shapes::LikeInput0)
        .Kernel<PrintKernel>()
        .Gradient(PrintGradient),
    Op("PrintV2")
        .Input("input: string")
        .Attr("output_stream: string = 'stderr'")
        .Attr("end: string = '\n'")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<PrintV2Kernel>()
        .NotDifferentiable(),
    Op("Assert")
        .Input("condition: bool")
        .Input("data: T")
        .Attr("T: list(type) >= 1")
        .Attr("summarize: int = 3")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<AssertKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output Print(const Scope& s, Output input, const std::vector<Output>& data, const PrintOptions& options) {
  return s.Add("Print", {input, data},
               {{"message", options.message}, {"first_n", options.first_n}, {"summarize", options.summarize}});
}
Output Assert(const Scope& s, Output condition, const std::vector<Output>& data, int64_t summarize) {
  return s.Add("Assert", {condition, data}, {{"summarize", summarize}});
}

}  // namespace thalweg
