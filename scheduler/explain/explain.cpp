#include "scheduler/explain/explain.h"

#include <algorithm>
#include <concepts>
#include <map>
#include <numeric>

#include "scheduler/model/names.h"
#include "scheduler/node/fault_drain.h"
#include "scheduler/node/remediation_run.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/resume_point.h"
#include "scheduler/state/sentences.h"

namespace muster {

namespace {

std::string attempt_text(AttemptId attempt) {
  return "attempt " + std::to_string(attempt.value);
}

std::string nodes_text(const NodeRange& range) {
  const std::string most = count_text(range.most, "node");
  return range.least == range.most ? most : std::to_string(range.least) + " to " + most;
}

// Failed ranks of an attempt that get a line each; the others followed and are counted.
constexpr std::size_t ranks_told = 4;

// Of what ranks were seen to do while nothing moved, in the story in short.
constexpr std::size_t stall_evidence_told = 2;

template <class T, class... Others>
constexpr bool is_one_of = (std::same_as<T, Others> || ...);

class Explainer {
 public:
  explicit Explainer(std::vector<ExplainLine>& lines) : lines_(lines) {}

  void see(const Record& record) {
    at_ = record.at;
    visit_record(record, [&](const auto& one) { tell(one); });
  }
  // After the last record.
  void finish() {
    report_followers();
    report_stall_in_short();
  }

 private:
  // What stands still, and what it was seen to do: of a run that hangs, or ended so.
  void report_stall_in_short() {
    if (!stall_line_) return;
    const std::size_t end = std::min(lines_.size(), *stall_line_ + 1 + stall_evidence_told);
    for (std::size_t i = *stall_line_; i < end; ++i) {
      if (i == *stall_line_ || lines_[i].text.starts_with("  evidence: ")) lines_[i].is_gist = true;
    }
  }
  // Said once nobody else can follow.
  void report_followers() {
    if (failed_ranks_ > ranks_told) {
      lines_.push_back(
          {followed_at_, count_text(failed_ranks_ - ranks_told, "other") + " failed afterwards"});
    }
    failed_ranks_ = 0;
  }
  void say(std::string text, bool is_gist = false) {
    lines_.push_back({at_, std::move(text), is_gist});
  }
  void say_gist(std::string text) { say(std::move(text), true); }

