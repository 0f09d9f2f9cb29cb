#include "tests/sim/model_rank.h"

#include <cstdio>

namespace muster::sim {

std::string output_text(const AttemptName& attempt, RankId rank, std::int64_t from,
                        std::int64_t to) {
  std::string text;
  const std::int64_t first = from / line_bytes;
  for (std::int64_t line = first; line * line_bytes < to; ++line) {
    char words[64];
    std::snprintf(words, sizeof words, "%02lld %05lld %06lld\n",
                  static_cast<long long>(attempt.second.value % 100),
                  static_cast<long long>(rank.value % 100'000),
                  static_cast<long long>(line % 1'000'000));
    text += words;
  }
  const auto skipped = static_cast<std::size_t>(from - first * line_bytes);
  return text.substr(skipped, static_cast<std::size_t>(to - from));
}

}  // namespace muster::sim
