#include "health/verdict/prolog.h"

#include <algorithm>

#include "scheduler/text/text.h"

namespace muster {

namespace {

std::string list_of(const std::vector<SampleWanted>& questions) {
  std::vector<std::string> names;
  for (const SampleWanted& one : questions)
    names.push_back(one.device.empty() ? one.check : one.check + " on " + one.device);
  return joined(names);
}

// A clock that went back makes no verdict young.
bool is_fresh(const PrologQuestion& question) {
  return question.verdict && question.verdict_age >= Milliseconds{0} &&
         question.verdict_age <= verdict_fresh;
}

bool is_clear(const NodeVerdict& verdict) {
  return verdict.unclear.empty() && verdict.unconfirmed.empty();
}

// A drain lasts until it is undone, however old the verdict is.
PrologAnswer final_answer(const PrologQuestion& question) {
  if (question.verdict && question.verdict->is_drained()) {
    return RefuseNode{question.verdict->reason()};
  }
  if (!is_fresh(question)) return TakeSpare{"no check of the node ended in time"};
  if (!question.verdict->unclear.empty()) {
    return TakeSpare{"no pass of " + list_of(question.verdict->unclear)};
  }
  return StartJob{};
}

// Until the next sample of the same thing counts as another one.
Milliseconds pause_before(const PrologQuestion& question) {
  if (!is_fresh(question)) return Milliseconds{0};
  return std::max(Milliseconds{0}, Milliseconds{fast_sampling} - question.verdict_age);
}

}  // namespace

PrologStep next_prolog_step(const PrologQuestion& question) {
  const Milliseconds left =
      prolog_deadline - prolog_margin - std::max(Milliseconds{0}, question.waited);
  const bool is_decided =
      is_fresh(question) && (question.verdict->is_drained() || is_clear(*question.verdict));
  const Milliseconds pause = pause_before(question);
  if (is_decided || left <= pause) return final_answer(question);
  if (question.is_running) return WaitForRun{left};
  return RunQuick{pause, left - pause};
}

}  // namespace muster
