// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/idx.h"

#include <zlib.h>

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/folder_testlib.h"

namespace thalweg::data {
namespace {

using testing::HasSubstr;

std::string Header(int type, std::vector<uint32_t> sizes) {
  std::string s = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) s.push_back(static_cast<char>(size >> shift));
  }
  return s;
}

std::string Gzip(const std::string& plain) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(plain.size() + 100, 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = plain.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class IdxTest : public FolderTest {
 protected:
  absl::Status Error(const std::string& contents) { return ReadIdx(Write("bad", contents)).status(); }

  // `n` images of 2 x 2 pixels; pixel 0 is the number of the image.
  void WriteSet(const std::string& prefix, int n, int labels) {
    std::string pixels = Header(8, {static_cast<uint32_t>(n), 2, 2}),
                classes = Header(8, {static_cast<uint32_t>(labels)});
    for (int i = 0; i < n; ++i) pixels += std::string({static_cast<char>(i), 0, 51, static_cast<char>(255)});
    for (int i = 0; i < labels; ++i) classes.push_back(static_cast<char>(i % 10));
    Write(prefix + "-images-idx3-ubyte", pixels);
    Write(prefix + "-labels-idx1-ubyte.gz", Gzip(classes));
  }
};

TEST_F(IdxTest, PlainAndGzipped) {
  const std::string file = Header(8, {2, 3}) + "abcdef";
  for (const std::string& contents : {file, Gzip(file)}) {
    const auto tensor = ReadIdx(Write("file", contents));
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->dtype(), kUint8);
    EXPECT_EQ(tensor->shape(), Shape({2, 3}));
    EXPECT_EQ(tensor->data<uint8_t>()[5], 'f');
  }
}

TEST_F(IdxTest, NumbersAreBigEndian) {
  const auto ints = ReadIdx(Write("ints", Header(12, {2}) + std::string({0, 0, 1, 2, -1, -1, -1, -2})));
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_EQ(ints->data<int32_t>()[0], 258);
  EXPECT_EQ(ints->data<int32_t>()[1], -2);
  const auto floats = ReadIdx(Write("floats", Header(13, {1}) + std::string({0x3f, static_cast<char>(0x80), 0, 0})));
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ(floats->data<float>()[0], 1.0f);
}

