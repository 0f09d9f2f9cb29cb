#include "health/localise/crossings.h"

#include <algorithm>
#include <set>

namespace muster {

Crossings::Crossings(const FabricRoutes& routes, std::size_t nodes, std::size_t rails)
    : routes_(&routes), nodes_(nodes), rails_(rails), cases_(routes.links.size() + nodes * rails) {}

void Crossings::parts_of(const PairTest& test, std::vector<PartIndex>& parts,
                         std::vector<std::size_t>& directions) const {
  parts.clear();
  directions.clear();
  hops_.clear();
  const std::size_t rail = test.rail.value_or(0);
  routes_->hops(test.a, test.b, rail, hops_);
  routes_->hops(test.b, test.a, rail, hops_);
  for (const LinkHop& hop : hops_) {
    if (hop.link >= links()) continue;  // a table that does not fit: nothing is said of it
    directions.push_back(2 * hop.link + (hop.from_a ? 0 : 1));
    if (std::find(parts.begin(), parts.end(), hop.link) == parts.end()) parts.push_back(hop.link);
  }
  parts.push_back(part_of(test.a, rail));
  parts.push_back(part_of(test.b, rail));
}

std::vector<std::size_t> Crossings::rails_apart(NodeIndex a, NodeIndex b, std::size_t rails) const {
  std::vector<std::size_t> apart;
  std::vector<PartIndex> parts;
  std::vector<std::size_t> directions;
  std::set<std::size_t> taken;
  for (std::size_t i = 0; i < rails; ++i) {
    const std::size_t rail = rails_share_links() ? (a + b + i) % rails : i;
    if (rails_share_links()) {
      parts_of({a, b, rail}, parts, directions);
      const auto is_taken = [&](std::size_t one) { return taken.contains(one); };
      if (std::any_of(directions.begin(), directions.end(), is_taken)) continue;
      taken.insert(directions.begin(), directions.end());
    }
    apart.push_back(rail);
  }
  return apart;
}

void Crossings::judge(const std::vector<PairResult>& results, const Baseline& baseline) {
  std::fill(cases_.begin(), cases_.end(), PartCase{});
  deviations_.clear();
  std::vector<PartIndex> parts;
  std::vector<std::size_t> directions;
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    const PairResult& result = results[i];
    const std::size_t rail = result.test.rail.value_or(0);
    const PairReading reading = baseline.read(rail, result.gb_per_s);
    const double deviation = result.gb_per_s ? baseline.deviation(rail, *result.gb_per_s) : 0;
    deviations_.push_back(deviation);
    parts_of(result.test, parts, directions);
    for (const PartIndex part : parts) {
      PartCase& found = cases_[part];
      found.good += reading == PairReading::good;
      found.doubtful += reading == PairReading::doubtful;
      found.bad += reading == PairReading::bad;
      found.unknown += reading == PairReading::unknown;
      found.deviation_sum += deviation;
      if (reading == PairReading::bad || reading == PairReading::unknown)
        found.failing.push_back(i);
    }
  }
}

bool Crossings::is_suspected(PartIndex part, const LocaliseLimits& limits) const {
  const PartCase& found = cases_[part];
  if (found.good > 0 || found.failing.empty()) return false;
  const int known = found.bad + found.doubtful;
  // A floor may be above the median: then a bad pair counts though it does not deviate.
  return known == 0 || found.doubtful == 0 ||
         found.deviation_sum <= -limits.bad_below_median * known;
}

bool Crossings::has_suspects(const LocaliseLimits& limits) const {
  for (PartIndex part = 0; part < cases_.size(); ++part) {
    if (is_suspected(part, limits)) return true;
  }
  return false;
}

namespace {

// A link is not named for pairs that all have one node in them: that node may be the cause.
bool share_a_node(const std::vector<std::uint32_t>& failing,
                  const std::vector<PairResult>& results) {
  const PairTest& first = results[failing.front()].test;
  for (const NodeIndex node : {first.a, first.b}) {
    const bool in_all = std::all_of(failing.begin(), failing.end(), [&](std::uint32_t i) {
      return results[i].test.a == node || results[i].test.b == node;
    });
    if (in_all) return true;
  }
  return false;
}

bool has_two_partners(NodeIndex node, const std::vector<std::uint32_t>& failing,
                      const std::vector<PairResult>& results) {
  std::set<NodeIndex> partners;
  for (const std::uint32_t i : failing) {
    const PairTest& test = results[i].test;
    partners.insert(test.a == node ? test.b : test.a);
  }
  return partners.size() >= 2;
}

}  // namespace

Crossings::Evidence Crossings::evidence_of(PartIndex part, const std::vector<PairResult>& results,
                                           const std::vector<bool>& explained) const {
  const PartCase& found = cases_[part];
  Evidence evidence;
  double sum = found.deviation_sum;
  for (const std::uint32_t i : found.failing) {
    if (explained[i]) {
      sum -= deviations_[i];
      continue;
    }
    evidence.failing.push_back(i);
    ++(results[i].gb_per_s ? evidence.bad : evidence.unknown);
  }
  evidence.known = static_cast<std::size_t>(evidence.bad + found.doubtful);
  if (evidence.known > 0) evidence.mean_deviation = sum / static_cast<double>(evidence.known);
  return evidence;
}

bool Crossings::is_proof(PartIndex part, const Evidence& evidence,
                         const std::vector<PairResult>& results, double noise,
                         const LocaliseLimits& limits) const {
  if (evidence.bad < 2 && evidence.unknown < 2) return false;
  const bool two = is_link(part) ? !share_a_node(evidence.failing, results)
                                 : has_two_partners(node_of(part), evidence.failing, results);
  if (!two || evidence.unknown >= 2) return two;
  return is_beyond_noise(evidence.mean_deviation, evidence.known, noise, limits.deviations_to_name);
}

Naming Crossings::name(const std::vector<PairResult>& results, double noise,
                       const LocaliseLimits& limits) const {
  std::vector<bool> explained(results.size(), false);
  std::vector<PartIndex> candidates;
  for (PartIndex part = 0; part < cases_.size(); ++part) {
    if (is_suspected(part, limits) &&
        is_proof(part, evidence_of(part, results, explained), results, noise, limits)) {
      candidates.push_back(part);
    }
  }
  Naming naming;
  while (true) {
    NamedParts best;
    for (const PartIndex part : candidates) {
      const Evidence evidence = evidence_of(part, results, explained);
      if (evidence.failing.size() < best.failing.size() ||
          !is_proof(part, evidence, results, noise, limits)) {
        continue;
      }
      if (evidence.failing != best.failing) {
        if (evidence.failing.size() == best.failing.size()) continue;
        best = {{}, evidence.failing};
      }
      best.parts.push_back(part);
    }
    if (best.parts.empty()) break;
    for (const std::uint32_t i : best.failing) explained[i] = true;
    naming.named.push_back(std::move(best));
  }
  for (PartIndex part = 0; part < cases_.size(); ++part) {
    if (!is_suspected(part, limits) || (rails_ < 2 && !is_link(part))) continue;
    const Evidence evidence = evidence_of(part, results, explained);
    if (!evidence.failing.empty() && is_beyond_noise(evidence.mean_deviation, evidence.known, noise,
                                                     limits.deviations_to_go_on)) {
      naming.open.push_back(part);
    }
  }
  return naming;
}

}  // namespace muster
