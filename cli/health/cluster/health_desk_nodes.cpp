#include "cli/health/cluster/health_desk_nodes.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>

#include "cli/client/start.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// The controller answers for each probe in time; one that does not is stuck.
constexpr Milliseconds patience{10'000};

void complete(std::vector<NodeOutput>& outputs, const std::vector<bool>& is_told,
              const std::string& why) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_told[i]) outputs[i].error = why;
  }
}

}  // namespace

MeasureNodes probes_of(const ComputeTarget& target, const std::vector<NodeCommand>& commands,
                       Milliseconds reach) {
  MeasureNodes request;
  request.timeout = reach;
  std::set<std::string> meant;
  for (const NodeCommand& command : commands) {
    meant.insert(command.node);
    request.token = command.token;
    request.probes.push_back({NodeId{command.node}, command.words, command.deadline});
  }
  NodesMeant nodes{target, {}};
  std::erase_if(nodes.target.nodes,
                [&](const NodeAddress& node) { return !meant.contains(node.id.value); });
  request.nodes = {std::move(nodes)};
  return request;
}

Result<JobOfNode> jobs_on_nodes(const CommonOptions& common) {
  const auto answer = ask_controller(Home::from_environment(), AskNodes{}, common);
  if (!answer) return answer.error();
  const auto* known = std::get_if<NodesAnswer>(&*answer);
  if (known == nullptr) return Error{"the controller does not say what runs on the nodes"};
  JobOfNode jobs;
  for (const NodeLine& line : known->nodes) {
    if (!line.owner.empty()) jobs[line.node] = line.owner;
  }
  return jobs;
}

std::vector<NodeOutput> DeskNodes::run(const std::vector<NodeCommand>& commands) {
  std::vector<NodeOutput> outputs = ask(commands);
  const auto failed = [](const NodeOutput& one) { return !one.error.empty(); };
  if (std::ranges::none_of(outputs, failed)) return outputs;
  const auto jobs = jobs_on_nodes(common_);
  if (!jobs) return outputs;
  // Nodes that a job got meanwhile: that their probes ended is not their fault.
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto job = jobs->find(commands[i].node);
    if (job == jobs->end() || outputs[i].is_void) continue;
    outputs[i] = {"", "job " + job->second + " got it during the measurement", true};
  }
  return outputs;
}

std::vector<NodeOutput> DeskNodes::ask(const std::vector<NodeCommand>& commands) {
  std::vector<NodeOutput> outputs(commands.size());
  std::vector<bool> is_told(commands.size(), false);
  auto client = ensure_controller(Home::from_environment(), common_);
  const MeasureNodes request = probes_of(target_, commands, reach_);
  std::string lost;
  if (!client) {
    lost = client.error().message;
  } else if (const auto sent = client->send(request); !sent) {
    lost = sent.error().message;
  }
  Milliseconds longest{0};
  for (const NodeCommand& one : commands) longest = std::max<Milliseconds>(longest, one.deadline);
  const auto until = Clock::now() + reach_ + longest + patience;
  for (std::size_t told = 0; lost.empty() && told < commands.size();) {
    const auto left = std::chrono::duration_cast<Milliseconds>(until - Clock::now());
    auto message = client->receive(std::max(left, Milliseconds{0}));
    if (!message) {
      lost = message.error().message;
    } else if (!*message) {
      lost = "the controller gave no answer";
    } else if (const auto* no = std::get_if<Refused>(&(*message)->message)) {
      lost = no->message;
    } else if (const auto* one = std::get_if<NodeLooked>(&(*message)->message)) {
      const auto place = static_cast<std::size_t>(one->place);
      if (place >= outputs.size() || is_told[place]) continue;
      const std::string error = one->is_started ? one->error : "not started: " + one->error;
      outputs[place] = {std::move((*message)->payload), error, one->is_void};
      is_told[place] = true;
      ++told;
    }
  }
  complete(outputs, is_told, lost);
  return outputs;
}

}  // namespace muster
