#include "runtime/train/elastic/epoch_start.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "runtime/checkpoint/choose.h"

namespace muster {
namespace {

// The higher one counts.
auto rank_of(const MemberNews& news, const std::vector<GenerationFork>& forks) {
  const bool counts = news.has_trained || is_on_lineage(news.step, news.from_generation, forks);
  return std::make_tuple(counts, news.has_trained, news.step);
}

std::vector<GenerationFork> all_forks(const std::vector<MemberNews>& members) {
  std::vector<GenerationFork> forks;
  for (const MemberNews& member : members) {
    forks.insert(forks.end(), member.forks.begin(), member.forks.end());
  }
  return forks;
}

}  // namespace

std::size_t EpochStart::source() const {
  const std::vector<GenerationFork> forks = all_forks(members);
  const auto newest = std::ranges::max_element(
      members, {}, [&](const MemberNews& news) { return rank_of(news, forks); });
  return static_cast<std::size_t>(newest - members.begin());
}

bool EpochStart::differs() const {
  const std::vector<GenerationFork> forks = all_forks(members);
  return std::ranges::any_of(members, [&](const MemberNews& news) {
    return news.step != members[0].step ||
           std::get<0>(rank_of(news, forks)) != std::get<0>(rank_of(members[0], forks));
  });
}

std::uint64_t EpochStart::known_generation() const {
  std::uint64_t highest = 0;
  for (const MemberNews& member : members) highest = std::max(highest, member.known_generation);
  return highest;
}

bool EpochStart::owes_save() const {
  return std::ranges::any_of(members, &MemberNews::owes_save);
}

std::vector<std::string> EpochStart::hosts() const {
  std::set<std::string> distinct;
  for (const MemberNews& member : members) distinct.insert(member.host);
  return {distinct.begin(), distinct.end()};
}

}  // namespace muster
