// The memory in which a helper says what it reads: nothing is lost or changed, and nothing that an
// ill one leaves there is believed.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "health/read/helper_process.h"
#include "tests/catch.h"

using namespace muster;

namespace {

const auto nobody = [] {};

SharedStream created() {
  auto stream = SharedStream::create();
  REQUIRE(stream);
  return std::move(*stream);
}

SharedStream opened(int descriptor) {
  auto stream = SharedStream::open(descriptor);
  REQUIRE(stream);
  return std::move(*stream);
}

struct Both {
  SharedStream reader = created();
  SharedStream writer = opened(::dup(reader.descriptor()));
};

std::string taken_from(SharedStream& stream) {
  std::string bytes;
  CHECK(stream.take(bytes).is_sound);
  return bytes;
}

}  // namespace

TEST_CASE("what is written is there at once, once, and with its time") {
  Both both;
  CHECK(taken_from(both.reader).empty());
  const auto before = std::chrono::steady_clock::now();
  both.writer.write("one", nobody);
  both.writer.write(std::string("\0two", 4), nobody);
  const auto after = std::chrono::steady_clock::now();
  std::string bytes = "zero";
  const auto taken = both.reader.take(bytes);
  CHECK(bytes == std::string("zeroone\0two", 11));
  CHECK(taken.written_at >= before);
  CHECK(taken.written_at <= after);
  CHECK(taken_from(both.reader).empty());
}

TEST_CASE("a writer that is ahead waits for room, and what it writes comes whole and in order") {
  Both both;
  constexpr int pieces = 60'000;
  std::string expected;
  for (int i = 0; i < pieces; ++i) expected += "piece " + std::to_string(i * 7919) + ";";
  expected += expected + expected + expected;  // more than there is room for, several times
  std::thread writer([&] {
    std::size_t at = 0;
    for (std::size_t size = 1; at < expected.size(); size = size * 31 % 100'003) {
      both.writer.write(std::string_view(expected).substr(at, size), nobody);
      at += size;
    }
  });
  std::string bytes;
  bool is_sound = true;
  while (bytes.size() < expected.size() && is_sound) {
    is_sound = both.reader.take(bytes).is_sound;
    std::this_thread::yield();
  }
  writer.join();
  CHECK(is_sound);
  CHECK(bytes == expected);
}

TEST_CASE("the reader is woken when there is much, and not before") {
  Both both;
  int wakes = 0;
  const auto wake = [&] { ++wakes; };
  both.writer.write(std::string(500'000, 'x'), wake);
  CHECK(wakes == 0);
  both.writer.write(std::string(100'000, 'x'), wake);
  CHECK(wakes == 1);
  both.writer.write(std::string(100'000, 'x'), wake);
  CHECK(wakes == 1);
  CHECK(taken_from(both.reader).size() == 700'000);
  both.writer.write("x", wake);
  CHECK(wakes == 1);
}

TEST_CASE("what an ill writer leaves is not believed, and cannot be taken away") {
  Both both;
  both.writer.write("sane", nobody);
  CHECK(taken_from(both.reader) == "sane");
  constexpr std::size_t counts = 192;
  void* memory =
      ::mmap(nullptr, counts, PROT_READ | PROT_WRITE, MAP_SHARED, both.writer.descriptor(), 0);
  REQUIRE(memory != MAP_FAILED);
  auto* words = static_cast<std::uint64_t*>(memory);
  const std::uint64_t written =
      GENERATE(std::uint64_t{0}, std::uint64_t{3}, ~std::uint64_t{0}, std::uint64_t{1} << 40);
  words[0] = written;
  std::string bytes;
  CHECK_FALSE(both.reader.take(bytes).is_sound);
  CHECK(bytes.empty());
  ::munmap(memory, counts);
  CHECK(::ftruncate(both.writer.descriptor(), 0) != 0);
}

TEST_CASE("no other file is taken for such memory") {
  CHECK_FALSE(SharedStream::open(-1));
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK_FALSE(SharedStream::open(ends[0]));
  ::close(ends[0]);
  ::close(ends[1]);
}
