#include "launcher/controller/agents/inbox.h"

#include "tests/catch.h"

namespace muster {

TEST_CASE("of what an agent says so much is kept as helps anybody") {
  std::string text(400, 'x');
  limit_text(text);
  CHECK(text == std::string(400, 'x'));
  text = std::string(399, 'x') + "\xc3\xa4 and more";  // cut in the middle of a letter
  limit_text(text);
  CHECK(text == std::string(399, 'x') + "\xef\xbf\xbd");

  std::vector<std::string> lines;
  for (int i = 0; i < 12; ++i) lines.push_back(std::to_string(i));
  lines.back() = std::string(1000, 'y');
  limit_lines(lines);
  REQUIRE(lines.size() == 10);
  CHECK(lines.front() == "2");
  CHECK(lines.back() == std::string(400, 'y'));
  std::vector<std::string> few{"a", "b"};
  limit_lines(few);
  CHECK(few == std::vector<std::string>{"a", "b"});
}

}  // namespace muster
