// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/while.h"

#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/random_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

using Feed = TestSession::Feed;
using absl::StatusCode;
using Values = std::vector<Output>;

// body(i, values) for i = 0, ..., n - 1.
Values Repeat(const Scope& scope, Output n, const Values& start,
              const std::function<Values(const Scope&, Output, const Values&)>& body) {
  Values all = {Const(scope, 0)};
  all.insert(all.end(), start.begin(), start.end());
  Values ends = While(
      scope, all, [&](const Scope& s, const Values& v) { return Less(s, v[0], n); },
      [&](const Scope& s, const Values& v) {
        Values next = body(s, v[0], Values(v.begin() + 1, v.end()));
        next.insert(next.begin(), Add(s, v[0], Const(s, 1)));
        return next;
      });
  return Values(ends.begin() + 1, ends.end());
}

std::vector<Tensor> RunAll(Graph& graph, const Values& fetches, const std::vector<Feed>& feeds = {}) {
  EXPECT_TRUE(graph.build_status().ok()) << graph.build_status();
  auto session = TestSession::Create(graph);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return std::vector<Tensor>(fetches.size());
  auto values = (*session)->Run({fetches.begin(), fetches.end()}, feeds);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<Tensor>(fetches.size());
}

// The gradients of a sum over y or, of second order, of the squares of those,
// against central differences.
void ExpectGradientsOf(const std::function<Output(const Scope&, const Values&)>& build, const std::vector<Tensor>& xs,
                       bool second = false) {
  Graph graph;
  const Scope s = graph.root();
  Values inputs;
  std::vector<Feed> feeds;
  for (const Tensor& x : xs) {
    inputs.push_back(Placeholder(s, x.dtype(), x.shape()));
    feeds.emplace_back(inputs.back(), x);
  }
  const Output y = build(s, inputs);
  ASSERT_TRUE(s.ok()) << s.status();
  const auto gradients_of = [&](Output sum) {
    Values dense;
    for (const Gradient& g : Gradients(s, {sum}, inputs)) dense.push_back(g ? ToDense(s, g) : Output());
    return dense;
  };
  Output sum = ReduceSum(s, Sin(s, y));
  Values gradients = gradients_of(sum);
  if (second) {
    Values squares;
    for (const Output& g : gradients) squares.push_back(ReduceSum(s, Square(s, g)));
    sum = AddN(s, squares);
    gradients = gradients_of(sum);
  }
  ASSERT_TRUE(s.ok()) << s.status();
  auto session = TestSession::Create(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto value = [&](size_t k, int64_t i, double by) {
    std::vector<Feed> at = feeds;
    at[k].value = xs[k].Clone();
    at[k].value.flat<double>()[i] += by;
    const auto result = (*session)->Run({sum}, at);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->at(0).scalar<double>() : 0;
  };
  for (size_t k = 0; k < xs.size(); ++k) {
    if (!IsFloating(xs[k].dtype())) continue;
    ASSERT_TRUE(gradients[k]) << "no gradient for input " << k;
    const auto dx = (*session)->Run({gradients[k]}, feeds);
    ASSERT_TRUE(dx.ok()) << dx.status();
    ASSERT_EQ((*dx)[0].shape(), xs[k].shape());
    for (int64_t i = 0; i < xs[k].num_elements(); ++i) {
      const double numeric = (value(k, i, 1e-5) - value(k, i, -1e-5)) / 2e-5;
      EXPECT_NEAR((*dx)[0].flat<double>()[i], numeric, 1e-6 * (1 + std::abs(numeric))) << k << " " << i;
    }
  }
}

Tensor X(const Shape& shape, int seed = 1) { return TestValues(kDouble, shape, -1, 1, seed); }

TEST(While, RunsAsLongAsTheConditionHolds) {
  Graph graph;
  const Scope s = graph.root();
  const Output n = Placeholder(s, kInt32, Shape()), step = Const(s, 3);
  const Values r = Repeat(s, n, {Const(s, 1), Const(s, 10)}, [&](const Scope& in, Output i, const Values& v) {
    return Values{Mul(in, v[0], Const(in, 2)), Add(in, v[1], Mul(in, i, step))};
  });
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  for (const int32_t times : {5, 0, 1, 9}) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({r[0], r[1]}, {{n, Tensor::Scalar(times)}}));
    EXPECT_EQ(out[0].scalar<int32_t>(), 1 << times);
    EXPECT_EQ(out[1].scalar<int32_t>(), 10 + 3 * times * (times - 1) / 2);
  }
}

