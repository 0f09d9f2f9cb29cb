#include "scheduler/failure/first_failure.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <string_view>

#include "scheduler/state/limits.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// A failure on the common clock, in us; without an interval it may have been at any time.
struct Timed {
  const Failure* failure = nullptr;
  std::int64_t earliest_us = std::numeric_limits<std::int64_t>::min();
  std::int64_t latest_us = std::numeric_limits<std::int64_t>::max();

  bool is_node() const { return !failure->rank; }
  Standing standing() const { return failure->judgement.standing; }
  bool is_root() const { return standing() != Standing::consequence; }
  bool ended_before(const Timed& other) const { return latest_us < other.earliest_us; }
};
using Timeline = std::vector<Timed>;

// Intervals of several clocks (the controller's host has rebooted) say nothing about each other.
bool is_one_clock(const std::vector<Failure>& failures) {
  const std::string* clock = nullptr;
  for (const Failure& failure : failures) {
    if (!failure.when) continue;
    if (clock && *clock != failure.when->clock) return false;
    clock = &failure.when->clock;
  }
  return true;
}

Timeline timeline_of(const std::vector<Failure>& failures) {
  const bool comparable = is_one_clock(failures);
  Timeline all;
  for (const Failure& failure : failures) {
    Timed timed{&failure};
    if (failure.when && comparable) {
      timed.earliest_us = failure.when->earliest_us;
      timed.latest_us = failure.when->latest_us;
    }
    all.push_back(timed);
  }
  std::ranges::stable_sort(
      all, [](const Timed& a, const Timed& b) { return a.earliest_us < b.earliest_us; });
  return all;
}

// Those that no other one of them precedes for sure.
Timeline earliest_of(const Timeline& all) {
  std::int64_t first_over = std::numeric_limits<std::int64_t>::max();
  for (const Timed& one : all) first_over = std::min(first_over, one.latest_us);
  Timeline earliest;
  for (const Timed& one : all) {
    if (one.earliest_us <= first_over) earliest.push_back(one);
  }
  return earliest;
}

// A rank cannot take another node down, but a node takes ranks elsewhere with it.
void leave_out_fallout_of_nodes(Timeline& candidates) {
  const auto is_node = [](const Timed& one) { return one.is_node(); };
  if (std::ranges::none_of(candidates, is_node)) return;
  std::erase_if(candidates, [](const Timed& one) { return one.standing() == Standing::silent; });
}

// What else could have come before the only candidate: one that said what went wrong and took its
// time to exit, when the candidate does not say why it ended; an error of a peer that ended sooner,
// when the candidate's own end was a sudden one.
std::optional<Timed> rival_of(const Timed& one, const Timeline& all) {
  for (const Timed& other : all) {
    if (other.failure == one.failure) continue;
    const bool may_exit_late = other.failure->judgement.exits_late &&
                               one.standing() == Standing::silent &&
                               other.earliest_us - one.latest_us < exit_lag_limit_us;
    const bool came_before =
        !other.is_root() && other.ended_before(one) && !one.failure->judgement.exits_late;
    if (may_exit_late || came_before) return other;
  }
  return std::nullopt;
}

// The first of the others ended between the earliest end and the earliest latest end of them.
std::optional<Margin> margin_of(const Timed& first, const Timeline& all) {
  std::int64_t from = std::numeric_limits<std::int64_t>::max();
  std::int64_t to = from;
  for (const Timed& other : all) {
    if (other.failure == first.failure) continue;
    from = std::min(from, other.earliest_us);
    to = std::min(to, other.latest_us);
  }
  const bool is_known = from > first.latest_us && to < std::numeric_limits<std::int64_t>::max();
  if (!is_known) return std::nullopt;
  const std::int64_t least = from - first.latest_us;
  const std::int64_t most = to - first.earliest_us;
  return Margin{(least + most) / 2, (most - least + 1) / 2};
}

Timeline candidates_of(const Timeline& all) {
  Timeline roots;
  for (const Timed& one : all) {
    if (one.is_root()) roots.push_back(one);
  }
  Timeline candidates = earliest_of(roots.empty() ? all : roots);
  leave_out_fallout_of_nodes(candidates);
  if (candidates.size() != 1) return candidates;
  if (const auto rival = rival_of(candidates.front(), all)) candidates.push_back(*rival);
  return candidates;
}

