#include "health/read/liveness.h"

#include "health/model/judged_check.h"

namespace muster {

namespace {

constexpr double agent_age_s_usual = 15;
// A killed process is gone within milliseconds, unless it sleeps in the kernel.
constexpr double unreaped_s_usual = 2;

double seconds_of(Milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

std::string seconds_text(double seconds) {
  return std::to_string(static_cast<std::int64_t>(seconds)) + " s";
}

}  // namespace

HealthFinding judge_agent(std::optional<Milliseconds> age, const HealthProfile& profile) {
  JudgedCheck judged("host.agent");
  const double limit = limit_of(profile, "host.agent", "age_s", agent_age_s_usual);
  if (!age) {
    judged.unknown("no heartbeat yet");
  } else if (seconds_of(*age) <= limit) {
    judged.pass(seconds_text(seconds_of(*age)));
  } else if (seconds_of(*age) <= 3 * limit) {
    judged.unknown("the latest heartbeat is " + seconds_text(seconds_of(*age)) + " old");
  } else {
    judged.fail(seconds_text(seconds_of(*age)), "<= " + seconds_text(limit));
  }
  return *judged.finding();
}

HealthFinding judge_helper(const HelperFacts& facts, const HealthProfile& profile) {
  JudgedCheck judged("host.helper");
  const double limit = limit_of(profile, "host.helper", "unreaped_s", unreaped_s_usual);
  if (facts.unreaped && seconds_of(*facts.unreaped) > limit) {
    judged.unknown("killed " + seconds_text(seconds_of(*facts.unreaped)) + " ago, and still there");
  } else {
    judged.pass(std::to_string(facts.restarts) + " restarts");
  }
  return *judged.finding();
}

}  // namespace muster
