#include "runtime/memory/philox.h"

#include <cmath>

#include "tests/catch.h"

using namespace muster;

// Known answers of the authors' Random123 distribution, file kat_vectors, "philox4x32 10".
TEST_CASE("Philox4x32-10 gives the known answers of its authors") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal values have mean 0 and deviation 1") {
  const int count = 20000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    for (const double value : normal_pair(random_block(5, RandomPurpose::initial_weights, 0, i))) {
      REQUIRE(std::isfinite(value));
      sum += value;
      squares += value * value;
    }
  }
  CHECK(std::abs(sum / (2 * count)) < 0.02);
  CHECK(std::abs(squares / (2 * count) - 1) < 0.03);
}

TEST_CASE("a uniform word of all ones or all zeros gives finite normal values") {
  for (const std::uint32_t word : {0u, 0xffffffffu}) {
    const auto pair = normal_pair({word, word, word, word});
    CHECK(std::isfinite(pair[0]));
    CHECK(std::isfinite(pair[1]));
  }
}
