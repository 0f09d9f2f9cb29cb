// The words that decisions use about nodes, ranks and durations, so that they read alike
// everywhere.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/outcome.h"
#include "scheduler/state/limits.h"
#include "scheduler/state/state.h"
#include "scheduler/text/text.h"

namespace muster {

std::string signal_name(int signal);               // "SIGKILL", "signal 77"
std::string exit_text(const ExitStatus& status);   // "was killed by SIGKILL", "exited with code 3"
std::string duration_text(Milliseconds duration);  // "5.2 s", "10 min", "1 h 30 min"
std::string count_text(std::size_t n, const std::string& noun);  // "1 node", "2 nodes"

// "a; b; c and 12 more": the first `nodes_named`.
template <class Part>
std::string list_text(const std::vector<Part>& parts, std::string_view between = "; ") {
  const std::span named(parts.data(), std::min<std::size_t>(parts.size(), nodes_named));
  std::string text = joined(named, between);
  if (named.size() < parts.size()) {
    text += " and " + std::to_string(parts.size() - named.size()) + " more";
  }
  return text;
}
// "h01", "h01 and h02", "h01, h02 and h03", "h01, h02 and 12 more": as many.
std::string names_text(const std::vector<NodeId>& nodes);

// "h02 cannot be reached: connection refused", from the link's latest failure.
std::string link_text(const NodeId& node, const LinkFailure& failure);

// What the rules say of an attempt's failure. Each failed rank's exit carries its verdict, made
// where patterns may be asked (scheduler/restart/rule_book.h); here it is chosen and put into
// words.

// "rule cuda-oom (default)"
std::string rule_name(const MatchedRule& rule);

// "rule 2 (job): class user"; without a rule "class user". Then the rules that only log.
std::string said_by_rules(const AttemptCause& cause);

// ": reduce the batch size"; empty without a rule or advice.
std::string advice_of(const AttemptCause& cause);

// What was computed may be wrong without any sign of it, and so what was saved since: a rank's
// values were, or the memory of its GPU was. Only a certified checkpoint will do then.
bool casts_doubt(const AttemptCause& cause);

// "rank 1 on h02 exited with 3 (class sdc), so what was saved may be wrong"
std::string doubt_text(const AttemptCause& cause);

}  // namespace muster
