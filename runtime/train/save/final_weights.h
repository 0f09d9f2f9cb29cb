// The weights at the end of a run, as rank 0 writes them for others.
//
// Where rank 0 does not hold all of them it gathers them from their owners, some MiB at a time.
// Collective; every rank gets the same outcome.
#pragma once

#include <span>
#include <string>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/flat_space.h"
#include "runtime/communicator/communicator.h"
#include "runtime/train/step/training_state.h"

namespace muster {

// model.safetensors: the trained weights, for other programs.
//
// One F32 tensor per parameter under its Hugging Face GPT-2 name, without the padding of the flat
// space, in model order; header padded to 8 bytes. Equal weights give equal bytes. Written part by
// part, so that nobody has to hold all of it.

inline constexpr const char* weights_file_name = "model.safetensors";

class WeightsFile {
 public:
  // Begins a new directory/model.safetensors; the old one stays until replace(), and for good when
  // this ends before. `space` outlives this.
  static Checked<WeightsFile> create(const std::string& directory, const FlatSpace& space);

  // Elements `range` of the space. All of it is written once, in any order.
  Checked<NoValue> write(const ElementRange& range, std::span<const float> weights);

  // The file is whole: it replaces the old one, durably.
  Checked<NoValue> replace() { return file_.replace(); }

 private:
  WeightsFile(const FlatSpace& space, ReplacingFile file, std::uint64_t header_bytes);

  const FlatSpace* space_;
  ReplacingFile file_;
  std::uint64_t header_bytes_;
};

// Writes directory/model.safetensors; the directory is that of rank 0. Weights that are not finite
// are a fault.
Checked<NoValue> write_final_weights(const std::string& directory, const FlatSpace& space,
                                     const TrainingState& state, Communicator& ranks);

}  // namespace muster
