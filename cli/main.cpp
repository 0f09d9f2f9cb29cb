// Runs the verb that the command line names (cli/verbs/verbs.def is the table of contents), or one
// of the processes that muster itself starts.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/client/start.h"
#include "cli/data/stores.h"
#include "cli/health/cluster/pairs.h"
#include "cli/image/image.h"
#include "cli/image/needs.h"
#include "cli/job/cleaning.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "health/benchmark/command.h"
#include "health/read/node_reader.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/controller/main.h"
#include "launcher/controller/store/home.h"
#include "launcher/controller/supervisor.h"
#include "launcher/os/child.h"
#include "launcher/os/private_directory.h"
#include "launcher/relay/relay_server.h"
#include "scheduler/model/exit_code.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr int health_socket = 3;

int wrong_use(const std::string& sentence) {
  std::fprintf(stderr, "muster: %s\n", sentence.c_str());
  return usage_error;
}

// `--home H --controller C --node N` from `words[1]` on; false: something else.
bool read_agent_options(const std::vector<std::string>& words, AgentOptions& options) {
  if (words.size() % 2 == 0) return false;
  const std::map<std::string, std::string*> places{
      {"--home", &options.home}, {"--controller", &options.controller}, {"--node", &options.node}};
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    const auto place = places.find(words[i]);
    if (place == places.end()) return false;
    *place->second = words[i + 1];
  }
  return !options.controller.empty() && !options.node.empty();
}

constexpr Milliseconds stop_answer_limit{5000};

struct Asked {
  bool was_there = false;
  int live_jobs = 0;
};

// A busy one is ended by its supervisor.
Result<Asked> ask_to_end(const Home& home) {
  auto client = ControllerClient::connect(home);
  if (!client) return client.error();
  if (!*client) return Asked{};
  Asked asked{true, 0};
  const auto answer = ask(**client, AskVersion{}, stop_answer_limit);
  if (answer && std::holds_alternative<VersionAnswer>(*answer)) {
    asked.live_jobs = std::get<VersionAnswer>(*answer).live_jobs;
  }
  auto again = ControllerClient::connect(home);
  if (again && *again) (void)ask(**again, Shutdown{asked.live_jobs == 0}, stop_answer_limit);
  return asked;
}

// The controller and its supervisor end in order. Ranks go on until their leases end, or another
// controller takes them over.
int stop_controller(const Home& home) {
  const CommonOptions common;
  or_end(check_home(home));
  const auto asked = ask_to_end(home);
  const auto ended = stop_supervised(home);
  if (!asked || !ended) {
    const Error& why = asked ? ended.error() : asked.error();
    throw VerbEnd(internal_error, "cannot stop the controller: " + why.message);
  }
  const bool was_there = asked->was_there || *ended;
  notice(was_there ? "the controller is stopped" : "no controller was running", common);
  if (asked->live_jobs == 0) return 0;
  notice(std::to_string(asked->live_jobs) +
             " unfinished job(s) have no controller: their ranks end with their leases, unless "
             "one is started before, as `muster status` does",
         common);
  return 0;
}

struct ControllerVerb {
  bool stop = false;
  bool is_detached = false;
  std::optional<Milliseconds> idle_limit;
  std::optional<std::int64_t> supervisor;  // a descriptor of its own
};

int run_controller(const ControllerVerb& verb, const CommonOptions&) {
  ControllerOptions options;
  options.home = Home::from_environment();
  options.binary = self_exe();
  options.build_id = own_build_id();
  if (verb.stop) return stop_controller(options.home);
  if (verb.supervisor) {
    if (*verb.supervisor <= 2 || *verb.supervisor > std::numeric_limits<int>::max()) {
      return wrong_use("--supervised is for muster itself");
    }
    options.supervisor = static_cast<int>(*verb.supervisor);
  }
  if (verb.idle_limit) {
    options.idle_limit_s = static_cast<int>(verb.idle_limit->count() / 1000);
  }
  const auto keep = user_retention();
  if (keep) options.retention = *keep;  // else nobody knows what is meant: nothing is removed
  return verb.is_detached ? supervisor_main(options) : controller_main(options);
}

// The controller's child at the end of an attempt. What went wrong goes on "the ranks succeeded,
// but".
int deliver_outputs(const Home& home, const JobId& job, bool has_finished,
                    std::span<const std::string> streamed) {
  const Status same = has_finished ? check_streamed(home, job, streamed) : Status(Done{});
  const Status done = finish_outputs(home, job, has_finished && same);
  if (done && same) return 0;
  write_all(Stream::err,
            done ? same.error().message
                 : "outputs were not copied to their store: " + done.error().message +
                       "; nothing is lost: `muster resume " + job.value + " --upload` copies them");
  return plain_failure;
}

// What another process is told.
int give_answer(const Result<std::string>& answer) {
  write_all(answer ? Stream::out : Stream::err, answer ? *answer : answer.error().message);
  return answer ? 0 : plain_failure;
}

