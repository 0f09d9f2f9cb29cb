// Values of a checkpoint on every rank, whether or not every rank sees its files.
//
// When all ranks can read the checkpoint, each reads its own ranges; otherwise the source rank
// reads everything and broadcasts, and each rank keeps what it asked for. That is the case where
// the checkpoint directory lies on a disk of that rank's node. The constructor and fill() are
// collective.
#pragma once

#include <span>
#include <string>

#include "runtime/checkpoint/reader.h"
#include "runtime/communicator/communicator.h"

namespace muster {

class PlaneSource {
 public:
  // `path` is where this rank expects the checkpoint; `manifest` and `source_rank` are the same on
  // all ranks, and `manifest` outlives this.
  PlaneSource(const std::string& path, const Manifest& manifest, std::size_t source_rank,
              Communicator& ranks);

  // Fills `out` with elements `range` of plane `plane`; ranges may differ between ranks. After a
  // fault of the source while broadcasting the others hold zeros, which the state hash shows.
  Checked<NoValue> fill(std::size_t plane, const ElementRange& range, std::span<float> out);

  // True when every rank reads for itself.
  bool is_direct() const { return direct_; }

 private:
  Checked<NoValue> receive(std::size_t plane, const ElementRange& range, std::span<float> out);

  CheckpointReader reader_;
  std::uint64_t numel_;
  std::size_t source_rank_;
  Communicator& ranks_;
  bool direct_ = true;
};

}  // namespace muster
