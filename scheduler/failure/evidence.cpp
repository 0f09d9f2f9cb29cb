#include "scheduler/failure/evidence.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "scheduler/state/sentences.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

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