// ---- what failed in an attempt ----------------------------------------------------------------

// A node that never answered again, or came back empty, while its ranks had not ended.
bool is_lost(const Attempt& attempt, std::size_t index) {
  const AttemptNode& node = attempt.nodes[index];
  const bool gone = node.fenced && *node.fenced != FenceProof::never_started &&
                    !is_unproven(node) && !unkillable_since(node);
  const auto here = ranks_on(attempt, index);
  return gone && std::ranges::any_of(here, [](const Rank& rank) {
           return !std::holds_alternative<RankDone>(rank.state);
         });
}

std::string loss_text(const AttemptNode& node) {
  if (has_rebooted(node)) return "rebooted";
  return has_changed_agent(node) ? "lost its ranks: its agent restarted" : "was lost";
}

Failure loss_of(const AttemptNode& node) {
  Failure failure;
  failure.node = node.id;
  if (node.agent && node.agent->lost) {
    failure.when = node.agent->lost->silent_since;
    failure.at_ms = to_ms(node.agent->lost->at);
  }
  failure.how = loss_text(node);
  failure.judgement.standing = Standing::proven;
  return failure;
}

std::optional<Failure> failure_of(const Attempt& attempt, const Rank& rank, bool is_mpi) {
  const auto* done = std::get_if<RankDone>(&rank.state);
  if (!done || done->exit.status.ok()) return std::nullopt;
  const RankExited& exit = done->exit;
  Failure failure{exit.rank, exit.node, exit.when, exit.at_ms, exit_text(exit.status), {}};
  if (!exit.asked_to_stop) {
    failure.judgement = judge(exit, is_mpi, attempt.ranks.size() > 1);
    return failure;
  }
  auto judgement = judge_stopped(exit);
  if (!judgement) return std::nullopt;
  failure.how = "was ending when it was stopped";
  failure.judgement = std::move(*judgement);
  return failure;
}

// Ended with 0, unasked: nothing is wrong with that unless its peers still needed it.
std::optional<Failure> early_end_of(const Rank& rank) {
  const auto* done = std::get_if<RankDone>(&rank.state);
  if (!done || !done->exit.status.ok() || done->exit.asked_to_stop) return std::nullopt;
  const RankExited& exit = done->exit;
  Failure failure{
      exit.rank, exit.node, exit.when, exit.at_ms, "ended with 0 while its peers went on", {}};
  failure.judgement.standing = Standing::proven;
  failure.judgement.evidence = {"all that failed lost a peer", "exit code 0"};
  return failure;
}

// In the words of a collective: other connections break for other reasons.
bool has_lost_a_rank(const Rank& rank) {
  constexpr std::array collectives{"gloo",       "nccl-remote", "nccl-system",  "nccl-timeout",
                                   "store-lost", "watchdog",    "mpi-transport"};
  const auto* done = std::get_if<RankDone>(&rank.state);
  const auto* rule = done && done->exit.rules.rule ? &*done->exit.rules.rule : nullptr;
  return rule && !done->exit.status.ok() && std::ranges::count(collectives, rule->id) > 0;
}

// All that failed did so because a peer had gone. At the end of a run most ranks have ended with 0:
// they are not the cause of the last one's words.
void add_early_ends(const Attempt& attempt, std::vector<Failure>& failures) {
  const bool has_cause = std::ranges::any_of(
      failures, [](const Failure& one) { return one.judgement.standing > Standing::unclear; });
  if (has_cause || std::ranges::none_of(attempt.ranks, has_lost_a_rank)) return;
  std::vector<Failure> early;
  for (const Rank& rank : attempt.ranks) {
    auto end = takes_part(attempt, rank) ? early_end_of(rank) : std::nullopt;
    if (end) early.push_back(std::move(*end));
  }
  if (early.size() > failures.size()) return;
  failures.insert(failures.end(), early.begin(), early.end());
}

// ---- words ------------------------------------------------------------------------------------

std::string milliseconds_text(std::int64_t us) {
  const double ms = static_cast<double>(us) / 1000;
  return printed(ms < 10 ? "%.1f ms" : "%.0f ms", ms);
}

std::string named_sentence(const Attribution& attribution) {
  const Failure& first = attribution.first.front();
  std::string text = subject_text(first) + " " + first.how;
  if (attribution.margin) {
    text += " " + milliseconds_text(attribution.margin->middle_us) + " (±" +
            milliseconds_text(attribution.margin->uncertainty_us) + ") before any other";
  }
  return text;
}

