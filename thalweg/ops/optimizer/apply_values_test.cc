// SPDX-License-Identifier: Apache-2.0
// Every Apply op, one step in double, against TensorFlow 2.15.1: same inputs,
// same results, for the ref and the resource form.
#include <map>

#include "absl/strings/match.h"
#include "thalweg/graph/op_schema.h"
#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

struct Case {
  const char* op;
  const char* changed;                       // an attribute set to other than its default, or "lr_power"
  std::vector<std::vector<double>> results;  // the variable and its slots afterwards
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"ApplyAdaMax",
       "",
       {{0.076776994, -0.697670406, -0.0123192597, -0.606793877, -0.321052632, -0.236186825},
        {0.39, 0.345, 0.54, 0.485, 0.54, 0.735},
        {0.475, 0.6, 0.9, 0.6175, 0.665, 1.5}}},
      {"ApplyAdadelta",
       "",
       {{0.463682435, -0.332464187, 0.207058557, -0.187916222, 0.1, -0.112094586},
        {0.338, 0.432, 0.562, 0.442, 0.48, 0.97},
        {0.42637931, 0.531221719, 0.652762238, 0.522920354, 0.56, 0.948979592}}},
      {"ApplyAdagrad",
       "",
       {{0.457142857, -0.333333333, 0.221366635, -0.186636938, 0.1, -0.0680830329},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9}}},
      {"ApplyAdagrad",
       "update_slots",
       {{0.452565835, -0.310557281, 0.172720779, -0.186516003, 0.1, -0.166052102}, {0.4, 0.45, 0.5, 0.55, 0.6, 0.65}}},
      {"ApplyAdagradDA",
       "",
       {{-0.0640940052, 0, -0.0978523975, -0.0332445394, -0.0485614991, -0.109766423},
        {0.7, -0.15, 1.4, 0.45, 0.6, 2.15},
        {0.59, 0.91, 1.41, 0.66, 0.7, 3}}},
      {"ApplyAdagradV2",
       "",
       {{0.457746479, -0.334065934, 0.222047707, -0.186813155, 0.1, -0.0675688112},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9}}},
      {"ApplyAdagradV2",
       "update_slots",
       {{0.453304161, -0.31187103, 0.174495679, -0.186695402, 0.1, -0.163772682}, {0.4, 0.45, 0.5, 0.55, 0.6, 0.65}}},
      {"ApplyAdam",
       "",
       {{0.407596209, -0.477054888, 0.186427209, -0.301392138, -0.00887697969, -0.113214491},
        {0.39, 0.345, 0.54, 0.485, 0.54, 0.735},
        {0.4795, 0.5405, 0.6105, 0.618, 0.665, 0.825}}},
      {"ApplyAdam",
       "use_nesterov",
       {{0.409728605, -0.455948549, 0.178855689, -0.289162364, 0.00201071828, -0.127079672},
        {0.39, 0.345, 0.54, 0.485, 0.54, 0.735},
        {0.4795, 0.5405, 0.6105, 0.618, 0.665, 0.825}}},
      {"ApplyAddSign", "", {{0.473, -0.43, 0.219, -0.205, 0.1, -0.115}, {0.36, 0.03, 0.66, 0.29, 0.36, 0.99}}},
      {"ApplyCenteredRMSProp",
       "",
       {{-0.0963336825, -0.896954909, -0.490204242, -0.858230538, -0.62, -0.985934712},
        {0.38, 0.24, 0.58, 0.42, 0.48, 0.82},
        {0.418, 0.512, 0.642, 0.522, 0.56, 1.05},
        {0.596333682, 0.496954909, 0.790204242, 0.658230538, 0.72, 1.00593471}}},
      {"ApplyFtrl",
       "",
       {{-0.0542470605, -0.0850748361, -0.0114285946, -0.0635164251, -0.0778819308, -0.114618705},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9},
        {0.46227766, 0.866718427, 0.187663401, 0.563423257, 0.7, 2.07065743}}},
      {"ApplyFtrl",
       "multiply_linear_by_lr",
       {{-0.646352324, -0.600699836, -0.459727928, -0.787229427, -0.832737567, -0.497502139},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9},
        {0.496227766, 0.581671843, 0.55876634, 0.641342326, 0.7, 0.882065743}}},
      {"ApplyFtrl",
       "lr_power",
       {{-0.0521981043, -0.115316632, 0.0179387712, -0.0711327811, -0.0855974754, -0.0888998688},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9},
        {0.398123833, 1.11420918, -0.277475082, 0.566704844, 0.7, 1.97652081}}},
      {"ApplyFtrlV2",
       "",
       {{-0.08056285, -0.0684081695, -0.021390802, -0.0536194951, -0.082674665, -0.115072492},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9},
        {0.66227766, 0.706718427, 0.307663401, 0.483423257, 0.74, 2.07865743}}},
      {"ApplyFtrlV2",
       "multiply_linear_by_lr",
       {{-0.672668113, -0.584033169, -0.469690136, -0.777332497, -0.837530301, -0.497955927},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9},
        {0.516227766, 0.565671843, 0.57076634, 0.633342326, 0.704, 0.882865743}}},
      {"ApplyFtrlV2",
       "lr_power",
       {{-0.0821863438, -0.0979791938, 0.00847552572, -0.0601194869, -0.0908650123, -0.0892690312},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9},
        {0.598123833, 0.954209185, -0.157475082, 0.486704844, 0.74, 1.98452081}}},
      {"ApplyGradientDescent", "", {{0.44, -0.28, 0.12, -0.18, 0.1, -0.28}}},
      {"ApplyMomentum",
       "",
       {{0.434, -0.3805, 0.165, -0.2395, 0.046, -0.1885}, {0.66, -0.195, 1.35, 0.395, 0.54, 2.085}}},
      {"ApplyMomentum",
       "use_nesterov",
       {{0.4106, -0.32245, 0.0885, -0.22555, 0.0514, -0.31765}, {0.66, -0.195, 1.35, 0.395, 0.54, 2.085}}},
      {"ApplyPowerSign",
       "",
       {{0.460306106, -0.354652976, 0.180918317, -0.192442163, 0.1, -0.178469472},
        {0.36, 0.03, 0.66, 0.29, 0.36, 0.99}}},
      {"ApplyProximalAdagrad",
       "",
       {{0.431506849, -0.317204301, 0.211455625, -0.173019208, 0.0900571301, -0.064019132},
        {0.49, 0.81, 1.31, 0.56, 0.6, 2.9}}},
      {"ApplyProximalGradientDescent",
       "",
       {{0.405660377, -0.254716981, 0.103773585, -0.160377358, 0.0849056604, -0.254716981}}},
      {"ApplyRMSProp",
       "",
       {{-0.000854762772, -0.804751474, -0.358999324, -0.770125897, -0.53, -0.806522882},
        {0.338, 0.432, 0.562, 0.442, 0.48, 0.97},
        {0.500854763, 0.404751474, 0.658999324, 0.570125897, 0.63, 0.826522882}}},
      {"ResourceApplyAdamWithAmsgrad",
       "",
       {{0.41726971, -0.470348556, 0.193847286, -0.292144928, 0.000627423954, -0.111262011},
        {0.39, 0.345, 0.54, 0.485, 0.54, 0.735},
        {0.4795, 0.5405, 0.6105, 0.618, 0.665, 0.825},
        {0.6, 0.65, 0.7, 0.75, 0.8, 0.85}}},
      {"ResourceApplyKerasMomentum",
       "",
       {{0.83, 0.065, 0.66, 0.305, 0.64, 0.455}, {0.33, 0.465, 0.36, 0.505, 0.54, 0.435}}},
      {"ResourceApplyKerasMomentum",
       "use_nesterov",
       {{0.767, 0.0785, 0.534, 0.2645, 0.586, 0.2615}, {0.33, 0.465, 0.36, 0.505, 0.54, 0.435}}},
      {"ResourceSparseApplyKerasMomentum",
       "",
       {{0.77, 0.015, 0.3, -0.2, 1.069, 1.0955}, {0.27, 0.415, 0.5, 0.55, 0.459, 0.4305}}},
      {"ResourceSparseApplyKerasMomentum",
       "use_nesterov",
       {{0.653, -0.0165, 0.3, -0.2, 0.9421, 0.89795}, {0.27, 0.415, 0.5, 0.55, 0.459, 0.4305}}},
      {"SparseApplyAdadelta",
       "",
       {{0.408368447, -0.387730622, 0.3, -0.2, 0.0645334804, -0.0425529441},
        {0.482, 0.362, 0.5, 0.55, 0.3984, 0.9236},
        {0.567926829, 0.443010753, 0.6, 0.65, 0.468125984, 0.89055357}}},
      {"SparseApplyAdagrad",
       "",
       {{0.418181818, -0.385255804, 0.3, -0.2, 0.0638842441, -0.00337508493}, {1.21, 0.46, 0.5, 0.55, 0.69, 3.26}}},
      {"SparseApplyAdagrad",
       "update_slots",
       {{0.357697505, -0.38509288, 0.3, -0.2, 0.0612701665, -0.0916312611}, {0.4, 0.45, 0.5, 0.55, 0.6, 0.65}}},
      {"SparseApplyAdagradDA",
       "",
       {{-0.0931511761, -0.0238569117, 0.3, -0.2, -0.0766229161, -0.0728017658},
        {1.3, 0.35, 0.5, 0.55, 0.9, 1.55},
        {1.31, 0.56, 0.6, 0.65, 0.79, 3.36}}},
      {"SparseApplyAdagradV2",
       "",
       {{0.418918919, -0.385470037, 0.3, -0.2, 0.0643138548, -0.00350570311}, {1.21, 0.46, 0.5, 0.55, 0.69, 3.26}}},
      {"SparseApplyAdagradV2",
       "update_slots",
       {{0.359912483, -0.385311838, 0.3, -0.2, 0.0617637938, -0.0902636094}, {0.4, 0.45, 0.5, 0.55, 0.6, 0.65}}},
      {"SparseApplyCenteredRMSProp",
       "",
       {{-0.19860416, -0.967758621, 0.3, -0.2, -1.37269737, -1.46726713},
        {0.5, 0.34, 0.5, 0.55, 0.432, 0.62},
        {0.562, 0.442, 0.6, 0.65, 0.4624, 0.9876},
        {0.69860416, 0.567758621, 0.7, 0.75, 0.697593489, 0.80531261}}},
      {"SparseApplyFtrl",
       "",
       {{0.0765277879, -0.0581998395, 0.3, -0.2, -0.100367355, -0.0860624931},
        {1.21, 0.46, 0.5, 0.55, 0.69, 3.26},
        {-0.93772234, 0.47965042, 0.6, 0.65, 0.943934283, 1.65553626}}},
      {"SparseApplyFtrl",
       "multiply_linear_by_lr",
       {{-0.302782557, -0.728719853, 0.3, -0.2, -0.807706084, -0.719872712},
        {1.21, 0.46, 0.5, 0.55, 0.69, 3.26},
        {0.356227766, 0.542965042, 0.6, 0.65, 0.724393428, 1.34795638}}},
      {"SparseApplyFtrl",
       "lr_power",
       {{0.135603533, -0.0679695602, 0.3, -0.2, -0.105638636, -0.0682748428},
        {1.21, 0.46, 0.5, 0.55, 0.69, 3.26},
        {-1.68096624, 0.485461575, 0.6, 0.65, 0.928119635, 1.65236079}}},
      {"SparseApplyFtrlV2",
       "",
       {{0.0592864086, -0.0365264653, 0.3, -0.2, -0.100149163, -0.0866762723},
        {1.21, 0.46, 0.5, 0.55, 0.69, 3.26},
        {-0.73772234, 0.31965042, 0.6, 0.65, 0.941990925, 1.66698661}}},
      {"SparseApplyFtrlV2",
       "multiply_linear_by_lr",
       {{-0.320023936, -0.707046479, 0.3, -0.2, -0.77572103, -0.706896692},
        {1.21, 0.46, 0.5, 0.55, 0.69, 3.26},
        {0.376227766, 0.526965042, 0.6, 0.65, 0.695905543, 1.32374901}}},
      {"SparseApplyFtrlV2",
       "lr_power",
       {{0.11897492, -0.0429957617, 0.3, -0.2, -0.105135745, -0.0689375019},
        {1.21, 0.46, 0.5, 0.55, 0.69, 3.26},
        {-1.48096624, 0.325461575, 0.6, 0.65, 0.923939365, 1.66791291}}},
      {"SparseApplyMomentum",
       "",
       {{0.374, -0.4305, 0.3, -0.2, -0.0596, -0.12715}, {1.26, 0.305, 0.5, 0.55, 0.756, 1.4865}}},
      {"SparseApplyMomentum",
       "use_nesterov",
       {{0.2966, -0.41745, 0.3, -0.2, -0.07364, -0.202435}, {1.26, 0.305, 0.5, 0.55, 0.756, 1.4865}}},
      {"SparseApplyProximalAdagrad",
       "",
       {{0.402654867, -0.361876953, 0.3, -0.2, 0.0480917959, -0.00762043726}, {1.21, 0.46, 0.5, 0.55, 0.69, 3.26}}},
      {"SparseApplyProximalGradientDescent", "", {{0.29245283, -0.349056604, 0.3, -0.2, 0.0172659309, -0.157885368}}},
      {"SparseApplyRMSProp",
       "",
       {{-0.0783098384, -0.878604354, 0.3, -0.2, -1.17697293, -1.27081389},
        {0.482, 0.362, 0.5, 0.55, 0.3984, 0.9236},
        {0.578309838, 0.478604354, 0.6, 0.65, 0.604881913, 0.693144775}}},
  };
  return *cases;
}

