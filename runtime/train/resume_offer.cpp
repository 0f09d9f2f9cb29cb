#include "runtime/train/resume_offer.h"

#include <sstream>
#include <tuple>

namespace muster {

ResumeOffer find_offer(const std::string& root, CheckpointGrade at_least) {
  const CheckpointSearch search = search_checkpoints(root);
  ResumeOffer offer;
  for (const FoundCheckpoint& found : search.usable) {
    if (found.grade >= at_least) {
      offer.usable.push_back({found.step, found.generation});
    } else {
      offer.reasons += "; " + found.directory + ": is not " +
                       (at_least == CheckpointGrade::certified ? "certified" : "sane");
    }
  }
  offer.forks = search.forks;
  offer.trouble = search.trouble;
  for (const RejectedCheckpoint& rejected : search.rejected) {
    if (rejected.committed) offer.reasons += "; " + rejected.directory + ": " + rejected.reason;
  }
  return offer;
}

// Lines "c STEP GENERATION", "f GENERATION STEP", "t TROUBLE", "r REASONS".
std::string format_offer(const ResumeOffer& offer) {
  std::ostringstream text;
  for (const CheckpointName& name : offer.usable) {
    text << "c " << name.step << ' ' << name.generation << '\n';
  }
  for (const GenerationFork& fork : offer.forks) {
    text << "f " << fork.generation << ' ' << fork.fork_step << '\n';
  }
  if (!offer.trouble.empty()) text << "t " << offer.trouble << '\n';
  if (!offer.reasons.empty()) text << "r " << offer.reasons << '\n';
  return text.str();
}

ResumeOffer parse_offer(std::string_view text) {
  ResumeOffer offer;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(1));
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    if (line[0] == 't') offer.trouble = line.substr(2);
    if (line[0] == 'r') offer.reasons = line.substr(2);
    if (line[0] != 'c' && line[0] != 'f') continue;
    words >> first >> second;
    if (line[0] == 'c') offer.usable.push_back({first, second});
    if (line[0] == 'f') offer.forks.push_back({first, second});
  }
  return offer;
}

std::optional<ChosenOffer> choose_offer(std::span<const ResumeOffer> offers) {
  std::vector<GenerationFork> forks;
  for (const ResumeOffer& offer : offers) {
    forks.insert(forks.end(), offer.forks.begin(), offer.forks.end());
  }
  std::optional<ChosenOffer> best;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    for (const CheckpointName& name : offers[rank].usable) {
      if (!is_on_lineage(name.step, name.generation, forks)) continue;
      if (!best || name > best->name) best = {rank, name};
    }
  }
  return best;
}

std::string complaint_of(std::span<const ResumeOffer> offers) {
  for (const ResumeOffer& offer : offers) {
    if (!offer.trouble.empty()) return offer.trouble;
  }
  for (const ResumeOffer& offer : offers) {
    if (!offer.reasons.empty()) return "none can be used" + offer.reasons;
    if (!offer.usable.empty()) return "none can be used: a later generation began before each";
  }
  return "";
}

}  // namespace muster
