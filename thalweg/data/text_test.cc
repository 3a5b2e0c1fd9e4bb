// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/text.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/data/generated.h"

namespace thalweg::data {
namespace {

using testing::ElementsAre;

TEST(Text, Vocabularies) {
  const std::vector<std::string> words = {"b", "a", "c", "b", "c", "a", "b", "d"};
  const Vocabulary all = Vocabulary::Build(words, {});
  EXPECT_EQ(all.size(), 4);
  EXPECT_EQ(all.word(0), "b");
  EXPECT_EQ(all.word(1), "a");  // as often as c
  EXPECT_EQ(all.id("x"), -1);
  EXPECT_THAT(all.Ids({"d", "x", "b"}), ElementsAre(3, 0));
  const Vocabulary some = Vocabulary::Build(words, {.max_size = 3, .unknown = "UNK"});
  EXPECT_EQ(some.size(), 3);
  EXPECT_THAT(some.Ids({"b", "d", "a", "c"}), ElementsAre(1, 0, 2, 0));
}

TEST(Text, SequencesGoOn) {
  std::vector<int32_t> words(23);
  for (int i = 0; i < 23; ++i) words[i] = i;
  std::vector<SequenceBatch> batches;
  for (const SequenceBatch& batch : SequenceBatches(words, 2, 3)) batches.push_back(batch);
  ASSERT_EQ(batches.size(), 3u);  // 11 words a row
  EXPECT_THAT(batches[0].x.flat<int32_t>(), ElementsAre(0, 1, 2, 11, 12, 13));
  EXPECT_THAT(batches[0].y.flat<int32_t>(), ElementsAre(1, 2, 3, 12, 13, 14));
  EXPECT_THAT(batches[2].y.flat<int32_t>(), ElementsAre(7, 8, 9, 18, 19, 20));
  EXPECT_EQ(SequenceBatches({1, 2}, 2, 3).size(), 0);
  EXPECT_EQ(SequenceBatches({}, 2, 3).size(), 0);
}

TEST(Text, SkipGrams) {
  std::vector<int32_t> words(100);
  for (int i = 0; i < 100; ++i) words[i] = i;
  auto grams = *SkipGrams::Create(words, {.window = 2, .skips = 3});
  const SkipGramBatch batch = grams.Next(290);
  EXPECT_EQ(batch.near.shape(), Shape({290, 1}));
  for (int i = 0; i < 290; ++i) {
    const int64_t word = batch.words.data<int32_t>()[i], near = batch.near.data<int64_t>()[i];
    EXPECT_EQ(word, 2 + i / 3 % 96);
    EXPECT_NE(word, near);
    EXPECT_LE(std::abs(word - near), 2);
    if (i % 3 > 0) {
      EXPECT_NE(near, batch.near.data<int64_t>()[i - 1]);
    }
  }
  EXPECT_EQ(grams.epoch(), 1);
  auto again = *SkipGrams::Create(words, {.window = 2, .skips = 3});
  const Tensor near = again.Next(290).near;
  EXPECT_TRUE(std::equal(near.flat<int64_t>().begin(), near.flat<int64_t>().end(), batch.near.data<int64_t>()));
  auto second = *SkipGrams::Create(words, {.shard = 1, .num_shards = 2});
  EXPECT_EQ(second.Next(1).words.data<int32_t>()[0], 51);
  EXPECT_FALSE(SkipGrams::Create({1, 2}, {}).ok());
  EXPECT_FALSE(SkipGrams::Create(words, {.skips = 3}).ok());
  EXPECT_FALSE(SkipGrams::Create(words, {.shard = 1}).ok());
}

TEST(Text, PtbAndText8) {
  const std::string folder = testing::TempDir() + "/ptb";
  ASSERT_TRUE(GeneratePtb(folder, 100).ok());
  const auto ptb = Ptb::Load(folder);
  ASSERT_TRUE(ptb.ok()) << ptb.status();
  EXPECT_EQ(ptb->train.size(), 1000u + 51);  // ends of lines are words
  EXPECT_GE(ptb->vocabulary.id("<eos>"), 0);
  EXPECT_LE(ptb->vocabulary.size(), 51);
  EXPECT_EQ(Ptb::Load(folder + "/none").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(GenerateText8(folder + "/text8", 1000).ok());
  EXPECT_EQ(ReadWords(folder + "/text8")->size(), 1000u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace thalweg::data
