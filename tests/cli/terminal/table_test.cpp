#include "cli/terminal/table.h"

#include <algorithm>
#include <sstream>

#include "cli/terminal/escape.h"
#include "tests/catch.h"

using namespace muster;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("columns line up and empty cells are dashes") {
  Table table({"NAME", "STATE", "REASON"});
  table.add({"a", "Running", ""});
  table.add({"longer_name", "Failed", "rank 1 died"});
  CHECK(table.text(0, false) ==
        "NAME         STATE    REASON\n"
        "a            Running  -\n"
        "longer_name  Failed   rank 1 died\n");
}

TEST_CASE("a narrow terminal cuts the widest column first and no line is longer") {
  Table table({"NAME", "STATE", "REASON"});
  table.add({"job", "Failed", std::string(300, 'x')});
  for (int width = 25; width <= 200; ++width) {
    const auto lines = lines_of(table.text(width, false));
    REQUIRE(lines.size() == 2);
    for (const std::string& line : lines) CHECK(text_width(line) <= width);
    CHECK(lines[1].substr(0, 12) == "job   Failed");
  }
}

TEST_CASE("the first column is cut last, so that a name can be copied") {
  Table table({"NAME", "STATE", "REASON"});
  table.add({"gentle_falcon_qqqb7pg7gk", "Completed", "every rank ended with 0"});
  CHECK_THAT(table.text(42, false), ContainsSubstring("\ngentle_falcon_qqqb7pg7gk  Comp"));
  for (const std::string& line : lines_of(table.text(30, false))) CHECK(text_width(line) <= 30);
}

TEST_CASE("numbers in names are compared as numbers") {
  std::vector<std::string> names{"n10", "n2", "n1-b", "n1-a10", "n1-a9", "m3", "n", "n02x", "n2x"};
  std::stable_sort(names.begin(), names.end(), natural_less);
  CHECK(names ==
        std::vector<std::string>{"m3", "n", "n1-a9", "n1-a10", "n1-b", "n2", "n02x", "n2x", "n10"});
}

TEST_CASE("wide characters count for two columns") {
  Table table({"NAME", "X"});
  table.add({"日本", "1"});
  table.add({"abcd", "2"});
  CHECK(table.text(0, false) == "NAME  X\n日本  1\nabcd  2\n");
}

TEST_CASE("control characters and line ends of a cell never reach the terminal") {
  Table table({"NAME", "X"});
  table.add({"a\x1b[2Jb\nc", "\xff"});
  const std::string text = table.text(0, false);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(lines_of(text).size() == 2);
  CHECK(text.find("\xEF\xBF\xBD") != std::string::npos);
}

TEST_CASE("at 60 columns a table of nine columns has no line that wraps and keeps what matters") {
  Table table({"NAME", "STATE", "COMPUTE", "SUBMITTED", "RAN FOR", "TRIES", "STEP", "EXIT",
               "REASON"});
  table.add({"calm_kite_0123456789", "Running", "lab", "24m 51s ago", "24m 40s", "1", "120", "",
             ""});
  table.add({"brave_otter_987654321", "Failed", "lab", "2h 10m ago", "1h 2m", "14", "99", "",
             "every rank ended with 1"});
  for (int width = 30; width <= 120; ++width) {
    const auto lines = lines_of(table.text(width, false));
    REQUIRE(lines.size() == 3);
    INFO(lines[0]);
    for (const std::string& line : lines) CHECK(text_width(line) <= width);
    CHECK_THAT(lines[0], ContainsSubstring("NAME"));
    CHECK_THAT(lines[0], ContainsSubstring("REASON"));
  }
  const std::string head = lines_of(table.text(60, false)).front();
  CHECK_THAT(head, !ContainsSubstring("EXIT"));     // empty in all rows
  CHECK_THAT(head, ContainsSubstring("STATE"));
  CHECK_THAT(lines_of(table.text(0, false)).front(), ContainsSubstring("EXIT"));
}
