// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/later_attrs.h"

#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"

namespace thalweg {
namespace {

class LaterAttrsTest : public testing::Test {
 protected:
  LaterAttrsTest() {
    op_.set_name("MergeV2Checkpoints");
    AddAttr("delete_old_dirs", true);
    AddAttr("allow_missing_files", false);
    node_.set_op(op_.name());
    AddDefaultAttrs(op_, node_);
  }
  void AddAttr(const std::string& name, bool value) {
    tensorflow::OpDef::AttrDef* attr = op_.add_attr();
    attr->set_name(name);
    attr->set_type("bool");
    attr->mutable_default_value()->set_b(value);
  }

  tensorflow::OpDef op_;
  tensorflow::NodeDef node_;
};

TEST_F(LaterAttrsTest, ADefaultThatTensorFlow1DoesNotKnowIsRemoved) {
  RemoveLaterDefaults(op_, node_);
  EXPECT_FALSE(node_.attr().contains("allow_missing_files"));
  EXPECT_TRUE(node_.attr().contains("delete_old_dirs"));  // it does not add that itself
}

TEST_F(LaterAttrsTest, AnotherValueStays) {
  SetAttr(node_, "allow_missing_files", true);
  RemoveLaterDefaults(op_, node_);
  EXPECT_TRUE(*GetAttr<bool>(node_, "allow_missing_files"));
}

TEST_F(LaterAttrsTest, AFusedConvolutionOfTensorFlow1GetsTheTypesOfItsArguments) {
  tensorflow::OpDef op;
  op.set_name("_FusedConv2D");
  tensorflow::NodeDef node;
  SetAttr(node, "T", kDouble);
  SetAttr(node, "num_args", int64_t{2});
  AddDefaultAttrs(op, node);
  EXPECT_EQ(*GetAttr<std::vector<DType>>(node, "TArgs"), (std::vector<DType>{kDouble, kDouble}));
  SetAttr(node, "num_args", int64_t{1});
  AddDefaultAttrs(op, node);
  EXPECT_EQ(GetAttr<std::vector<DType>>(node, "TArgs")->size(), 2u);  // those that are there stay
}

TEST_F(LaterAttrsTest, AHostileNumberOfArgumentsAllocatesNothing) {
  tensorflow::NodeDef node;
  SetAttr(node, "T", kFloat);
  SetAttr(node, "num_args", int64_t{1} << 60);
  tensorflow::OpDef op;
  op.set_name("_FusedConv2D");
  AddDefaultAttrs(op, node);
  EXPECT_FALSE(HasAttr(node, "TArgs"));
}

}  // namespace
}  // namespace thalweg
