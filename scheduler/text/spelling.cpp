#include "scheduler/text/spelling.h"

#include <algorithm>
#include <cstdlib>

#include "scheduler/text/text.h"

namespace muster {

int edit_distance(std::string_view a, std::string_view b, int limit) {
  const auto difference = static_cast<long>(a.size()) - static_cast<long>(b.size());
  if (std::labs(difference) > limit) return limit + 1;
  // Long names are only compared when nearly equal in length, and never worth more than this.
  if (a.size() > 128) return limit + 1;
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      int best = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) best = std::min(best, cost[i - 2][j - 2] + 1);
      cost[i][j] = best;
    }
  }
  return std::min(cost[a.size()][b.size()], limit + 1);
}

namespace {

// A hostile file may define any number of names.
constexpr std::size_t most_candidates = 1000;

// A name of one letter has no near miss; every other letter would be one.
int edit_limit(std::string_view name) {
  return name.size() <= 1 ? 0 : name.size() <= 3 ? 1 : 2;
}

// Where the parts begin that are worth comparing: after the last dot of what both share.
std::size_t shared_parts(std::string_view a, std::string_view b) {
  std::size_t after_dot = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '.') after_dot = i + 1;
  }
  return after_dot;
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  int best = 3;
  std::string found;
  std::size_t compared = 0;
  for (const std::string& candidate : candidates) {
    if (++compared > most_candidates) break;
    const std::size_t from = shared_parts(name, candidate);
    const std::string_view wrong = name.substr(from);
    const int limit = edit_limit(wrong);
    const int distance =
        edit_distance(folded(wrong), folded(std::string_view(candidate).substr(from)), limit);
    if (distance <= limit && distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise) {
  const std::string found = nearest(name, candidates);
  return found.empty() ? std::string(otherwise) : "did you mean " + quoted_text(found) + "?";
}

std::string quoted_text(std::string_view text) {
  return '\'' + shortened(text, 60) + '\'';
}

std::string folded(std::string_view word) {
  std::string out = lower_case(word);
  std::ranges::replace(out, '-', '_');
  return out;
}

}  // namespace muster
