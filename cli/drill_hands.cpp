#include "cli/drill_hands.h"

#include <csignal>

#include "cli/controller_client.h"
#include "cli/ensure_controller.h"
#include "launcher/sandbox/sandbox.h"

namespace muster {

namespace {

constexpr Milliseconds answer_limit{10000};
constexpr Milliseconds at_the_end = Milliseconds::max();
const std::optional<std::string> nothing_to_hit;

std::optional<std::string> name_of(const RankProcess& hit) {
  return "rank " + std::to_string(hit.rank) + ", process " + describe(hit.process);
}

}  // namespace

DrillHands::~DrillHands() {
  undo_what_is_due(at_the_end);
}

Result<std::optional<std::string>> DrillHands::perform(const DrillAction& action,
                                                       Milliseconds now) {
  return std::visit([&](const auto& it) { return take(it, now); }, action);
}

void DrillHands::undo_what_is_due(Milliseconds now) {
  const auto is_due = [now](const Undo& undo) { return undo.at <= now; };
  for (const Undo& undo : undos_) {
    if (is_due(undo)) undo.run();
  }
  std::erase_if(undos_, is_due);
}

std::optional<RankProcess> DrillHands::choose_rank(const std::optional<int>& rank) {
  std::vector<RankProcess> ranks = rank_processes(place_.job);
  if (rank) std::erase_if(ranks, [&](const RankProcess& each) { return each.rank != *rank; });
  if (ranks.empty()) return std::nullopt;
  return ranks[dice_.pick(ranks.size())];
}

DrillHands::Outcome DrillHands::take(const KillRank& it, Milliseconds) {
  const auto hit = choose_rank(it.rank);
  if (!hit || !signal_process(hit->process, it.signal)) return nothing_to_hit;
  return name_of(*hit);
}

DrillHands::Outcome DrillHands::take(const StopRank& it, Milliseconds now) {
  const auto hit = choose_rank(it.rank);
  if (!hit || !signal_process(hit->process, SIGSTOP)) return nothing_to_hit;
  undos_.push_back({now + it.time, [stopped = hit->process] { signal_process(stopped, SIGCONT); }});
  return name_of(*hit);
}

DrillHands::Outcome DrillHands::take(const KillAgent& it, Milliseconds) {
  std::vector<AgentProcess> agents = agents_of(place_.job);
  if (it.node) {
    std::erase_if(agents, [&](const AgentProcess& each) { return each.node != *it.node; });
  }
  if (agents.empty()) return nothing_to_hit;
  const AgentProcess& hit = agents[dice_.pick(agents.size())];
  if (!signal_process(hit.process, SIGKILL)) return nothing_to_hit;
  return std::optional(hit.node + ", process " + describe(hit.process));
}

// The running one: another is started by whoever needs it next.
DrillHands::Outcome DrillHands::take(const KillController&, Milliseconds) {
  auto client = ControllerClient::connect(place_.home);
  if (!client) return client.error();
  if (!*client) return nothing_to_hit;
  const auto answer = muster::ask(**client, AskVersion{}, answer_limit);
  const auto* version = answer ? std::get_if<VersionAnswer>(&*answer) : nullptr;
  const auto process = version ? read_process(static_cast<pid_t>(version->pid)) : std::nullopt;
  if (!process || !signal_process(*process, SIGKILL)) return nothing_to_hit;
  return std::optional("process " + describe(*process));
}

DrillHands::Outcome DrillHands::on_host(Status (*act)(const SandboxLayout&, const std::string&),
                                        const std::string& host) {
  check(place_.sandbox.has_value(), "only drills with hosts of their own break hosts");
  const auto done = act(*place_.sandbox, host);
  if (!done) return done.error();
  return std::optional(host);
}

DrillHands::Outcome DrillHands::take(const PartitionHost& it, Milliseconds now) {
  auto outcome = on_host(partition_host, it.host);
  if (outcome && it.time) {
    undos_.push_back(
        {now + *it.time, [box = *place_.sandbox, host = it.host] { (void)heal_host(box, host); }});
  }
  return outcome;
}

DrillHands::Outcome DrillHands::take(const HealHost& it, Milliseconds) {
  return on_host(heal_host, it.host);
}

DrillHands::Outcome DrillHands::take(const FillDisk& it, Milliseconds now) {
  auto outcome = on_host(fill_disk, it.host);
  if (outcome && it.time) {
    undos_.push_back(
        {now + *it.time, [box = *place_.sandbox, host = it.host] { (void)empty_disk(box, host); }});
  }
  return outcome;
}

DrillHands::Outcome DrillHands::take(const CrashHost& it, Milliseconds) {
  return on_host(crash_host, it.host);
}

DrillHands::Outcome DrillHands::take(const BootHost& it, Milliseconds) {
  return on_host(boot_host, it.host);
}

DrillHands::Outcome DrillHands::ask(const ToController& question, const std::string& done) {
  const auto answer = ask_controller(place_.home, question, place_.common);
  if (!answer) return nothing_to_hit;  // the controller was killed just now: another will answer
  if (const auto* no = std::get_if<Refused>(&*answer)) return Error{no->message};
  return std::optional(done);
}

// A drill must not leave a node out of use.
DrillHands::Outcome DrillHands::take(const DrainNode& it, Milliseconds) {
  undos_.push_back({at_the_end, [this, node = it.node] {
                      (void)ask(SetDrain{NodeId{node}, false, ""}, node);
                    }});
  return ask(SetDrain{NodeId{it.node}, true, "drill"}, it.node);
}

DrillHands::Outcome DrillHands::take(const UndrainNode& it, Milliseconds) {
  return ask(SetDrain{NodeId{it.node}, false, ""}, it.node);
}

DrillHands::Outcome DrillHands::take(const CancelDrilled&, Milliseconds) {
  return ask(Cancel{place_.job, std::nullopt}, place_.job.value);
}

}  // namespace muster
