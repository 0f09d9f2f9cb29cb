// What `muster health --help` and its verbs say, against the texts beside this file.
// MUSTER_UPDATE_GOLDEN=1 writes them anew; read the difference.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/verbs/verbs.h"
#include "tests/catch.h"

using namespace muster;

namespace {

std::string golden_path(const std::string& name) {
  return std::string(MUSTER_SOURCE_DIR) + "/tests/cli/golden/" + name;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string help_of(const std::vector<std::string>& verb) {
  CommandLine line;
  add_health(line);
  std::vector<std::string> words{"health"};
  words.insert(words.end(), verb.begin(), verb.end());
  words.emplace_back("--help");
  return line.parse(words).text;
}

}  // namespace

TEST_CASE("the help of health and its verbs is as written") {
  for (const std::string verb :
       {"", "checks", "profiles", "learn", "record", "active", "fabric", "pairs"}) {
    const std::string name = "health_help" + (verb.empty() ? "" : "_" + verb) + ".txt";
    const std::string help =
        help_of(verb.empty() ? std::vector<std::string>{} : std::vector<std::string>{verb});
    CHECK_FALSE(help.empty());
    if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) std::ofstream(golden_path(name)) << help;
    CAPTURE(name);
    CHECK(help == text_of(golden_path(name)));
  }
}
