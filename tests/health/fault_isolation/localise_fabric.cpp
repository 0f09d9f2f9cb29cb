#include "tests/health/fault_isolation/localise_fabric.h"

#include <algorithm>
#include <cmath>

namespace muster {

namespace {

constexpr double rail_gb_per_s = 48;

// Box and Muller: the library's distribution differs between libraries.
double normal(std::mt19937_64& random) {
  constexpr double two_pi = 6.283185307179586;
  const double u = (static_cast<double>(random() >> 11) + 1) / 9007199254740993.0;
  const double v = static_cast<double>(random() >> 11) / 9007199254740992.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(two_pi * v);
}

}  // namespace

ModelFabric::ModelFabric(FabricShape shape, std::vector<FabricFault> faults, double noise,
                         std::uint64_t seed)
    : shape_(shape),
      noise_(noise),
      random_(seed),
      rail_factors_(shape.nodes() * shape.rails, 1),
      inside_factors_(shape.nodes(), 1),
      link_factors_(shape.links(), 1) {
  for (const FabricFault& fault : faults) {
    switch (fault.kind) {
      case FabricFaultKind::node:
        for (std::size_t rail = 0; rail < shape_.rails; ++rail) {
          rail_factors_[fault.place * shape_.rails + rail] = fault.factor;
        }
        break;
      case FabricFaultKind::inside_node:
        inside_factors_[fault.place] = fault.factor;
        break;
      case FabricFaultKind::rail:
        rail_factors_[fault.place * shape_.rails + fault.rail] = fault.factor;
        break;
      case FabricFaultKind::link:
        link_factors_[fault.place] = fault.factor;
        break;
      case FabricFaultKind::leaf:
        for (std::size_t i = 0; i < shape_.nodes_per_leaf * shape_.rails; ++i) {
          rail_factors_[fault.place * shape_.nodes_per_leaf * shape_.rails + i] = fault.factor;
        }
        break;
    }
  }
}

std::vector<PairNode> ModelFabric::nodes() const {
  std::vector<PairNode> nodes;
  for (std::size_t node = 0; node < shape_.nodes(); ++node) {
    PairNode added{node_name(node), leaf_name(leaf_of(node)), {}};
    for (std::size_t rail = 0; rail < shape_.rails; ++rail) added.rails.push_back(rail_name(rail));
    nodes.push_back(std::move(added));
  }
  return nodes;
}

std::size_t ModelFabric::link(std::size_t rail, std::size_t leaf, std::size_t spine) const {
  return (rail * shape_.leaves + leaf) * shape_.nodes_per_leaf + spine;
}

std::vector<ModelFabric::Hop> ModelFabric::hops(const PairTest& test, std::size_t rail) const {
  std::vector<Hop> found;
  if (leaf_of(test.a) == leaf_of(test.b)) return found;
  for (const auto& [from, to] : {std::pair(test.a, test.b), std::pair(test.b, test.a)}) {
    const std::size_t spine = to % shape_.nodes_per_leaf;
    found.push_back({link(rail, leaf_of(from), spine), true});
    found.push_back({link(rail, leaf_of(to), spine), false});
  }
  return found;
}

bool ModelFabric::cross(const std::string& node, const std::string& other, std::size_t link) const {
  const auto place_of = [](const std::string& name) { return std::stoul(name.substr(1)); };
  const std::size_t rail = link / (shape_.leaves * shape_.nodes_per_leaf);
  const auto over = hops({place_of(node), place_of(other), rail}, rail);
  return std::any_of(over.begin(), over.end(), [&](const Hop& hop) { return hop.link == link; });
}

void ModelFabric::add_load(const PairTest& test, std::size_t rail, std::vector<int>& load) const {
  for (const Hop& hop : hops(test, rail)) ++load[2 * hop.link + (hop.is_up ? 0 : 1)];
}

double ModelFabric::on_rail(const PairTest& test, std::size_t rail,
                            const std::vector<int>& load) const {
  double factor = std::min(rail_factors_[test.a * shape_.rails + rail],
                           rail_factors_[test.b * shape_.rails + rail]);
  for (const Hop& hop : hops(test, rail)) {
    factor = std::min(factor, link_factors_[hop.link] / load[2 * hop.link + (hop.is_up ? 0 : 1)]);
  }
  return factor;
}

std::vector<PairResult> ModelFabric::run(const std::vector<PairTest>& tests) {
  std::vector<int> load(2 * shape_.links(), 0);
  const auto first_rail = [](const PairTest& test) { return test.rail.value_or(0); };
  const auto end_rail = [&](const PairTest& test) {
    return test.rail ? *test.rail + 1 : shape_.rails;
  };
  for (const PairTest& test : tests) {
    for (std::size_t rail = first_rail(test); rail < end_rail(test); ++rail) {
      add_load(test, rail, load);
    }
  }
  std::vector<PairResult> results;
  for (const PairTest& test : tests) {
    double factor = 1;  // channels carry equal shares: the slowest rail sets the pace of all
    for (std::size_t rail = first_rail(test); rail < end_rail(test); ++rail) {
      factor = std::min(factor, on_rail(test, rail, load));
    }
    double gb_per_s = rail_gb_per_s * factor;
    if (!test.rail) {
      factor = std::min({factor, inside_factors_[test.a], inside_factors_[test.b]});
      gb_per_s = rail_gb_per_s * static_cast<double>(shape_.rails) * factor;
    }
    gb_per_s *= 1 + noise_ * normal(random_);
    results.push_back({test, {}});
    if (factor > 0) results.back().gb_per_s = gb_per_s;
  }
  return results;
}

void run_search(FaultSearch& search, ModelFabric& fabric) {
  while (const auto round = search.next_round()) {
    for (const PairResult& result : fabric.run(round->tests)) search.add(result);
  }
}

}  // namespace muster
