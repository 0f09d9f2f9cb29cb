#include "cli/job/submission.h"

#include <regex>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("a made name is adjective_noun_ and ten characters, whatever the random bytes") {
  const std::regex form("[a-z]+_[a-z]+_[a-z0-9]{10}");
  for (int byte = 0; byte < 256; ++byte) {
    NameBytes random;
    random.fill(static_cast<std::uint8_t>(byte));
    CHECK(std::regex_match(job_name_from(random), form));
  }
}

TEST_CASE("each random byte of the last part shows in the name") {
  NameBytes random{};
  const std::string before = job_name_from(random);
  for (std::size_t i = 0; i < 12; ++i) {
    NameBytes changed = random;
    changed[i] = 1;
    CHECK(job_name_from(changed) != before);
  }
}
