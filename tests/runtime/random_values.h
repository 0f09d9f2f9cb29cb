// Reproducible test values from the runtime's own counter-based generator, and the error measure of
// the tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/memory/bf16.h"
#include "runtime/memory/philox.h"

namespace muster::test {

inline std::vector<double> normal_values(std::size_t count, std::uint64_t seed, double scale = 1) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = scale * normal_pair(random_block(seed, RandomPurpose::initial_weights, 7, i))[0];
  }
  return values;
}

inline std::vector<std::uint32_t> random_tokens(std::size_t count, std::uint64_t seed,
                                                std::uint32_t vocabulary = 256) {
  std::vector<std::uint32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = random_block(seed, RandomPurpose::sample_order, 7, i)[0] % vocabulary;
  }
  return values;
}

inline std::vector<float> narrow(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

inline std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// As operands of matrix products, float or Bf16, and back.
template <class Operand>
std::vector<Operand> operands(const std::vector<double>& values) {
  std::vector<Operand> rounded;
  for (const double value : values) {
    rounded.push_back(to_operand<Operand>(static_cast<float>(value)));
  }
  return rounded;
}
template <class Operand>
std::vector<double> values_of(const std::vector<Operand>& operands) {
  std::vector<double> values;
  for (const Operand operand : operands) values.push_back(to_float(operand));
  return values;
}

inline bool is_near(double a, double b, double relative = 1e-9) {
  return std::abs(a - b) <= relative * std::abs(b);
}

// ||a - b|| / ||b||
template <class A>
double relative_l2(const A& a, std::span<const double> b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace muster::test
