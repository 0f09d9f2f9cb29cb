#include "cli/health/cluster/leaf_file.h"

#include <algorithm>
#include <vector>

namespace muster {

namespace {

constexpr std::size_t leaf_lines_most = 65'536;

std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view blank = " \t\r";
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(blank); at != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(blank, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(blank, end);
  }
  return words;
}

}  // namespace

Result<LeafOfNode> read_leaves(std::string_view text) {
  LeafOfNode leaves;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++number > leaf_lines_most) return Error{"it has too many lines"};
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    const std::string where = "line " + std::to_string(number) + ": ";
    if (words.size() != 2) return Error{where + "expected a node and its leaf"};
    if (!leaves.emplace(words[0], words[1]).second) {
      return Error{where + "node " + words[0] + " comes twice"};
    }
  }
  return leaves;
}

}  // namespace muster
