// The files are those that torch 2.15's @record writes, and what else may lie in their place.
#include <filesystem>
#include <random>

#include "launcher/agent/watch/progress.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

const std::string recorded =
    R"({"message": {"message": "ValueError: shard 7 is short", "extraInfo": {"py_callstack": )"
    R"("Traceback (most recent call last):\n  File \"train.py\", line 3\n", )"
    R"("timestamp": "1764240000"}}})";

}  // namespace

TEST_CASE("the message of an error file is its first line that says something") {
  CHECK(error_in(recorded) == "ValueError: shard 7 is short");
  CHECK(error_in(R"({"message": "SignalException: 15"})") == "SignalException: 15");
  CHECK(error_in(R"({"message": {"message": "\n \nCUDA error: no kernel\nset DSA"}})") ==
        "CUDA error: no kernel");
  CHECK(error_in(R"({"message": {"message": "a\u001b[2Jb"}})") == "a?[2Jb");
  CHECK(error_in("{\"message\": \"" + std::string(9000, 'x') + "\"}") == std::string(500, 'x'));
}

TEST_CASE("what is no error file says nothing") {
  for (const char* text :
       {"", "null", "7", "[]", "{}", R"({"message": 7})", R"({"message": {}})",
        R"({"message": {"message": ["a"]}})", R"({"message": "\n\n"})", "\xff\xfe"}) {
    CAPTURE(text);
    CHECK(error_in(text) == "");
  }
  for (std::size_t cut = 0; cut < recorded.size(); ++cut) {
    CHECK(error_in(std::string_view(recorded).substr(0, cut)) == "");
  }
  CHECK(error_in(std::string(200'000, '[')) == "");
}

TEST_CASE("bytes of an error file that were changed end nothing") {
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = recorded;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    CHECK(error_in(text).size() <= 3 * 500);
  }
}

TEST_CASE("an error file is read when it is a file, and no link is followed") {
  const FakeRoot root;
  root.write("/error", recorded);
  CHECK(read_error_file(root.path() + "/error") == "ValueError: shard 7 is short");
  std::filesystem::create_symlink(root.below("/error"), root.below("/link"));
  std::filesystem::create_directory(root.below("/directory"));
  root.write("/endless", recorded + std::string(1 << 20, ' '));
  for (const char* name : {"/link", "/directory", "/absent", "/endless"}) {
    CAPTURE(name);
    CHECK(read_error_file(root.path() + name) == "");
  }
}
