// What `muster --help` and `muster VERB --help` say of every verb, against the text beside this
// file; those of health are files of their own. Without empty lines: how many there are depends on
// the version of CLI11. MUSTER_UPDATE_GOLDEN=1 writes it anew; read the difference.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/grammar/verbs.h"
#include "tests/catch.h"

using namespace muster;

namespace {

void append_help(CommandLine& line, const VerbShape& verb, const std::string& above,
                 std::string& text) {
  const std::string name = above + verb.name;
  if (name == "health") return;
  std::istringstream stream("help " + name);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  text += "==== muster " + name + "\n" + line.parse(words).text;
  for (const VerbShape& below : verb.verbs) append_help(line, below, name + " ", text);
}

std::string without_empty_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) kept += line + "\n";
  }
  return kept;
}

std::string all_help() {
  CommandLine line;
  for (const auto add_verb :
       {add_run,      add_submit,  add_plan,  add_validate,   add_init,       add_list,
        add_status,   add_explain, add_logs,  add_cancel,     add_resume,     add_exec,
        add_download, add_nodes,   add_drain, add_policy,     add_checkpoint, add_job,
        add_sandbox,  add_drill,   add_clean, add_completion, add_version}) {
    add_verb(line);
  }
  std::string text = line.parse({"--help"}).text;
  for (const VerbShape& verb : line.shape().verbs) append_help(line, verb, "", text);
  return without_empty_lines(text);
}

}  // namespace

TEST_CASE("the help of every verb is as written") {
  const std::string path = std::string(MUSTER_SOURCE_DIR) + "/tests/cli/golden/help.txt";
  const std::string help = all_help();
  if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << help;
  std::ostringstream wanted;
  wanted << std::ifstream(path).rdbuf();
  CHECK(help == wanted.str());
}
