// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/resource.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;

class Box : public Resource {
 public:
  explicit Box(int value = 0, std::atomic<int>* destroyed = nullptr) : value(value), destroyed_(destroyed) {}
  ~Box() override {
    if (destroyed_ != nullptr) ++*destroyed_;
  }
  std::string Describe() const override { return "a box"; }
  const int value;

 private:
  std::atomic<int>* const destroyed_;
};
class Crate : public Resource {
 public:
  std::string Describe() const override { return "a crate"; }
};

TEST(ResourceManagerTest, DeletesByNameWhateverTheType) {
  ResourceManager resources("local");
  ASSERT_TRUE(resources.Create("", "x", std::make_shared<Box>()).ok());
  ASSERT_TRUE(resources.Create("", "x", std::make_shared<Crate>()).ok());
  ASSERT_TRUE(resources.Create("other", "x", std::make_shared<Box>()).ok());
  EXPECT_TRUE(resources.DeleteNamed("local", "x").ok());
  EXPECT_EQ(resources.DeleteNamed("", "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(resources.size(), 1);
}

TEST(ResourceManager, KeepsByContainerTypeAndName) {
  ResourceManager resources("home");
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Box>(1)), IsOk());
  ASSERT_THAT(resources.Create("other", "a", std::make_shared<Box>(2)), IsOk());
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Crate>()), IsOk());
  EXPECT_EQ((*resources.Find<Box>("", "a"))->value, 1);
  EXPECT_EQ((*resources.Find<Box>("home", "a"))->value, 1) << "the default container by its name";
  EXPECT_EQ((*resources.Find<Box>("other", "a"))->value, 2);
  EXPECT_EQ((*resources.Find<Crate>("", "a"))->Describe(), "a crate");
  EXPECT_EQ(resources.size(), 3);
  EXPECT_EQ(resources.All().size(), 3);
  EXPECT_THAT(resources.Create("home", "a", std::make_shared<Box>(3)),
              Fails(StatusCode::kAlreadyExists, "Resource home/a already exists"));
  EXPECT_THAT(resources.Find<Box>("", "b"), Fails(StatusCode::kNotFound, "Resource home/b does not exist"));
  EXPECT_THAT(resources.Find<Crate>("other", "a"), Fails(StatusCode::kNotFound, "other/a"));
}

TEST(ResourceManager, DeletesWhatIsThere) {
  ResourceManager resources;
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Box>()), IsOk());
  EXPECT_THAT(resources.Delete<Crate>("", "a"), Fails(StatusCode::kNotFound, "does not exist"));
  EXPECT_THAT(resources.Delete<Box>("", "a"), IsOk());
  EXPECT_THAT(resources.Delete<Box>("", "a"), Fails(StatusCode::kNotFound, "does not exist"));
}

TEST(ResourceManager, AResourceLivesWhileItIsHeld) {
  std::atomic<int> destroyed = 0;
  ResourceManager resources;
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Box>(7, &destroyed)), IsOk());
  std::shared_ptr<Box> held = *resources.Find<Box>("", "a");
  ASSERT_THAT(resources.Delete<Box>("", "a"), IsOk());
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(held->value, 7);
  held.reset();
  EXPECT_EQ(destroyed, 1);
}

TEST(ResourceManager, ClearsAContainerOrAll) {
  std::atomic<int> destroyed = 0;
  ResourceManager resources("home");
  for (const char* container : {"", "x", "y"}) {
    ASSERT_THAT(resources.Create(container, "a", std::make_shared<Box>(0, &destroyed)), IsOk());
    ASSERT_THAT(resources.Create(container, "b", std::make_shared<Box>(0, &destroyed)), IsOk());
  }
  resources.Clear("x");
  EXPECT_EQ(destroyed, 2);
  EXPECT_THAT(resources.Find<Box>("x", "a"), Fails(StatusCode::kNotFound, "x/a"));
  EXPECT_THAT(resources.Find<Box>("y", "a"), IsOk());
  resources.Clear("");
  EXPECT_EQ(destroyed, 4);
  EXPECT_EQ(resources.size(), 2);
  resources.ClearAll();
  EXPECT_EQ(destroyed, 6);
  EXPECT_EQ(resources.size(), 0);
}

TEST(ResourceManager, WhatIsClearedMayUseTheManager) {
  class Nosy : public Resource {
   public:
    explicit Nosy(ResourceManager* resources) : resources_(resources) {}
    ~Nosy() override { EXPECT_EQ(resources_->size(), 0); }
    std::string Describe() const override { return ""; }

   private:
    ResourceManager* const resources_;
  };
  ResourceManager resources;
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Nosy>(&resources)), IsOk());
  EXPECT_THAT(resources.Delete<Nosy>("", "a"), IsOk());
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Nosy>(&resources)), IsOk());
  resources.Clear("");
  ASSERT_THAT(resources.Create("", "a", std::make_shared<Nosy>(&resources)), IsOk());
  resources.ClearAll();
}

TEST(ResourceManager, AFailedMakeLeavesNothing) {
  ResourceManager resources;
  const auto fail = []() -> absl::StatusOr<std::shared_ptr<Box>> { return Internal("no box"); };
  EXPECT_THAT(resources.FindOrCreate<Box>("", "a", fail), Fails(StatusCode::kInternal, "no box"));
  EXPECT_EQ(resources.size(), 0);
}

TEST(ResourceManager, OneOfManyThreadsMakesIt) {
  ResourceManager resources;
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  std::vector<Box*> boxes(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto make = [&]() -> absl::StatusOr<std::shared_ptr<Box>> { return std::make_shared<Box>(++made); };
      for (int i = 0; i < 100; ++i) {
        const absl::StatusOr<std::shared_ptr<Box>> box = resources.FindOrCreate<Box>("", absl::StrCat(i), make);
        ASSERT_THAT(box, IsOk());
        if (i == 0) boxes[t] = box->get();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 100);
  EXPECT_THAT(boxes, testing::Each(boxes[0]));
}

}  // namespace
}  // namespace thalweg
