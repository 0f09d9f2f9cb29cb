#include "tests/health/corpus_player.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "health/verdict/streaks.h"
#include "tests/health/fake_host.h"

namespace muster {

namespace {

using std::chrono::seconds;

std::string head(std::string_view text) {
  return std::string(text.substr(0, text.find(' ')));
}
std::string tail(std::string_view text) {
  const std::size_t space = text.find(' ');
  return space == text.npos ? std::string() : std::string(text.substr(space + 1));
}

// What stood at some time, last as it was.
struct Stood {
  std::string severity;
  std::string fault_class;
  seconds first{0};
};
using StoodKey = std::tuple<std::string, std::string, std::string>;  // check, device, code

class Player {
 public:
  Player(const CorpusCase& one, HealthProfile profile)
      : case_(one), node_(one.node), profile_(std::move(profile)) {}

  CorpusOutcome play() {
    for (const std::string& line : case_.profile) {
      if (!change_profile(profile_, node_, line)) wrong_.push_back("no such profile: " + line);
    }
    SimulatedAgent agent(node_, profile_, case_.up);
    agent.phase = case_.phase;
    agent.situation.is_idle = !case_.is_busy;
    agent.situation.rank_environment = &environment_;
    agent.job = case_.is_busy ? "job1" : "";
    for (now_ = seconds(0); now_ < case_.until; ++now_) {
      for (const CorpusEdit& edit : case_.edits) {
        if (edit.at == now_) perform(agent, edit);
      }
      grow();
      if (job_began_) agent.situation.job_runs = now_ - *job_began_;
      agent.run_for(seconds(1));
      note(agent);
    }
    return judge();
  }

 private:
  void perform(SimulatedAgent& agent, const CorpusEdit& edit) {
    injected_ = injected_ ? *injected_ : now_;
    const std::string text = corpus_text(edit.rest, node_);
    if (!perform_on_node(edit.verb, text) && !perform_live(agent, edit.verb, text) &&
        !learn(agent, text))
      wrong_.push_back("cannot: " + edit.verb + " " + text);
  }

  bool perform_on_node(const std::string& verb, const std::string& text) {
    const std::string path = head(text);
    if (verb == "set")
      node_.set(path, tail(text));
    else if (verb == "append")
      node_.append(path, tail(text));
    else if (verb == "remove")
      node_.remove(text);
    else if (verb == "error")
      node_.set_error(path, tail(text));
    else if (verb == "hang")
      node_.hang(text);
    else if (verb == "add")
      node_.add(path, std::stod(tail(text)));
    else if (verb == "grow")
      growing_[path] = std::stod(tail(text));
    else if (verb == "nvml")
      node_.nvml(text);
    else if (verb == "nvml-add")
      node_.nvml_add(path, std::stod(tail(text)));
    else if (verb == "nvml-grow")
      nvml_growing_[path] = std::stod(tail(text));
    else if (verb == "nvml-stop")
      node_.nvml_stops_at(text);
    else
      return false;
    return true;
  }

  bool perform_live(SimulatedAgent& agent, const std::string& verb, const std::string& text) {
    if (verb == "kmsg")
      agent.logs(text);
    else if (verb == "kmsg-old")
      agent.logged(seconds(std::stoll(head(text))), tail(text));
    else if (verb == "event")
      agent.tells(event_of(text));
    else if (verb == "kill")
      agent.kills(text.empty() ? std::vector<std::string>{} : std::vector<std::string>{text});
    else if (verb == "reset")
      agent.resets(text);
    else if (verb == "job-death")
      agent.loses_job();
    else if (verb == "boot")
      agent.boots(text);
    else if (verb == "restart")
      agent.restarts();
    else
      return false;
    return true;
  }

  // What the agent knows beside the node's sources.
  bool learn(SimulatedAgent& agent, const std::string& text) {
    const std::string word = head(text);
    const std::string rest = tail(text);
    CheckSituation& known = agent.situation;
    if (word == "helper-unreaped-ms")
      known.helper.unreaped = Milliseconds(std::stoll(rest));
    else if (word == "clock-offset-ms")
      known.clock_offset = Milliseconds(std::stoll(rest));
    else if (word == "ended-uid")
      known.ended_uids.insert(std::stoll(rest));
    else if (word == "environment")
      environment_[head(rest)] = tail(rest);
    else if (word == "log-error")
      known.kernel_log_error = rest;
    else if (word == "unknown-peer")
      known.net.unknown_peers.push_back(rest);
    else if (word == "port-taken")
      known.net.is_master_port_free = false;
    else if (word == "idle")
      known.is_idle = true;
    else if (word == "job-runs-s")
      job_began_ = now_ - seconds(std::stoll(rest));
    else
      return false;
    return true;
  }

  static GpuEvent event_of(const std::string& text) {
    std::istringstream words(text);
    GpuEvent event;
    int gpu = 0;
    std::string type;
    words >> gpu >> type >> event.data;
    event.gpu = gpu;
    event.type = std::stoull(type, nullptr, 0);
    return event;
  }

  void grow() {
    for (const auto& [path, rate] : growing_) {
      double& rest = left_over_[path];
      rest += rate;
      const double step = std::floor(rest);
      rest -= step;
      if (step != 0) node_.add(path, step);
    }
    for (const auto& [key, rate] : nvml_growing_) node_.nvml_add(key, rate);
  }

