#include "scheduler/explain/launch_profile.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "scheduler/state/sentences.h"

namespace muster {

namespace {

struct PhaseText {
  std::string_view name;
  std::string_view cause;  // what makes a node slow here
};

constexpr auto known_phases = std::to_array<PhaseText>({
    {"way", "the nodes that it is reached through came late, or one of them could not reach it"},
    {"resolve", "the name service is slow to answer for it"},
    {"tcp", "its network or its sshd is slow to accept"},
    {"kex", "its processor is busy, or the network to it is slow"},
    {"auth", "its sshd checks the login slowly: PAM, a directory service, or a reverse lookup"},
    {"shell", "a start file such as ~/.bashrc holds up every login"},
    {"push", "muster's executable was copied, which is done once"},
    {"agent", "its agent was started, or ends what an earlier one left"},
    {"gate", "its start checks took long"},
    {"staging", "the job's files were copied to it"},
    {"ports", "free ports were looked for"},
    {"exec", "its ranks were started"},
    {"output", "its ranks wrote nothing for so long"},
});

// Less is the noise of a busy machine, and no reason to look for a cause.
constexpr std::int64_t far_behind_us = 300'000;

std::int64_t us_between(Time from, Time to) {
  return std::chrono::duration_cast<std::chrono::microseconds>(to - from).count();
}

// What one node did when, as far as its records say.
struct Marks {
  Time joined;
  std::optional<Record> link;
  std::optional<Time> checked, staged, ports, started, output;
};

// Reads one job's records; an attempt that is placed puts away the one before it.
class Reader {
 public:
  void see(const Record& record) {
    at_ = record.at;
    visit_record(record, [&](const auto& one) { note(one); });
  }
  void see_link(const Record& record) {
    const auto* up = record_as<LinkUp>(record);
    if (up == nullptr || !profile_) return;
    const auto found = marks_.find(up->node);
    if (found == marks_.end() || record.at < found->second.joined) return;
    const auto& checked = found->second.checked;
    if (!checked || record.at <= *checked) found->second.link = record;
  }
  std::optional<LaunchProfile> take() {
    if (!profile_) return std::nullopt;
    for (NodeLaunch& node : profile_->nodes) fill(node, marks_[node.node]);
    return std::move(profile_);
  }

 private:
  template <class Other>
  void note(const Other&) {}
  void note(const AttemptPlaced& placed) {
    profile_ = LaunchProfile{placed.attempt, at_, {}};
    marks_.clear();
    staging_.reset();
    asked_.reset();
    launch_.reset();
    for (const NodeId& node : placed.nodes) join(profile_->nodes.emplace_back(), node);
  }
  void note(const NodeReplaced& replaced) {
    if (!profile_) return;
    for (NodeLaunch& node : profile_->nodes) {
      if (node.node == replaced.old_node) join(node, replaced.new_node);
    }
  }
  void note(const NodeChecked& record) { keep_first(marks_[record.node].checked); }
  void note(const NodeStaged& record) { keep_first(marks_[record.node].staged); }
  void note(const PortsReserved& record) { keep_first(marks_[record.node].ports); }
  void note(const NodeStarted& record) { keep_first(marks_[record.node].started); }
  void note(const FirstOutputSeen& record) { keep_first(marks_[record.node].output); }
  void note(const StagingBegun&) { staging_ = at_; }
  void note(const PortsAsked&) { asked_ = at_; }
  void note(const LaunchBegun&) { launch_ = at_; }

  void keep_first(std::optional<Time>& mark) const {
    if (!mark) mark = at_;
  }
  void join(NodeLaunch& place, const NodeId& node) {
    place.node = node;
    marks_[node] = Marks{at_, {}, {}, {}, {}, {}, {}};
  }

