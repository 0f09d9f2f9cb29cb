#include "launcher/agent/node_use.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/agent/node_check.h"
#include "launcher/os/child.h"
#include "launcher/os/clocks.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// The gate is passive and quick; what takes longer hangs, and that is the finding.
constexpr Milliseconds check_limit{10000};
constexpr const char* remediated = "it is being reset or rebooted";

}  // namespace

NodeUse::NodeUse(const AgentSite& site, ChildTasks& tasks, ExecSessions& execs, Owner owner)
    : site_(site),
      tasks_(tasks),
      execs_(execs),
      owner_(std::move(owner)),
      command_(site.run, execs, ended_benchmarks_),
      gate_(tasks, ended_benchmarks_, {site.run.path, {self_exe()}, site.boot_id}),
      health_(site.io,
              {system_root(site.environment),
               site.run.path + "/health.json",
               {self_exe(), "agent", "read-health"},
               site.boot_id,
               [this] { boost::asio::post(site_.io, [this] { owner_.on_decided(); }); },
               BenchmarkClaim::is_held_here},
              [this](const FaultsTold& told) { site_.line.send(told); }),
      remediation_(
          [this](const RemedyRun& ended) {
            if (!remediation_.is_running()) health_.acquire();
            site_.line.send(ended);
          },
          [this](const RunRemedy& done) {
            gate_.faults_fixed();
            if (done.step == RemedyStep::reset) health_.was_reset(done.device);
          }) {}

// ---- the queue --------------------------------------------------------------------------------

// Checks do not meet what was measured with and killed.
void NodeUse::wait(Request request) {
  queue_.push_back(std::move(request));
  serve_queue();
  if (!queue_.empty()) owner_.on_waiting();
}

void NodeUse::serve_queue() {
  if (queue_.empty() || !ended_benchmarks_.are_gone()) return;
  command_.poll();  // gives its claim back
  gate_.give_back();
  for (std::size_t left = queue_.size(); left > 0 && !queue_.empty(); --left) {
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    std::visit([this](const auto& one) { serve(one); }, request);
  }
}

void NodeUse::poll() {
  command_.poll();
  gate_.poll();
  remediation_.poll();
  if (!remediation_.is_running()) health_.acquire();
  serve_queue();
  note_ranks();
  health_.poll();
}

bool NodeUse::reaped(const DeadChild& child) {
  if (health_.reaped(child.pid, child.wait_status)) return true;
  if (remediation_.reaped(child.pid, child.wait_status)) return true;
  command_.reaped(child.pid);
  return execs_.reaped(child.pid, child.wait_status);
}

std::set<pid_t> NodeUse::sessions() const {
  std::set<pid_t> sessions = command_.sessions();
  if (const pid_t helper = health_.helper()) sessions.insert(helper);
  sessions.merge(ended_benchmarks_.all());
  if (const auto session = gate_.session()) sessions.insert(*session);
  sessions.merge(remediation_.sessions());
  return sessions;
}

// ---- a job comes ------------------------------------------------------------------------------

void NodeUse::handle(const CheckNode& request, std::string_view) {
  const AttemptKey key = key_of(request);
  if (gate_.is_asked(key)) return;  // over a new connection: it is answered when it is measured
  health_.begin_job(request.health);
  end_benchmarks_of_others(request.job);
  checks_.insert(key);
  wait(Check{request, boot_ms()});
}

// One job has a node at a time: attempts of others are over, and nobody waits for their gates.
void NodeUse::end_benchmarks_of_others(const JobId& job) {
  health_.note_benchmark();
  std::erase_if(checks_, [&](const AttemptKey& key) { return key.job != job; });
  gate_.job_comes(job);
  command_.job_comes();
  for (const Request& waiting : queue_) {
    const auto* measure = std::get_if<MeasureNode>(&waiting);
    if (measure != nullptr) execs_.refuse(measure->id, "job " + job.value + " began there");
  }
  drop_benchmarks();
}

void NodeUse::serve(const Check& check) {
  const CheckNode& request = check.request;
  if (remediation_.is_running()) {
    return check_files(check, {{"health", "what reset or rebooted it is not gone yet"}});
  }
  if (!request.with_health) return check_files(check, {});
  health_.ask(request.skip, [this, check](std::vector<CheckFailure> failures) {
    check_files(check, std::move(failures));
  });
}

void NodeUse::check_files(Check check, std::vector<CheckFailure> failures) {
  CheckNode& request = check.request;
  // The controller's clock went on meanwhile.
  if (request.now_ms != 0) request.now_ms += boot_ms() - check.asked_ms;
  const AttemptLayout layout = layout_of(site_.run, key_of(request));
  tasks_.run(
      [request, failures = std::move(failures),
       places = save_places(request.checkpoint_path, {layout.checkpoints, layout.outputs},
                            request.saves),
       home = site_.run.home,
       path = base_environment(site_.environment).at("PATH")](const ChildTasks::Tell&) {
        CheckDone done = check_node(request, home, path, places);
        done.failures.insert(done.failures.end(), failures.begin(), failures.end());
        return encode(FromAgent{std::move(done)});
      },
      check_limit,
      [this, check](Result<std::string> frame) {
        if (frame) return checked(check, std::move(*frame));
        end_check(key_of(check.request));
        CheckDone hung{check.request.job, check.request.attempt, {}, {}};
        hung.failures.push_back(
            {"host.mount_stall",
             "the checks gave no answer: " + frame.error().message + "; a file system may hang"});
        site_.line.send(hung);
      });
}