  // Nothing to tell; of faults and remedies, what is done about them is told.
  template <class Quiet>
  requires is_one_of<Quiet, CollectionSeen, FirstOutputSeen, NodeFaultsSeen,
                     RemedyEnded, NodeSuspected, HostsAsked, PortsAsked, NodeReady>
  void tell(const Quiet&) {}
  void tell(const JobSubmitted& record) {
    say("submitted by " + record.user + ": wants " + nodes_text(node_range(record.spec)) + " of " +
        record.target.name + ", priority " + std::to_string(record.spec.muster.priority));
  }
  void tell(const CancelRequested& record) {
    say("cancel requested" +
        (record.grace ? " with a grace of " + duration_text(*record.grace) : std::string()));
  }
  // One that dies again and again has a line, too.
  void tell(const ControllerRestarted&) {
    const std::string text = "the controller was restarted";
    if (lines_.empty() || !lines_.back().text.starts_with(text)) {
      restarts_ = 1;
      return say(text);
    }
    lines_.back().text = text + "; and so on, " + std::to_string(++restarts_) + " times in " +
                         duration_text(at_ - lines_.back().at);
  }
  void tell(const ResumeRequested& record) {
    std::string from = record.certified_because ? " from a certified checkpoint" : "";
    if (record.from_step) from = " from step " + std::to_string(*record.from_step);
    say("resume requested" + from);
  }
  void tell(const NodeDrainSet& record) {
    say(record.node.value +
        (record.drained ? " was drained: " + record.reason : std::string(" is no longer drained")));
  }
  void tell(const LinkUp& record) { say(record.node.value + " is connected"); }
  void tell(const LinkDown& record) { say(link_text(record.node, record.failure)); }
  void tell(const NodeChecked& record) {
    for (const CheckFailure& failure : record.failures) {
      say(record.node.value + " failed check " + failure.check + ": " + failure.message);
    }
    for (const std::string& path : record.quarantined) {
      say("an incomplete checkpoint, on which a restart would fail, is called " + path + " now");
    }
  }
  // One line while it goes on.
  void tell(const StagingSeen& record) {
    if (record.doing.empty()) return;
    const std::string who = record.node.value + " is being prepared: ";
    if (lines_.empty() || !lines_.back().text.starts_with(who)) return say(who + record.doing);
    lines_.back().text = who + record.doing;
  }
  void tell(const NodeStaged& record) { report_error(record.node, "prepare", record.error); }
  void tell(const PortsReserved& record) {
    report_error(record.node, "reserve ports", record.error);
  }
  void tell(const NodeStarted& record) { report_error(record.node, "start ranks", record.error); }
  void tell(const StallSeen& record) {
    const bool is_over = record.stall == StallKind::over;
    if (is_over) stall_line_.reset();
    if (record.stall == StallKind::suspect) stall_line_ = lines_.size();
    say((is_over ? "" : std::string(word(record.stall)) + ": ") + record.sentence);
    if (record.stall == StallKind::hung) return;  // the end of the attempt tells the evidence
    for (const std::string& evidence : record.evidence) say("  evidence: " + evidence);
    told_ = record.evidence;
  }
  void tell(const NodeNotice& record) {
    if (record.over) return say(record.node.value + " reclaim cancelled: " + record.source);
    say(record.node.value + " will be reclaimed" +
        (record.leaves_in ? " in " + duration_text(*record.leaves_in) : std::string()) + ": " +
        record.source);
  }
  void tell(const BreakerReset&) { say("breaker reset"); }
  void tell(const NodeFaulted& record) {
    say_gist(fault_text(record));
    for (const std::string& evidence : record.fault.evidence) say("  evidence: " + evidence);
  }
  void tell(const NodeFaultOver& record) {
    say(record.node.value + " passed the check it was drained for (" + record.reason + ")");
  }
  void tell(const RemedyBegun& record) { say(begun_text(record)); }
  void tell(const RemedyOver& record) {
    say(over_text(record));
    for (const std::string& line : record.lines) say("  | " + line);
  }
  void tell(const OutputsCollected& record) {
    report_error(record.node, "collect outputs", record.error);
  }
  void tell(const OutputsDelivered& record) {
    if (!record.error.empty()) say(record.error);
  }
  void tell(const RankExited& record) {
    if (record.status.ok()) return;
    followed_at_ = at_;
    if (++failed_ranks_ > ranks_told) return;
    say("rank " + std::to_string(record.rank.value) + " on " + record.node.value + " " +
        exit_text(record.status) + (record.asked_to_stop ? " (terminated by muster)" : "") +
        after_step(record.attempt));
  }
  void tell(const ProgressSeen& record) {
    if (record.step > 0) steps_[record.attempt] = record.step;  // 0: only a checkpoint is told of
  }
  void tell(const NodeClean& record) {
    if (record.unkillable.empty()) return;
    say(record.node.value + " has processes that survive SIGKILL: " + list_text(record.unkillable));
  }

