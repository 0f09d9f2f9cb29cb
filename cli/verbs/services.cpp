// `muster services JOB`: what runs beside the ranks of a job, and how it is reached. The nodes' own
// files tell, read by `muster exec`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/client/start.h"
#include "cli/terminal/document.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/child.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr Milliseconds answer_limit{30000};

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

}  // namespace

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
                               answer_limit);
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
                         of.argument("JOB", place.job, "Job name, or the beginning of one");
                         of.offer("JOB", {.words = {}, .unfinished_jobs = true});
                         of.option("--node", place.node, "Only of this node of the job, from 0");
                       });
}

}  // namespace muster
