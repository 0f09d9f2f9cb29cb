#include "cli/terminal/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cli/terminal/escape.h"
#include "scheduler/model/result.h"

namespace muster {

namespace {

constexpr int gap = 2;
constexpr int narrowest = 6;  // below this a cut cell says nothing

std::string_view leading_digits(std::string_view text) {
  return text.substr(0, text.find_first_not_of("0123456789"));
}

std::string_view without_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

std::string padded(const std::string& text, int width, bool last) {
  const std::string cell = shortened(text, width);
  if (last) return cell;
  return cell + std::string(static_cast<std::size_t>(width - text_width(cell) + gap), ' ');
}

std::string line(const std::vector<std::string>& cells, const std::vector<int>& widths) {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += padded(cells[i], widths[i], i + 1 == cells.size());
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view left = leading_digits(a);
    const std::string_view right = leading_digits(b);
    if (left.empty() || right.empty()) {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
      continue;
    }
    a.remove_prefix(left.size());
    b.remove_prefix(right.size());
    const auto x = std::pair(without_zeros(left).size(), without_zeros(left));
    const auto y = std::pair(without_zeros(right).size(), without_zeros(right));
    if (x != y) return x < y;
  }
  return a.empty() && !b.empty();
}

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add(std::vector<std::string> cells) {
  check(cells.size() == headings_.size(), "a table row has as many cells as headings");
  for (std::string& cell : cells) cell = cell.empty() ? "-" : one_line(cell);
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::widths(int width) const {
  std::vector<int> widths;
  for (const std::string& heading : headings_) widths.push_back(text_width(heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], text_width(row[i]));
    }
  }
  if (width <= 0) return widths;
  const int gaps = gap * static_cast<int>(widths.size() - 1);
  // The first column is what people copy: it is cut last.
  auto cut = widths.begin() + 1;
  while (std::accumulate(widths.begin(), widths.end(), gaps) > width) {
    const auto widest = std::max_element(cut, widths.end());
    if (widest != widths.end() && *widest > narrowest)
      --*widest;
    else if (cut != widths.begin())
      cut = widths.begin();
    else
      break;
  }
  return widths;
}

// With as many columns as can be read: empty ones go first, then those with one value in all rows,
// then from the right. The first is what people copy and the last says why: both stay.
Table Table::fitting(int width) const {
  Table out = *this;
  const auto is_full = [&] {
    const std::vector<int> widths = out.widths(0);
    int least = gap * static_cast<int>(widths.size() - 1);
    for (const int column : widths) least += std::min(column, narrowest);
    return least > width;
  };
  const auto says = [&](std::size_t column, bool anything) {
    const std::string& first = out.rows_.front()[column];
    return (anything && first != "-") ||
           std::any_of(out.rows_.begin(), out.rows_.end(),
                       [&](const auto& row) { return row[column] != first; });
  };
  for (int step = 0; step < 3 && !rows_.empty(); ++step) {
    for (std::size_t at = out.headings_.size(); at-- > 2 && is_full();) {
      const std::size_t column = at - 1;
      if (step < 2 && says(column, step == 0)) continue;
      const auto index = static_cast<std::ptrdiff_t>(column);
      out.headings_.erase(out.headings_.begin() + index);
      for (auto& row : out.rows_) row.erase(row.begin() + index);
    }
  }
  return out;
}

std::string Table::text(int width, bool color) const {
  if (width > 0) return fitting(width).text_of(width, color);
  return text_of(width, color);
}

std::string Table::text(const CommonOptions& common) const {
  const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
  return text(width, wants_color(common.color, Stream::out));
}

std::string Table::text_of(int width, bool color) const {
  const std::vector<int> columns = widths(width);
  std::string out = inked(line(headings_, columns), Ink::bold, color) + "\n";
  for (const auto& row : rows_) out += line(row, columns) + "\n";
  return out;
}

}  // namespace muster
