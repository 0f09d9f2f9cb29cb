// Frames on a byte stream: u32 LE header length, u32 LE payload length, header, payload. The header
// is CBOR, the payload raw bytes. FrameReader takes bytes as they come and gives whole frames; it
// trusts nothing: a length above the limits is an error and the stream is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scheduler/model/result.h"

namespace muster {

// A tree of 100,000 files has a header of about 12 MB; a payload is at most one read of a file.
inline constexpr std::uint32_t frame_header_limit_bytes = 64u << 20;
inline constexpr std::uint32_t frame_payload_limit_bytes = 4u << 20;

struct Frame {
  std::string header;
  std::string payload;
};

std::string encode_frame(std::string_view header, std::string_view payload);

class FrameReader {
 public:
  void feed(std::span<const std::byte> bytes);
  // The next whole frame, nothing when more bytes are needed, or why the stream cannot go on.
  Result<std::optional<Frame>> next();

 private:
  std::string buffer_;
  std::size_t consumed_ = 0;
};

}  // namespace muster
