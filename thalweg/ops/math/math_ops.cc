// SPDX-License-Identifier: Apache-2.0
// Constructors of math_ops.h for special functions, counts and Einstein sums.
#include "thalweg/ops/math_ops.h"

namespace thalweg {

Output BesselI0(const Scope& s, Output x) { return s.Add("BesselI0", {x}); }
Output BesselI1(const Scope& s, Output x) { return s.Add("BesselI1", {x}); }
Output BesselI0e(const Scope& s, Output x) { return s.Add("BesselI0e", {x}); }
Output BesselI1e(const Scope& s, Output x) { return s.Add("BesselI1e", {x}); }
Output Igamma(const Scope& s, Output a, Output x) { return s.Add("Igamma", {a, x}); }
Output Igammac(const Scope& s, Output a, Output x) { return s.Add("Igammac", {a, x}); }
Output Betainc(const Scope& s, Output a, Output b, Output x) { return s.Add("Betainc", {a, b, x}); }
Output Zeta(const Scope& s, Output x, Output q) { return s.Add("Zeta", {x, q}); }
Output Polygamma(const Scope& s, Output a, Output x) { return s.Add("Polygamma", {a, x}); }

Output Bincount(const Scope& s, Output arr, const IntArg& size, Output weights) {
  // An empty tensor of weights counts each occurrence as 1.
  if (!weights) {
    const Tensor none = Tensor::Vector<int32_t>({});
    weights = s.Argument("weights").Add("Const", {}, {{"dtype", kInt32}, {"value", none}});
  }
  return s.Add("Bincount", {arr, size.AsTensor(s, "size"), weights});
}
Output Bucketize(const Scope& s, Output input, const std::vector<float>& boundaries) {
  return s.Add("Bucketize", {input}, {{"boundaries", boundaries}});
}
Output HistogramFixedWidth(const Scope& s, Output values, Output value_range, const IntArg& nbins) {
  return s.Add("HistogramFixedWidth", {values, value_range, nbins.AsTensor(s, "nbins")});
}
Output LowerBound(const Scope& s, Output sorted_inputs, Output values, DType out_type) {
  return s.Add("LowerBound", {sorted_inputs, values}, {{"out_type", out_type}});
}
Output UpperBound(const Scope& s, Output sorted_inputs, Output values, DType out_type) {
  return s.Add("UpperBound", {sorted_inputs, values}, {{"out_type", out_type}});
}

Output Einsum(const Scope& s, absl::string_view equation, const std::vector<Output>& inputs) {
  return s.Add("Einsum", {inputs}, {{"equation", equation}});
}

}  // namespace thalweg
