// A fat tree of two levels with faults and noise, for tests of the search: each rail has leaf
// switches and spines of its own, and a packet goes up to the spine of its receiver's number. Pairs
// that share a link in one direction at the same time share its bandwidth.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "health/fault_isolation/search.h"

namespace muster {

struct FabricShape {
  std::size_t leaves = 64;
  std::size_t nodes_per_leaf = 16;
  std::size_t rails = 1;
  std::size_t nodes() const { return leaves * nodes_per_leaf; }
  std::size_t links() const { return rails * leaves * nodes_per_leaf; }
};

enum class FabricFaultKind { node, inside_node, rail, link, leaf };

// What is left of the bandwidth; 0: no result.
struct FabricFault {
  FabricFaultKind kind = FabricFaultKind::node;
  std::size_t place = 0;  // of the node, link or leaf
  std::size_t rail = 0;
  double factor = 0.9;
};

class ModelFabric {
 public:
  ModelFabric(FabricShape shape, std::vector<FabricFault> faults, double noise, std::uint64_t seed);

  std::vector<PairNode> nodes() const;
  // Whether packets between two nodes cross it, one way or the other.
  bool cross(const std::string& node, const std::string& other, std::size_t link) const;
  std::string node_name(std::size_t node) const { return "n" + std::to_string(node); }
  std::string rail_name(std::size_t rail) const { return "mlx5_" + std::to_string(rail); }
  std::string leaf_name(std::size_t leaf) const { return "leaf" + std::to_string(leaf); }
  std::size_t link(std::size_t rail, std::size_t leaf, std::size_t spine) const;

  // All at once.
  std::vector<PairResult> run(const std::vector<PairTest>& tests);

 private:
  std::size_t leaf_of(NodeIndex node) const { return node / shape_.nodes_per_leaf; }
  struct Hop {
    std::size_t link = 0;
    bool is_up = true;  // full duplex: the two directions do not slow each other
  };
  // Of both directions.
  std::vector<Hop> hops(const PairTest& test, std::size_t rail) const;
  double on_rail(const PairTest& test, std::size_t rail, const std::vector<int>& load) const;
  void add_load(const PairTest& test, std::size_t rail, std::vector<int>& load) const;

  FabricShape shape_;
  double noise_;
  std::mt19937_64 random_;
  std::vector<double> rail_factors_;  // node * rails + rail
  std::vector<double> inside_factors_;
  std::vector<double> link_factors_;
};

// Runs it to its end.
void run_search(FaultSearch& search, ModelFabric& fabric);

}  // namespace muster