// `muster agent …`: processes that muster starts itself. Their arguments come from muster, so they
// are read without the grammar for people.
int agent_process(const std::vector<std::string>& words) {
  const std::string verb = words.empty() ? "" : words.front();
  if (verb == "mpi-start") return agent_mpi_start({words.begin() + 1, words.end()});
  if (verb == "pkill") return agent_pkill({words.begin() + 1, words.end()});
  if (verb == "mpi-run") return agent_mpi_run({words.begin() + 1, words.end()});
  if (verb == "service") return agent_service({words.begin() + 1, words.end()});
  if (verb == "mpi-rank") return agent_mpi_rank();
  if (verb == "upload" && words.size() >= 4) {
    return deliver_outputs(Home{words[1]}, JobId{words[2]}, words[3] == "finished",
                           std::span(words).subspan(4));
  }
  if (verb == "fetch-image" && words.size() == 7) return give_answer(fetch_for_nodes(words));
  if (verb == "read-health") return serve_node_reads(health_socket);
  if (verb == "probe" && words.size() == 2 && words[1] == ready_probe) return report_readiness();
  if (verb == "probe" && words.size() == 4 && words[1] == "holdings") {
    return give_answer(holdings_here(words[3], words[2]));
  }
  if (verb == "probe") return run_probe({words.begin() + 1, words.end()});
  AgentOptions options;
  options.build_id = own_build_id();
  const bool known = verb == "serve" || verb == "attach" || verb == "relay";
  if (!known || !read_agent_options(words, options)) {
    return wrong_use(
        "use: muster agent serve|attach|relay --home DIR --controller ID --node NAME, "
        "or mpi-start, mpi-rank, read-health, probe; muster starts agents itself");
  }
  if (verb == "relay") return agent_relay();
  return verb == "serve" ? agent_serve(options) : agent_attach(options);
}

void add_controller(CommandLine& line) {
  line.verb<ControllerVerb>(
      {"controller", "Run or stop the controller, the process that owns the queue and the jobs"},
      run_controller, [](Arguments& of, ControllerVerb& options) {
        of.flag("--stop", options.stop, "Stop the controller and its supervisor");
        of.flag("--detached", options.is_detached, "Run in the background, with a supervisor");
        of.option("--idle-limit", options.idle_limit,
                  "End after this time without work (default 10m; 0: never)");
        of.option("--supervised", options.supervisor, "For muster itself");
      });
}

// Old names of what another program does: `muster sandbox up`, `muster drill FILE`.
int run_sandbox_program(std::vector<std::string> words) {
  const auto path = std::filesystem::path(self_exe()).parent_path() / "muster-sandbox";
  const auto not_started = [](const std::string& why) {
    return print_error("cannot start muster-sandbox: " + why, plain_failure, {});
  };
  // Often run as root, perhaps from a directory where others may put files.
  struct stat own {};
  if (::stat("/proc/self/exe", &own) != 0)
    return not_started(system_error("look at muster").message);
  const auto program = open_program(path, own.st_uid);
  if (!program) {
    const bool is_there = ::access(path.c_str(), F_OK) == 0;
    const std::string cure = is_there ? "" : "; install muster-sandbox beside muster";
    return not_started(program.error().message + cure);
  }
  words.insert(words.begin(), path);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execveat(program->get(), "", arguments.data(), environ, AT_EMPTY_PATH);
  return not_started(path.string() + ": " + std::strerror(errno));
}

// Behind the options that all verbs share, which may come before it.
std::size_t place_of_verb(const std::vector<std::string>& words) {
  static constexpr std::array valued{"-o", "--output", "--query", "--color", "--cluster"};
  std::size_t place = 0;
  while (place < words.size() && words[place].starts_with('-')) {
    place += std::ranges::find(valued, words[place]) == valued.end() ? 1 : 2;
  }
  return std::min(place, words.size());
}

int run_verb(const std::vector<std::string>& words) {
  CommandLine line;
  add_verbs(line);
  add_controller(line);
  const ParsedLine parsed = line.parse(words);
  if (!parsed.action) {
    write_all(parsed.exit_code == 0 ? Stream::out : Stream::err, parsed.text);
    return parsed.exit_code;
  }
  for (const std::string& option : parsed.ignored) {
    notice("note: " + option + " has no effect", line.common());
  }
  return parsed.action(line.common());
}

int start(std::vector<std::string> words) {
  const std::string first = words.empty() ? "" : words.front();
  if (first == "agent") return agent_process({words.begin() + 1, words.end()});
  const auto verb = words.begin() + place_of_verb(words);
  const bool is_sandbox = verb != words.end() && *verb == "sandbox";
  if (is_sandbox) words.erase(verb);
  if (is_sandbox || (verb != words.end() && *verb == "drill")) {
    return run_sandbox_program(std::move(words));
  }
  if (first == "--version") words.front() = "version";
  return run_verb(words);
}

}  // namespace

}  // namespace muster

int main(int count, char** words) {
  muster::hold_standard_descriptors();
  try {
    const std::vector<std::string> given(words + 1, words + count);
    const std::string shell = muster::remote_shell_called(words[0]);
    return shell.empty() ? muster::start(given) : muster::remote_shell(shell, given);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "muster: internal error: %s\n", bug.what());
    return static_cast<int>(muster::ExitCode::internal);
  }
}
