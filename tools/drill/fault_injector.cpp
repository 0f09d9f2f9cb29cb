#include "tools/drill/fault_injector.h"

#include <csignal>

#include "cli/client/start.h"
#include "tools/sandbox/network.h"
#include "tools/sandbox/sandbox.h"

namespace muster {

namespace {

constexpr Milliseconds ask_limit{10000};
constexpr Milliseconds at_the_end = Milliseconds::max();
const std::optional<std::string> nothing_to_hit;

}  // namespace

FaultInjector::~FaultInjector() {
  undo_what_is_due(at_the_end);
}

Result<std::optional<std::string>> FaultInjector::perform(const DrillAction& action,
                                                          Milliseconds now) {
  return std::visit([&](const auto& it) { return take(it, now); }, action);
}

void FaultInjector::undo_what_is_due(Milliseconds now) {
  const auto is_due = [now](const Undo& undo) { return undo.at <= now; };
  for (const Undo& undo : undos_) {
    if (is_due(undo)) undo.run();
  }
  std::erase_if(undos_, is_due);
}

// Hosts of its own serve the drill's job alone: their agents are hit even where no rank runs yet.
std::vector<DrillVictim> FaultInjector::agents() const {
  if (!place_.sandbox) return agents_of(place_.job);
  return agents_on(place_.home, hosts_with_network(*place_.sandbox));
}

Result<std::optional<DrillVictim>> FaultInjector::find_controller() {
  auto client = ControllerClient::connect(place_.home);
  if (!client) return client.error();
  if (!*client) return std::optional<DrillVictim>();
  const auto answer = muster::ask(**client, AskVersion{}, ask_limit);
  const auto* version = answer ? std::get_if<VersionAnswer>(&*answer) : nullptr;
  const auto process = version ? read_process(static_cast<pid_t>(version->pid)) : std::nullopt;
  if (!process) return std::optional<DrillVictim>();
  return std::optional(DrillVictim{"", *process});
}

Result<std::optional<DrillVictim>> FaultInjector::find(const DrillTarget& target) {
  if (std::holds_alternative<ControllerTarget>(target)) return find_controller();
  std::vector<DrillVictim> all;
  std::optional<std::string> wanted;
  if (const auto* rank = std::get_if<RankTarget>(&target)) {
    all = rank_processes(place_.job);
    if (rank->rank) wanted = rank_name(*rank->rank);
  } else if (const auto* agent = std::get_if<AgentTarget>(&target)) {
    all = agents();
    wanted = agent->node;
  } else {
    all = connections_to(place_.home, agents());
    wanted = std::get<ConnectionTarget>(target).node;
  }
  if (wanted) std::erase_if(all, [&](const DrillVictim& each) { return each.name != *wanted; });
  if (all.empty()) return std::optional<DrillVictim>();
  return std::optional(all[dice_.pick(all.size())]);
}

FaultInjector::Outcome FaultInjector::take(const KillProcess& it, Milliseconds) {
  const auto hit = find(it.target);
  if (!hit) return hit.error();
  if (!*hit || !signal_process((*hit)->process, it.signal)) return nothing_to_hit;
  return std::optional(describe(**hit));
}

FaultInjector::Outcome FaultInjector::take(const StopProcess& it, Milliseconds now) {
  const auto hit = find(it.target);
  if (!hit) return hit.error();
  if (!*hit || !signal_process((*hit)->process, SIGSTOP)) return nothing_to_hit;
  undos_.push_back(
      {now + it.time, [stopped = (*hit)->process] { signal_process(stopped, SIGCONT); }});
  return std::optional(describe(**hit));
}

FaultInjector::Outcome FaultInjector::on_host(Status (*act)(const SandboxLayout&,
                                                            const std::string&),
                                              const std::string& host) {
  check(place_.sandbox.has_value(), "only fault tests with hosts of their own break hosts");
  const auto done = act(*place_.sandbox, host);
  if (!done) return done.error();
  return std::optional(host);
}

FaultInjector::Outcome FaultInjector::take(const PartitionHost& it, Milliseconds now) {
  auto outcome = on_host(partition_host, it.host);
  if (outcome && it.time) {
    undos_.push_back(
        {now + *it.time, [box = *place_.sandbox, host = it.host] { (void)heal_host(box, host); }});
  }
  return outcome;
}

FaultInjector::Outcome FaultInjector::take(const HealHost& it, Milliseconds) {
  return on_host(heal_host, it.host);
}

FaultInjector::Outcome FaultInjector::take(const FillDisk& it, Milliseconds now) {
  auto outcome = on_host(fill_disk, it.host);
  if (outcome && it.time) {
    undos_.push_back(
        {now + *it.time, [box = *place_.sandbox, host = it.host] { (void)empty_disk(box, host); }});
  }
  return outcome;
}

FaultInjector::Outcome FaultInjector::take(const CrashHost& it, Milliseconds) {
  return on_host(crash_host, it.host);
}

FaultInjector::Outcome FaultInjector::take(const BootHost& it, Milliseconds) {
  return on_host(boot_host, it.host);
}

FaultInjector::Outcome FaultInjector::ask(const ToController& question, const std::string& done) {
  const auto answer = ask_controller(place_.home, question, place_.common);
  if (!answer) return nothing_to_hit;  // the controller was killed just now: another will answer
  if (const auto* no = std::get_if<Refused>(&*answer)) return Error{no->message};
  return std::optional(done);
}

// A drill must not leave a node out of use.
FaultInjector::Outcome FaultInjector::take(const DrainNode& it, Milliseconds) {
  undos_.push_back({at_the_end, [this, node = it.node] {
                      (void)ask(SetDrain{NodeId{node}, false, ""}, node);
                    }});
  return ask(SetDrain{NodeId{it.node}, true, "drill"}, it.node);
}

FaultInjector::Outcome FaultInjector::take(const UndrainNode& it, Milliseconds) {
  return ask(SetDrain{NodeId{it.node}, false, ""}, it.node);
}

FaultInjector::Outcome FaultInjector::take(const CancelDrilled&, Milliseconds) {
  return ask(Cancel{place_.job, std::nullopt}, place_.job.value);
}

}  // namespace muster
