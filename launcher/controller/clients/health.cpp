#include "launcher/controller/clients/health.h"

#include <algorithm>
#include <csignal>
#include <set>

#include "scheduler/model/exit_code.h"
#include "scheduler/state/lookup.h"

namespace muster {

namespace {

// Of what the program complained about: the last of it says why it ended.
constexpr std::size_t complaint_bytes_most = 4096;
constexpr std::string_view complaint_prefix = "muster: ";
constexpr int unclear = 3;
// The answers of 500 nodes, of 130 KB each.
constexpr std::size_t bytes_until_behind = 64u << 20;
// What nodes still say that were asked before.
constexpr std::size_t bytes_most = 512u << 20;

using LookRequest = std::variant<LookAtHealth, MeasureNode>;

bool is_probe(const LookRequest& request) {
  const auto* measure = std::get_if<MeasureNode>(&request);
  return measure != nullptr && measure->is_probe;
}

bool is_measurement(const LookRequest& request) {
  return std::holds_alternative<MeasureNode>(request);
}

std::string what_runs(const LookRequest& request) {
  if (is_probe(request)) return "the benchmark";
  return is_measurement(request) ? "the measurement" : "the checks";
}

// `muster health run` and `active`: fit, a fault stands, unclear; a host that is not idle is
// refused as unclear, without a word on its output.
bool is_answer(const LookRequest& request, const ExitStatus& status, const std::string& said) {
  if (status.signal != 0) return false;
  if (is_probe(request)) return status.code == 0;
  if (is_measurement(request) && status.code == unclear) return !said.empty();
  return status.code == 0 || status.code == 1 || status.code == unclear;
}

std::string seconds_text(Milliseconds time) {
  return std::to_string((time.count() + 999) / 1000) + " s";
}

// The agent did not start it, a host cannot run it, or it is not idle.
bool was_refused(const LookRequest& request, const ExecEnded& ended, const std::string& said) {
  if (!is_measurement(request)) return false;
  constexpr int cannot_execute = 126;
  constexpr int not_found = 127;
  const ExitStatus& status = ended.status;
  const bool is_unclear = status.code == unclear && !is_probe(request);
  const bool says_so = status.code == cannot_execute || status.code == not_found || is_unclear;
  return !ended.error.empty() || (status.signal == 0 && says_so && said.empty());
}

std::string failure_text(const LookRequest& request, const ExecEnded& ended,
                         const std::string& complained) {
  const std::string what = what_runs(request);
  if (!ended.error.empty()) {
    return is_measurement(request) ? ended.error : what + " were not started: " + ended.error;
  }
  const ExitStatus& status = ended.status;
  const std::string last(trimmed(complained));
  // What a program says that refuses a host is the reason, and all of it.
  if (is_measurement(request) && status.code == unclear && last.starts_with(complaint_prefix)) {
    return last.substr(complaint_prefix.size());
  }
  const std::string was = is_measurement(request) ? " was" : " were";
  const std::string text = status.signal != 0
                               ? what + was + " killed by signal " + std::to_string(status.signal)
                               : what + " ended with " + std::to_string(status.code);
  return last.empty() ? text : text + ": " + last;
}

bool is_none_meant(const std::vector<NodesMeant>& nodes) {
  return std::ranges::all_of(nodes, [](const auto& meant) { return meant.target.nodes.empty(); });
}

// Empty, or what is wrong with the probes.
std::string misfit_of(const MeasureNodes& request) {
  std::set<NodeId> meant;
  for (const NodesMeant& each : request.nodes) {
    for (const NodeAddress& address : each.target.nodes) meant.insert(address.id);
  }
  for (const NodeProbe& probe : request.probes) {
    if (!meant.contains(probe.node)) return "a benchmark of " + probe.node.value + ", not meant";
    if (probe.words.empty()) return "a benchmark of " + probe.node.value + " without words";
  }
  return {};
}

}  // namespace

NodeHealthService::NodeHealthService(Timers& timers, const State& state, AgentPool& pool,
                                     Await await)
    : timers_(timers), state_(state), pool_(pool), await_(std::move(await)) {}

void NodeHealthService::look(const std::shared_ptr<Session>& session, const LookAtNodes& request) {
  if (is_none_meant(request.nodes)) return session->refuse("no node is meant");
  std::vector<std::string> ids;
  for (const NodesMeant& meant : request.nodes) {
    reach(meant);
    for (const NodeAddress& address : meant.target.nodes) {
      LookAtHealth what;
      what.profile = meant.profile;
      what.wanted = request.wanted;
      ids.push_back(begin({session, address.id, std::move(what)}, request.timeout));
    }
  }
  ask_all(ids);
}

void NodeHealthService::measure(const std::shared_ptr<Session>& session,
                                const MeasureNodes& request) {
  if (is_none_meant(request.nodes)) return session->refuse("no node is meant");
  const std::string misfit = misfit_of(request);
  if (!misfit.empty()) return session->refuse(misfit);
  for (const NodesMeant& meant : request.nodes) reach(meant);
  std::vector<std::string> ids;
  const auto begin_one = [&](const NodeId& node, MeasureNode what, Milliseconds limit) {
    Look look{session, node, std::move(what), static_cast<std::int64_t>(ids.size()), limit};
    ids.push_back(begin(std::move(look), request.timeout));
  };
  for (const NodeProbe& probe : request.probes) {
    begin_one(probe.node, {{}, true, probe.words, {}, request.token}, probe.limit);
  }
  for (const NodesMeant& meant : request.nodes) {
    if (!request.probes.empty()) break;
    for (const NodeAddress& address : meant.target.nodes) {
      begin_one(address.id, {{}, false, request.words, meant.profile, {}}, request.limit);
    }
  }
  ask_all(ids);
}

// The job that holds a node says how it is reached.
void NodeHealthService::reach(const NodesMeant& meant) {
  for (const NodeAddress& address : meant.target.nodes) {
    const bool is_there = pool_.up(address.id) != nullptr || is_held(address.id);
    if (!is_there) await_(meant.target, address);
  }
}

std::string NodeHealthService::begin(Look look, Milliseconds timeout) {
  const std::string id = "h" + std::to_string(next_id_++);
  std::visit([&](auto& request) { request.id = id; }, look.request);
  look.deadline = timers_.after(timeout, [this, id, timeout] { late(id, timeout); });
  looks_.emplace(id, std::move(look));
  return id;
}

bool NodeHealthService::is_held(const NodeId& node) const {
  return !holder_of(node).empty();
}

std::string NodeHealthService::holder_of(const NodeId& node) const {
  const Node* known = find_node(state_, node);
  return known != nullptr && known->owner ? known->owner->value : "";
}

void NodeHealthService::ask_all(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    const auto found = looks_.find(id);  // an answer can end its client's other looks
    if (found != looks_.end() && !found->second.is_asked) ask(found);
  }
}