  void add(NodeLaunch& node, const char* name, const std::optional<Time>& from,
           const std::optional<Time>& to) const {
    if (!from || !to || *to < *from) return;
    node.phases.push_back({name, us_between(profile_->placed, *from), us_between(*from, *to)});
  }
  void fill(NodeLaunch& node, const Marks& marks) const {
    node.kept_connection = !marks.link;
    if (marks.link) add_reaching(node, *marks.link);
    add(node, "gate", marks.link ? marks.link->at : marks.joined, marks.checked);
    add(node, "staging", staging_, marks.staged);
    add(node, "ports", asked_, marks.ports);
    add(node, "exec", launch_, marks.started);
    add(node, "output", marks.started, marks.output);
  }
  void add_reaching(NodeLaunch& node, const Record& link) const {
    const LinkUp& up = *record_as<LinkUp>(link);
    node.methods = up.methods;
    node.through = up.through;
    std::int64_t begun = us_between(profile_->placed, link.at);
    for (const PhaseTime& phase : up.profile) begun -= phase.us;
    for (const PhaseTime& phase : up.profile) {
      node.phases.push_back({phase.phase, begun, phase.us});
      begun += phase.us;
    }
  }

  Time at_;
  std::optional<LaunchProfile> profile_;
  std::map<NodeId, Marks> marks_;
  std::optional<Time> staging_, asked_, launch_;
};

std::string_view cause_of(const std::string& phase) {
  for (const PhaseText& known : known_phases) {
    if (known.name == phase) return known.cause;
  }
  return "";
}

// The median over all nodes, also those that were spared the phase.
std::int64_t usual_us(const LaunchProfile& profile, const std::string& phase) {
  std::vector<std::int64_t> all;
  for (const NodeLaunch& node : profile.nodes) all.push_back(node.took_us(phase));
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::string took_text(std::int64_t us) {
  const std::int64_t ms = us / 1000;
  return ms < 1000 ? std::to_string(ms) + " ms" : duration_text(Milliseconds{ms});
}

}  // namespace

std::int64_t NodeLaunch::took_us() const {
  std::int64_t sum = 0;
  for (const LaunchPhase& phase : phases) sum += phase.took_us;
  return sum;
}

std::int64_t NodeLaunch::took_us(const std::string& phase) const {
  for (const LaunchPhase& one : phases) {
    if (one.name == phase) return one.took_us;
  }
  return 0;
}

std::optional<LaunchProfile> launch_profile(const std::vector<Record>& records,
                                            const std::vector<Record>& links) {
  Reader reader;
  for (const Record& record : records) reader.see(record);
  for (const Record& record : links) reader.see_link(record);
  return reader.take();
}

std::optional<SlowestNode> slowest_node(const LaunchProfile& profile) {
  const NodeLaunch* slowest = nullptr;
  for (const NodeLaunch& node : profile.nodes) {
    if (!slowest || node.took_us() > slowest->took_us()) slowest = &node;
  }
  if (!slowest || slowest->phases.empty()) return std::nullopt;
  const bool alone = profile.nodes.size() == 1;
  const LaunchPhase* worst = nullptr;
  std::int64_t behind_us = 0;
  for (const LaunchPhase& phase : slowest->phases) {
    const std::int64_t here = alone ? phase.took_us : phase.took_us - usual_us(profile, phase.name);
    if (worst && here <= behind_us) continue;
    worst = &phase;
    behind_us = here;
  }
  SlowestNode found{slowest->node, slowest->took_us(), *worst, {}};
  found.sentence = found.node.value + " took " + took_text(found.took_us) + ", of which " +
                   took_text(worst->took_us) + " " + worst->name;
  const std::string cause(cause_of(worst->name));
  if (behind_us >= far_behind_us)
    found.sentence += ": " + cause;
  else if (!alone)
    found.sentence += "; no node is far behind the others";
  return found;
}

std::vector<std::string> launch_phase_names(const LaunchProfile& profile) {
  std::vector<std::string> names;
  for (const PhaseText& known : known_phases) {
    const std::string name(known.name);
    const auto has_it = [&](const NodeLaunch& node) {
      return std::ranges::any_of(node.phases,
                                 [&](const LaunchPhase& phase) { return phase.name == name; });
    };
    if (std::ranges::any_of(profile.nodes, has_it)) names.push_back(name);
  }
  return names;
}

std::int64_t quantile_us(const LaunchProfile& profile, const std::string& phase, double share) {
  std::vector<std::int64_t> all;
  for (const NodeLaunch& node : profile.nodes) {
    for (const LaunchPhase& one : node.phases) {
      if (one.name == phase) all.push_back(one.took_us);
    }
  }
  if (all.empty()) return 0;
  std::ranges::sort(all);
  const auto last = static_cast<double>(all.size() - 1);
  return all[static_cast<std::size_t>(last * share + 0.5)];
}

}  // namespace muster
