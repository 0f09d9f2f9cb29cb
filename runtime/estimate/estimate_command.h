// `muster-train estimate`: what a run would take, before it is started.
#pragma once

#include <variant>

#include "runtime/estimate/estimate.h"

namespace muster {

// What the words of a command ask, options of a training run among them; or the exit code when
// there is nothing to answer (help was printed, or a complaint).
struct EstimateRequest {
  EstimateQuestion question;
  bool as_json = false;
};
std::variant<EstimateRequest, int> parse_estimate(int argc, const char* const* argv);

// argv[0] is "estimate". Returns the exit code: 0, or 1 where the run does not fit, or 2.
int run_estimate_command(int argc, const char* const* argv);

}  // namespace muster