std::string candidates_sentence(const Attribution& attribution) {
  const std::vector<Failure>& all = attribution.first;
  std::string names;
  std::vector<std::string> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_last = i + 1 == all.size();
    if (i < static_cast<std::size_t>(nodes_named) || is_last) {
      names += (i == 0 ? "" : is_last ? " and " : ", ") + subject_text(all[i]);
    }
    const std::string who =
        all[i].rank ? "rank " + std::to_string(all[i].rank->value) : all[i].node.value;
    ends.push_back(who + " " + all[i].how);
  }
  const bool only_one = all.size() == 1;
  return (only_one ? "first failure unknown; last known: " : "first failure unknown, one of: ") +
         names + ": " + list_text(ends);
}

// Shells report a child's signal so.
constexpr int shell_signal_base = 128;

// An error that ends a program is among the last that it says, with what an interpreter or a
// library adds as advice; after one that was mended work goes on.
constexpr std::size_t last_words_lines = 6;

// What libraries say when the other end of a connection has gone, or does not answer: NCCL, Gloo,
// torch.distributed, Open MPI, plain sockets; and what muster-train says of another rank's hardware
// or of nobody's. Compared without regard to case.
constexpr std::array<std::string_view, 23> peer_words{
    "ncclremoteerror",
    "nccl remote error",
    "remote process exited",
    "connection reset by peer",
    "econnreset",
    "connection closed by peer",
    "connection closed by remote peer",
    "connection closed by remote host",
    "connectionreseterror",
    "broken pipe",
    "brokenpipeerror",
    "socket closed",
    "peer closed connection",
    "connection was closed by a peer",
    "watchdog caught collective operation timeout",
    "collective operations have failed or timed out",
    "nccl operations have failed or timed out",
    "nccl communicator was aborted",
    "one of the processes in the group has failed",
    "mpi_err_proc_failed",
    "timed out waiting for peer",
    "muster-train: ends because the hardware of rank",
    "muster-train: hardware in doubt: ",
};

// What a program says of its own fault, anywhere in a line.
constexpr std::array<std::string_view, 10> own_words{
    "cuda out of memory",      "illegal memory access",  "device-side assert",  "uncorrectable ecc",
    "no space left on device", "cannot allocate memory", "is killed by signal", "assertion failed",
    "mpi_abort was invoked",   ": hardware in doubt: ",
};

// Exceptions that no peer can raise. They count where an interpreter writes them: at the beginning
// of a line. `WARNING skipped 7: ValueError: x` tells of one that was mended.
constexpr std::array<std::string_view, 17> own_exceptions{
    "outofmemoryerror",
    "assertionerror",
    "valueerror",
    "typeerror",
    "keyerror",
    "indexerror",
    "attributeerror",
    "nameerror",
    "importerror",
    "modulenotfounderror",
    "filenotfounderror",
    "permissionerror",
    "memoryerror",
    "zerodivisionerror",
    "floatingpointerror",
    "unicodedecodeerror",
    "notimplementederror",
};

// `Assertion `x > 0' failed.` has its condition in the middle.
bool is_assertion(const std::string& line) {
  const std::size_t at = line.find("assertion");
  return at != std::string::npos && mentions(line.substr(at), "failed");
}

template <std::size_t N>
bool has_any(const std::string& line, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(
      words, [&line](std::string_view word) { return line.find(word) != std::string::npos; });
}

// "[rank3]: KeyError: 'x'"
std::string_view without_label(std::string_view line) {
  const std::size_t end = line.find("]: ");
  return line.starts_with("[rank") && end != line.npos ? line.substr(end + 3) : line;
}

// Whatever exception it is: the first line after a traceback's frames. Nothing is proven by it.
std::string last_exception(const std::vector<std::string>& lines) {
  std::string last;
  bool in_traceback = false;
  for (const std::string& each : lines) {
    const std::string_view line = without_label(each);
    const bool is_frame = line.starts_with("  File \"") || line.starts_with("Traceback (most");
    const bool has_name = !line.empty() && line.substr(0, line.find(':')).find(' ') == line.npos;
    if (in_traceback && has_name) last = each;
    in_traceback = is_frame || (in_traceback && line.starts_with(' '));
  }
  return last;
}