void NodeHealthService::ask(Looks::iterator at) {
  Look& look = at->second;
  const std::string holder = holder_of(look.node);
  if (is_measurement(look.request) && !holder.empty()) {
    return answer(at, "job " + holder + " holds it", true);
  }
  const auto client = look.client.lock();
  if (pool_.up(look.node) == nullptr || !client || is_behind(client)) return;
  if (is_measurement(look.request) && !pool_.up(look.node)->welcome().measures) {
    return answer(at, "its agent is outdated and does not measure", true);
  }
  if (auto* run = std::get_if<LookAtHealth>(&look.request)) run->is_held = !holder.empty();
  look.is_asked = true;
  look.said.clear();
  look.complained.clear();
  if (look.limit) {
    const auto over = [this, id = at->first, limit = *look.limit] { late(id, limit); };
    look.deadline = timers_.after(*look.limit, over);
  }
  std::visit([&](const auto& request) { pool_.send(look.node, request); }, look.request);
}

template <class Fits>
std::vector<std::string> NodeHealthService::ids_of(Fits fits) const {
  std::vector<std::string> ids;
  for (const auto& [id, look] : looks_) {
    if (fits(look)) ids.push_back(id);
  }
  return ids;
}

bool NodeHealthService::is_behind(const std::shared_ptr<Session>& client) {
  if (client->unread_bytes() <= bytes_until_behind) return false;
  client->when_read([this, session = client.get()] {
    ask_all(ids_of([&](const Look& look) { return look.client.lock().get() == session; }));
  });
  return true;
}

void NodeHealthService::node_up(const NodeId& node, const Welcome&) {
  ask_all(ids_of([&](const Look& look) { return look.node == node; }));
}

void NodeHealthService::node_down(const NodeId& node, const LinkFailure& failure) {
  node_failed(node, failure);
}

void NodeHealthService::node_failed(const NodeId& node, const LinkFailure& failure) {
  for (const std::string& id : ids_of([&](const Look& look) { return look.node == node; })) {
    const auto found = looks_.find(id);
    if (found != looks_.end()) answer(found, failure.message);
  }
}

bool NodeHealthService::take(const NodeId& node, const FromAgent& message,
                             std::string_view payload) {
  if (const auto* some = std::get_if<ExecOutput>(&message)) return output(node, *some, payload);
  const auto* end = std::get_if<ExecEnded>(&message);
  return end != nullptr && ended(node, *end);
}

bool NodeHealthService::output(const NodeId& from, const ExecOutput& output,
                               std::string_view payload) {
  const auto found = looks_.find(output.id);
  if (found == looks_.end() || found->second.node != from) return false;
  Look& look = found->second;
  if (output.is_stderr) {
    look.complained.append(payload);
    if (look.complained.size() > complaint_bytes_most) {
      look.complained.erase(0, look.complained.size() - complaint_bytes_most);
    }
  } else if (look.said.size() + payload.size() > frame_payload_limit_bytes) {
    pool_.send(from, ExecStop{output.id});
    answer(found,
           "its answer is longer than " + std::to_string(frame_payload_limit_bytes >> 20) + " MiB");
  } else {
    look.said.append(payload);
  }
  return true;
}

