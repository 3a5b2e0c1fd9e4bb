// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/program.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/logging.h"
#include "thalweg/cli/proto_file.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/proto/eval.pb.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/tensor_proto.h"

namespace thalweg::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// z = x * y, and a variable v with its initializer and "v += z".
constexpr char kGraph[] = R"pb(
  node {
    name: "x"
    op: "Placeholder"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
  }
  node {
    name: "y"
    op: "Const"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
    attr {
      key: "value"
      value {
        tensor {
          dtype: DT_FLOAT
          tensor_shape {}
          float_val: 3
        }
      }
    }
  }
  node {
    name: "z"
    op: "Mul"
    input: "x"
    input: "y"
    attr {
      key: "T"
      value { type: DT_FLOAT }
    }
  }
  node {
    name: "v"
    op: "VariableV2"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
    attr {
      key: "shape"
      value { shape {} }
    }
  }
  node {
    name: "init"
    op: "Assign"
    input: "v"
    input: "y"
    attr {
      key: "T"
      value { type: DT_FLOAT }
    }
  }
  node {
    name: "add"
    op: "AssignAdd"
    input: "v"
    input: "z"
    attr {
      key: "T"
      value { type: DT_FLOAT }
    }
  }
)pb";

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { Write("graph.pbtxt", kGraph); }

  static std::string Path(const std::string& name) { return absl::StrCat(testing::TempDir(), "/program_test_", name); }
  static void Write(const std::string& name, const std::string& text) {
    ASSERT_THAT(PosixFileSystem().WriteStringToFile(Path(name), text), IsOk());
  }
  int Run(const std::vector<std::string>& args) {
    absl::FlagSaver saver;
    std::ostringstream out, err;
    const int code = RunProgram(args, out, err);
    verbosity_ = Verbosity();
    min_log_level_ = MinLogLevel();
    out_ = out.str();
    err_ = err.str();
    return code;
  }
  int Eval(std::vector<std::string> args) {
    args.insert(args.begin(), {"eval", "--graph", Path("graph.pbtxt")});
    return Run(args);
  }

  std::string out_, err_;
  int verbosity_ = 0;  // while the program ran
  LogLevel min_log_level_ = LogLevel::kInfo;
};