  void tell(const JobPending& record) { say(record.reason); }
  void tell(const AttemptPlaced& record) {
    const std::string spares =
        record.spares.empty() ? "" : ", spares " + list_text(record.spares, ", ");
    if (given_up_.tries > 0) lines_of_try_.push_back(lines_.size());
    say(attempt_text(record.attempt) + " allocated " + list_text(record.nodes, ", ") + spares +
            ": " + record.why,
        record.attempt.value > 0);
  }
  void tell(const NodeReplaced& record) {
    if (given_up_.tries > 0) lines_of_try_.push_back(lines_.size());
    say(attempt_text(record.attempt) + ": " + record.new_node.value + " instead of " +
        record.old_node.value + ": " + record.reason);
  }
  void tell(const SpareDropped& record) {
    say(attempt_text(record.attempt) + " releases spare " + record.node.value + ": " +
        record.reason);
  }
  void tell(const SpareAdded& record) {
    say(attempt_text(record.attempt) + ": " + record.node.value + " reserved as spare");
  }
  void tell(const NodeSetAside& record) {
    say(record.node.value + " is cordoned: " + record.reason);
  }
  void tell(const BreakerOpened& record) { say(record.reason); }
  void tell(const PlacementAbandoned& record) {
    const std::string text =
        attempt_text(record.attempt) + " given up before it started: " + record.reason;
    if (given_up_.tries > 0 && given_up_.reason == record.reason) return report_again(record);
    say(text + "; next try after " + duration_text(record.retry_at - at_));
    given_up_ = {record.reason, text, at_, lines_.size(), 1};
  }
  // The same once more: one line for all of them, and none for how each of these tries began.
  void report_again(const PlacementAbandoned&) {
    for (auto line = lines_of_try_.rbegin(); line != lines_of_try_.rend(); ++line) {
      lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(*line));
    }
    lines_of_try_.clear();
    ++given_up_.tries;
    lines_[given_up_.lines - 1].text = given_up_.text + "; and so on, " +
                                       std::to_string(given_up_.tries) + " tries in " +
                                       duration_text(at_ - given_up_.since);
  }
  void tell(const AnswersAwaited& record) { say(record.sentence); }
  void tell(const StagingBegun& record) {
    given_up_ = {};
    lines_of_try_.clear();
    say(attempt_text(record.attempt) + ": all nodes healthy");
  }
  void tell(const LaunchBegun& record) {
    if (!record.processes.empty()) {  // the job file does not say how many
      const auto ranks = std::accumulate(record.processes.begin(), record.processes.end(), 0);
      say(attempt_text(record.attempt) + ": " +
          count_text(static_cast<std::size_t>(ranks), "rank") + " on " +
          count_text(record.processes.size(), "node"));
    }
    if (!record.resume_from) {
      return say(attempt_text(record.attempt) + " starts from the beginning: " + record.why);
    }
    say_gist(attempt_text(record.attempt) + " resumes from " + step_text(*record.resume_from) +
             ": " + record.why);
  }
  void tell(const NodeAdded& record) {
    say(attempt_text(record.attempt) + " takes " + record.node.value + " as well: " + record.why);
  }
  void tell(const JoinBegun& record) {
    say(record.node.value + " starts " +
        count_text(static_cast<std::size_t>(record.processes), "rank") + " to join " +
        attempt_text(record.attempt));
  }
  void tell(const MembersChanged& record) {
    if (record.members_epoch == 1) return;
    say(attempt_text(record.attempt) + " continues with " +
        count_text(record.ranks.size(), "rank") + after_step(record.attempt) + ": " + record.why);
  }
  void tell(const MembersTold& record) {
    report_error(record.node, "be told who takes part", record.error);
  }
  void tell(const NodeLeaving& record) {
    say(record.node.value + " leaves " + attempt_text(record.attempt) + " (" +
        std::string(word(record.reason)) + "): " + record.sentence);
  }
  void tell(const NodeReleased& record) {
    if (!record.left_behind.empty()) return say(record.left_behind);
    say(record.node.value + " is released");
  }
  void tell(const StopBegun& record) {
    if (stopping_ == record.attempt) {
      return say(attempt_text(record.attempt) + ": grace period is now " +
                 duration_text(record.grace) + " to stop");
    }
    stopping_ = record.attempt;
    say(attempt_text(record.attempt) + " stops (" + std::string(word(record.reason)) +
        "): " + record.sentence);
  }
  void tell(const NodeFenced& record) {
    if (record.proof == FenceProof::none) {
      return say(record.node.value + " does not prove that its ranks are gone, and is not waited " +
                 "for any longer");
    }
    say(record.node.value + " is fenced: " + std::string(word(record.proof)));
  }
  void tell(const CollectionBegun& record) {
    if (record.again_from) say("collecting outputs of " + record.again_from->value + " again");
  }
  void tell(const DeliveryBegun&) { say("finishing what the job has in stores"); }
  void tell(const AttemptEnded& record) {
    report_followers();
    const AttemptCause& cause = record.cause;
    if (cause.reason == StopReason::hung) report_stall_in_short();
    stall_line_.reset();
    std::string text = attempt_text(record.attempt) + " ended: " + cause.sentence;
    // That of a hang says its step itself.
    if (cause.reason != StopReason::hung && cause.made_progress) text += after_step(record.attempt);
    if (!cause.succeeded) text += "; " + said_by_rules(cause);
    if (record.newest_checkpoint) {
      text += "; newest checkpoint: " + step_text(*record.newest_checkpoint);
    }
    if (!cause.left_behind.empty()) text += "; " + cause.left_behind;
    say(text, !cause.succeeded);
    if (cause.first_failure) tell(*cause.first_failure);
    for (const std::string& line : cause.last_lines) say("  | " + line);
  }
  void tell(const FirstFailure& first) {
    if (first.evidence != told_) {
      for (const std::string& evidence : first.evidence) {
        const bool is_end = evidence.starts_with("exit code") || evidence.starts_with("signal ");
        say("  evidence: " + evidence, &evidence == &first.evidence.front() && !is_end);
      }
    }
    for (const FailureCandidate& one : first.candidates) {
      const std::string rank = one.rank ? "rank " + std::to_string(one.rank->value) + " on " : "";
      say("  candidate: " + rank + one.node.value + " " + one.how);
    }
  }
  void tell(const RetryScheduled& record) {
    const char* where = record.reschedule ? "with replacement: " : "on the same nodes: ";
    say(attempt_text(record.attempt) + " is restarted, " + where + record.rule);
  }
  void tell(const JobEnded& record) {
    say_gist("ended: " + std::string(word(record.state)) + ", exit code " +
             std::to_string(record.exit_code) + ": " + record.reason);
  }