  void note(SimulatedAgent& agent) {
    if (agent.said() == noted_) return;
    noted_ = agent.said();
    const NodeVerdict verdict = agent.verdict();
    for (const auto* faults : {&verdict.drains, &verdict.would_drain, &verdict.warnings}) {
      for (const ActiveFault& fault : *faults) {
        const HealthFinding& finding = fault.finding;
        Stood& stood = stood_[{finding.check, finding.device, cause_code(finding)}];
        if (stood.severity.empty()) stood.first = now_;
        stood.severity = text_of(fault.severity);
        stood.fault_class = word_of(finding.fault_class);
      }
    }
    for (const auto& [key, latest] : agent.health().latest()) {
      if (latest.finding.status == CheckStatus::unknown && is_spoiled()) unknown_.insert(key);
    }
  }

  CorpusAnswer answer_to(const CorpusExpectation& wanted) const {
    CorpusAnswer answer;
    answer.what =
        wanted.check + " " + wanted.device + " " +
        (wanted.severity.empty() ? "unknown" : wanted.severity + " " + wanted.fault_class);
    if (wanted.severity.empty()) {
      answer.is_found = answer.has_device = answer.has_severity =
          unknown_.contains({wanted.check, wanted.device});
      return answer;
    }
    answer.is_urgent = wanted.severity.starts_with('!') || wanted.severity.starts_with("reset") ||
                       wanted.severity.starts_with("reboot") || wanted.severity.starts_with("rma");
    bool is_elsewhere = false;
    for (const auto& [key, stood] : stood_) {
      if (std::get<0>(key) != wanted.check) continue;
      answer.is_found = true;
      const std::string& device = std::get<1>(key);
      answer.said += (answer.said.empty() ? "" : "; ") + device + " " + stood.severity + " " +
                     stood.fault_class + " after " +
                     std::to_string((stood.first - injected_.value_or(seconds(0))).count()) + " s";
      is_elsewhere = is_elsewhere || !is_expected(wanted.check, device);
      if (device != wanted.device) continue;
      answer.has_device = true;
      const bool is_in_time =
          !wanted.within || stood.first - injected_.value_or(seconds(0)) <= *wanted.within;
      answer.has_severity =
          answer.has_severity || (stood.severity == wanted.severity &&
                                  stood.fault_class == wanted.fault_class && is_in_time);
    }
    answer.has_device = answer.has_device && !is_elsewhere;
    return answer;
  }

  // A case without edits has its fault from the start.
  bool is_spoiled() const { return injected_ || case_.edits.empty(); }

  bool is_expected(const std::string& check, const std::string& device) const {
    return std::ranges::any_of(case_.expected, [&](const CorpusExpectation& one) {
      return one.check == check && one.device == device;
    });
  }

  CorpusOutcome judge() {
    CorpusOutcome outcome;
    for (const CorpusExpectation& wanted : case_.expected)
      outcome.answers.push_back(answer_to(wanted));
    outcome.wrong = std::move(wrong_);
    for (const auto& [key, stood] : stood_) {
      const auto& [check, device, code] = key;
      const bool is_meant = std::ranges::any_of(case_.never, [&](const CorpusNever& one) {
        const bool is_of_check = one.check == check || one.check == "*";
        return is_of_check && (!one.device || *one.device == device);
      });
      if (is_meant && !(is_expected(check, device)))
        outcome.wrong.push_back("said " + check + " " + device + " " + stood.severity);
    }
    return outcome;
  }

  const CorpusCase& case_;
  FakeNode node_;
  HealthProfile profile_;
  std::map<std::string, std::string> environment_;
  seconds now_{0};
  int noted_ = -1;
  std::optional<seconds> injected_;
  std::optional<seconds> job_began_;
  std::map<std::string, double> growing_;
  std::map<std::string, double> left_over_;
  std::map<std::string, double> nvml_growing_;
  std::map<StoodKey, Stood> stood_;
  std::set<std::pair<std::string, std::string>> unknown_;
  std::vector<std::string> wrong_;
};

bool set_host_key(HostProfile& host, const std::string& key, const std::string& value) {
  if (key == "numa_nodes")
    host.numa_nodes = std::stoi(value);
  else if (key == "governor")
    host.governor = value;
  else if (key == "turbo")
    host.turbo = value == "on";
  else if (key == "numa_balancing")
    host.numa_balancing = value == "on";
  else if (key == "hugepages")
    host.hugepages = std::stoll(value);
  else if (key == "transparent_hugepages")
    host.transparent_hugepages = value;
  else if (key == "shm_kb")
    host.shm_kb = std::stoll(value);
  else
    return false;
  return true;
}

void add_mount(HealthProfile& profile, FakeNode& node, const std::string& path) {
  constexpr std::int64_t gib = 1ll << 30;
  profile.host.mounts.push_back(path);
  node.append("/proc/self/mountinfo",
              "40 22 0:50 / " + path + " rw,relatime shared:9 - nfs4 10.0.0.4:/data rw,vers=4.1\n");
  node.set("statvfs:" + path, space_text(9000 * gib, 4000 * gib));
  node.set(path, "");
}

}  // namespace

bool change_profile(HealthProfile& profile, FakeNode& node, const std::string& line) {
  const std::string word = head(line);
  const std::string rest = tail(line);
  if (word == "limit") {
    std::istringstream words(rest);
    std::string check;
    std::string name;
    double number = 0;
    words >> check >> name >> number;
    profile.checks[check].limits[name] = number;
    return find_check(check) != nullptr && !words.fail();
  }
  if (word == "require")
    profile.required.push_back(rest);
  else if (word == "mount")
    add_mount(profile, node, rest);
  else if (word == "exclude")
    profile.exclude.push_back({head(rest), tail(rest), "a test"});
  else
    return word == "host" && set_host_key(profile.host, head(rest), tail(rest));
  return true;
}

CorpusOutcome play_corpus_case(const CorpusCase& one, const HealthProfile& profile) {
  return Player(one, profile).play();
}

}  // namespace muster
