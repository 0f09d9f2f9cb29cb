// Sums of two rows of floats, element by element.
#pragma once

#include <cstddef>

namespace muster {

void add(const float* a, const float* b, std::size_t count, float* sum);
void add_into(const float* a, std::size_t count, float* sum);  // sum += a

}  // namespace muster