// The value of each input, by its name, for every op.
Tensor Input(const std::string& name, const Case& c) {
  static const auto* const scalars = new std::map<std::string, double>{
      {"lr", 0.1},         {"alpha", 0.2},       {"l1", 0.05},          {"l2", 0.3},
      {"momentum", 0.9},   {"rho", 0.8},         {"epsilon", 0.01},     {"beta1_power", .81},
      {"beta1", .9},       {"beta2_power", 0.9}, {"beta2", 0.95},       {"lr_power", -0.5},
      {"sign_decay", 0.7}, {"beta", 0.6},        {"l2_shrinkage", 0.2}, {"logbase", 0.4}};
  if (name == "grad" || name == "delta") return Tensor::Of<double>({3, 2}, {0.3, -0.6, 0.9, -0.1, 0.0, 1.5});
  if (name == "indices") return Tensor::Vector<int32_t>({2, 0, 2});
  if (name == "global_step") return Tensor::Scalar<int64_t>(3);
  if (name == "lr_power" && name == c.changed) return Tensor::Scalar(-0.7);
  return Tensor::Scalar(scalars->at(name));
}

Tensor Slot(int k) {
  if (k == 0) return Tensor::Of<double>({3, 2}, {0.5, -0.4, 0.3, -0.2, 0.1, 0.02});
  Tensor t(kDouble, {3, 2});
  for (int j = 0; j < 6; ++j) t.mutable_data<double>()[j] = 0.3 + 0.1 * k + 0.05 * j;
  return t;
}