TEST(While, LoopsNestAndSwapAndKeepValues) {
  Graph graph;
  const Scope s = graph.root();
  const Output n = Const(s, 4), k = Const(s, 5);
  const Values r =
      Repeat(s, n, {Const(s, 0), Const(s, 1), Const(s, 7), k}, [&](const Scope& in, Output i, const Values& v) {
        const Values inner = Repeat(in, i, {v[0]}, [&](const Scope& deep, Output j, const Values& w) {
          return Values{Add(deep, w[0], Mul(deep, k, Add(deep, i, j)))};
        });
        return Values{inner[0], v[2], v[1], k};
      });
  const std::vector<Tensor> out = RunAll(graph, r);
  int expected = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i; ++j) expected += 5 * (i + j);
  }
  EXPECT_EQ(out[0].scalar<int32_t>(), expected);
  EXPECT_EQ(out[1].scalar<int32_t>(), 1);
  EXPECT_EQ(out[2].scalar<int32_t>(), 7);
  EXPECT_EQ(out[3].scalar<int32_t>(), 5);
}

TEST(While, WhatHasStateRunsInEveryIterationAndNotOnceMore) {
  Graph graph;
  const Scope s = graph.root();
  const Output count = RefVariable(s, kInt32, Shape());
  const Output init = Assign(s, count, Const(s, 0));
  const Values r = Repeat(s, Const(s, 3), {Const(s, 0.f), Const(s, 0)}, [&](const Scope& in, Output, const Values& v) {
    const Output drawn = RandomUniform(in, Const(in, std::vector<int32_t>()), kFloat);
    return Values{drawn, Identity(in.WithControlDependencies({AssignAdd(in, count, Const(in, 1))}), v[1])};
  });
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({r[0], r[1]}));
  EXPECT_GT(out[0].scalar<float>(), 0);
  ASSERT_OK_AND_ASSIGN(const auto times, session->Run({count}));
  EXPECT_EQ(times[0].scalar<int32_t>(), 3);
}

TEST(While, AShapeMayChangeIfThatIsSaid) {
  for (const bool said : {true, false}) {
    Graph graph;
    const Scope s = graph.root();
    const Values r = While(
        s, {Const(s, {1, 2})}, [](const Scope& in, const Values& v) { return Less(in, Size(in, v[0]), Const(in, 9)); },
        [](const Scope& in, const Values& v) {
          return Values{Concat(in, {v[0], v[0]}, 0)};
        },
        {.shapes = {said ? PartialShape({-1}) : PartialShape({2})}});
    if (said) {
      EXPECT_EQ(RunAll(graph, r)[0].shape(), Shape({16}));
    } else {
      EXPECT_THAT(s.status(), Fails(StatusCode::kInvalidArgument, "value 0 has shape [2], the body gives [4]"));
    }
  }
  // Errors that the graph does not show are found when it runs.
  Graph graph;
  const Scope s = graph.root();
  const Output more = Placeholder(s, kInt32, {-1});
  const Values r =
      Repeat(s, Const(s, 1), {Const(s, {1, 2})}, [&](const Scope& in, Output, const Values&) { return Values{more}; });
  ASSERT_OK(s.status());
  EXPECT_EQ(r[0].shape().ToString(), "[2]");
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  EXPECT_THAT(session->Run({r[0]}, {{more, Tensor::Vector({1, 2, 3})}}),
              Fails(StatusCode::kInvalidArgument, "not compatible with expected shape [2]"));
}

