// What the rules say of an attempt's failure. Each failed rank's exit carries its verdict, made
// where patterns may be asked (scheduler/restart/rule_book.h); here it is chosen and put into
// words.
#pragma once

#include <string>

#include "scheduler/model/outcome.h"

namespace muster {

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
