// Agent's part that answers the controller, one function per message.
#include <filesystem>

#include "launcher/agent/agent.h"
#include "launcher/agent/node_check.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// The gate is passive and quick; what takes longer hangs, and that is the finding.
constexpr Milliseconds check_limit{10000};
// A job's directory of a million files on a slow disk.
constexpr Milliseconds removal_limit{30 * 60 * 1000};

std::int64_t wall_clock_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Milliseconds>(now).count();
}

}  // namespace

void Agent::on(const Ping& ping, std::string_view) {
  line_.send(Pong{ping.sent_ms, wall_clock_ms()});
}

void Agent::on(const CheckNode& request, std::string_view) {
  const AttemptLayout layout = layout_of(run_, {request.job, request.attempt});
  const std::string checkpoints =
      request.checkpoint_path.empty() ? layout.checkpoints : request.checkpoint_path;
  tasks_.run(
      [request, checkpoints, home = run_.home,
       path = base_environment(site_.environment).at("PATH")] {
        return encode(FromAgent{check_node(request, home, path, checkpoints)});
      },
      check_limit,
      [this, request](std::optional<std::string> frame) {
        if (frame) return line_.send_encoded(std::move(*frame));
        CheckDone hung{request.job, request.attempt, {}, {}};
        hung.failures.push_back(
            {"host.mount_stall", "the checks did not end within 10 s: a file system hangs"});
        line_.send(hung);
      });
}

void Agent::on(const StageTrees& request, std::string_view) {
  LocalAttempt* known = find(request.job, request.attempt);
  if (known != nullptr && known->start_request()) {
    return line_.send(StageDone{request.job, request.attempt, {}});
  }
  staging_.stage(request);
}

void Agent::on(const BlobData& piece, std::string_view payload) {
  staging_.receive(piece, payload);
}

void Agent::on(const ReservePorts& request, std::string_view) {
  PortsDone done{request.job, request.attempt, {}, {}};
  LocalAttempt& holder = attempt({request.job, request.attempt});
  if (static_cast<int>(holder.ports().size()) != request.count) {
    // Neighbouring agents begin their search at different places.
    const auto first =
        static_cast<unsigned>(std::hash<std::string>{}(token_of(run_, holder.key()) + run_.path));
    auto held = reserve_ports(request.count, request.port_min, request.port_max, first);
    if (held) {
      holder.hold_ports(std::move(*held));
    } else {
      done.error = held.error().message;
    }
  }
  if (done.error.empty()) done.ports = holder.ports();
  line_.send(done);
}

void Agent::on(const StartRanks& request, std::string_view) {
  LocalAttempt& started = attempt({request.job, request.attempt});
  started.start(request);
  files_.add(started.layout().spool);
  move_output();
}

void Agent::on(const StopAttempt& request, std::string_view) {
  attempt({request.job, request.attempt}).stop(request);
  step_attempts();
  schedule_tick();
}

void Agent::on(const CollectOutputs& request, std::string_view) {
  const AttemptKey key{request.job, request.attempt};
  collection_.begin(key, layout_of(run_, key));
}

void Agent::on(const OutputAck& ack, std::string_view) {
  LocalAttempt* known = find(ack.job, ack.attempt);
  if (known == nullptr) return;
  known->output().acknowledge(ack.rank, ack.offset);
  known->output().pump(line_);
  if (known->owes_clean() && line_.is_open()) tell_clean(*known);
}

void Agent::on(const ForgetAttempt& request, std::string_view) {
  const AttemptKey key{request.job, request.attempt};
  if (LocalAttempt* known = find(request.job, request.attempt)) known->kill_now();
  auto& job_too = forget_when_clean_[key];
  job_too = job_too || request.job_too;
  step_attempts();
  schedule_tick();
}

// Renamed at once, so that the name is free, and removed by a child.
void Agent::remove_files(const AttemptLayout& layout, bool job_too) {
  std::vector<std::string> trash;
  const auto discard = [&](const std::string& path) {
    std::string name = run_.path + "/" + trash_prefix + std::to_string(next_trash_++);
    std::error_code failed;
    std::filesystem::rename(path, name, failed);
    trash.push_back(failed ? path : std::move(name));
  };
  discard(layout.spool);
  std::error_code not_empty;  // other attempts of the job are there
  std::filesystem::remove(std::filesystem::path(layout.spool).parent_path(), not_empty);
  discard(job_too ? layout.job : layout.code);
  tasks_.run(
      [trash] {
        std::error_code ignored;
        for (const std::string& path : trash) std::filesystem::remove_all(path, ignored);
        return std::string();
      },
      removal_limit, [](std::optional<std::string>) {});
}

void Agent::on(const ExecStart& request, std::string_view) {
  LocalAttempt* known = find(request.job, request.attempt);
  if (known == nullptr || known->is_stopping() || known->is_clean()) {
    return execs_.refuse(request.id, "the attempt does not run on this node");
  }
  auto environment = known->environment_of(request.rank);
  if (!environment) return execs_.refuse(request.id, environment.error().message);
  auto pid = execs_.start(request, *environment, known->layout().code);
  if (!pid) return execs_.refuse(request.id, pid.error().message);
  known->add_session(*pid);
}

void Agent::on(const ExecInput& input, std::string_view payload) {
  execs_.input(input.id, payload);
}

void Agent::on(const ExecStop& request, std::string_view) {
  execs_.stop(request.id);
}

void Agent::on(const RemoteStart& request, std::string_view) {
  attempt({request.job, request.attempt}).remote_start(request);
}

void Agent::on(const RemoteStartEnded& ended, std::string_view) {
  const auto asker = remote_askers_.find(ended.ticket);
  if (asker == remote_askers_.end()) return;
  const auto peer = asker->second;
  remote_askers_.erase(asker);
  peer->set_handlers({});
  peer->write(encode(ToAgent{ended}));
  peer->close_when_written();
}

void Agent::on(const Retire&, std::string_view) {
  if (attempts_.empty()) leave("was retired");
}

}  // namespace muster