TEST_F(ProgramTest, HelpListsTheCommands) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("eval"), HasSubstr("ops"), HasSubstr("version"), HasSubstr("--minloglevel")));
  EXPECT_EQ(Run({"eval", "--help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("usage: thalweg eval --graph FILE"), HasSubstr("--keep_going")));
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err_, HasSubstr("usage: thalweg"));
}

TEST_F(ProgramTest, WrongArgumentsAreCodeTwo) {
  EXPECT_EQ(Run({"evil"}), 2);
  EXPECT_EQ(err_, "thalweg: unknown command 'evil'; `thalweg --help` lists the commands\n");
  EXPECT_EQ(Run({"ops", "--graph=x"}), 2);
  EXPECT_EQ(err_, "thalweg ops: unknown flag '--graph=x'; `thalweg ops --help` lists its flags\n");
  EXPECT_EQ(Run({"eval", "--runs", "x"}), 2);
  EXPECT_THAT(err_, HasSubstr("--runs cannot be 'x'"));
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(ProgramTest, ErrorsAreCodeOne) {
  EXPECT_EQ(Run({"ops", "--op", "Nothing"}), 1);
  EXPECT_EQ(err_, "NOT_FOUND: no op is called 'Nothing'\n");
  EXPECT_EQ(Run({"eval"}), 1);
  EXPECT_EQ(err_, "INVALID_ARGUMENT: --graph is missing\n");
}

TEST_F(ProgramTest, RunPassesOnACode) {
  EXPECT_EQ(Run({"run", "--help"}), 0);
  EXPECT_THAT(out_, AllOf(HasSubstr("usage: thalweg run [--ps N]"), HasSubstr("{task_index}"), HasSubstr("--restart")));
  EXPECT_EQ(Run({"run", "--ps", "0", "--", "bash", "-c", "echo \"$0 $1\"; exit 7", "{job_name}", "--help"}), 7);
  EXPECT_EQ(out_, "worker 0 | worker --help\n");
  EXPECT_EQ(Run({"run", "--restart=always", "true"}), 1);
  EXPECT_EQ(err_, "INVALID_ARGUMENT: --restart=always: expected never or on-failure\n");
  EXPECT_EQ(Run({"run", "--ps=1"}), 1);
  EXPECT_THAT(err_, HasSubstr("Expected a program"));
}

TEST_F(ProgramTest, VersionIsTheProjects) {
  EXPECT_EQ(Run({"version"}), 0);
  EXPECT_THAT(out_, testing::MatchesRegex("thalweg [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(ProgramTest, CommonFlagsSetTheLog) {
  EXPECT_EQ(Run({"version", "--v=2", "--minloglevel=1"}), 0);
  EXPECT_EQ(verbosity_, 2);
  EXPECT_EQ(min_log_level_, LogLevel::kWarning);
}

TEST_F(ProgramTest, OpsAreListed) {
  EXPECT_EQ(Run({"ops", "--op=Mul"}), 0);
  tensorflow::OpList one, all;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(out_, &one)) << out_;
  ASSERT_EQ(one.op_size(), 1);
  EXPECT_EQ(one.op(0).name(), "Mul");
  EXPECT_EQ(one.op(0).input_arg(1).name(), "y");
  EXPECT_EQ(Run({"ops", "--binary", Path("ops.pb")}), 0);
  EXPECT_THAT(out_, IsEmpty());
  ASSERT_THAT(ReadProto(Path("ops.pb"), &all), IsOk());
  EXPECT_GT(all.op_size(), 100);
}

TEST_F(ProgramTest, MissingOpsAreListedWithTheReason) {
  Write("registry.txt",
        "# Names of another registry.\n\nMul 1.15.5\nXlaLaunch\nCudnnRNN\nTwoRefsIn\nNoSuchOp 2.15.1\n");
  EXPECT_EQ(Run({"ops", "--missing", Path("registry.txt")}), 0);
  EXPECT_EQ(out_,
            "XlaLaunch: XLA\n"
            "CudnnRNN: TensorFlow has it only for GPUs\n"
            "TwoRefsIn: TensorFlow has it for its own tests\n"
            "NoSuchOp: not done yet\n"
            "4 of 5 op types are missing\n");
  EXPECT_EQ(Run({"ops", "--missing", Path("nothing.txt")}), 1);
}

TEST_F(ProgramTest, EvalShowsOrWritesValues) {
  Write("feeds.pbtxt",
        "tensor { name: 'x' tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2] } }");
  ASSERT_EQ(Eval({"--feeds", Path("feeds.pbtxt"), "--fetch", "z:0", "--fetch", "y:0"}), 0) << err_;
  EXPECT_EQ(out_, "z:0: float [2] [3 6]\ny:0: float [] [3]\n");
  ASSERT_EQ(Eval({"--feeds", Path("feeds.pbtxt"), "--fetch", "z:0", "--out", Path("out.pb")}), 0) << err_;
  EXPECT_THAT(out_, IsEmpty());
  NamedTensors values;
  ASSERT_THAT(ReadProto(Path("out.pb"), &values), IsOk());
  ASSERT_THAT(values.tensor(), SizeIs(1));
  EXPECT_EQ(values.tensor(0).name(), "z:0");
  EXPECT_THAT(TensorFromProto(values.tensor(0).tensor())->flat<float>(), ElementsAre(3, 6));
}

TEST_F(ProgramTest, EvalRunsStepsInOneSession) {
  Write("steps.pbtxt", R"pb(
    step { target: "init" }
    step {
      feed {
        name: "x:0"
        tensor {
          dtype: DT_FLOAT
          tensor_shape {}
          float_val: 2
        }
      }
      target: "add"
    }
    step { fetch: "v:0" }
    step { fetch: "nowhere:0" }
    step { fetch: "y:0" }
  )pb");
  EXPECT_EQ(Eval({"--steps", Path("steps.pbtxt")}), 1);
  EXPECT_THAT(err_, HasSubstr("step 3: "));
  ASSERT_EQ(Eval({"--steps", Path("steps.pbtxt"), "--keep_going", "--out", Path("results.pb")}), 0) << err_;
  EvalResults results;
  ASSERT_THAT(ReadProto(Path("results.pb"), &results), IsOk());
  ASSERT_THAT(results.step(), SizeIs(5));
  EXPECT_EQ(results.step(0).code(), 0);
  EXPECT_EQ(TensorFromProto(results.step(2).tensor(0).tensor())->scalar<float>(), 9);
  EXPECT_EQ(results.step(3).code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(results.step(3).message(), HasSubstr("nowhere"));
  EXPECT_THAT(results.step(4).tensor(), SizeIs(1));
}

TEST_F(ProgramTest, EvalRunsSeveralTimes) {
  Write("feeds.pbtxt", "tensor { name: 'x:0' tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } }");
  EXPECT_EQ(Eval({"--feeds", Path("feeds.pbtxt"), "--fetch", "z:0", "--target", "init", "--runs", "3",
                  "--minloglevel=1", "--nooptimize", "--threads=1", "--trace", Path("trace.pb")}),
            0)
      << err_;
  EXPECT_EQ(out_, "z:0: float [] [6]\n");
  tensorflow::RunMetadata metadata;
  ASSERT_THAT(ReadProto(Path("trace.pb"), &metadata), IsOk());
  EXPECT_GT(metadata.step_stats().dev_stats_size(), 0);
}

TEST_F(ProgramTest, EvalSaysWhatIsWrong) {
  EXPECT_EQ(Eval({"--fetch", "z:0"}), 1);
  EXPECT_THAT(err_, HasSubstr("INVALID_ARGUMENT: You must feed a value for placeholder tensor 'x'"));
  EXPECT_EQ(Eval({}), 1);
  EXPECT_THAT(err_, HasSubstr("nothing to run"));
  EXPECT_EQ(Eval({"--fetch=y:0", "--steps=s.pb"}), 1);
  EXPECT_THAT(err_, HasSubstr("--steps cannot be combined with"));
  EXPECT_EQ(Eval({"--fetch=y:0", "--keep_going"}), 1);
  EXPECT_EQ(Eval({"--fetch=y:0", "--runs=0"}), 1);
  EXPECT_EQ(Eval({"--fetch=y:0", "--out", "/nowhere/at/all"}), 1);
  EXPECT_THAT(err_, HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Run({"eval", "--fetch=y", "--graph", Path("none.pb")}), 1);
  EXPECT_THAT(err_, AllOf(HasSubstr("NOT_FOUND"), HasSubstr("none.pb")));
  Write("bad.pbtxt", "node { nome: 'x' }");
  EXPECT_EQ(Run({"eval", "--fetch=y", "--graph", Path("bad.pbtxt")}), 1);
  EXPECT_THAT(err_, HasSubstr("bad.pbtxt is not a valid tensorflow.GraphDef in text form"));
  Write("bad_feeds.pbtxt", "tensor { name: 'x' tensor { dtype: DT_FLOAT tensor_shape { dim { size: -5 } } } }");
  EXPECT_EQ(Eval({"--fetch=z:0", "--feeds", Path("bad_feeds.pbtxt")}), 1);
  EXPECT_THAT(err_, HasSubstr("feed 'x': "));
}

}  // namespace
}  // namespace thalweg::cli
