// `muster services JOB`: what runs beside the ranks of a job, and how it is reached. The nodes' own
// files tell, read by `muster exec`.
//
// `muster forward JOB PORT`: connections to a port of this machine end at a port, or a Unix socket,
// of a node of the job. A process for each connection: one that stands still holds no other up, and
// all end with this one.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/client/exec_session.h"
#include "cli/client/start.h"
#include "cli/job/plan.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/child.h"
#include "launcher/os/fd.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr Milliseconds services_limit{30000};

// Which processes of services are gone is looked up before what they said: that is then their last.
constexpr const char* question = R"(cd "$MUSTER_SERVICES" && for f in *.json; do
  name=${f%.json} gone=
  [ ! -L "$name.held" ] || [ -e "$name.held/$f" ] || gone="gone $name"
  [ ! -f "$f" ] || head -c 65536 "$f"
  echo "$gone"
done 2>/dev/null || :)";

// Of the error of a verb that was run, without its words.
std::string why_unknown(const std::string& error) {
  return replaced(error.substr(error.find("' ") + 2), "failed: muster: ", "");
}

// What a node tells may have any form.
std::string text_in(const nlohmann::json& facts, const char* key) {
  const auto found = facts.is_object() ? facts.find(key) : facts.end();
  if (found == facts.end()) return {};
  const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  return replaced(without_controls(text), "\n", " ");
}

// What a node says of a service there.
struct ServiceSeen {
  std::string name;
  std::string type;
  std::string state = "unknown";
  std::string note{};
  std::string target{};  // a socket's path or a port; empty: there is none
  std::string token{};   // for who opens it
};

std::vector<ServiceSeen> services_on(const FoundJob& job, std::int64_t node) {
  std::vector<ServiceSeen> seen;
  if (job.row.ended_at) throw VerbEnd(no_such_job, "job " + job.row.name + " is not running");
  const auto records = or_end(job.store->records_of(job.id()));
  const JobSubmitted* submitted = submission_in(records);
  if (submitted == nullptr) return seen;
  for (const auto& [name, service] : submitted->spec.services) {
    if (!service.runs_on(static_cast<int>(node))) continue;
    seen.push_back({name, service.type, service.type == "ssh" ? "ready" : "unknown"});
  }
  if (seen.empty()) return seen;
  const std::string at = std::to_string(node);
  // It must not outlive this process, which may be killed while a node does not answer.
  const auto told = run_within({"setpriv", "--pdeathsig", "KILL", muster_program(), "exec",
                                job.row.name, "--node", at, "--", "sh", "-c", question},
                               services_limit);
  for (ServiceSeen& one : seen) {
    if (!told) one = {one.name, one.type, "unknown", why_unknown(told.error().message)};
    std::istringstream lines(told ? *told : "");
    for (std::string line; std::getline(lines, line);) {
      if (line == "gone " + one.name && (one.state == "running" || one.state == "starting")) {
        one.state = "ended";
        one.note = "its process was killed";
      }
      const auto facts = nlohmann::json::parse(line, nullptr, false);
      if (text_in(facts, "name") != one.name) continue;
      one.state = text_in(facts, "state");
      one.note = text_in(facts, "note");
      one.token = text_in(facts, "token");
      one.target = text_in(facts, facts.contains("socket") ? "socket" : "port");
    }
  }
  return seen;
}

// ---- forward

struct ForwardOptions {
  NodePlace place;
  std::vector<std::string> targets;
  bool stdio = false;
};

struct Tunnel {
  std::uint16_t port = 0;  // here; 0: any
  std::string target;      // there
  Fd listener;
  std::string page{};  // of a service, by name: where a browser begins
};

std::optional<std::uint16_t> port_in(std::string_view text) {
  const std::int64_t port = read_integer(text).value_or(-1);
  if (port < 0 || port > UINT16_MAX) return std::nullopt;
  return static_cast<std::uint16_t>(port);
}

Result<Tunnel> read_tunnel(const std::string& text) {
  const std::size_t colon = text.starts_with('/') ? text.npos : text.find(':');
  Tunnel tunnel;
  tunnel.target = colon == text.npos ? text : text.substr(colon + 1);
  const bool is_path = tunnel.target.starts_with('/');
  const auto there = port_in(tunnel.target);
  if (!there && is_made_of(tunnel.target, "0123456789")) {
    return Error{"port " + tunnel.target + " is above 65535"};
  }
  if (!is_path && !there && is_word_of(tunnel.target, "-_")) tunnel.page = "/";
  const bool has_name = is_path || !tunnel.page.empty();
  const auto here = colon != text.npos ? port_in(text.substr(0, colon))
                    : has_name         ? std::optional<std::uint16_t>(0)
                                       : there;
  if (!here || !(has_name || (there && *there != 0))) {
    return Error{"'" + text + "': expected [LOCAL:]PORT, SERVICE or /path/of/a/socket"};
  }
  tunnel.port = *here;
  return tunnel;
}

