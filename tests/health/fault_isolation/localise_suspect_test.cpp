#include "health/fault_isolation/search.h"

#include "tests/catch.h"

namespace muster {
namespace {

PairReading a_reading(PairGrade grade, double deviation = 0, bool partner_is_good = true) {
  PairReading reading;
  reading.grade = grade;
  reading.deviation = deviation;
  reading.partner_is_good = partner_is_good;
  return reading;
}

const PairReading good = a_reading(PairGrade::good);
const PairReading bad = a_reading(PairGrade::bad, -0.3);
const PairReading silent = a_reading(PairGrade::unknown);
const PairReading doubtful = a_reading(PairGrade::doubtful, -0.03);
const PairReading bad_with_unknown = a_reading(PairGrade::bad, -0.3, false);
const PairReading silent_with_unknown = a_reading(PairGrade::unknown, 0, false);

SuspectState state(const std::vector<PairReading>& readings) {
  return state_of(readings, 0.01, {});
}

TEST_CASE("a suspect is confirmed by two failures of a kind, one of them with a good partner") {
  CHECK(state({bad, bad}) == SuspectState::confirmed);
  CHECK(state({bad_with_unknown, bad}) == SuspectState::confirmed);
  CHECK(state({silent, silent}) == SuspectState::confirmed);
  CHECK(state({silent_with_unknown, silent}) == SuspectState::confirmed);

  CHECK(state({bad}) == SuspectState::open);
  CHECK(state({silent}) == SuspectState::open);
  CHECK(state({bad, silent}) == SuspectState::open);
  CHECK(state({bad_with_unknown, bad_with_unknown}) == SuspectState::open);
  CHECK(state({silent_with_unknown, silent_with_unknown}) == SuspectState::open);
}

TEST_CASE("two slow results that noise explains confirm nothing") {
  const PairReading barely = a_reading(PairGrade::bad, -0.05);
  CHECK(state_of({barely, barely}, 0.001, {}) == SuspectState::confirmed);
  CHECK(state_of({barely, barely}, 0.2, {}) == SuspectState::open);
}

TEST_CASE("a few results that are alike are no proof that there is no noise") {
  const SearchLimits limits;
  const Baseline few({{95.8, 37}}, {}, limits);
  CHECK(few.noise() == 0);
  CHECK(few.noise_to_name() == limits.noise_of_few);
  const PairReading slower = a_reading(PairGrade::bad, -0.07);
  CHECK(state_of({slower, slower}, few.noise_to_name(), limits) == SuspectState::open);
  CHECK(state_of({bad, bad}, few.noise_to_name(), limits) == SuspectState::confirmed);
  const Baseline more({std::vector<double>(limits.results_for_noise, 95.8)}, {}, limits);
  CHECK(more.noise_to_name() == 0);
  const Baseline noisy({{95, 105, 100}}, {}, limits);
  CHECK(noisy.noise_to_name() == noisy.noise());
}

TEST_CASE("a suspect is cleared by a good pair, or by one with a good partner that did not fail") {
  CHECK(state({}) == SuspectState::open);
  CHECK(state({bad, bad, good}) == SuspectState::cleared);
  CHECK(state({good, bad}) == SuspectState::open);
  CHECK(state({doubtful}) == SuspectState::cleared);
  CHECK(state({a_reading(PairGrade::doubtful, -0.03, false)}) == SuspectState::open);
  CHECK(state({bad, doubtful}) == SuspectState::open);
}

TEST_CASE("a failure that the partner explains counts neither way") {
  PairReading explained = bad;
  explained.is_explained = true;
  CHECK(state({explained, bad}) == SuspectState::open);
  CHECK(state({explained}) == SuspectState::cleared);
}

}  // namespace
}  // namespace muster