// "torch.cuda.OutOfMemoryError: …"
bool is_own_exception(std::string_view line) {
  line = without_label(line);
  const std::string_view name = line.substr(0, line.find(':'));
  if (name.find(' ') != std::string_view::npos) return false;
  return std::ranges::any_of(own_exceptions,
                             [name](std::string_view known) { return name.ends_with(known); });
}

bool tells_of_own(const std::string& line) {
  return has_any(line, own_words) || is_assertion(line) || is_own_exception(line);
}

// What was said of a peer, and of itself at the very end. Both: an error and then one of cleaning
// up, or the other way about.
struct Words {
  std::string own;
  std::string of_peer;
  bool is_own() const { return !own.empty() && of_peer.empty(); }
  bool blames_peer() const { return own.empty() && !of_peer.empty(); }
  bool says_both() const { return !own.empty() && !of_peer.empty(); }
};

Words words_of(const std::vector<std::string>& lines) {
  Words words;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string lower = lower_case(lines[i]);
    const bool is_last = i + last_words_lines >= lines.size();
    if (has_any(lower, peer_words))
      words.of_peer = lines[i];
    else if (is_last && tells_of_own(lower))
      words.own = lines[i];
  }
  return words;
}

int signal_of(const ExitStatus& status) {
  if (status.signal != 0) return status.signal;
  constexpr std::array reported{SIGILL,  SIGABRT, SIGBUS,  SIGFPE,
                                SIGKILL, SIGSEGV, SIGPIPE, SIGTERM};
  const int signal = status.code - shell_signal_base;
  return std::ranges::find(reported, signal) == reported.end() ? 0 : signal;
}

bool is_killed_by_memory(const RankExited& exit) {
  return !exit.evidence.oom.empty() && signal_of(exit.status) == SIGKILL;
}

// When the first rank ends mpirun ends the others, also those that were ending by themselves.
bool is_ended_by_mpirun(const RankExited& exit, bool is_mpi) {
  return exit.evidence.with_mpirun || (is_mpi && signal_of(exit.status) == SIGTERM);
}

// Somebody else ended it, after it had said what was wrong with it.
bool was_ending(const RankExited& exit, const Words& words) {
  return words.is_own() && !is_secondary(exit);
}

// A library ends a program whose peer has gone with SIGABRT; any other crash may be of cleaning up.
Standing standing_of_signal(int signal, bool may_echo, const Words& words) {
  if (signal == SIGPIPE) return Standing::consequence;
  const bool ends_orderly = signal == SIGABRT || signal == SIGTERM;
  if (ends_orderly && words.blames_peer()) return Standing::consequence;
  return words.of_peer.empty() && !may_echo ? Standing::proven : Standing::unclear;
}

Standing standing_of(const RankExited& exit, bool is_mpi, const Words& words) {
  if (is_killed_by_memory(exit)) return Standing::proven;
  if (is_ended_by_mpirun(exit, is_mpi)) {
    return was_ending(exit, words) ? Standing::proven : Standing::consequence;
  }
  if (const int signal = signal_of(exit.status)) {
    return standing_of_signal(signal, is_secondary(exit), words);
  }
  if (words.blames_peer()) return Standing::consequence;
  if (words.says_both() || is_secondary(exit)) return Standing::unclear;
  return words.is_own() ? Standing::proven : Standing::silent;
}

std::string status_text(const ExitStatus& status) {
  if (status.signal == 0) return "exit code " + std::to_string(status.code);
  return "signal " + std::to_string(status.signal) + " (" + signal_name(status.signal) + ")" +
         (status.core_dumped ? ", core dumped" : "");
}

std::vector<std::string> evidence_of(const RankExited& exit, const Words& words) {
  std::vector<std::string> evidence;
  if (!exit.evidence.error.empty())
    evidence.push_back("its error file says: " + exit.evidence.error);
  if (!exit.evidence.oom.empty()) evidence.push_back(exit.evidence.oom);
  if (!words.own.empty()) evidence.push_back("its last output: " + words.own);
  const std::string thrown = last_exception(exit.last_lines);
  const bool is_said = !words.own.empty() || !words.of_peer.empty();
  if (!is_said && !thrown.empty()) evidence.push_back("its last exception: " + thrown);
  if (!words.of_peer.empty())
    evidence.push_back("blames a peer: " + words.of_peer);
  else if (is_secondary(exit))
    evidence.push_back("may be a secondary failure: " + rule_name(*exit.rules.rule));
  evidence.push_back(status_text(exit.status));
  if (exit.evidence.with_mpirun) evidence.push_back("it went when mpirun or its daemon did");
  if (exit.evidence.last_step) {
    evidence.push_back("its last step was " + std::to_string(*exit.evidence.last_step));
  }
  return evidence;
}

}  // namespace

