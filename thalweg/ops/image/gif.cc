// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/image/gif.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

struct Frame {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  bool interlaced = false;
  bool has_colors = false;
  absl::string_view colors;  // red, green and blue of each
  int transparent = -1;      // the colour that leaves a pixel as it is; -1 if there is none
  std::string pixels;        // numbers of colours, row by row
};

class GifReader {
 public:
  explicit GifReader(absl::string_view bytes) : rest_(bytes) {}

  // Reads all frames up to the end, or up to what cannot be read.
  absl::Status Read() {
    absl::string_view head;
    // "GIF89a", width and height, flags, the background's colour, the ratio of a pixel's sides.
    if (!Take(13, &head)) return CutOff("head");
    RETURN_IF_ERROR(ReadColors(Byte(head, 10), &has_colors_, &colors_));
    int transparent = -1;
    for (;;) {
      absl::string_view kind;
      if (!Take(1, &kind)) return CutOff("file");
      if (kind == ";") return absl::OkStatus();
      if (kind == "!") {
        RETURN_IF_ERROR(ReadExtension(&transparent));
      } else if (kind == ",") {
        Frame frame;
        frame.transparent = std::exchange(transparent, -1);
        RETURN_IF_ERROR(ReadFrame(&frame));
        frames_.push_back(std::move(frame));
      } else {
        return InvalidArgument("unknown kind of block: ", Byte(kind, 0), ", expected 33, 44 or 59");
      }
    }
  }

  const std::vector<Frame>& frames() const { return frames_; }

 private:
  static int Byte(absl::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }
  static int Word(absl::string_view text, size_t i) { return Byte(text, i) | Byte(text, i + 1) << 8; }
  static absl::Status CutOff(absl::string_view what) { return InvalidArgument("the ", what, " is cut off"); }

  bool Take(size_t n, absl::string_view* taken) {
    if (rest_.size() < n) return false;
    *taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return true;
  }
  // A length, and that many bytes; the last of a row of blocks is empty.
  bool TakeBlock(absl::string_view* block) { return Take(1, block) && Take(Byte(*block, 0), block); }

  absl::Status ReadColors(int flags, bool* has_colors, absl::string_view* colors) {
    *has_colors = (flags & 0x80) != 0;
    if (*has_colors && !Take(size_t{3} << ((flags & 7) + 1), colors)) return CutOff("table of colours");
    return absl::OkStatus();
  }

  // Only the first graphic control block of an extension counts.
  absl::Status ReadExtension(int* transparent) {
    constexpr int kGraphicControl = 0xf9;
    absl::string_view label, block;
    if (!Take(1, &label)) return CutOff("extension");
    for (bool first = true;; first = false) {
      if (!TakeBlock(&block)) return CutOff("extension");
      if (block.empty()) return absl::OkStatus();
      const bool says = first && Byte(label, 0) == kGraphicControl && block.size() == 4 && (Byte(block, 0) & 1) != 0;
      if (says && *transparent < 0) *transparent = Byte(block, 3);
    }
  }

  absl::Status ReadFrame(Frame* frame) {
    absl::string_view head;
    if (!Take(9, &head)) return CutOff("head of a frame");
    frame->left = Word(head, 0);
    frame->top = Word(head, 2);
    frame->width = Word(head, 4);
    frame->height = Word(head, 6);
    frame->interlaced = (Byte(head, 8) & 0x40) != 0;
    RETURN_IF_ERROR(ReadColors(Byte(head, 8), &frame->has_colors, &frame->colors));
    if (!frame->has_colors) {
      frame->has_colors = has_colors_;
      frame->colors = colors_;
    }
    if (frame->width == 0 || frame->height == 0) {
      return InvalidArgument("a frame of ", frame->width, " x ", frame->height, " pixels");
    }
    RETURN_IF_ERROR(ReadPixels(int64_t{frame->width} * frame->height, &frame->pixels));
    absl::string_view block;
    do {
      if (!TakeBlock(&block)) return CutOff("frame");
    } while (!block.empty());
    if (frame->interlaced) Deinterlace(frame);
    return absl::OkStatus();
  }

  // The next `width` bits, lowest first, of the data blocks; -1 at the end.
  int NextCode(int width, absl::string_view* block) {
    while (num_bits_ < width) {
      if (block->empty() && (!TakeBlock(block) || block->empty())) return -1;
      bits_ |= static_cast<uint32_t>(Byte(*block, 0)) << num_bits_;
      num_bits_ += 8;
      block->remove_prefix(1);
    }
    const int code = static_cast<int>(bits_ & ((1u << width) - 1));
    bits_ >>= width;
    num_bits_ -= width;
    return code;
  }

