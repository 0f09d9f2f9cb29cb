#include "scheduler/text/text.h"

#include "tests/catch.h"

namespace muster {
namespace {

const std::string replaced = "\xef\xbf\xbd";

TEST_CASE("what is UTF-8 stays as it is") {
  for (const std::string text : {"", "plain\n", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                 "\xf4\x8f\xbf\xbf", "\xc2\x80", "\xe0\xa0\x80"}) {
    CHECK(to_utf8(text) == text);
  }
}

TEST_CASE("every byte that is no UTF-8 is replaced, and what follows is kept") {
  CHECK(to_utf8("a\xff"
                "b") == "a" + replaced + "b");
  CHECK(to_utf8("\xc0\x80") == replaced + replaced);              // a longer form than is needed
  CHECK(to_utf8("\xe0\x9f\xbf") == replaced + replaced + replaced);
  CHECK(to_utf8("\xed\xa0\x80") == replaced + replaced + replaced);  // half of a pair
  CHECK(to_utf8("\xf4\x90\x80\x80") == replaced + replaced + replaced + replaced);
  CHECK(to_utf8("\xe2\x82") == replaced + replaced);              // cut off
  // Also where what follows in memory would go on with it.
  CHECK(to_utf8(std::string_view("\xc3\xa4", 1)) == replaced);
  CHECK(to_utf8(std::string_view("\xe2\x82\xac", 2)) == replaced + replaced);
  CHECK(to_utf8(std::string_view("\xf0\x9f\x98\x80", 3)) == replaced + replaced + replaced);
  CHECK(to_utf8("\xf8\x88\x80\x80\x80").size() == 5 * replaced.size());  // too long a form
  CHECK(to_utf8("\xf0\x8f\xbf\xbf").size() == 4 * replaced.size());
  CHECK(to_utf8("\xe2(\xa1") == replaced + "(" + replaced);
  CHECK(to_utf8("\x80ok") == replaced + "ok");
}

TEST_CASE("the last lines come in their order, without empty ones, each of a readable length") {
  using Lines = std::vector<std::string>;
  CHECK(last_utf8_lines("", 3) == Lines{});
  CHECK(last_utf8_lines("\n\r\n\n", 3) == Lines{});
  CHECK(last_utf8_lines("a\nb\nc\n", 2) == Lines{"b", "c"});
  CHECK(last_utf8_lines("a\r\n\nb", 5) == Lines{"a", "b"});
  CHECK(last_utf8_lines("a\nb", 0) == Lines{});
  const auto cut = last_utf8_lines(std::string(5000, 'x') + "\nend", 2);
  REQUIRE(cut.size() == 2);
  CHECK(cut[0] == std::string(1000, 'x'));
}

}  // namespace
}  // namespace muster