Attribution attribute(const std::vector<Failure>& failures) {
  Attribution attribution;
  const Timeline all = timeline_of(failures);
  const Timeline candidates = candidates_of(all);
  for (const Timed& one : candidates) attribution.first.push_back(*one.failure);
  attribution.followed = failures.size() - candidates.size();
  attribution.is_named =
      candidates.size() == 1 && candidates.front().standing() > Standing::unclear;
  if (attribution.is_named) attribution.margin = margin_of(candidates.front(), all);
  return attribution;
}

std::vector<Failure> failures_of(const Attempt& attempt, bool is_mpi,
                                 std::optional<std::size_t> node_index) {
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < attempt.nodes.size(); ++i) {
    const bool counts = node_index ? i == *node_index : takes_part(attempt, attempt.nodes[i]);
    if (counts && is_lost(attempt, i)) failures.push_back(loss_of(attempt.nodes[i]));
  }
  const auto ranks = node_index ? ranks_on(attempt, *node_index) : std::span(attempt.ranks);
  for (const Rank& rank : ranks) {
    if (!node_index && !takes_part(attempt, rank)) continue;
    if (auto failure = failure_of(attempt, rank, is_mpi)) failures.push_back(std::move(*failure));
  }
  if (!node_index) add_early_ends(attempt, failures);
  return failures;
}

std::string subject_text(const Failure& failure) {
  if (!failure.rank) return failure.node.value;
  return "rank " + std::to_string(failure.rank->value) + " on " + failure.node.value;
}

std::string attribution_sentence(const Attribution& attribution) {
  if (attribution.first.empty()) return "";
  const std::string text =
      attribution.is_named ? named_sentence(attribution) : candidates_sentence(attribution);
  if (attribution.followed == 0) return text;
  return text + "; " + std::to_string(attribution.followed) + " failed afterwards";
}

FirstFailure journal_form(const Attribution& attribution) {
  FirstFailure form;
  form.followed = static_cast<int>(attribution.followed);
  if (!attribution.is_named) {
    for (const Failure& one : attribution.first) {
      if (form.candidates.size() == candidates_kept) break;
      form.candidates.push_back({one.rank, one.node, one.how});
    }
    return form;
  }
  const Failure& first = attribution.first.front();
  form.rank = first.rank;
  form.node = first.node;
  form.at_ms = first.at_ms;
  form.evidence = first.judgement.evidence;
  if (attribution.margin) {
    form.margin_us = attribution.margin->middle_us;
    form.uncertainty_us = attribution.margin->uncertainty_us;
  }
  return form;
}

bool is_secondary(const RankExited& exit) {
  return exit.rules.rule && exit.rules.rule->cascade;
}

std::optional<Judgement> judge_stopped(const RankExited& exit) {
  const Words words = words_of(exit.last_lines);
  if (!was_ending(exit, words)) return std::nullopt;
  return Judgement{Standing::proven, true, evidence_of(exit, words)};
}

bool counts_as_failure(const RankExited& exit) {
  if (exit.status.ok()) return false;
  return !exit.asked_to_stop || judge_stopped(exit);
}

Judgement judge(const RankExited& exit, bool is_mpi, bool has_peers) {
  const Words words = words_of(exit.last_lines);
  Judgement judgement;
  judgement.standing = standing_of(exit, is_mpi, words);
  const bool is_nobodys = !has_peers && judgement.standing < Standing::silent;
  if (is_nobodys) judgement.standing = Standing::silent;
  const bool was_sudden = is_killed_by_memory(exit) ||
                          (signal_of(exit.status) != 0 && !is_ended_by_mpirun(exit, is_mpi));
  judgement.exits_late = judgement.standing == Standing::proven && !was_sudden;
  judgement.evidence = evidence_of(exit, words);
  return judgement;
}

}  // namespace muster
