#include "launcher/controller/health_desk.h"

#include <algorithm>
#include <csignal>

#include "scheduler/lookup.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

// Of what the program complained about: the last of it says why it ended.
constexpr std::size_t complaint_bytes_most = 4096;

// `muster health run`: fit, a fault stands, unclear.
bool is_answer(const ExitStatus& status) {
  return status.signal == 0 && (status.code == 0 || status.code == 1 || status.code == 3);
}

std::string seconds_text(Milliseconds time) {
  return std::to_string((time.count() + 999) / 1000) + " s";
}

std::string without_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string failure_text(const ExecEnded& ended, const std::string& complained) {
  if (!ended.error.empty()) return "the checks were not started: " + ended.error;
  const ExitStatus& status = ended.status;
  std::string text = status.signal != 0
                         ? "the checks were killed by signal " + std::to_string(status.signal)
                         : "the checks ended with " + std::to_string(status.code);
  const std::string last = without_end(complained);
  return last.empty() ? text : text + ": " + last;
}

}  // namespace

HealthDesk::HealthDesk(Timers& timers, const State& state, AgentPool& pool, Await await)
    : timers_(timers), state_(state), pool_(pool), await_(std::move(await)) {}

void HealthDesk::look(const std::shared_ptr<Session>& session, const LookAtNodes& request) {
  std::size_t nodes = 0;
  for (const NodesMeant& meant : request.nodes) nodes += meant.target.nodes.size();
  if (nodes == 0) {
    session->send(Refused{"no node is meant", static_cast<int>(ExitCode::failure)});
    return session->finish();
  }
  for (const NodesMeant& meant : request.nodes) {
    for (const NodeAddress& address : meant.target.nodes) {
      Look look;
      look.client = session;
      look.node = address.id;
      look.request.profile = meant.profile;
      look.request.wanted = request.wanted;
      // The job that holds a node says how it is reached.
      const bool is_there = pool_.up(address.id) != nullptr || is_held(address.id);
      if (!is_there) await_(meant.target, address);
      begin(std::move(look), request.timeout);
    }
  }
}

void HealthDesk::begin(Look look, Milliseconds timeout) {
  const std::string id = "h" + std::to_string(next_id_++);
  look.request.id = id;
  look.deadline = timers_.after(timeout, [this, id, timeout] { late(id, timeout); });
  Look& begun = looks_.emplace(id, std::move(look)).first->second;
  if (pool_.up(begun.node) != nullptr) ask(begun);
}

bool HealthDesk::is_held(const NodeId& node) const {
  const Node* known = find_node(state_, node);
  return known != nullptr && known->owner;
}

void HealthDesk::ask(Look& look) {
  look.request.is_held = is_held(look.node);
  look.is_asked = true;
  look.said.clear();
  look.complained.clear();
  pool_.send(look.node, look.request);
}

void HealthDesk::node_up(const NodeId& node) {
  for (auto& [id, look] : looks_) {
    if (look.node == node && !look.is_asked) ask(look);
  }
}

void HealthDesk::node_down(const NodeId& node, const std::string& why) {
  std::vector<std::string> ids;  // an answer can end its client's other looks
  for (const auto& [id, look] : looks_) {
    if (look.node == node) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    const auto found = looks_.find(id);
    if (found != looks_.end()) answer(found, why);
  }
}

bool HealthDesk::output(const NodeId& from, const ExecOutput& output, std::string_view payload) {
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

bool HealthDesk::ended(const NodeId& from, const ExecEnded& ended) {
  const auto found = looks_.find(ended.id);
  if (found == looks_.end() || found->second.node != from) return false;
  Look& look = found->second;
  // A job began there: what may run beside it is done, within the time that is left.
  if (ended.status.signal == SIGKILL && !look.request.is_held && is_held(from)) {
    ask(look);
    return true;
  }
  answer(found, ended.error.empty() && is_answer(ended.status)
                    ? ""
                    : failure_text(ended, look.complained));
  return true;
}

void HealthDesk::late(const std::string& id, Milliseconds timeout) {
  const auto found = looks_.find(id);
  if (found == looks_.end()) return;
  if (found->second.is_asked) pool_.send(found->second.node, ExecStop{id});
  answer(found,
         "no answer within " + seconds_text(timeout) + ": " + what_it_waits_for(found->second));
}

std::string HealthDesk::what_it_waits_for(const Look& look) const {
  if (look.is_asked) return "its checks have not ended";
  const Node* known = find_node(state_, look.node);
  const Unlinked* down = known == nullptr ? nullptr : std::get_if<Unlinked>(&known->link);
  return down == nullptr ? "it is being connected" : down->failure.message;
}

void HealthDesk::answer(Looks::iterator at, const std::string& error) {
  const Look look = std::move(at->second);
  looks_.erase(at);
  let_go(look.node);
  const auto session = look.client.lock();
  if (!session) return;
  session->send(NodeLooked{look.node, error, drained_for(look.node)},
                error.empty() ? look.said : std::string());
  const auto same_client = [&](const auto& item) { return item.second.client.lock() == session; };
  if (std::none_of(looks_.begin(), looks_.end(), same_client)) session->finish();
}

std::string HealthDesk::drained_for(const NodeId& id) const {
  const Node* node = find_node(state_, id);
  if (node == nullptr) return {};
  if (node->fault_drain) return node->fault_drain->reason;
  if (!node->drained) return {};
  return node->drain_reason.empty() ? "drained by hand" : "drained: " + node->drain_reason;
}

void HealthDesk::let_go(const NodeId& node) {
  const auto is_of_it = [&](const auto& item) { return item.second.node == node; };
  if (std::none_of(looks_.begin(), looks_.end(), is_of_it)) pool_.await_no_more(node);
}

void HealthDesk::client_gone(const std::shared_ptr<Session>& session) {
  Looks gone;
  for (auto at = looks_.begin(); at != looks_.end();) {
    const auto next = std::next(at);
    if (at->second.client.lock() == session) gone.insert(looks_.extract(at));
    at = next;
  }
  for (const auto& [id, look] : gone) {
    if (look.is_asked) pool_.send(look.node, ExecStop{id});
    let_go(look.node);
  }
}

}  // namespace muster