  void report_error(const NodeId& node, const char* what, const std::string& error) {
    if (!error.empty()) say(node.value + " could not " + what + ": " + error);
  }
  std::string after_step(AttemptId attempt) const {
    const auto step = steps_.find(attempt);
    return step == steps_.end() ? "" : " after step " + std::to_string(step->second);
  }

  std::vector<ExplainLine>& lines_;
  Time at_;
  std::map<AttemptId, std::int64_t> steps_;
  std::optional<AttemptId> stopping_;
  std::vector<std::string> told_;          // evidence of the newest suspicion
  std::optional<std::size_t> stall_line_;  // where that stands, while it does
  std::size_t failed_ranks_ = 0;           // of this attempt, so far
  int restarts_ = 0;                       // of the controller, one after the other
  struct GivenUp {
    std::string reason;
    std::string text;
    Time since;
    std::size_t lines = 0;  // up to the one that tells it
    int tries = 0;          // for that reason, in a row
  };
  GivenUp given_up_;
  std::vector<std::size_t> lines_of_try_;  // the newest, of how it began
  Time followed_at_;
};

}  // namespace

std::vector<ExplainLine> explain(const std::vector<Record>& records, bool is_brief) {
  std::vector<ExplainLine> lines;
  Explainer explainer(lines);
  for (const Record& record : records) explainer.see(record);
  explainer.finish();
  if (is_brief) std::erase_if(lines, [](const ExplainLine& line) { return !line.is_gist; });
  return lines;
}

std::vector<std::string> explain_text(const std::vector<Record>& records, bool is_brief) {
  std::vector<std::string> text;
  for (const ExplainLine& line : explain(records, is_brief)) {
    const std::string age = duration_text(line.at - records.front().at);
    text.push_back("+" + age + "  " + line.text);
  }
  return text;
}

}  // namespace muster
