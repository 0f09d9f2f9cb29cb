// The reduce-scatter of gradients in the order of the leaf tree, while the rank computes on.
//
// Every rank sends its nodes of the tree to the owners of their elements, who join the rest of the
// tree: the sums do not depend on which part is sent when. One all-to-all per piece and node that
// the rank with most of them holds; with a power of two of ranks, one per piece. Collective: all
// ranks start the same pieces in the same order.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "runtime/zero/gradient_plan.h"

namespace muster {

class GradientReduction {
 public:
  // At most `most_under_way` pieces at a time, which bounds the memory for what is received. The
  // time that its methods take is added to `spent_s`. Everything passed by reference outlives this.
  GradientReduction(const Division& division, Communicator& ranks, std::size_t most_under_way,
                    double& spent_s);

  // nodes[i] is where the i-th node of this rank has element piece.lo. `result` gets the sums of
  // this rank's own elements of the piece, one after the other; it may be where a node has them.
  // The piece is left alone until it is finished. Returns its number; the first one is 1.
  std::uint64_t start(const ElementRange& piece, std::span<float* const> nodes, float* result);

  // Lets what is under way move on; never blocks.
  void progress();

  // Waits for all pieces up to this number.
  void finish(std::uint64_t number);
  void finish_all() { finish(started_); }

 private:
  struct Piece {
    std::uint64_t own_count = 0;
    std::vector<float*> nodes;  // of all ranks, where they have the own elements
    float* result = nullptr;
    std::vector<float> received;
    std::vector<std::unique_ptr<Transfer>> rounds;
  };

  void receive_into(Piece& piece);
  void join_first();

  const Division& division_;
  Communicator& ranks_;
  std::size_t most_under_way_;
  double& spent_s_;
  std::size_t rounds_ = 0;
  std::deque<Piece> under_way_;          // from the first to the last
  std::deque<std::vector<float>> free_;  // a step takes them as it gave them back, so sizes fit
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace muster
