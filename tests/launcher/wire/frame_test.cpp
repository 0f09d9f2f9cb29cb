#include "launcher/wire/frame.h"

#include <string>

#include "tests/catch.h"

namespace muster {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_CASE("frames come out whole however the stream is cut") {
  std::string stream;
  for (int i = 0; i < 50; ++i) {
    stream += encode_frame("header" + std::to_string(i),
                           std::string(static_cast<std::size_t>(i * 37), 'x'));
  }
  for (const std::size_t piece : {1u, 3u, 7u, 64u, 5000u}) {
    FrameReader reader;
    int seen = 0;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(bytes_of(std::string_view(stream).substr(at, piece)));
      while (true) {
        auto frame = reader.next();
        REQUIRE(frame);
        if (!*frame) break;
        CHECK((*frame)->header == "header" + std::to_string(seen));
        CHECK((*frame)->payload.size() == static_cast<std::size_t>(seen * 37));
        ++seen;
      }
    }
    CHECK(seen == 50);
  }
}

TEST_CASE("header and payload have a limit each, and what is as long as it is a frame") {
  const auto lengths = [](std::uint32_t header, std::uint32_t payload) {
    std::string bytes;
    for (const std::uint32_t length : {header, payload}) {
      for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(length >> shift);
    }
    return bytes;
  };
  const auto is_refused = [&](std::uint32_t header, std::uint32_t payload) {
    FrameReader reader;
    reader.feed(bytes_of(lengths(header, payload)));
    const auto frame = reader.next();
    if (!frame) CHECK_THAT(frame.error().message, ContainsSubstring("longer than allowed"));
    return !frame;
  };
  CHECK_FALSE(is_refused(frame_header_limit_bytes, frame_payload_limit_bytes));
  CHECK(is_refused(frame_header_limit_bytes + 1, 0));
  CHECK(is_refused(0, frame_payload_limit_bytes + 1));
  CHECK(is_refused(0, 0xffffffff));
  CHECK(is_refused(0x7fffffff, 0));
  const std::string longest(frame_payload_limit_bytes, 'x');
  FrameReader reader;
  reader.feed(bytes_of(encode_frame("h", longest)));
  const auto frame = reader.next();
  REQUIRE((frame && *frame));
  CHECK((*frame)->payload == longest);
}

}  // namespace
}  // namespace muster