// It is asked for again until it listens, within a minute.
ServiceSeen service_of(const Tunnel& tunnel, const Home& home, const Exec& request) {
  std::vector<std::string> names;
  for (int look = 0;; ++look) {
    const FoundJob found = job_or_end(home, request.job.value);
    const auto all = services_on(found, request.node.value_or(0));
    const auto one = std::ranges::find(all, tunnel.target, &ServiceSeen::name);
    if (one != all.end() && (one->state != "starting" || look == 120)) return *one;
    if (one == all.end()) {
      for (const ServiceSeen& other : all) names.push_back(other.name);
      throw VerbEnd(no_such_job, "no service '" + tunnel.target + "' runs there; " +
                                     did_you_mean(tunnel.target, names,
                                                  "see: muster services " + request.job.value));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{500});
  }
}

// From a service's name to where it listens. Ends the verb where it does not.
void look_up(Tunnel& tunnel, const Home& home, const Exec& request) {
  if (request.rank) throw VerbEnd(usage_error, "a service is on a node: name it with --node");
  const ServiceSeen one = service_of(tunnel, home, request);
  if (one.type == "ssh") {
    throw VerbEnd(no_such_job,
                  "service " + one.name + " is ssh: use muster ssh " + request.job.value);
  }
  if (one.target.empty() || (one.state != "running" && one.state != "unknown")) {
    const std::string note = one.state == "starting" ? "it does not listen yet" : one.note;
    throw VerbEnd(no_such_job, "service " + one.name + " is " + one.state + ": " + note);
  }
  tunnel.target = one.target;
  if (!one.token.empty()) tunnel.page = "/?token=" + one.token;
  if (one.type == "vs_code") tunnel.page = "/ (password " + one.token + ")";
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Status open_here(Tunnel& tunnel) {
  sockaddr_in address = loopback(tunnel.port);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const int yes = 1;
  tunnel.listener = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = tunnel.listener.get();
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, name, size) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, name, &size) != 0) {
    return system_error("listen on 127.0.0.1:" + std::to_string(tunnel.port));
  }
  tunnel.port = ntohs(address.sin_port);
  return Done{};
}

int serve(const Home& home, const Exec& request, ExecEnds ends, const CommonOptions& common) {
  auto client = ControllerClient::connect(home);
  if (!client) return print_error(client.error().message, internal_error, common);
  if (!*client) return print_error("no controller is running", internal_error, common);
  return ExecSession(std::move(**client), ends, common).run(request);
}

