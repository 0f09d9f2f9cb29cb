// The frame of a stream that holds one message. The case fails if there is none.
#pragma once

#include <span>
#include <string>

#include "launcher/wire/frame.h"
#include "tests/catch.h"

namespace muster {

inline Frame only_frame(const std::string& stream) {
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(stream.data(), stream.size())));
  auto frame = reader.next();
  REQUIRE(frame);
  REQUIRE(*frame);
  return **frame;
}

}  // namespace muster
