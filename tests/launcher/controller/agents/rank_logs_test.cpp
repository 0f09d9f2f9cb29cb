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

struct Logged {
  Scratch scratch;
  const Home home{scratch.path()};
  RankLogs logs{home};
  std::string text() const { return content(home.rank_log({"j"}, {0}, {0})); }
};

TEST_CASE_METHOD(Logged, "a log or metrics file that is a link is not written to") {
  const auto other = scratch.path() / "other";
  std::ofstream(other) << "kept";
  for (const auto& file : {home.rank_log({"j"}, {0}, {0}), home.metrics({"j"}, {0})}) {
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_symlink(other, file);
  }
  CHECK_FALSE(logs.write({"j"}, {0}, {0}, 0, "planted words"));
  CHECK_FALSE(logs.append_metrics({"j"}, {0}, "planted words"));
  CHECK(content(other) == "kept");
}

TEST_CASE_METHOD(Logged, "pieces that arrive twice are written once") {
  CHECK(*logs.write({"j"}, {0}, {3}, 0, "hello ") == 6);
  CHECK(*logs.write({"j"}, {0}, {3}, 0, "hello ") == 6);
  CHECK(*logs.write({"j"}, {0}, {3}, 3, "lo world") == 11);
  CHECK(content(home.rank_log({"j"}, {0}, {3})) == "hello world");
}

TEST_CASE_METHOD(Logged,
                 "bytes that are lost for ever are named in the log, and the rest follows") {
  const std::string expected =
      "abc\n[muster: 200 bytes of the output were lost with this log]\ndef";
  CHECK(*logs.write({"j"}, {0}, {0}, 0, "abc") == 3);
  CHECK(*logs.write({"j"}, {0}, {0}, 203, "def") == 206);
  CHECK(*logs.write({"j"}, {0}, {0}, 204, "ef") == 206);
  CHECK(text() == expected);
  RankLogs next_controller(home);
  CHECK(*next_controller.size({"j"}, {0}, {0}) == 206);
  CHECK(*next_controller.write({"j"}, {0}, {0}, 205, "fg") == 207);
  CHECK(text() == expected + "g");
  // A gap that is shorter than the words about it.
  CHECK(*next_controller.write({"j"}, {0}, {0}, 208, "h") == 209);
  CHECK(*RankLogs(home).size({"j"}, {0}, {0}) == 209);
}

TEST_CASE_METHOD(Logged,
                 "a node that claims to be far ahead makes no log larger than what it sends") {
  std::int64_t at = 0;
  for (int i = 0; i < 100; ++i) {
    at += std::int64_t{60} << 30;
    at = *logs.write({"j"}, {0}, {0}, at, "x");
  }
  CHECK(std::filesystem::file_size(home.rank_log({"j"}, {0}, {0})) < 10'000);
  CHECK(*RankLogs(home).size({"j"}, {0}, {0}) == at);
}

TEST_CASE_METHOD(
    Logged, "a log whose note was written and its line was not is filled up by the next piece") {
  std::filesystem::create_directories(home.attempt({"j"}, {0}));
  std::ofstream(home.attempt({"j"}, {0}) / "rank-0.lost") << "-55\n";
  CHECK(*logs.size({"j"}, {0}, {0}) == 0);
  CHECK(*logs.write({"j"}, {0}, {0}, 5, "abc") == 8);
  CHECK(text().ends_with(" lost with this log]\nabc"));
}

TEST_CASE_METHOD(Logged, "a piece from before the beginning or far beyond the end is refused") {
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

TEST_CASE_METHOD(Logged, "more logs than descriptors are all complete") {
  for (int pass = 0; pass < 2; ++pass) {
    for (int rank = 0; rank < 700; ++rank) {
      REQUIRE(logs.write({"j"}, {0}, {rank}, pass, "x"));
    }
  }
  CHECK(content(home.rank_log({"j"}, {0}, {699})) == "xx");
  CHECK(text() == "xx");
}

}  // namespace
}  // namespace muster