  // LZW: a code is a pixel, or a string that came before. After each code there
  // is a new string, of what the code before stood for and the pixel behind it;
  // so every string is a piece of the output, and only its place is kept. The
  // output grows with what the file has, whatever size it claims.
  absl::Status ReadPixels(int64_t count, std::string* pixels) {
    constexpr int kMaxWidth = 12;
    struct Piece {
      int64_t begin = 0;
      int64_t size = 0;
    };
    absl::string_view first, block;
    if (!Take(1, &first)) return CutOff("frame");
    const int pixel_bits = Byte(first, 0);
    if (pixel_bits > 8) return InvalidArgument("pixels of ", pixel_bits, " bits, expected 8 at most");
    const int clear = 1 << pixel_bits, end = clear + 1;
    bits_ = 0;
    num_bits_ = 0;
    std::vector<Piece> pieces(size_t{1} << kMaxWidth);
    int next = end + 1, width = pixel_bits + 1;
    Piece previous;
    while (static_cast<int64_t>(pixels->size()) < count) {
      const int code = NextCode(width, &block);
      if (code < 0 || code == end) {
        return InvalidArgument("a frame has ", pixels->size(), " pixels, expected ", count);
      }
      if (code == clear) {
        next = end + 1;
        width = pixel_bits + 1;
        previous = {};
        continue;
      }
      if (previous.size > 0 && next < 1 << kMaxWidth) pieces[next++] = {previous.begin, previous.size + 1};
      if (code >= next) return InvalidArgument("got code ", code, " in a frame, expected one below ", next);
      const Piece piece = code < clear ? Piece{0, 1} : pieces[code];
      previous = {static_cast<int64_t>(pixels->size()), piece.size};
      if (code < clear) {
        pixels->push_back(static_cast<char>(code));
      } else {  // byte by byte, because source and destination may overlap
        for (int64_t i = 0; i < piece.size; ++i) pixels->push_back((*pixels)[piece.begin + i]);
      }
      if (next >= 1 << width && width < kMaxWidth) ++width;
    }
    pixels->resize(count);
    return absl::OkStatus();
  }

  // Interlaced files store every eighth row first, then the rows in the middle between them, and so on.
  static void Deinterlace(Frame* frame) {
    std::string rows(frame->pixels.size(), '\0');
    size_t from = 0;
    for (const auto& [first, step] : {std::pair(0, 8), std::pair(4, 8), std::pair(2, 4), std::pair(1, 2)}) {
      for (int64_t y = first; y < frame->height; y += step, from += frame->width) {
        std::copy_n(frame->pixels.begin() + from, frame->width, rows.begin() + y * frame->width);
      }
    }
    frame->pixels = std::move(rows);
  }

  absl::string_view rest_;
  bool has_colors_ = false;
  absl::string_view colors_;
  std::vector<Frame> frames_;
  uint32_t bits_ = 0;  // read, but not used
  int num_bits_ = 0;
};

// Paints a frame on the canvas.
absl::Status Paint(const Frame& frame, int64_t height, int64_t width, uint8_t* canvas) {
  if (!frame.has_colors) return InvalidArgument("a frame without a table of colours");
  const int colors = static_cast<int>(frame.colors.size() / 3);
  for (int64_t y = frame.top; y < std::min<int64_t>(height, frame.top + frame.height); ++y) {
    for (int64_t x = frame.left; x < std::min<int64_t>(width, frame.left + frame.width); ++x) {
      const int color = static_cast<unsigned char>(frame.pixels[(y - frame.top) * frame.width + (x - frame.left)]);
      if (color == frame.transparent) continue;
      if (color >= colors) return InvalidArgument("got color ", color, ", expected one of ", colors);
      std::copy_n(frame.colors.data() + 3 * color, 3, canvas + (y * width + x) * 3);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeGif(absl::string_view bytes, bool all_frames, FrameMemory memory) {
  const auto invalid = [&](const absl::Status& status) {
    return InvalidArgument("Invalid GIF data (size ", bytes.size(), "), ", status.message());
  };
  GifReader reader(bytes);
  const absl::Status read = reader.Read();
  const std::vector<Frame>& frames = reader.frames();
  if (frames.empty()) return invalid(read.ok() ? InvalidArgument("there is no frame in it") : read);
  int64_t height = 0, width = 0;
  for (const Frame& frame : frames) {
    height = std::max<int64_t>(height, frame.height);
    width = std::max<int64_t>(width, frame.width);
  }
  const int64_t count = all_frames ? static_cast<int64_t>(frames.size()) : 1, size = height * width * 3;
  ASSIGN_OR_RETURN(uint8_t* const pixels, memory(count, height, width));
  for (int64_t k = 0; k < count; ++k) {
    uint8_t* const canvas = pixels + k * size;
    if (k == 0) {
      std::fill_n(canvas, size, 0);
    } else {
      std::copy_n(canvas - size, size, canvas);
    }
    const absl::Status painted = Paint(frames[k], height, width, canvas);
    if (!painted.ok()) return invalid(painted);
  }
  return absl::OkStatus();
}

}  // namespace thalweg