TEST(While, BadLoopsAreErrorsOfTheScope) {
  const auto status = [](const std::function<void(const Scope&, Output)>& build) {
    Graph graph;
    const Scope s = graph.root();
    build(s, Const(s, 1.f));
    return graph.build_status();
  };
  const auto yes = [](const Scope& s, const Values&) { return Const(s, true); };
  const auto same = [](const Scope&, const Values& v) { return v; };
  const auto invalid = [](const char* text) { return Fails(StatusCode::kInvalidArgument, text); };
  EXPECT_THAT(status([&](const Scope& s, Output) { While(s, {}, yes, same); }), invalid("no values to start with"));
  EXPECT_THAT(status([&](const Scope& s, Output) { While(s, {Output()}, yes, same); }), invalid("value 0 to start"));
  EXPECT_THAT(status([&](const Scope& s, Output x) {
                While(s, {x}, yes, same, {.shapes = {{}, {}}});
              }),
              invalid("2 shapes for 1 values"));
  EXPECT_THAT(status([&](const Scope& s, Output x) { While(s, {x}, yes, same, {.shapes = {PartialShape({2})}}); }),
              invalid("starts with shape [], which is not [2]"));
  EXPECT_THAT(status([&](const Scope& s, Output x) {
                While(
                    s, {x}, [](const Scope&, const Values& v) { return v[0]; }, same);
              }),
              invalid("must be a bool of rank 0, got float[]"));
  EXPECT_THAT(status([&](const Scope& s, Output x) {
                While(s, {x, x}, yes, [](const Scope&, const Values& v) { return Values{v[0]}; });
              }),
              invalid("the body gives 1 values, there are 2"));
  EXPECT_THAT(status([&](const Scope& s, Output x) {
                While(s, {x}, yes, [](const Scope& in, const Values&) { return Values{Const(in, 1)}; });
              }),
              invalid("value 0 is of type float, the body gives int32"));
  EXPECT_THAT(status([&](const Scope& s, Output x) {
                While(s, {x}, yes, [&](const Scope& in, const Values& v) {
                  return Values{Neg(in.WithControlDependencies({Neg(s.WithOpName("before"), x)}), v[0])};
                });
              }),
              invalid("waits for 'before' outside"));
}

TEST(WhileGradient, OfPowers) {
  for (const int n : {0, 1, 4}) {
    ExpectGradientsOf(
        [&](const Scope& s, const Values& x) {
          return Repeat(s, Const(s, n), {x[0]}, [&](const Scope& in, Output, const Values& v) {
            return Values{Mul(in, v[0], Sin(in, v[0]))};
          })[0];
        },
        {X({3})});
  }
}

TEST(WhileGradient, OfWhatStaysTheSame) {
  for (const int n : {0, 3}) {
    for (const bool known : {true, false}) {
      ExpectGradientsOf(
          [&](const Scope& s, const Values& x) {
            const Output w = known ? x[1] : PlaceholderWithDefault(s, x[1], {-1, -1});
            return Repeat(s, Const(s, n), {x[0]}, [&](const Scope& in, Output i, const Values& v) {
              const Output y = Tanh(in, Add(in, MatMul(in, v[0], w), x[2]));
              return Values{Add(in, y, Mul(in, Cast(in, i, kDouble), x[3]))};
            })[0];
          },
          {X({2, 3}), X({3, 3}, 2), X({3}, 3), X({}, 4)});
    }
  }
}

TEST(WhileGradient, WeightsOfAllIterationsGetOneProduct) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 3}), w = Placeholder(s, kFloat, {3, 3});
  const Values y = Repeat(s, Placeholder(s, kInt32, Shape()), {x},
                          [&](const Scope& in, Output, const Values& v) { return Values{MatMul(in, v[0], w)}; });
  const Output dw = Gradients(s, y, {w})[0].values;
  ASSERT_OK(s.status());
  EXPECT_EQ(dw.node->op(), "MatMul");
  EXPECT_EQ(dw.node->input(0).node->op(), "TensorListConcatV2");
}

