#include "tests/sim/model/replay.h"

#include <deque>

#include "scheduler/apply/apply.h"
#include "scheduler/decide/decide.h"
#include "tests/sim/model/dump.h"

namespace muster {

namespace {

// What `decide` says next. Its answer is used up before it is asked again, as the controller does.
// If the record is not what was left of it, the controller may have crashed there: it is asked
// anew.
class Oracle {
 public:
  std::string next(const State& state, Time now, const std::string& recorded) {
    if (pending_.empty() || pending_.front() != recorded) ask(state, now);
    if (pending_.empty()) return "";
    const std::string first = pending_.front();
    pending_.pop_front();
    return first;
  }
  void forget() { pending_.clear(); }

 private:
  void ask(const State& state, Time now) {
    pending_.clear();
    for (const Decision& decision : decide(state, now)) pending_.push_back(describe(decision));
  }

  std::deque<std::string> pending_;
};

}  // namespace

Replay replay(const std::vector<Record>& journal) {
  Replay result;
  Oracle oracle;
  for (std::size_t i = 0; i < journal.size(); ++i) {
    if (const auto* recorded = std::get_if<Decision>(&journal[i].what)) {
      const std::string text = describe(*recorded);
      const std::string decided = oracle.next(result.state, journal[i].at, text);
      if (decided != text) {
        result.disagreements.push_back({i, text, decided});
        oracle.forget();
      }
    } else {
      oracle.forget();
    }
    apply(result.state, journal[i]);
  }
  return result;
}

}  // namespace muster
