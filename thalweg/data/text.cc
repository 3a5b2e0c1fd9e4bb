// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"
#include "thalweg/data/byte_stream.h"

namespace thalweg::data {

Vocabulary Vocabulary::Build(const std::vector<std::string>& words, const Options& options) {
  absl::flat_hash_map<absl::string_view, int64_t> counts;
  for (const std::string& word : words) ++counts[word];
  if (!options.unknown.empty()) counts.erase(options.unknown);
  std::vector<std::pair<int64_t, absl::string_view>> sorted;
  for (const auto& [word, count] : counts) sorted.emplace_back(-count, word);
  std::sort(sorted.begin(), sorted.end());
  Vocabulary v;
  if (!options.unknown.empty()) {
    v.unknown_ = 0;
    v.words_.push_back(options.unknown);
  }
  for (const auto& [count, word] : sorted) {
    if (options.max_size > 0 && v.size() >= options.max_size) break;
    v.words_.emplace_back(word);
  }
  for (int64_t i = 0; i < v.size(); ++i) v.ids_.emplace(v.words_[i], static_cast<int32_t>(i));
  return v;
}

int32_t Vocabulary::id(absl::string_view word) const {
  const auto it = ids_.find(word);
  return it == ids_.end() ? unknown_ : it->second;
}

std::vector<int32_t> Vocabulary::Ids(const std::vector<std::string>& words) const {
  std::vector<int32_t> ids;
  ids.reserve(words.size());
  for (const std::string& word : words) {
    if (const int32_t number = id(word); number >= 0) ids.push_back(number);
  }
  return ids;
}

absl::StatusOr<std::vector<std::string>> ReadWords(const std::string& path, const std::string& end_of_line,
                                                   FileSystem& files) {
  ASSIGN_OR_RETURN(const auto stream, OpenByteStream(path, Compression::kNone, files));
  std::vector<std::string> words;
  // In pieces: text8 is one line of 100 MB.
  std::string word;
  char buffer[1 << 16];
  const auto flush = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (;;) {
    ASSIGN_OR_RETURN(const size_t n, stream->Read(buffer, sizeof(buffer)));
    for (size_t i = 0; i < n; ++i) {
      if (!absl::ascii_isspace(static_cast<unsigned char>(buffer[i]))) {
        word.push_back(buffer[i]);
        continue;
      }
      flush();
      if (buffer[i] == '\n' && !end_of_line.empty()) words.push_back(end_of_line);
    }
    if (n < sizeof(buffer)) break;
  }
  flush();
  return words;
}

absl::StatusOr<Ptb> Ptb::Load(const std::string& folder, FileSystem& files) {
  Ptb ptb;
  const std::string end = "<eos>";
  ASSIGN_OR_RETURN(const auto train, ReadWords(absl::StrCat(folder, "/ptb.train.txt"), end, files));
  if (train.empty()) return InvalidArgument(folder, "/ptb.train.txt: there are no words in it");
  ASSIGN_OR_RETURN(const auto valid, ReadWords(absl::StrCat(folder, "/ptb.valid.txt"), end, files));
  ASSIGN_OR_RETURN(const auto test, ReadWords(absl::StrCat(folder, "/ptb.test.txt"), end, files));
  ptb.vocabulary = Vocabulary::Build(train, {});
  ptb.train = ptb.vocabulary.Ids(train);
  ptb.valid = ptb.vocabulary.Ids(valid);
  ptb.test = ptb.vocabulary.Ids(test);
  return ptb;
}

SequenceBatches::SequenceBatches(std::vector<int32_t> words, int64_t batch_size, int64_t steps)
    : words_(std::move(words)), batch_size_(batch_size), steps_(steps) {
  CHECK(batch_size > 0 && steps > 0) << batch_size << ", " << steps;
  piece_ = static_cast<int64_t>(words_.size()) / batch_size;
  size_ = std::max<int64_t>((piece_ - 1) / steps, 0);
}

SequenceBatch SequenceBatches::operator[](int64_t i) const {
  CHECK(0 <= i && i < size_) << i << " of " << size_;
  SequenceBatch batch{Tensor(kInt32, {batch_size_, steps_}), Tensor(kInt32, {batch_size_, steps_})};
  for (int64_t row = 0; row < batch_size_; ++row) {
    const int32_t* const from = words_.data() + row * piece_ + i * steps_;
    std::copy_n(from, steps_, batch.x.mutable_data<int32_t>() + row * steps_);
    std::copy_n(from + 1, steps_, batch.y.mutable_data<int32_t>() + row * steps_);
  }
  return batch;
}

absl::StatusOr<SkipGrams> SkipGrams::Create(std::vector<int32_t> words, const SkipGramOptions& options) {
  if (options.window < 1 || options.skips < 1 || options.skips > 2 * options.window) {
    return InvalidArgument("skip-grams: a window of ", options.window, " has ", 2 * options.window,
                           " words near, skips cannot be ", options.skips);
  }
  if (options.num_shards < 1 || options.shard < 0 || options.shard >= options.num_shards) {
    return InvalidArgument("skip-grams: no shard ", options.shard, " of ", options.num_shards);
  }
  const auto cut = [&](int64_t shard) { return static_cast<int64_t>(words.size()) * shard / options.num_shards; };
  words = std::vector<int32_t>(words.begin() + cut(options.shard), words.begin() + cut(options.shard + 1));
  if (static_cast<int64_t>(words.size()) < 2 * options.window + 1) {
    return InvalidArgument("skip-grams: a text of ", words.size(), " words is too short for a window of ",
                           options.window);
  }
  return SkipGrams(std::move(words), options);
}

SkipGrams::SkipGrams(std::vector<int32_t> words, const SkipGramOptions& options)
    : words_(std::move(words)), options_(options), random_(options.seed), center_(options.window - 1) {}

// The next word, and `skips` different places around it.
void SkipGrams::Choose() {
  const int64_t window = options_.window;
  if (++center_ + window >= static_cast<int64_t>(words_.size())) {
    center_ = window;
    ++epoch_;
  }
  near_.clear();
  for (int64_t i = center_ - window; i <= center_ + window; ++i) {
    if (i != center_) near_.push_back(i);
  }
  for (int64_t i = 0; i < options_.skips; ++i) {
    std::swap(near_[i], near_[i + static_cast<int64_t>(random_() % (near_.size() - i))]);
  }
  near_.resize(options_.skips);
  next_ = 0;
}

SkipGramBatch SkipGrams::Next(int64_t n) {
  SkipGramBatch batch{Tensor(kInt32, {n}), Tensor(kInt64, {n, 1})};
  for (int64_t i = 0; i < n; ++i) {
    if (next_ == near_.size()) Choose();
    batch.words.mutable_data<int32_t>()[i] = words_[center_];
    batch.near.mutable_data<int64_t>()[i] = words_[near_[next_++]];
  }
  return batch;
}

}  // namespace thalweg::data
