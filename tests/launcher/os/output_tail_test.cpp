#include "launcher/os/child.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/catch.h"

using namespace muster;

namespace {

bool has_flag(const Fd& file, int command, int flag) {
  return (::fcntl(file.get(), command) & flag) != 0;
}

std::string numbered(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

}  // namespace

TEST_CASE("who looks at a tail never waits, the command does, and both ends are their owner's") {
  const auto pipe = tail_pipe();
  REQUIRE(pipe);
  CHECK(has_flag(pipe->read_end, F_GETFL, O_NONBLOCK));
  CHECK_FALSE(has_flag(pipe->write_end, F_GETFL, O_NONBLOCK));
  CHECK(has_flag(pipe->read_end, F_GETFD, FD_CLOEXEC));
  CHECK(has_flag(pipe->write_end, F_GETFD, FD_CLOEXEC));
  std::string text = "before ";
  read_tail(pipe->read_end.get(), text);  // nothing is there
  CHECK(text == "before ");
  REQUIRE(write_all(pipe->write_end.get(), "said"));
  read_tail(pipe->read_end.get(), text);
  CHECK(text == "before said");
}

TEST_CASE("of a long output the last 8 KiB are kept, whoever wrote when") {
  auto pipe = tail_pipe();
  REQUIRE(pipe);
  const std::string all = numbered(0, 9000);
  std::string text;
  for (std::size_t at = 0; at < all.size(); at += 5000) {
    REQUIRE(write_all(pipe->write_end.get(), all.substr(at, 5000)));
    read_tail(pipe->read_end.get(), text);
    CHECK(text.size() <= 2 * 8192);
  }
  CHECK(all.ends_with(text));
  CHECK(text.size() >= 8192);
}

TEST_CASE("as much as a pipe holds is read at once, and no more of one that writes on") {
  auto pipe = tail_pipe();
  REQUIRE(pipe);
  REQUIRE(write_all(pipe->write_end.get(), std::string(65'536, 'x')));
  std::string text;
  read_tail(pipe->read_end.get(), text);
  char byte = 0;
  CHECK(::read(pipe->read_end.get(), &byte, 1) < 0);
  pipe->write_end.reset();
  const std::string before = text;
  read_tail(pipe->read_end.get(), text);  // its end
  CHECK(text == before);
}