TEST(WhileGradient, OfValuesThatMeetAndOnesThatDoNotMatter) {
  ExpectGradientsOf(
      [](const Scope& s, const Values& x) {
        const Values r =
            Repeat(s, Const(s, 3), {x[0], x[1], x[2], Const(s, 1.0)}, [&](const Scope& in, Output, const Values& v) {
              // The third is replaced, the fourth does not depend on an x.
              return Values{v[1], Mul(in, v[0], Add(in, v[1], v[3])), Exp(in, x[3]), Add(in, v[3], Const(in, 1.0))};
            });
        return Add(s, r[1], Mul(s, r[2], r[0]));
      },
      {X({2}), X({2}, 2), X({2}, 3), X({2}, 4)});
}

TEST(WhileGradient, OfRowsThatAreGathered) {
  ExpectGradientsOf(
      [](const Scope& s, const Values& x) {
        return Repeat(s, Const(s, 4), {x[0]}, [&](const Scope& in, Output i, const Values& v) {
          return Values{Mul(in, v[0], Gather(in, x[1], FloorMod(in, i, Const(in, 3))))};
        })[0];
      },
      {X({2}), X({3, 2}, 2)});
}

TEST(WhileGradient, OfALoopInALoop) {
  ExpectGradientsOf(
      [](const Scope& s, const Values& x) {
        return Repeat(s, Const(s, 3), {x[0]}, [&](const Scope& in, Output i, const Values& v) {
          const Output scaled = Mul(in, v[0], x[2]);
          const Values inner = Repeat(in, i, {v[0]}, [&](const Scope& deep, Output, const Values& w) {
            return Values{Add(deep, Mul(deep, Sin(deep, w[0]), x[1]), scaled)};
          });
          return Values{Mul(in, inner[0], v[0])};
        })[0];
      },
      {X({2}), X({2}, 2), X({2}, 3)});
}

TEST(WhileGradient, OfArrays) {
  ExpectGradientsOf(
      [](const Scope& s, const Values& x) {
        const Output n = Const(s, 3);
        const auto array = [&] {
          Node* const node = s.Add("TensorArrayV3", {n}, {{"dtype", kDouble}, {"clear_after_read", false}});
          return node;
        };
        Node *const in_array = array(), *const out_array = array();
        const Output rows = Range(s, Const(s, 0), n, Const(s, 1));
        const Output read = TensorArrayScatter(s, in_array->out(0), rows, x[0], in_array->out(1));
        const Values r = Repeat(s, n, {out_array->out(1), x[1]}, [&](const Scope& in, Output i, const Values& v) {
          const Output row = TensorArrayRead(in, in_array->out(0), i, read, kDouble);
          const Output y = Mul(in, Add(in, v[1], row), row);
          return Values{TensorArrayWrite(in, out_array->out(0), i, y, v[0]), y};
        });
        return TensorArrayGather(s, out_array->out(0), rows, r[0], kDouble, PartialShape({2}));
      },
      {X({3, 2}), X({2}, 2)});
}

TEST(WhileGradient, OfLists) {
  ExpectGradientsOf(
      [](const Scope& s, const Values& x) {
        const Output any = Const(s, -1);
        const Output list = s.Add("TensorListFromTensor", {x[0], any});
        const Output none = s.Add("EmptyTensorList", {any, any}, {{"element_dtype", kDouble}});
        const Values r = Repeat(s, Const(s, 3), {none, x[1]}, [&](const Scope& in, Output i, const Values& v) {
          const Output row = in.Add("TensorListGetItem", {list, i, any}, {{"element_dtype", kDouble}});
          const Output y = Mul(in, Add(in, v[1], row), row);
          return Values{in.Add("TensorListPushBack", {v[0], y}), y};
        });
        return Output(s.Add("TensorListStack", {r[0], any}, {{"element_dtype", kDouble}}));
      },
      {X({3, 2}), X({2}, 2)});
}

TEST(WhileGradient, OfGradients) {
  for (const int n : {0, 1, 3}) {
    ExpectGradientsOf(
        [&](const Scope& s, const Values& x) {
          return Repeat(s, Const(s, n), {x[0]}, [&](const Scope& in, Output, const Values& v) {
            return Values{Mul(in, Sin(in, MatMul(in, v[0], x[2])), x[1])};
          })[0];
        },
        {X({3, 2}), X({2}, 2), X({2, 2}, 3)}, /*second=*/true);
  }
}

