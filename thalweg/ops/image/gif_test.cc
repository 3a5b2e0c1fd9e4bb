// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/image/gif.h"

#include <string>
#include <vector>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

std::string Words(std::initializer_list<int> words) {
  std::string bytes;
  for (const int w : words) bytes += {static_cast<char>(w), static_cast<char>(w >> 8)};
  return bytes;
}

// Codes of three bits, with a clear (4) before each, so that they stay as wide.
std::string Codes(const std::vector<int>& pixels) {
  uint64_t bits = 0;
  int used = 0;
  std::string bytes;
  const auto put = [&](int code) {
    bits |= static_cast<uint64_t>(code) << used;
    for (used += 3; used >= 8; used -= 8, bits >>= 8) bytes.push_back(static_cast<char>(bits));
  };
  for (const int pixel : pixels) {
    put(4);
    put(pixel);
  }
  put(5);
  bytes.push_back(static_cast<char>(bits));
  return "\2" + std::string(1, static_cast<char>(bytes.size())) + bytes + std::string(1, '\0');
}
std::string FrameBytes(int left, int top, int width, int height, const std::vector<int>& pixels, int flags = 0) {
  return "," + Words({left, top, width, height}) + static_cast<char>(flags) + Codes(pixels);
}
// Four colours: 0 0 0, 1 1 1, 2 2 2 and 3 3 3.
std::string File(const std::vector<std::string>& parts) {
  std::string bytes = "GIF89a" + Words({2, 2}) + std::string("\x81\0\0", 3);
  for (int i = 0; i < 12; ++i) bytes.push_back(static_cast<char>(i / 3));
  for (const std::string& part : parts) bytes += part;
  return bytes + ";";
}
Tensor Text(std::string bytes) { return Tensor::Scalar<std::string>(std::move(bytes)); }

// Pixels by their red.
std::vector<int> Reds(const Tensor& t) {
  std::vector<int> reds;
  for (int64_t i = 0; i < t.num_elements(); i += 3) reds.push_back(t.data<uint8_t>()[i]);
  return reds;
}

TEST(GifTest, FramesArePaintedOnTheOnesBefore) {
  const std::string transparent2("!\xf9\4\1\0\0\2\0", 8);
  const std::string bytes = File({FrameBytes(0, 0, 2, 2, {1, 2, 3, 1}), transparent2, FrameBytes(1, 0, 1, 2, {2, 3})});
  const Tensor animation = Result("DecodeGif", {Text(bytes)});
  EXPECT_EQ(animation.shape(), Shape({2, 2, 2, 3}));
  EXPECT_EQ(Reds(animation), std::vector<int>({1, 2, 3, 1, 1, 2, 3, 3}));
  ExpectTensor(Result("DecodeImage", {Text(bytes)}), animation);
  const Tensor first = Result("DecodeImage", {Text(bytes)}, {{"expand_animations", false}});
  EXPECT_EQ(first.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(Reds(first), std::vector<int>({1, 2, 3, 1}));
  ExpectInvalid(KernelError("DecodePng", {Text(bytes)}), "Got 2 frames");
  ExpectInvalid(KernelError("DecodeImage", {Text(bytes)}, {{"channels", 1}}), "channels must be 0 or 3 for GIF, got 1");
  EXPECT_EQ(InferShape("DecodeGif", {{kString, PartialShape({})}}).value(), "[?,?,?,3]");
}

TEST(GifTest, RowsInterlaced) {
  EXPECT_EQ(Reds(Result("DecodeGif", {Text(File({FrameBytes(0, 0, 1, 5, {0, 1, 2, 3, 1}, 0x40)}))})),
            std::vector<int>({0, 3, 2, 1, 1}));
}

TEST(GifTest, StringsOfPixels) {
  // Clear, 1, 6 (the string that it is about to make: 1 1), 7 (1 1 1); 7 has four bits no more than 6.
  const int codes[] = {4, 1, 6, 7};
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(codes[i]) << (3 * i);
  const std::string data = std::string("\2\2", 2) + static_cast<char>(bits) + static_cast<char>(bits >> 8) + '\0';
  const std::string frame = "," + Words({0, 0, 3, 2}) + std::string(1, '\0') + data;
  EXPECT_EQ(Reds(Result("DecodeGif", {Text(File({frame}))})), std::vector<int>({1, 1, 1, 1, 1, 1}));
}

TEST(GifTest, WhatIsWholeCounts) {
  const std::string good = FrameBytes(0, 0, 1, 1, {1});
  for (const std::string& bad : {FrameBytes(0, 0, 2, 2, {1}), FrameBytes(0, 0, 0, 2, {}), std::string("x"),
                                 std::string(","), std::string("!")}) {
    const Tensor t = Result("DecodeGif", {Text(File({good, bad}))});
    EXPECT_EQ(t.shape(), Shape({1, 1, 1, 3}));
    ExpectInvalid(KernelError("DecodeGif", {Text(File({bad}))}), "Invalid GIF data");
  }
  ExpectInvalid(KernelError("DecodeGif", {Text(File({}))}), "Invalid GIF data (size 26), there is no frame in it");
  ExpectInvalid(KernelError("DecodeGif", {Text("GIF89a")}), "Invalid GIF data (size 6), the head is cut off");
}

// A frame that claims four billion pixels takes no more memory than the file has
// pixels for; whatever happens to the bytes, there are pixels or an error.
TEST(GifTest, Damage) {
  ExpectInvalid(KernelError("DecodeGif", {Text(File({FrameBytes(0, 0, 65535, 65535, {1, 2})}))}),
                "Invalid GIF data (size 41), a frame has 2 pixels, expected 4294836225");
  const std::string good = File({FrameBytes(0, 0, 2, 2, {1, 2, 3, 1}), FrameBytes(1, 0, 1, 2, {2, 3}, 0x40)});
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 9; ++bit) {
      std::string bad = good.substr(0, bit == 8 ? i : good.size());
      if (bit < 8) bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      const absl::Status status = RunOp("DecodeGif", {Text(bad)}).status();
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << i << " " << bit << ": " << status;
    }
  }
}

}  // namespace
}  // namespace thalweg