bool NodeHealthService::ended(const NodeId& from, const ExecEnded& ended) {
  const auto found = looks_.find(ended.id);
  if (found == looks_.end() || found->second.node != from) return false;
  Look& look = found->second;
  const std::string holder = holder_of(from);
  const bool was_ended_by_job = ended.status.signal == SIGKILL && !holder.empty();
  if (was_ended_by_job && is_measurement(look.request)) {
    answer(found, "job " + holder + " began there, which ended it", true);
    return true;
  }
  // What may run beside the job is done, within the time that is left.
  const auto* run = std::get_if<LookAtHealth>(&look.request);
  if (was_ended_by_job && run != nullptr && !run->is_held) {
    look.is_asked = false;
    ask(found);
    return true;
  }
  const bool is_good = ended.error.empty() && is_answer(look.request, ended.status, look.said);
  // Refused by the agent, killed by it for a job that may be over by now, or beside one that is
  // being prepared.
  const bool was_disturbed =
      !ended.error.empty() || ended.status.signal == SIGKILL || !holder.empty();
  const bool is_void = is_measurement(look.request) && was_disturbed;
  std::string error = is_good ? "" : failure_text(look.request, ended, look.complained);
  if (is_good && is_void && is_probe(look.request)) error = "job " + holder + " got it meanwhile";
  look.is_refused = was_refused(look.request, ended, look.said);
  answer(found, error, is_void);
  return true;
}

void NodeHealthService::late(const std::string& id, Milliseconds timeout) {
  const auto found = looks_.find(id);
  if (found == looks_.end()) return;
  if (found->second.is_asked) pool_.send(found->second.node, ExecStop{id});
  answer(found,
         "no answer within " + seconds_text(timeout) + ": " + what_it_waits_for(found->second));
}

std::string NodeHealthService::what_it_waits_for(const Look& look) const {
  if (look.is_asked) {
    return is_measurement(look.request) ? what_runs(look.request) + " has not ended"
                                        : "its checks have not ended";
  }
  if (pool_.up(look.node) != nullptr) return "answers of other nodes were not read";
  const Node* known = find_node(state_, look.node);
  const Unlinked* down = known == nullptr ? nullptr : std::get_if<Unlinked>(&known->link);
  return down == nullptr ? "it is being connected"
                         : "the latest attempt to reach it failed: " + down->failure.message;
}

void NodeHealthService::answer(Looks::iterator at, const std::string& error, bool is_void) {
  Look look = std::move(at->second);
  looks_.erase(at);
  release(look.node);
  const auto session = look.client.lock();
  if (!session) return;
  const bool is_started = !is_measurement(look.request) || (look.is_asked && !look.is_refused);
  const bool is_no_evidence = !is_started && is_probe(look.request);
  const bool is_reported = error.empty() || is_probe(look.request);
  const bool is_reached = pool_.up(look.node) != nullptr || is_held(look.node);
  if (!is_reported) look.said.clear();
  const bool is_kept = session->unread_bytes() + look.said.size() <= bytes_most;
  const NodeLooked looked{
      look.node,
      is_kept ? error : "its answer was not kept: those before it were not read",
      drained_for(look.node),
      look.place,
      is_reached,
      is_void || is_no_evidence,
      is_started};
  session->send(looked, is_kept ? look.said : "", bytes_most + Session::queue_limit_bytes);
  const auto same_client = [&](const auto& item) { return item.second.client.lock() == session; };
  if (std::ranges::none_of(looks_, same_client)) session->finish();
}

std::string NodeHealthService::drained_for(const NodeId& id) const {
  const Node* node = find_node(state_, id);
  if (node == nullptr) return {};
  if (node->fault_drain) return node->fault_drain->reason;
  if (!node->drained) return {};
  return node->drain_reason.empty() ? "drained by hand" : "drained: " + node->drain_reason;
}

void NodeHealthService::release(const NodeId& node) {
  const auto is_of_it = [&](const auto& item) { return item.second.node == node; };
  if (std::ranges::none_of(looks_, is_of_it)) pool_.await_no_more(node);
}

void NodeHealthService::client_gone(const std::shared_ptr<Session>& session) {
  Looks gone;
  for (auto at = looks_.begin(); at != looks_.end();) {
    const auto next = std::next(at);
    if (at->second.client.lock() == session) gone.insert(looks_.extract(at));
    at = next;
  }
  for (const auto& [id, look] : gone) {
    if (look.is_asked) pool_.send(look.node, ExecStop{id});
    release(look.node);
  }
}

}  // namespace muster