TEST(WhileGradient, FollowsTheNumberOfIterationsAndWaitsForBoth) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, Shape()), n = Placeholder(s, kInt32, Shape());
  const auto square = [](const Scope& in, Output, const Values& v) { return Values{Mul(in, v[0], v[0])}; };
  const Output y = Repeat(s, n, Repeat(s, n, {x}, square), square)[0];  // x^(4^n)
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK(session->Run({y}, {{x, Tensor::Scalar(1.1f)}, {n, Tensor::Scalar<int32_t>(1)}}).status());
  const Output dx = Gradients(s, {y}, {x})[0].values;  // adds to loops that have run
  ASSERT_OK(s.status());
  for (const int times : {1, 0, 2, 1}) {
    const double power = std::pow(4, times);
    ASSERT_OK_AND_ASSIGN(const auto out,
                         session->Run({y, dx}, {{x, Tensor::Scalar(1.1f)}, {n, Tensor::Scalar<int32_t>(times)}}));
    EXPECT_NEAR(out[0].scalar<float>(), std::pow(1.1, power), 1e-4);
    EXPECT_NEAR(out[1].scalar<float>(), power * std::pow(1.1, power - 1), 1e-3);
  }
}

TEST(WhileGradient, OfALoopThatWasImported) {
  Graph graph;
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar(1.5f));
  AddConst(def, "limit", Tensor::Scalar<int32_t>(4));
  AddLoop(def, "loop", "zero", "start", "limit", [&](const std::string& i) {
    AddCast(def, "as_float", i);
    return std::string("as_float");
  });
  ASSERT_OK(graph.Import(def));
  const Scope s = graph.root();
  const Output start = *graph.FindOutput("start"), end = *graph.FindOutput("loop/exit_acc");
  const Output dx = Gradients(s, {Square(s, end)}, {start})[0].values;
  ASSERT_OK(s.status());
  EXPECT_FLOAT_EQ(RunAll(graph, {dx})[0].scalar<float>(), 2 * (1.5f + 6));
}

TEST(WhileGradient, WhatCannotBeIsAnErrorThatSaysWhat) {
  {
    Graph graph;
    const Scope s = graph.root();
    const Output x = Const(s, 1.f);
    Repeat(s, Const(s, 3), {x}, [](const Scope& in, Output, const Values& v) {
      return Values{Add(in, v[0], Gradients(in, {Square(in, v[0])}, {v[0]})[0].values)};
    });
    EXPECT_THAT(s.status(), Fails(StatusCode::kUnimplemented, "is a value of each iteration of the loop 'while'"));
  }
  {
    Graph graph;
    const Scope s = graph.root();
    const Output x = Const(s, 1.f);
    const Output y = Repeat(s, Const(s, 3), {x}, [](const Scope& in, Output i, const Values& v) {
      Node* const branch = in.WithOpName("branch").Add("Switch", {v[0], Less(in, i, Const(in, 2))});
      return Values{in.Add("Merge", {Values{Neg(in, branch->out(0)), branch->out(1)}})};
    })[0];
    EXPECT_EQ(RunAll(graph, {y})[0].scalar<float>(), -1);
    Gradients(s, {y}, {x});
    EXPECT_THAT(s.status(), Fails(StatusCode::kUnimplemented,
                                  "gradient of loop 'while': a conditional ('while/branch') in a loop"));
  }
  {
    Graph graph;
    const Scope s = graph.root();
    const Output variable = s.WithOpName("v").Add("VarHandleOp", {}, {{"dtype", kFloat}, {"shape", Shape()}});
    const Output y = Repeat(s, Const(s, 3), {Const(s, 1.f)}, [&](const Scope& in, Output, const Values& v) {
      return Values{Mul(in, v[0], in.Add("ReadVariableOp", {variable}, {{"dtype", kFloat}}))};
    })[0];
    Gradients(s, {y}, {variable});
    EXPECT_THAT(s.status(), Fails(StatusCode::kUnimplemented, "variable 'v', which is read in a loop"));
  }
}

}  // namespace
}  // namespace thalweg