TEST_F(IdxTest, WrongMagic) {
  const absl::Status status = Error("\x50\x4b\x03\x04 something else");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/bad: wrong magic number"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("0x504b0304"));
  EXPECT_EQ(Error(Header(10, {1}) + "a").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(IdxTest, Truncated) {
  const std::string whole = Header(8, {2, 3}) + "abcdef";
  for (size_t length = 0; length < whole.size(); ++length) {
    const absl::Status status = Error(whole.substr(0, length));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/bad: expected "));
  }
  const std::string packed = Gzip(whole);
  for (size_t length = 2; length < packed.size(); ++length) {
    EXPECT_EQ(Error(packed.substr(0, length)).code(), absl::StatusCode::kDataLoss) << length;
  }
}

TEST_F(IdxTest, CorruptCompression) {
  const std::string packed = Gzip(Header(8, {1000}) + std::string(1000, 'x'));
  int harmless = 0;
  for (size_t i = 10; i < packed.size(); ++i) {
    std::string broken = packed;
    broken[i] ^= 0x40;
    const auto tensor = ReadIdx(Write("bad", broken));
    if (tensor.ok()) {  // a bit that nobody reads
      ++harmless;
      EXPECT_EQ(std::string(tensor->flat<uint8_t>().begin(), tensor->flat<uint8_t>().end()), std::string(1000, 'x'));
    } else {
      EXPECT_EQ(tensor.status().code(), absl::StatusCode::kDataLoss) << i << ": " << tensor.status();
    }
  }
  EXPECT_LE(harmless, 1);
}

TEST_F(IdxTest, MoreThanTheHeaderSays) {
  EXPECT_EQ(Error(Header(8, {2}) + "abc").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Error(Gzip(Header(8, {2}) + "abc")).code(), absl::StatusCode::kDataLoss);
  const std::string packed = Gzip(Header(8, {2}) + "ab");
  EXPECT_EQ(Error(packed).code(), absl::StatusCode::kOk);
  for (const std::string behind : {"c", "\x1f", "more than that", "\x1f\x8b and no gzip"}) {
    const absl::Status status = Error(packed + behind);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << behind << ": " << status;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(folder_ + "/bad: "));
  }
  EXPECT_EQ(Error(packed + packed).code(), absl::StatusCode::kDataLoss);
  // As gzip has it, what is packed in parts is one.
  EXPECT_EQ(Error(Gzip(Header(8, {2}) + "a") + Gzip("b")).code(), absl::StatusCode::kOk);
}

TEST_F(IdxTest, SizesThatNoFileHas) {
  EXPECT_EQ(
      Error(Header(8, {0xffffffff}) + "abc").ToString(),
      "DATA_LOSS: " + folder_ + "/bad: expected 4294967295 bytes of elements for shape [4294967295], got a file of 11");
  EXPECT_EQ(Error(Gzip(Header(8, {0xffffffff}))).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Error(Header(8, {0xffffffff, 0xffffffff, 0xffffffff})).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(IdxTest, Missing) { EXPECT_EQ(ReadIdx(folder_ + "/nothing").status().code(), absl::StatusCode::kNotFound); }

TEST_F(IdxTest, MnistBatches) {
  WriteSet("train", 10, 10);
  WriteSet("t10k", 3, 3);
  auto mnist = Mnist::Load(folder_);
  ASSERT_TRUE(mnist.ok()) << mnist.status();
  EXPECT_EQ(mnist->train.size(), 10);
  EXPECT_EQ(mnist->test.size(), 3);
  // Every epoch has each image once, with its label.
  std::vector<int> first_order, order;
  for (int epoch = 0; epoch < 2; ++epoch) {
    order.clear();
    for (int b = 0; b < 2; ++b) {
      const Batch batch = mnist->train.NextBatch(5);
      EXPECT_EQ(batch.images.shape(), Shape({5, 4}));
      for (int i = 0; i < 5; ++i) {
        const float* image = batch.images.data<float>() + 4 * i;
        EXPECT_FLOAT_EQ(image[0] * 255, batch.labels.data<int32_t>()[i]);
        EXPECT_FLOAT_EQ(image[2], 0.2f);
        EXPECT_FLOAT_EQ(image[3], 1.0f);
        order.push_back(batch.labels.data<int32_t>()[i]);
      }
    }
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 10u);
    if (epoch == 0) first_order = order;
  }
  EXPECT_NE(order, first_order);
  // A batch may be longer than an epoch.
  EXPECT_EQ(mnist->train.NextBatch(25).labels.dim(0), 25);
  EXPECT_EQ(mnist->train.epoch(), 4);
  const Batch slice = mnist->test.Slice(1, 3);
  EXPECT_EQ(slice.labels.data<int32_t>()[1], 2);
}

TEST_F(IdxTest, OrderFollowsFromTheSeed) {
  WriteSet("train", 50, 50);
  WriteSet("t10k", 3, 3);
  const auto labels = [&](uint64_t seed) {
    auto mnist = Mnist::Load(folder_, {.seed = seed});
    EXPECT_TRUE(mnist.ok()) << mnist.status();
    const Batch batch = mnist->train.NextBatch(60);
    return std::vector<float>(batch.images.flat<float>().begin(), batch.images.flat<float>().end());
  };
  EXPECT_EQ(labels(7), labels(7));
  EXPECT_NE(labels(7), labels(8));
}

TEST_F(IdxTest, CountsThatDiffer) {
  WriteSet("train", 10, 9);
  WriteSet("t10k", 3, 3);
  const absl::Status status = Mnist::Load(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("10 images, but 9 labels"));
}

TEST_F(IdxTest, AMissingPartIsNamed) {
  WriteSet("train", 10, 10);
  const absl::Status status = Mnist::Load(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("t10k-images-idx3-ubyte"));
}

TEST_F(IdxTest, WrongRank) {
  WriteSet("train", 10, 10);
  Write("t10k-images-idx3-ubyte", Header(8, {4}) + "abcd");
  const absl::Status status = Mnist::Load(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected uint8 of rank 3, got uint8 [4]"));
}

// The set that the examples train on.
TEST(FashionMnist, Loads) {
  auto mnist = Mnist::Load();
  ASSERT_TRUE(mnist.ok()) << mnist.status();
  EXPECT_EQ(mnist->train.size(), 60000);
  EXPECT_EQ(mnist->test.size(), 10000);
  EXPECT_EQ(mnist->train.pixels(), 784);
  std::set<int> classes;
  const Batch batch = mnist->train.NextBatch(1000);
  for (const int32_t label : batch.labels.flat<int32_t>()) classes.insert(label);
  EXPECT_EQ(classes.size(), 10u);
}

}  // namespace
}  // namespace thalweg::data
