// Which step of a pipeline waits for which.
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

// "a<b c<": a takes b's output, c takes none.
std::string pipeline_of(const std::vector<std::pair<std::string, std::string>>& steps) {
  std::string text = "type: pipeline\nsettings: {default_compute: lab}\njobs:\n";
  for (const auto& [step, needs] : steps) {
    text += "  " + step + ":\n    command: x\n    environment: azureml:host\n    outputs: {o: }\n";
    if (needs.empty()) continue;
    text += "    inputs: {i: \"${{parent.jobs." + needs + ".outputs.o}}\"}\n";
  }
  return text;
}

}  // namespace

TEST_CASE("steps may stand in any order, and wait for each other in any depth") {
  CHECK(printed(read_job(pipeline_of({{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", ""}})).findings) ==
        "");
  CHECK(printed(read_job(pipeline_of({{"a", ""}, {"b", "a"}, {"c", "a"}, {"d", "c"}})).findings) ==
        "");
}

TEST_CASE("steps that wait for each other are told, in the order in which they wait") {
  const std::string said = printed(
      read_job(pipeline_of({{"a", "b"}, {"b", "c"}, {"c", "a"}, {"d", "c"}, {"e", ""}})).findings);
  CHECK_THAT(said, ContainsSubstring("wait for each other: a needs b needs c needs a\n"));
  CHECK_THAT(said, !ContainsSubstring("d needs"));
}

}  // namespace muster
