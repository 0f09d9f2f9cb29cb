#include "runtime/train/step/guard.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "runtime/checkpoint/tensor_stats.h"
#include "runtime/communicator/mesh/mesh.h"

namespace muster {
namespace {

constexpr std::uint64_t steps_between_replays = 20;

// A launcher reads these: only what a rank in doubt says accuses anybody.
std::string doubt_sentence(const HardwareDoubt& doubt, const SpeakingRank& me) {
  if (doubt.ranks.empty()) return "hardware in doubt: " + doubt.what;
  if (std::count(doubt.ranks.begin(), doubt.ranks.end(), me.rank) > 0) {
    return "rank " + std::to_string(me.rank) + " on " + me.host +
           ": hardware in doubt: " + doubt.what;
  }
  return "ends because the hardware of rank " + std::to_string(doubt.ranks.front()) +
         " is in doubt";
}

}  // namespace

std::optional<HardwareDoubt> judge_replicas(std::span<const std::uint64_t> hashes) {
  std::map<std::uint64_t, std::size_t> votes;
  for (const std::uint64_t hash : hashes) ++votes[hash];
  if (votes.size() <= 1) return std::nullopt;
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  HardwareDoubt doubt;
  if (most->second * 2 <= hashes.size()) {
    doubt.what = "the weights of the ranks differ, and it is unknown which are right";
    return doubt;
  }
  doubt.what = "its weights differ from those of the other ranks";
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != most->first) doubt.ranks.push_back(rank);
  }
  return doubt;
}

std::optional<HardwareDoubt> judge_replay(std::uint64_t step,
                                          std::span<const std::string> differences) {
  HardwareDoubt doubt;
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    if (differences[rank].empty()) continue;
    doubt.ranks.push_back(rank);
    doubt.what = "step " + std::to_string(step) + " gave another " + differences[rank] +
                 " when it was computed again";
  }
  if (doubt.ranks.empty()) return std::nullopt;
  return doubt;
}

std::optional<HardwareDoubt> compare_replicas(std::span<const float> weights, std::uint64_t step,
                                              Communicator& ranks) {
  std::vector<std::uint64_t> hashes;
  for (const std::string& text : ranks.gather_texts(std::to_string(plane_hash(0, 0, weights)))) {
    hashes.push_back(std::stoull(text));
  }
  auto doubt = judge_replicas(hashes);
  if (doubt) doubt->what += ", after step " + std::to_string(step);
  return doubt;
}

bool ReplayRule::is_due(std::uint64_t step, LossWindow::Look look) {
  if (look == LossWindow::Look::usual) return false;
  const bool is_recent = last_ && step < *last_ + steps_between_replays;
  if (look == LossWindow::Look::stands_out && is_recent) return false;
  last_ = step;
  return true;
}

int end_in_doubt(const HardwareDoubt& doubt, const SpeakingRank& me, Communicator& ranks) {
  std::fprintf(stderr, "muster-train: %s\n", doubt_sentence(doubt, me).c_str());
  try {
    (void)ranks.gather_texts("");  // nobody ends before it is said
  } catch (const PeerLost&) {
    // That one has ended.
  }
  return exit_hardware_doubt;
}

}  // namespace muster
