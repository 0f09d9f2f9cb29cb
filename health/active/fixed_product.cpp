#include "health/active/fixed_product.h"

#include "health/active/product_sum.h"

namespace muster {

namespace {

constexpr std::size_t side = FixedProduct::size;

// Elements of factors are numbered columns one after another; here rows are.
std::vector<float> factor(int which) {
  std::vector<float> rows(side * side);
  for (std::size_t row = 0; row < side; ++row) {
    for (std::size_t column = 0; column < side; ++column) {
      rows[row * side + column] =
          static_cast<float>(factor_element(which, column * side + row)) * factor_unit;
    }
  }
  return rows;
}

std::vector<std::uint64_t> weights(std::uint64_t (*weight)(std::uint64_t)) {
  std::vector<std::uint64_t> all(side);
  for (std::size_t at = 0; at < side; ++at) all[at] = weight(at);
  return all;
}

}  // namespace

FixedProduct::FixedProduct(const MatrixKernel& kernel)
    : product_(kernel, {side, side, side}),
      a_(factor(0)),
      b_(factor(1)),
      c_(side * side),
      row_weights_(weights(row_weight)),
      column_weights_(weights(column_weight)) {}

void FixedProduct::multiply() {
  product_.multiply(a_.data(), b_.data(), c_.data());
}

std::uint64_t FixedProduct::sum() {
  multiply();
  std::uint64_t sum = 0;
  for (std::size_t row = 0; row < side; ++row) {
    std::uint64_t of_row = 0;
    for (std::size_t column = 0; column < side; ++column)
      of_row += column_weights_[column] * product_term(c_[row * side + column]);
    sum += row_weights_[row] * of_row;
  }
  return sum;
}

}  // namespace muster
