// The help of a program and of all its verbs as one text. Without empty lines: how many there are
// depends on the version of CLI11.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/grammar/command_line.h"
#include "tests/cli/golden.h"

namespace muster {

// Verbs named in `left_out` are left out with those below them.
inline void append_help(CommandLine& line, const VerbShape& verb, const std::string& above,
                        const std::string& left_out, std::string& text) {
  if (verb.name == left_out) return;
  const std::string name = above + " " + verb.name;
  std::istringstream stream("help" + name.substr(name.find(' ')));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  text += "==== " + name + "\n" + line.parse(words).text;
  for (const VerbShape& below : verb.verbs) append_help(line, below, name, left_out, text);
}

inline std::string whole_help(CommandLine& line, const std::string& left_out = "") {
  const VerbShape program = line.shape();
  std::string text = line.parse({"--help"}).text;
  for (const VerbShape& verb : program.verbs) {
    append_help(line, verb, program.name, left_out, text);
  }
  std::istringstream lines(text);
  std::string kept;
  for (std::string each; std::getline(lines, each);) {
    if (!each.empty()) kept += each + "\n";
  }
  return kept;
}

}  // namespace muster
