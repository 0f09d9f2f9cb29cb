#include "launcher/agent/attempt/remote_door.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "launcher/agent/attempt/attempt.h"
#include "launcher/os/private_directory.h"
#include "launcher/os/read_file.h"
#include "runtime/protocol/number_text.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr const char* code_mark =
    "\x01"
    "code"
    "\x02";
// As Horovod asks who is there: a line `HOST:SLOTS` for each.
constexpr const char* discovery = "#!/bin/sh\nexec sed 's/ slots=/:/' \"$MUSTER_HOSTFILE\"\n";
constexpr std::uint64_t numbers_limit = 1'000'000'000;
// A launcher has a few on each node at a time; each holds three descriptors of the agent.
constexpr std::ptrdiff_t live_commands_limit = 64;
// An ended one is remembered: its end may be asked for again, but not that of the oldest.
constexpr std::size_t commands_limit = 4096;

}  // namespace

Status prepare_door(const AttemptLayout& layout, const RemoteDoor& door,
                    const std::string& program) {
  const std::string directory = door_directory(layout);
  if (const auto made = open_private_directory(directory); !made) return made.error();
  for (const char* name : {"/ssh", "/pdsh", "/muster"}) {
    const std::string link = directory + name;
    ::unlink(link.c_str());
    if (::symlink(program.c_str(), link.c_str()) != 0) return system_error("create " + link);
  }
  for (const auto& [path, text, mode] :
       {std::tuple(hostfile_path(layout), hostfile_text(door), mode_t{0600}),
        std::tuple(discovery_path(layout), std::string(discovery), mode_t{0700})}) {
    if (!replace_file(path, text, mode, Durable::in_cache)) return system_error("write " + path);
  }
  return Done{};
}

std::string hostfile_text(const RemoteDoor& door) {
  std::string text;
  for (std::size_t at = 0; at < door.hosts.size(); ++at) {
    const int slots = at < door.slots.size() ? door.slots[at] : 1;
    text += door.hosts[at] + " slots=" + std::to_string(slots) + "\n";
  }
  return text;
}

std::optional<std::size_t> place_in(const RemoteDoor& door, const std::string& host) {
  for (const auto* names : {&door.hosts, &door.addresses}) {
    const auto found = std::ranges::find(*names, host);
    if (found != names->end()) return found - names->begin();
  }
  return std::nullopt;
}

std::optional<std::int64_t> ticket_number(const std::string& ticket) {
  const std::string_view digits = std::string_view(ticket).substr(ticket.rfind('.') + 1);
  const auto number = read_whole_number(digits);
  if (!number || *number < 1 || *number > numbers_limit) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string with_code_marked(std::string command, const std::string& code) {
  return replaced(std::move(command), code, code_mark);
}

std::string with_code_at(std::string command, const std::string& code) {
  return replaced(std::move(command), code_mark, code);
}

Result<RemoteStartAsked> LocalAttempt::through_door(RemoteStartAsked asked) const {
  const auto place = place_in(*start_->door, asked.host);
  if (!place) {
    return Error{asked.host + " is not a node of this attempt of job " + key_.job.value};
  }
  asked.host = start_->door->hosts[*place];
  asked.command = with_code_marked(std::move(asked.command), layout_.code);
  return asked;
}

void LocalAttempt::run_command(const RemoteStart& asked) {
  const auto refuse = [&](const std::string& why) {
    site_.line.send(RemoteStartEnded{asked.ticket, ExitStatus{255, 0}, why});
  };
  if (const auto known = commands_.find(asked.ticket); known != commands_.end()) {
    output_.rewind(known->second.output);
    if (known->second.ended) site_.line.send(*known->second.ended);
    return;
  }
  const std::string here = " on node " + site_.run.node.value;
  if (!stop_.is_idle()) return refuse("the attempt is being stopped" + here);
  const auto number = ticket_number(asked.ticket);
  if (!number || asked.command.find('\0') != std::string::npos) return refuse("malformed command");
  if (commands_.size() >= commands_limit) {
    const auto age = [](const auto& item) {
      return item.second.ended ? ticket_number(item.first).value_or(0) : INT64_MAX;
    };
    const auto oldest = std::ranges::min_element(commands_, {}, age);
    if (oldest->second.ended) commands_.erase(oldest);
  }
  const auto live = std::ranges::count_if(
      commands_, [](const auto& item) { return !item.second.status.has_value(); });
  if (live >= live_commands_limit || commands_.size() >= commands_limit) {
    return refuse("too many commands run" + here);
  }
  const RankId output = output_of_command(*number);
  const auto pid = begin_command(asked, output);
  if (!pid) return refuse(pid.error().message);
  commands_[asked.ticket] = {output, *pid};
}

Result<pid_t> LocalAttempt::begin_command(const RemoteStart& asked, RankId output) {
  SpawnRequest request;
  request.environment = mpi_base_environment();
  if (!start_->mpi && !start_->ranks.empty()) {
    request.environment = *environment_of(start_->ranks.front().rank);
  }
  auto argv = words_of_command(with_code_at(asked.command, layout_.code), request.environment);
  if (!argv) return argv.error();
  const std::string why = lasting_hindrance(*argv, request.environment);
  if (!why.empty()) return Error{why};
  request.argv = std::move(*argv);
  const auto spool = output_.open(output);
  if (!spool) return spool.error();
  const std::string path = (*spool)->pipe()->path();
  const Fd pipe(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!pipe) return system_error("open " + path);
  return begin(std::move(request), pipe);
}

bool LocalAttempt::command_reaped(pid_t pid, ExitStatus status) {
  for (auto& [ticket, command] : commands_) {
    if (command.pid != pid || command.status) continue;
    command.status = status;
    const Spool* spool = output_.find(command.output);
    command.told_at = spool != nullptr ? spool->end() : 0;
    report_commands();
    return true;
  }
  return false;
}

void LocalAttempt::report_commands() {
  for (auto& [ticket, command] : commands_) {
    if (!command.status || command.ended) continue;
    if (!output_.move_to(command.output, command.told_at)) continue;
    output_.pump(site_.line);
    const Spool* spool = output_.find(command.output);
    if (spool != nullptr && spool->acked() < command.told_at) continue;
    command.ended = RemoteStartEnded{ticket, *command.status, {}};
    site_.line.send(*command.ended);
    output_.discard(command.output);
  }
}

}  // namespace muster
