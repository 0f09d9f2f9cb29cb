#include "runtime/communicator/communicator.h"

namespace muster {

Checked<std::vector<std::string>> gather_checked(Communicator& ranks,
                                                 const Checked<std::string>& mine) {
  auto texts = ranks.gather_texts(mine ? "+" + mine.value() : "-" + mine.reason());
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (texts[r].starts_with('+')) continue;
    const std::string who = texts.size() > 1 ? "rank " + std::to_string(r) + ": " : "";
    return CheckpointFault{who + texts[r].substr(1)};
  }
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

Checked<NoValue> all_done(Communicator& ranks, const Checked<NoValue>& mine) {
  Checked<std::string> vote = std::string();
  if (!mine) vote = mine.fault();
  if (const auto votes = gather_checked(ranks, vote); !votes) return votes.fault();
  return NoValue{};
}

std::string from_rank_0(Communicator& ranks, const std::string& text) {
  return ranks.gather_texts(ranks.rank() == 0 ? text : std::string()).front();
}

}  // namespace muster
