// Columns for people. Rows are text as it comes from elsewhere: cells are made printable, aligned
// by what they take on a terminal, and the widest flexible column gives way when the terminal is
// narrow; where that is not enough columns are left out, those that say nothing first. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"

namespace muster {

class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  // As many cells as headings; an empty cell prints as `-`.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Lines that end with "\n". `width` 0: as wide as it needs (not a terminal).
  std::string text(int width, bool color) const;
  // For stdout: as wide as that terminal, in colour where that is wanted.
  std::string text(const CommonOptions& common) const;

 private:
  std::vector<int> widths(int width) const;
  Table fitting(int width) const;
  std::string text_of(int width, bool color) const;

  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

// `local-2` before `local-10`: runs of digits count as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace muster
