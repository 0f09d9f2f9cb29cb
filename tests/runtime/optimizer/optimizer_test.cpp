// AdamW beside its twin and its formula, and the learning rates that it is given.
#include <cmath>
#include <vector>

#include "runtime/optimizer/adamw.h"
#include "tests/catch.h"
#include "tests/runtime/random_values.h"
#include "tests/runtime/layer/reference.h"

using namespace muster;
using namespace muster::test;

TEST_CASE("AdamW's twin is the formula, step by step") {
  const AdamwSettings settings{0.8, 0.9, 0.125, 7};
  double p = 2, m = 0, v = 0, expected = 2;
  const double gradients[] = {3, -1};
  double m_then = 0, v_then = 0;
  for (std::uint64_t t = 1; t <= 2; ++t) {
    const double gradient = gradients[t - 1];
    adamw_reference(settings, {0.1, 0.5, 0.25, t}, {&gradient, 1}, {&p, 1}, {&m, 1}, {&v, 1});
    const double g = 0.25 * gradient;
    expected -= 0.1 * 0.5 * expected;
    m_then = 0.8 * m_then + 0.2 * g;
    v_then = 0.9 * v_then + 0.1 * g * g;
    const auto steps = static_cast<double>(t);
    expected -= 0.1 * (m_then / (1 - std::pow(0.8, steps))) /
                (std::sqrt(v_then / (1 - std::pow(0.9, steps))) + 0.125);
    CHECK(is_near(p, expected));
    CHECK(is_near(m, m_then));
    CHECK(is_near(v, v_then));
  }
}

TEST_CASE("AdamW agrees with its fp64 twin over twenty steps") {
  auto p = normal_values(1000, 1), m = std::vector<double>(1000), v = std::vector<double>(1000);
  auto fp = narrow(p), fm = narrow(m), fv = narrow(v);
  for (std::uint64_t t = 1; t <= 20; ++t) {
    const auto gradient = normal_values(1000, 100 + t);
    const AdamwStep step{1e-2, 0.1, 0.5, t};
    adamw({}, step, narrow(gradient), fp, fm, fv);
    adamw_reference({}, step, gradient, p, m, v);
  }
  CHECK(relative_l2(fp, p) < 1e-5);
  CHECK(relative_l2(fm, m) < 1e-5);
  CHECK(relative_l2(fv, v) < 1e-5);
}

TEST_CASE("AdamW leaves padding at zero") {
  std::vector<float> p(1024, 0.0f), m(1024, 0.0f), v(1024, 0.0f);
  adamw({}, {1e-2, 0.1, 1, 1}, std::vector<float>(1024, 0.0f), p, m, v);
  CHECK(p == std::vector<float>(1024, 0.0f));
}

TEST_CASE(
    "the learning rate warms up, stays or falls to a tenth, and ignores the length of the run") {
  const LearningRate constant{1e-3, 10, 0};
  CHECK(is_near(constant.at(1), 1e-4));
  CHECK(is_near(constant.at(10), 1e-3));
  CHECK(is_near(constant.at(100000), 1e-3));
  const LearningRate cosine{1e-3, 0, 100};
  CHECK(cosine.at(1) < 1e-3);
  CHECK(is_near(cosine.at(50), 0.55e-3));
  CHECK(is_near(cosine.at(100), 1e-4));
  CHECK(is_near(cosine.at(5000), 1e-4));
  const LearningRate both{1e-3, 20, 100};
  CHECK(is_near(both.at(10), 0.5e-3));
  CHECK(is_near(both.at(20), 1e-3));
  CHECK(is_near(both.at(45), 1e-3 * (0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2)));
  CHECK(is_near(both.at(70), 0.55e-3));
  CHECK(is_near(both.at(95), 1e-3 * (0.1 + 0.9 * (1 - std::sqrt(0.5)) / 2)));
  CHECK(is_near(both.at(120), 1e-4));
}
