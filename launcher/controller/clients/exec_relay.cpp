#include "launcher/controller/clients/exec_relay.h"

#include <algorithm>
#include <utility>

#include "launcher/wire/mpi_daemon.h"
#include "scheduler/state/lookup.h"
#include "scheduler/state/rank_map.h"

namespace muster {

namespace {

// The attempt that the message speaks of, while it is the one that runs.
template <class Message>
const Attempt* attempt_of(const State& state, const Message& message) {
  const Job* job = find_job(state, message.job);
  const Attempt* attempt = job == nullptr ? nullptr : active_attempt(*job);
  return attempt != nullptr && attempt->id == message.attempt ? attempt : nullptr;
}

bool is_node_0(const Attempt& attempt, const NodeId& node) {
  return !attempt.nodes.empty() && attempt.nodes.front().id == node;
}

struct RankHome {
  NodeId node;
  AttemptId attempt;
  RankId rank;
};

// A person who has several open is served; a program that opens without end is not.
constexpr std::ptrdiff_t connections_limit = 64;

std::string numbers_text(std::size_t count) {
  return count == 1 ? "0" : "0 to " + std::to_string(count - 1);
}

// On a node any rank will do.
Result<RankId> wanted_rank(const Attempt& attempt, const Exec& request) {
  const auto& ranks = attempt.ranks;
  if (!request.node) {
    const RankId wanted = request.rank.value_or(RankId{0});
    if (wanted.value >= 0 && std::cmp_less(wanted.value, ranks.size())) return wanted;
    return Error{"job " + request.job.value + " has ranks " + numbers_text(ranks.size()) +
                 ", not " + std::to_string(wanted.value)};
  }
  if (*request.node < 0 || std::cmp_greater_equal(*request.node, attempt.nodes.size())) {
    return Error{"job " + request.job.value + " has nodes " + numbers_text(attempt.nodes.size()) +
                 ", not " + std::to_string(*request.node)};
  }
  const auto found = std::ranges::find_if(
      ranks, [&](const Rank& rank) { return rank.node_index == *request.node; });
  if (found != ranks.end()) return found->id;
  return Error{"node " + std::to_string(*request.node) + " of job " + request.job.value +
               " has no rank"};
}

Result<RankHome> find_rank(const State& state, const Exec& request) {
  const Job* job = find_job(state, request.job);
  const Attempt* attempt = job == nullptr ? nullptr : active_attempt(*job);
  if (attempt == nullptr) {
    return Error{"job " + request.job.value + " is not running: there is no rank to go to"};
  }
  const auto wanted = wanted_rank(*attempt, request);
  if (!wanted) return wanted.error();
  const Rank& rank = attempt->ranks[static_cast<std::size_t>(wanted->value)];
  const AttemptNode& node = node_of(*attempt, rank);
  if (is_released(node)) {
    return Error{"rank " + std::to_string(wanted->value) + " of job " + request.job.value +
                 " runs no more: it left with node " + node.id.value};
  }
  return RankHome{node.id, attempt->id, rank.id};
}

// mpirun was told node names; people may know a node by its host name too.
const AttemptNode* node_called(const State& state, const Attempt& attempt,
                               const std::string& host) {
  if (const AttemptNode* node = find_node(attempt, NodeId{host})) return node;
  for (const AttemptNode& node : attempt.nodes) {
    const LinkUp* agent = linked_agent(state, node.id);
    if (agent != nullptr && (agent->host_name == host || agent->job_address == host)) return &node;
  }
  return nullptr;
}

}  // namespace

void Relay::exec(const std::shared_ptr<Session>& session, const Exec& request) {
  const auto found = find_rank(state_, request);
  if (!found || pool_.up(found->node) == nullptr) {
    const std::string why =
        found ? "node " + found->node.value + " is not connected" : found.error().message;
    return session->refuse(why);
  }
  const bool is_connection = request.channel && !request.channel->socket.empty();
  const auto is_another = [&](const auto& item) {
    return item.second.is_connection && item.second.job == request.job;
  };
  if (is_connection && std::ranges::count_if(execs_, is_another) >= connections_limit) {
    return session->refuse("job " + request.job.value + " has " +
                           std::to_string(connections_limit) +
                           " forwarded connections: close one of them");
  }
  const std::string id = "e" + std::to_string(next_id_++);
  execs_[id] = {session, found->node, request.job, is_connection};
  pool_.send(found->node, ExecStart{id, request.job, found->attempt, found->rank, request.argv,
                                    request.channel});
  session->send(Accepted{request.job, found->node.value});
}

void Relay::input(const std::shared_ptr<Session>& session, std::string_view payload) {
  for (const auto& [id, route] : execs_) {
    if (route.client.lock() == session) pool_.send(route.node, ExecInput{id}, payload);
  }
}

void Relay::control(const std::shared_ptr<Session>& session, ExecControl control) {
  for (const auto& [id, route] : execs_) {
    if (route.client.lock() != session) continue;
    control.id = id;
    pool_.send(route.node, control);
  }
}

// Nothing where that node has no such session to speak of.
Relay::ExecRoute* Relay::route_of(const NodeId& from, const std::string& id) {
  const auto found = execs_.find(id);
  return found == execs_.end() || found->second.node != from ? nullptr : &found->second;
}

void Relay::output(const NodeId& from, const ExecOutput& output, std::string_view payload) {
  const ExecRoute* route = route_of(from, output.id);
  if (const auto session = route ? route->client.lock() : nullptr) session->send(output, payload);
}

void Relay::taken(const NodeId& from, const ExecTaken& taken) {
  const ExecRoute* route = route_of(from, taken.id);
  if (const auto session = route ? route->client.lock() : nullptr) session->send(taken);
}

void Relay::ended(const NodeId& from, const ExecEnded& ended) {
  const ExecRoute* route = route_of(from, ended.id);
  if (route == nullptr) return;
  if (const auto session = route->client.lock()) session->answer(ended);
  execs_.erase(ended.id);
}

void Relay::client_gone(const std::shared_ptr<Session>& session) {
  std::erase_if(execs_, [&](const auto& item) {
    if (item.second.client.lock() != session) return false;
    pool_.send(item.second.node, ExecStop{item.first});
    return true;
  });
}

void Relay::remote_start(const NodeId& from, const RemoteStartAsked& asked) {
  std::erase_if(starts_, [&](const auto& item) {
    return attempt_of(state_, item.second.request) == nullptr;
  });
  const auto refuse = [&](const std::string& why) {
    pool_.send(from, RemoteStartEnded{asked.ticket, ExitStatus{255, 0}, why});
  };
  const Attempt* attempt = attempt_of(state_, asked);
  const bool is_first = attempt != nullptr && is_node_0(*attempt, from);
  const JobSpec* spec = is_first ? &find_job(state_, asked.job)->spec : nullptr;
  const bool is_open = is_first && spec->muster.remote_start;
  if (!is_open && !(is_first && runs_mpirun(*spec))) {
    return refuse("node " + from.value + " runs no mpirun of " + asked.job.value);
  }
  const auto daemon = is_open ? MpiDaemon{} : read_mpi_daemon(asked.command);
  if (!daemon) return refuse(daemon.error().message);
  const AttemptNode* target = node_called(state_, *attempt, asked.host);
  if (target == nullptr || (target->id == from && !is_open)) {
    return refuse("no other node of the attempt is called " + asked.host);
  }
  // Asked again after a lost connection it is the same ticket, also for the controller after this.
  const std::string ticket = asked.job.value + "." + std::to_string(asked.attempt.value) + "." +
                             from.value + "." + asked.ticket;
  const RemoteStart request{ticket, asked.job, asked.attempt, asked.command};
  starts_[ticket] = {from, target->id, asked.ticket, request};
  pool_.send(target->id, request);
}

// The node may have missed what was asked, or its end may have been missed here; what runs there is
// not started again. A node that does not come back ends the attempt, and mpirun with it.
void Relay::node_up(const NodeId& node, const Welcome&) {
  for (const auto& [ticket, route] : starts_) {
    if (route.target == node) pool_.send(node, route.request);
  }
}

void Relay::remote_start_ended(const NodeId& from, const RemoteStartEnded& ended) {
  const auto found = starts_.find(ended.ticket);
  if (found == starts_.end() || found->second.target != from) return;
  RemoteStartEnded forwarded = ended;
  forwarded.ticket = found->second.ticket;
  pool_.send(found->second.asker, forwarded);
  starts_.erase(found);
}

void Relay::remote_output(const NodeId& from, RemoteOutput piece, std::string_view payload) {
  const Attempt* attempt = attempt_of(state_, piece);
  if (attempt == nullptr || find_node(*attempt, from) == nullptr) return;
  piece.node = from.value;
  pool_.send(attempt->nodes.front().id, piece, payload);
}

void Relay::remote_output_ack(const NodeId& from, const RemoteOutputAck& ack) {
  const Attempt* attempt = attempt_of(state_, ack);
  const NodeId target{ack.node};
  if (attempt == nullptr || !is_node_0(*attempt, from)) return;
  if (find_node(*attempt, target) != nullptr) pool_.send(target, ack);
}

bool Relay::take(const NodeId& node, const FromAgent& message, std::string_view payload) {
  if (const auto* some = std::get_if<ExecOutput>(&message)) {
    output(node, *some, payload);
  } else if (const auto* end = std::get_if<ExecEnded>(&message)) {
    ended(node, *end);
  } else if (const auto* some_taken = std::get_if<ExecTaken>(&message)) {
    taken(node, *some_taken);
  } else if (const auto* asked = std::get_if<RemoteStartAsked>(&message)) {
    remote_start(node, *asked);
  } else if (const auto* over = std::get_if<RemoteStartEnded>(&message)) {
    remote_start_ended(node, *over);
  } else if (const auto* piece = std::get_if<RemoteOutput>(&message)) {
    remote_output(node, *piece, payload);
  } else if (const auto* ack = std::get_if<RemoteOutputAck>(&message)) {
    remote_output_ack(node, *ack);
  } else {
    return false;
  }
  return true;
}

void Relay::node_down(const NodeId& node, const LinkFailure&) {
  std::erase_if(execs_, [&](const auto& item) {
    if (item.second.node != node) return false;
    if (const auto session = item.second.client.lock()) {
      session->refuse("the connection to node " + node.value + " was lost", ExitCode::launch);
    }
    return true;
  });
}

}  // namespace muster
