// The world's part that looks back when all should be over.
#include <fstream>
#include <sstream>

#include "scheduler/state/lookup.h"
#include "tests/sim/model/replay.h"
#include "tests/sim/world.h"

namespace muster::sim {

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Where two texts part.
std::size_t parting(const std::string& a, const std::string& b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) at += 1;
  return at;
}

}  // namespace

void World::check_ends() {
  if (!promises_.problems().empty()) return;
  for (const auto& [id, job] : promises_.state().jobs) {
    promises_.broken("I7: " + id.value + " has not ended though nothing is broken any more");
  }
  for (const JobId& job : accepted_) {
    if (promises_.ends().contains(job) || promises_.state().jobs.contains(job)) continue;
    promises_.broken("I9: " + job.value + " was accepted and is not in the journal");
  }
}

void World::check_quiet() {
  if (!promises_.problems().empty()) return;
  for (const JobId& job : promises_.alive_jobs()) {
    promises_.broken("I8: " + job.value + " has ended and has processes");
  }
  for (const auto& [id, node] : promises_.state().nodes) {
    if (node.owner) promises_.broken("I7: " + id.value + " is never given back");
  }
  if (journal_.empty()) return;
  for (const Disagreement& each : replay(journal_).disagreements) {
    promises_.broken("I6: record " + std::to_string(each.index) + " is " + each.recorded +
                     " but replay decides " + each.decided);
  }
}

// What a rank wrote is in its log, from the first byte on; all of it where its node was proven
// clean, for that is said after the last byte.
void World::check_logs() {
  if (!promises_.problems().empty()) return;
  const Home home{folder_};
  for (const auto& [key, size] : cluster_.written) {
    const auto& [name, rank] = key;
    const std::string log = text_of(home.rank_log(name.first, name.second, rank));
    const std::string whole = output_text(name, rank, 0, size);
    const bool is_prefix = parting(log, whole) == log.size();
    if (is_prefix && (log.size() == whole.size() || !is_proven(name, rank))) continue;
    promises_.broken("I10: the log of rank " + std::to_string(rank.value) + " of " +
                     name.first.value + " attempt " + std::to_string(name.second.value) + " has " +
                     std::to_string(log.size()) + " bytes of " + std::to_string(whole.size()) +
                     ", good up to " + std::to_string(parting(log, whole)));
    return;
  }
}

bool World::is_proven(const AttemptName& name, RankId rank) const {
  const auto node = cluster_.node_of.find({name, rank});
  return node != cluster_.node_of.end() && clean_.contains({name, node->second});
}

}  // namespace muster::sim
