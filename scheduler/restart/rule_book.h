// The rules in force for one job, in the order in which they are asked: its own, its site's, the
// built-in ones. Patterns are compiled once; judging an exit is a pure function of the evidence.
// The controller journals the verdict with the exit, so that nothing asks a pattern again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/job_spec.h"
#include "scheduler/model/record.h"
#include "scheduler/restart/pattern.h"

namespace muster {

// As many of a rank's last lines as agents report and the journal holds.
constexpr int evidence_lines = 20;

// What is known of a rank's failure: how it ended and its last lines, as the journal holds them.
struct KnownExit {
  ExitStatus status;
  std::vector<std::string> last_lines;
  bool was_stopped = false;  // by muster, so that its status says nothing
};

KnownExit known_exit(const RankExited& exit);

struct RuleEntry {
  RestartRule rule;  // its id is never empty
  RuleOrigin origin = RuleOrigin::built_in;
  std::optional<Pattern> pattern;  // absent: none is asked for, or it is no pattern
};

struct RuleHit {
  const RuleEntry* entry = nullptr;
  std::optional<std::size_t> line;  // the first line of the evidence that fits the pattern
};

class RuleBook {
 public:
  explicit RuleBook(const MusterSettings& settings);

  std::vector<const RuleEntry*> entries() const;
  RuleVerdict judge(const KnownExit& evidence) const;
  // Every rule that holds, in order; the first enforced one decides.
  std::vector<RuleHit> hits(const KnownExit& evidence) const;

 private:
  std::vector<RuleEntry> own_;
};

// What the rules say of one exit: what `RuleBook(settings).judge` says.
RuleVerdict judge_exit(const MusterSettings& settings, const KnownExit& evidence);

// Xids that lines such as `NVRM: Xid (PCI:0000:3b:00): 79, …` name.
std::vector<int> xids_in(const std::vector<std::string>& lines);

// "exit_code 3 or 40-49, signal 9, stderr_regex 'x', xid 79"
std::string condition_text(const RestartRule& rule);

// The failures that every site meets, as rules: what a rank says or how it dies, whose fault that
// usually is, what to do, and one sentence of advice. Asked after the job's and the site's rules.

const std::vector<RestartRule>& built_in_rules();

}  // namespace muster
