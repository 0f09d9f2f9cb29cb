// The membership file: what is written is read, and nothing else is taken for one.

#include "runtime/protocol/membership.h"

#include <random>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("a membership file is read as it was written") {
  const EpochMembers members{3, {{0, "10.0.0.1", 4567, "h01"}, {4, "::1", 4568, ""}}};
  CHECK(parse_membership(format_membership(members)) == members);
  CHECK(members.place_of(4) == 1u);
  CHECK_FALSE(members.place_of(1));
}

TEST_CASE("a host whose name is no UTF-8 is written with what can be") {
  const auto read =
      parse_membership(format_membership({1, {{0, "h\xff", 1, ""}, {1, "g", 2, ""}}}));
  REQUIRE(read);
  CHECK(read->members[1] == EpochMember{1, "g", 2, ""});
}

TEST_CASE("a membership file may hold more than is read") {
  const auto read = parse_membership(
      R"({"epoch": 1, "why": "start", "members": [{"rank": 7, "host": "h", "port": 1, "x": []}]})");
  REQUIRE(read);
  CHECK(*read == EpochMembers{1, {{7, "h", 1, ""}}});
}

TEST_CASE("what is no membership file is none") {
  for (const char* text : {"", "{}", "[]", "{\"epoch\": 1}", R"({"epoch": -1, "members": []})",
                           R"({"epoch": 1, "members": {}})", R"({"epoch": 1, "members": [1]})",
                           R"({"epoch": 1, "members": [{"rank": 0, "host": "h"}]})",
                           R"({"epoch": 1, "members": [{"rank": 0, "host": "", "port": 1}]})",
                           R"({"epoch": 1, "members": [{"rank": 0, "host": "h", "port": 65536}]})",
                           R"({"epoch": 1, "members": [{"rank": 0, "host": "h", "port": 0}]})",
                           R"({"epoch": 1, "members": [{"rank": 0.5, "host": "h", "port": 1}]})",
                           R"({"epoch": 1, "members": [{"rank": 0, "host": "h", "port": 1},)"
                           R"({"rank": 0, "host": "g", "port": 1}]})"}) {
    INFO(text);
    CHECK_FALSE(parse_membership(text));
  }
  const std::string whole = format_membership({3, {{0, "10.0.0.1", 4567, "h01"}}});
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    CHECK_FALSE(parse_membership(whole.substr(0, length)));
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int flips = 0; flips < 3; ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    parse_membership(damaged);  // whatever it is, it is read or not
  }
}
