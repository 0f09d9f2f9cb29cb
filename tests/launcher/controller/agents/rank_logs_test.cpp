#include "launcher/controller/agents/rank_logs.h"

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("pieces that arrive twice are written once") {
  Scratch scratch;
  const Home home{scratch.path()};
  RankLogs logs(home);
  CHECK(*logs.write({"j"}, {0}, {3}, 0, "hello ") == 6);
  CHECK(*logs.write({"j"}, {0}, {3}, 0, "hello ") == 6);
  CHECK(*logs.write({"j"}, {0}, {3}, 3, "lo world") == 11);
  CHECK(content(home.rank_log({"j"}, {0}, {3})) == "hello world");
}

TEST_CASE("bytes that are lost for ever are named in the log, and the rest follows") {
  Scratch scratch;
  const Home home{scratch.path()};
  const std::string expected =
      "abc\n[muster: 200 bytes of the output were lost with this log]\ndef";
  {
    RankLogs logs(home);
    CHECK(*logs.write({"j"}, {0}, {0}, 0, "abc") == 3);
    CHECK(*logs.write({"j"}, {0}, {0}, 203, "def") == 206);
    CHECK(*logs.write({"j"}, {0}, {0}, 204, "ef") == 206);
    CHECK(content(home.rank_log({"j"}, {0}, {0})) == expected);
  }
  RankLogs next_controller(home);
  CHECK(*next_controller.size({"j"}, {0}, {0}) == 206);
  CHECK(*next_controller.write({"j"}, {0}, {0}, 205, "fg") == 207);
  CHECK(content(home.rank_log({"j"}, {0}, {0})) == expected + "g");
  // A gap that is shorter than the words about it.
  CHECK(*next_controller.write({"j"}, {0}, {0}, 208, "h") == 209);
  CHECK(*RankLogs(home).size({"j"}, {0}, {0}) == 209);
}

TEST_CASE("a node that claims to be far ahead makes no log larger than what it sends") {
  Scratch scratch;
  const Home home{scratch.path()};
  RankLogs logs(home);
  std::int64_t at = 0;
  for (int i = 0; i < 100; ++i) {
    at += std::int64_t{60} << 30;
    at = *logs.write({"j"}, {0}, {0}, at, "x");
  }
  CHECK(std::filesystem::file_size(home.rank_log({"j"}, {0}, {0})) < 10'000);
  CHECK(*RankLogs(home).size({"j"}, {0}, {0}) == at);
}

TEST_CASE("a log whose note was written and its line was not is filled up by the next piece") {
  Scratch scratch;
  const Home home{scratch.path()};
  std::filesystem::create_directories(home.attempt({"j"}, {0}));
  std::ofstream(home.attempt({"j"}, {0}) / "rank-0.lost") << "-55\n";
  RankLogs logs(home);
  CHECK(*logs.size({"j"}, {0}, {0}) == 0);
  CHECK(*logs.write({"j"}, {0}, {0}, 5, "abc") == 8);
  CHECK(content(home.rank_log({"j"}, {0}, {0})).ends_with(" lost with this log]\nabc"));
}

TEST_CASE("a piece from before the beginning or far beyond the end is refused") {
  Scratch scratch;
  RankLogs logs(Home{scratch.path()});
  CHECK_FALSE(logs.write({"j"}, {0}, {0}, -5, "0123456789"));
  CHECK_FALSE(logs.write({"j"}, {0}, {0}, std::numeric_limits<std::int64_t>::max(), "x"));
}

TEST_CASE("a log goes on where an earlier controller left it") {
  Scratch scratch;
  const Home home{scratch.path()};
  { CHECK(*RankLogs(home).write({"j"}, {1}, {0}, 0, "abc") == 3); }
  RankLogs again(home);
  CHECK(*again.size({"j"}, {1}, {0}) == 3);
  CHECK(*again.write({"j"}, {1}, {0}, 3, "def") == 6);
  CHECK(content(home.rank_log({"j"}, {1}, {0})) == "abcdef");
}

TEST_CASE("more logs than descriptors are all complete") {
  Scratch scratch;
  const Home home{scratch.path()};
  RankLogs logs(home);
  for (int pass = 0; pass < 2; ++pass) {
    for (int rank = 0; rank < 700; ++rank) {
      REQUIRE(logs.write({"j"}, {0}, {rank}, pass, "x"));
    }
  }
  CHECK(content(home.rank_log({"j"}, {0}, {699})) == "xx");
  CHECK(content(home.rank_log({"j"}, {0}, {0})) == "xx");
}

}  // namespace
}  // namespace muster
