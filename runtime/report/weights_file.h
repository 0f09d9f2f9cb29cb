// model.safetensors: the trained weights, for other programs.
//
// One F32 tensor per parameter under its Hugging Face GPT-2 name, without the padding of the flat
// space, in model order; header padded to 8 bytes. Equal weights give equal bytes. Written beside
// and renamed into place.
#pragma once

#include <span>
#include <string>

#include "runtime/checkpoint/checked.h"
#include "runtime/checkpoint/flat_space.h"

namespace muster {

inline constexpr const char* weights_file_name = "model.safetensors";

// Replaces directory/model.safetensors durably. `weights` is space.numel long.
Checked<NoValue> write_weights_file(const std::string& directory, const FlatSpace& space,
                                    std::span<const float> weights);

}  // namespace muster
