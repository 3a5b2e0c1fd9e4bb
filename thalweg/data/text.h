// SPDX-License-Identifier: Apache-2.0
// Words as numbers, and batches of them for language models and word2vec.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg::data {

// Words numbered by falling frequency; those equally frequent by the alphabet.
class Vocabulary {
 public:
  // How to number the words.
  struct Options {
    int64_t max_size = 0;  // 0: all words
    // If not empty, word 0, which stands for all words that have no number.
    std::string unknown;
  };
  // Numbers the words of a text.
  static Vocabulary Build(const std::vector<std::string>& words, const Options& options);

  int64_t size() const { return static_cast<int64_t>(words_.size()); }  // number of words
  const std::string& word(int64_t id) const { return words_[id]; }      // REQUIRES: id < size()
  int32_t id(absl::string_view word) const;  // that of the unknown word, or -1, if it has none
  // Words without a number are left out, unless there is a word for them.
  std::vector<int32_t> Ids(const std::vector<std::string>& words) const;

 private:
  std::vector<std::string> words_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  int32_t unknown_ = -1;
};

// The words of a file, separated by white space. With `end_of_line`, that word
// stands for every end of a line.
absl::StatusOr<std::vector<std::string>> ReadWords(const std::string& path, const std::string& end_of_line = "",
                                                   FileSystem& files = PosixFileSystem());

// The Penn Treebank as Mikolov prepared it: ptb.train.txt, ptb.valid.txt and
// ptb.test.txt, a sentence a line.
struct Ptb {
  Vocabulary vocabulary;       // vocabulary of the training text
  std::vector<int32_t> train;  // the words of ptb.train.txt, by number
  std::vector<int32_t> valid;  // the words of ptb.valid.txt
  std::vector<int32_t> test;   // the words of ptb.test.txt

  // Reads the three files of a folder.
  static absl::StatusOr<Ptb> Load(const std::string& folder, FileSystem& files = PosixFileSystem());
};

// Words and the words after them.
struct SequenceBatch {
  Tensor x;  // int32 [batch, steps]
  Tensor y;  // the same, one word later
};

// A text, cut into `batch_size` pieces that are read side by side, `steps` words
// at a time: row r of a batch goes on where row r of the one before ended.
//
//   for (const SequenceBatch& batch : SequenceBatches(ptb.train, 20, 35)) ...
class SequenceBatches {
 public:
  // REQUIRES: batch_size and steps are positive (CHECKed). What is left at the
  // end of the text is left out.
  SequenceBatches(std::vector<int32_t> words, int64_t batch_size, int64_t steps);

  int64_t size() const { return size_; }      // number of batches
  SequenceBatch operator[](int64_t i) const;  // REQUIRES: i < size()

  /// @cond INTERNAL
  class Iterator {
   public:
    Iterator(const SequenceBatches* batches, int64_t i) : batches_(batches), i_(i) {}
    SequenceBatch operator*() const { return (*batches_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return i_ != other.i_; }

   private:
    const SequenceBatches* batches_;
    int64_t i_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }
  /// @endcond

 private:
  const std::vector<int32_t> words_;
  const int64_t batch_size_;
  const int64_t steps_;
  int64_t piece_ = 0;  // words in each row
  int64_t size_ = 0;
};

// How SkipGrams draws pairs of words, and from which part of the text.
struct SkipGramOptions {
  int64_t window = 1;  // words on each side that count as near
  int64_t skips = 2;   // pairs made of one word
  uint64_t seed = 1;   // seed of the choice
  int shard = 0;       // this worker's part of the text, below num_shards
  int num_shards = 1;  // see shard
};
// Words, and a word near each.
struct SkipGramBatch {
  Tensor words;  // int32 [n]
  Tensor near;   // int64 [n, 1], a word near each
};

// Pairs of words and words near them (Mikolov et al. 2013), without end. Not
// thread-safe.
class SkipGrams {
 public:
  // INVALID_ARGUMENT for a text that is shorter than two windows and a word, or
  // more skips than there are words near.
  static absl::StatusOr<SkipGrams> Create(std::vector<int32_t> words, const SkipGramOptions& options = {});

  SkipGramBatch Next(int64_t n);            // n pairs
  int64_t epoch() const { return epoch_; }  // how often the text was gone through

 private:
  SkipGrams(std::vector<int32_t> words, const SkipGramOptions& options);
  void Choose();

  std::vector<int32_t> words_;
  SkipGramOptions options_;
  std::mt19937_64 random_;
  int64_t center_ = 0;         // the word that pairs are made of
  std::vector<int64_t> near_;  // places of its pairs, in words_
  size_t next_ = 0;            // in near_
  int64_t epoch_ = 0;
};

}  // namespace thalweg::data