// A node that is fit so far is measured, where that is asked for, before that is told.
void NodeUse::checked(const Check& check, std::string frame) {
  const CheckNode& request = check.request;
  const auto& profile = health_.profile();
  const AttemptKey key = key_of(request);
  const bool is_awaited = end_check(key);  // of one that is over nobody would end the measurement
  const bool is_wanted = is_awaited && request.measures && profile;
  auto message = is_wanted ? message_of(frame) : Result<FromAgent>(Error{});
  auto* done = message ? std::get_if<CheckDone>(&*message) : nullptr;
  if (!done || !done->failures.empty()) return site_.line.send_encoded(std::move(frame));
  command_.job_comes();  // who began to measure meanwhile
  GateBenchmark::Wanted wanted{*profile, {request.skip, request.health.only}, std::nullopt};
  if (request.failed_ago) {
    wanted.since = std::chrono::milliseconds(check.asked_ms) - *request.failed_ago;
  }
  gate_.ask(
      key, std::move(wanted),
      [this, done = std::move(*done)](std::vector<CheckFailure> failures) mutable {
        done.failures = std::move(failures);
        wait(std::move(done));
      },
      owner_.runs_ranks() ? "ranks run there" : "");
}

void NodeUse::serve(const CheckDone& done) {
  site_.line.send(done);
}

// True: its attempt is awaited yet.
bool NodeUse::end_check(const AttemptKey& attempt) {
  const auto found = checks_.find(attempt);
  if (found == checks_.end()) return false;
  checks_.erase(found);
  return true;
}

void NodeUse::attempt_over(const AttemptKey& attempt) {
  checks_.erase(attempt);
  gate_.leave(attempt);
}

void NodeUse::ranks_begin(const JobHealth& job) {
  health_.begin_job(job);
  health_.set_idle(false);
  command_.end_wide();
  gate_.ranks_begin();
}

// ---- what a person asks for -------------------------------------------------------------------

void NodeUse::handle(const LookAtHealth& request, std::string_view) {
  if (remedy_is_due()) return execs_.refuse(request.id, remediated);
  command_.start(request, owner_.runs_ranks(), site_.environment);
}

// Of a node that no job has: whoever waited for its gate has given the node back.
void NodeUse::end_gates() {
  checks_.clear();
  gate_.end();
}

void NodeUse::handle(const MeasureNode& request, std::string_view) {
  end_gates();
  drop_benchmarks(request.id);  // asked for again
  wait(request);
}

void NodeUse::serve(const MeasureNode& request) {
  if (remedy_is_due()) return execs_.refuse(request.id, remediated);
  command_.measure(request, owner_.runs_ranks(), site_.environment);
  health_.note_benchmark();
}

void NodeUse::drop_benchmarks(const std::string& id) {
  std::erase_if(queue_, [&id](const Request& one) {
    const auto* measure = std::get_if<MeasureNode>(&one);
    return measure != nullptr && (id.empty() || measure->id == id);
  });
}

void NodeUse::stop(const std::string& id) {
  drop_benchmarks(id);
  command_.stop(id);
}

void NodeUse::line_lost() {
  drop_benchmarks();
  command_.end_wide();
}

void NodeUse::end() {
  line_lost();
  end_gates();
}

// ---- resets and reboots -----------------------------------------------------------------------

// Whoever asks believes the node to be idle, by what agents said before.
void NodeUse::handle(const RunRemedy& request, std::string_view) {
  if (!remediation_.is_news(request)) return remediation_.ask(request, std::nullopt, {});
  if (!blocking_reason(request)) {  // what measures would measure the reset, and be in its way
    command_.end_wide();
    end_gates();
  }
  wait(request);
}

void NodeUse::serve(const RunRemedy& request) {
  Environment environment = site_.environment;
  environment[token_name] = "remedy";
  const auto refusal = blocking_reason(request);
  if (!refusal) health_.release();
  remediation_.ask(request, refusal, environment);
  owner_.on_waiting();
}

bool NodeUse::remedy_is_due() const {
  return remediation_.is_running() || std::ranges::any_of(queue_, [](const Request& one) {
           return std::holds_alternative<RunRemedy>(one);
         });
}

// A reset that hangs in the driver is what a reboot is for.
std::optional<std::string> NodeUse::blocking_reason(const RunRemedy& request) const {
  const std::string& node = site_.run.node.value;
  if (owner_.is_leaving()) return "the agent of node " + node + " is leaving";
  if (owner_.runs_ranks()) return "ranks run on node " + node;
  const bool is_reset = request.step == RemedyStep::reset;
  if (remediation_.is_under_way() || (is_reset && remediation_.is_running())) {
    return "an earlier command that resets or reboots node " + node + " goes on";
  }
  return std::nullopt;
}

// ---- what is believed of it -------------------------------------------------------------------

void NodeUse::follow(const std::optional<HealthProfile>& profile) {
  health_.follow(profile);
  if (const auto faults = health_.state()) site_.line.send(*faults);
}

void NodeUse::handle(const FaultsFixed& request, std::string_view) {
  health_.faults_fixed(request.ids);
  gate_.faults_fixed();
}

}  // namespace muster