void ExpectStep(const std::string& op, const Case& c) {
  SCOPED_TRACE(absl::StrCat(op, " ", c.changed));
  const OpSchema* schema = OpRegistry::Global().Find(op);
  ASSERT_NE(schema, nullptr);
  Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
  Graph graph;
  const Scope s = graph.root();
  std::vector<OpInput> args;
  std::vector<std::shared_ptr<Variable>> variables;
  absl::flat_hash_map<Output, Tensor> feeds;
  for (const auto& arg : schema->def.input_arg()) {
    const int i = static_cast<int>(args.size());
    const std::string name = absl::StrCat("v", i);
    if (arg.is_ref()) {
      variables.push_back(std::make_shared<Variable>(name, kDouble));
      ASSERT_TRUE(device.resources().Create<Variable>("", name, variables.back()).ok());
      args.push_back(
          Output(s.WithOpName(name).Add("VariableV2", {}, {{"dtype", kDouble}, {"shape", PartialShape({3, 2})}})));
    } else {
      Tensor value;
      if (arg.type() == tensorflow::DT_RESOURCE) {
        auto variable = std::make_shared<ResourceVariable>(name, kDouble);
        ASSERT_TRUE(device.resources().Create<ResourceVariable>("", name, variable).ok());
        variables.push_back(variable);
        value = Tensor::Scalar(ResourceHandle{.device = device.name(), .container = "localhost", .name = name});
      } else {
        value = Input(arg.name(), c);
      }
      const Output fed = s.Add("_Arg", {}, {{"T", value.dtype()}, {"index", i}});
      feeds[fed] = value;
      args.push_back(fed);
    }
  }
  for (size_t k = 0; k < variables.size(); ++k) variables[k]->Assign(Slot(static_cast<int>(k)));
  std::vector<AttrArg> attrs;
  if (const auto* attr = FindAttr(schema->def, c.changed)) attrs.emplace_back(c.changed, !attr->default_value().b());
  Node* node = s.Add(op, args, attrs);
  ASSERT_TRUE(s.ok()) << s.status();
  const auto status = Evaluate(graph, feeds, {Output(node)}, device).status();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(variables.size(), c.results.size());
  for (size_t k = 0; k < variables.size(); ++k) {
    ExpectTensor(variables[k]->Read(), Tensor::Of<double>({3, 2}, absl::MakeConstSpan(c.results[k])), 1e-8);
  }
}

TEST(ApplyValues, AreTensorFlows) {
  for (const Case& c : Cases()) {
    ExpectStep(c.op, c);
    if (!absl::StartsWith(c.op, "Resource")) ExpectStep(absl::StrCat("Resource", c.op), c);
  }
}

TEST(ApplyValues, EveryOpIsInTheTable) {
  for (const OpSchema* schema : OpRegistry::Global().All()) {
    const std::string& name = schema->def.name();
    if (!absl::StrContains(name, "Apply") || absl::StrContains(name, "Accumulator")) continue;
    const std::string ref = absl::StartsWith(name, "Resource") ? name.substr(8) : name;
    const bool found =
        std::any_of(Cases().begin(), Cases().end(), [&](const Case& c) { return name == c.op || ref == c.op; });
    EXPECT_TRUE(found) << name;
  }
}

}  // namespace
}  // namespace thalweg