// In a process of its own.
void serve_apart(const Home& home, Exec request, const Tunnel& tunnel,
                 const CommonOptions& common) {
  const Fd peer(::accept4(tunnel.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const pid_t parent = ::getpid();
  if (!peer || ::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int yes = 1, idle_s = 15;  // a peer that has gone lets the service's silence end
  ::setsockopt(peer.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(peer.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  request.channel->socket = tunnel.target;
  ::_exit(serve(home, request, {.input = peer.get(), .output = peer.get()}, common));
}

// Of a job that has ended; and where the node is this host, as the listener here would be what it
// leads to.
void refuse_useless(const Home& home, const JobId& job, const std::vector<Tunnel>& tunnels) {
  const auto found = job_or_end(home, job.value);
  if (found.row.ended_at) throw VerbEnd(no_such_job, "job " + job.value + " is not running");
  const auto records = or_end(found.store->records_of(job));
  const JobSubmitted* submitted = submission_in(records);
  if (submitted == nullptr || !is_this_host(submitted->target)) return;
  for (const Tunnel& tunnel : tunnels) {
    if (tunnel.port == 0 || std::to_string(tunnel.port) != tunnel.target) continue;
    const std::string instead = "muster forward " + job.value + " 0:" + tunnel.target;
    throw VerbEnd(usage_error, "127.0.0.1:" + tunnel.target + " of this host is that port " +
                                   "already: no forward is needed; or " + instead);
  }
}

// Until the job has ended.
int serve_all(const Home& home, const Exec& request, const std::vector<Tunnel>& tunnels,
              const CommonOptions& common) {
  ::signal(SIGCHLD, SIG_IGN);  // nobody asks how a connection ended
  std::vector<pollfd> wanted;
  for (const Tunnel& tunnel : tunnels) wanted.push_back({tunnel.listener.get(), POLLIN, 0});
  while (true) {
    if (::poll(wanted.data(), wanted.size(), 5000) < 0) continue;
    if (const auto found = open_job(home, request.job.value); found && found->row.ended_at) {
      notice("job " + request.job.value + " has ended, and this forward with it", common);
      return 0;
    }
    for (std::size_t i = 0; i < tunnels.size(); ++i) {
      if (wanted[i].revents != 0) serve_apart(home, request, tunnels[i], common);
    }
  }
}

int serve_stdio(const Home& home, Exec request, const std::vector<std::string>& targets,
                const CommonOptions& common) {
  if (targets.size() != 1) {
    return print_error("--stdio takes one PORT, or one path", usage_error, common);
  }
  request.channel->socket = targets.front();
  if (targets.front() != "ssh") return serve(home, request, {}, common);
  request.channel->ssh = or_end(ssh_keys_of(home, request.job));
  request.channel->socket.clear();
  return serve(home, request, {}, common);
}

int forward(const ForwardOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  std::vector<Tunnel> tunnels;
  for (const std::string& text : options.stdio ? std::vector<std::string>() : options.targets) {
    tunnels.push_back(or_end(read_tunnel(text), usage_error));
  }
  Exec request = request_at(options.place, home);
  or_end(ensure_controller(home, common));
  request.channel = exec_channel();
  if (options.stdio) return serve_stdio(home, request, options.targets, common);
  refuse_useless(home, request.job, tunnels);
  for (Tunnel& tunnel : tunnels) {
    if (!tunnel.page.empty()) look_up(tunnel, home, request);
    or_end(open_here(tunnel), usage_error);
  }
  for (const Tunnel& tunnel : tunnels) {
    write_all(Stream::out, (tunnel.page.empty() ? "127.0.0.1:" : "http://127.0.0.1:") +
                               std::to_string(tunnel.port) + tunnel.page + " -> " + tunnel.target +
                               " on a node of " + request.job.value + "\n");
  }
  return serve_all(home, request, tunnels, common);
}

}  // namespace

int list_services(const NodePlace& place, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const FoundJob found = job_or_end(home, request_at(place, home).job.value);
  Document document = Document::array();
  const auto nodes = std::ranges::count(found.row.nodes, ',') + 1;
  const std::string last = std::to_string(nodes - 1);
  if (place.node.value_or(0) < 0 || place.node.value_or(0) >= nodes) {
    throw VerbEnd(no_such_job, "job " + found.row.name + " has nodes 0 to " + last);
  }
  for (std::int64_t node = 0; node < nodes; ++node) {
    if (node != place.node.value_or(node)) continue;
    for (const ServiceSeen& one : services_on(found, node)) {
      const std::string at = found.row.name + " --node " + std::to_string(node);
      const bool is_open = one.state != "missing" && one.state != "ended";
      const std::string verb = one.type == "ssh" ? "muster ssh " : "muster forward ";
      document.push_back(
          {{"name", one.name},
           {"type", one.type},
           {"node", node},
           {"state", one.state},
           {"open", is_open ? verb + at + (one.type == "ssh" ? "" : " " + one.name) : "-"},
           {"note", one.note}});
    }
  }
  return print_document(document, common);
}

void add_services(CommandLine& line) {
  line.verb<NodePlace>({"services", "List what runs beside the ranks of a job: Jupyter, VS Code"},
                       list_services, [](Arguments& of, NodePlace& place) {
                         of.job(place.job, true);
                         of.option("--node", place.node, "Only of this node of the job, from 0");
                       });
}

void add_forward(CommandLine& line) {
  line.verb<ForwardOptions>(
      {"forward", "Reach a port of a job's node at this machine: muster forward JOB 8888"}, forward,
      [](Arguments& of, ForwardOptions& options) {
        declare_place(of, options.place);
        of.arguments("PORT", options.targets,
                     "[LOCAL:]PORT, [LOCAL:]SERVICE, or [LOCAL:]PATH of a socket in the job's "
                     "directory; LOCAL 0: any");
        of.flag("--stdio", options.stdio, "One connection, to standard input and output");
      });
}

}  // namespace muster
