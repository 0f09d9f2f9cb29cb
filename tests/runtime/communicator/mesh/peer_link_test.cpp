// Frames between two ranks over a lane of the test's own: what went and came, and when it counts.
#include "runtime/communicator/mesh/peer_link.h"

#include <algorithm>
#include <cstring>

#include "tests/catch.h"

using namespace muster;

namespace {

// The bytes between two ends, a few at a time, and who has fetched how many blocks.
struct Wire {
  std::string bytes;
  std::size_t room = 1 << 20;
  std::uint64_t fetched = 0;  // blocks of who writes
};

class TestLane final : public PeerLane {
 public:
  TestLane(Wire& out, Wire& in, bool fetches) : out_(out), in_(in), fetches_(fetches) {}
  std::size_t write_some(std::span<const char> bytes, bool) override {
    const std::size_t count = std::min(bytes.size(), out_.room - out_.bytes.size());
    out_.bytes.append(bytes.data(), count);
    return count;
  }
  std::size_t read_some(std::span<char> bytes) override {
    const std::size_t count = std::min(bytes.size(), in_.bytes.size());
    std::memcpy(bytes.data(), in_.bytes.data(), count);
    in_.bytes.erase(0, count);
    return count;
  }
  bool fetches(std::size_t bytes) const override { return fetches_ && bytes > 4096; }
  void fetch(std::uint64_t address, std::span<char> bytes) override {
    std::memcpy(bytes.data(), reinterpret_cast<const char*>(address), bytes.size());
  }
  void count_fetched() override { ++in_.fetched; }
  std::uint64_t fetched_by_other() const override { return out_.fetched; }
  int watched() const override { return -1; }

 private:
  Wire& out_;
  Wire& in_;
  bool fetches_;
};

// Ranks 0 and 1.
struct TwoLinks {
  Wire there, back;
  PeerLink zero, one;

  explicit TwoLinks(bool fetches = false)
      : zero(0, 1, std::make_unique<TestLane>(there, back, fetches)),
        one(1, 0, std::make_unique<TestLane>(back, there, fetches)) {}
};

FrameHeader header_number(std::uint64_t sequence, std::size_t bytes) {
  FrameHeader header;
  header.sequence = sequence;
  header.bytes = bytes;
  return header;
}

std::string payload_of(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 >> 3);
  return text;
}

}  // namespace

TEST_CASE("frames of any length arrive in their order, however few bytes fit at a time") {
  const std::size_t room = GENERATE(1, 37, 5000, 1 << 20);
  TwoLinks links;
  links.there.room = room;
  std::vector<std::string> payloads;
  for (const int bytes : {0, 1, 4096, 4097, 20000, 3}) payloads.push_back(payload_of(bytes));
  std::vector<std::string> got(payloads.size());
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    got[i].resize(payloads[i].size());
    links.one.expect(header_number(i, got[i].size()), std::span<char>(got[i]));
    links.zero.send(header_number(i, 0), payloads[i]);
  }
  for (bool moved = true; moved;) {
    moved = links.zero.move();
    moved = links.one.move() || moved;
    CHECK(links.one.received() <= links.zero.sent());
  }
  CHECK(got == payloads);
  CHECK(links.zero.sent() == payloads.size());
  CHECK(links.one.received() == payloads.size());
  CHECK_FALSE(links.zero.move());
  CHECK_FALSE(links.one.move());
}

TEST_CASE("a frame counts as sent when its payload is copied or written, not before") {
  TwoLinks links;
  const std::string payload = payload_of(10000);
  links.there.room = 5000;
  const std::string little = "little";
  links.zero.send(header_number(1, 0), little);
  links.zero.send(header_number(2, 0), payload);
  CHECK(links.zero.sent() == 0);
  CHECK(links.zero.move());
  CHECK(links.zero.sent() == 1);
  CHECK_FALSE(links.zero.move());  // there is no room
  links.there.room = 20000;
  CHECK(links.zero.move());
  CHECK(links.zero.sent() == 2);
}

TEST_CASE("a block that the other rank fetches is needed until it has, and all frames after it") {
  TwoLinks links(true);
  std::vector<std::string> payloads{"a", payload_of(5000), "b", payload_of(6000), "c"};
  std::vector<std::string> got(payloads.size());
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    links.zero.send(header_number(i + 1, 0), payloads[i]);
  }
  CHECK(links.zero.move());
  CHECK(links.there.bytes.size() < 5000);  // blocks do not travel
  CHECK(links.zero.sent() == 1);
  const std::uint64_t sent_after[] = {1, 3, 3, 5, 5};
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    got[i].resize(payloads[i].size());
    links.one.expect(header_number(i + 1, got[i].size()), std::span<char>(got[i]));
    CHECK(links.one.move());
    CHECK(links.one.received() == i + 1);
    CHECK(links.zero.sent() == sent_after[i]);
  }
  CHECK(got == payloads);
}

TEST_CASE("a text comes in its own length, also an empty one") {
  TwoLinks links;
  std::string first = "old", second = "old";
  links.one.expect(header_number(1, 0), &first);
  links.one.expect(header_number(2, 0), &second);
  links.zero.send(header_number(1, 0), {});
  const std::string text = payload_of(9000);
  links.zero.send(header_number(2, 0), text);
  while (links.zero.move() || links.one.move()) {
  }
  CHECK(first.empty());
  CHECK(second == text);
}

TEST_CASE("a frame that is not the expected one is no data, and one that nobody expects waits") {
  TwoLinks links;
  const std::string data = "data";
  links.zero.send(header_number(7, 0), data);
  CHECK(links.zero.move());
  CHECK_FALSE(links.one.move());
  CHECK(links.one.received() == 0);
  std::string got(4, ' ');
  const std::uint64_t sequence = GENERATE(7, 8);
  const std::size_t bytes = GENERATE(4, 3);
  links.one.expect(header_number(sequence, bytes), std::span<char>(got).first(bytes));
  if (sequence == 7 && bytes == 4) {
    CHECK(links.one.move());
    CHECK(got == data);
  } else {
    CHECK_THROWS_AS(links.one.move(), RanksDiverged);
    CHECK(got == "    ");
  }
}
