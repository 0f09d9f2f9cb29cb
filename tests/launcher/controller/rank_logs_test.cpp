#include "launcher/controller/rank_logs.h"

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

TEST_CASE("bytes that are lost for ever are named in the log, and the rest keeps its place") {
  Scratch scratch;
  const Home home{scratch.path()};
  RankLogs logs(home);
  CHECK(*logs.write({"j"}, {0}, {0}, 0, "abc") == 3);
  CHECK(*logs.write({"j"}, {0}, {0}, 203, "def") == 206);
  const std::string text = content(home.rank_log({"j"}, {0}, {0}));
  CHECK_THAT(text, ContainsSubstring("200 bytes of the output were lost"));
  CHECK(text.substr(202) == "\ndef");
  CHECK(*logs.write({"j"}, {0}, {0}, 207, "g") == 208);
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
