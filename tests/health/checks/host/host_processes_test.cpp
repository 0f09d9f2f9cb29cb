#include "health/checks/host/processes.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;

namespace {

const CheckSpec& dstate() {
  return *find_check("host.dstate");
}
const CheckSpec& leftovers() {
  return *find_check("host.leftovers");
}

ProcessState in_state(char state, std::uint64_t cpu_ticks = 5,
                      std::optional<std::uint64_t> sleeps = {}) {
  return {"python", state, 100, cpu_ticks, sleeps};
}

std::vector<ProcessStates> samples_of(std::initializer_list<ProcessState> of_one_process) {
  std::vector<ProcessStates> samples;
  for (const ProcessState& state : of_one_process)
    samples.push_back({{1, in_state('S')}, {41, state}});
  return samples;
}

std::string status_text(const std::string& name, int sleeps) {
  return "Name:\t" + name + "\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t" +
         std::to_string(sleeps) + "\nnonvoluntary_ctxt_switches:\t3\n";
}

}  // namespace

// The first line is from a Debian 12 host.
TEST_CASE("a process's state is read, whatever its name") {
  const auto shell = parse_process_stat(
      "534 (checkpoint_tort) T 1 534 534 0 -1 4194304 1105 0 0 0 2011 403 0 0 30 10 1 0 283120 "
      "6905856 1204 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0");
  REQUIRE(shell);
  CHECK(shell->name == "checkpoint_tort");
  CHECK(shell->state == 'T');
  CHECK(shell->cpu_ticks == 2414);
  CHECK(shell->start_ticks == 283120);
  const auto odd = parse_process_stat(stat_text(7, "a) D (b) ", 'S', 3));
  REQUIRE(odd);
  CHECK(odd->name == "a) D (b) ");
  CHECK(odd->state == 'S');
  const std::string whole = stat_text(7, "x", 'D', 3);
  for (std::size_t size = 0; size < 40; ++size)
    CHECK_FALSE(parse_process_stat(whole.substr(0, size)));
  CHECK_FALSE(parse_process_stat(")("));
  CHECK(parse_sleeps(status_text("voluntary_ctxt_switches:\t9", 12)) == 12);
  CHECK_FALSE(parse_sleeps("Name:\tx\nvoluntary_ctxt_switches:"));
  CHECK_FALSE(parse_sleeps("\nvoluntary_ctxt_switches:\tx\n"));
}

TEST_CASE("a process that never wakes in five samples is stuck") {
  const auto d = [](std::uint64_t cpu) { return in_state('D', cpu); };
  const auto stuck = samples_of({d(5), d(5), d(5), d(5), d(5)});
  CHECK(stuck_processes(stuck) == std::vector<StuckProcess>{{41, "python"}});
  const HealthFinding finding = judge_stuck(dstate(), stuck);
  CHECK(finding.status == CheckStatus::fail);
  CHECK(finding.evidence.at(0) == "process 41 python");
  CHECK(text_of(finding.severity) == "drain>reboot");
}

TEST_CASE("a process that gets on is not stuck, though it was found asleep each time") {
  const auto d = [](std::uint64_t cpu) { return in_state('D', cpu); };
  const auto with_sleeps = [](std::uint64_t cpu, std::uint64_t sleeps) {
    return in_state('D', cpu, sleeps);
  };
  CHECK(judge_stuck(dstate(), samples_of({d(5), d(5), in_state('R'), d(5), d(5)})).status ==
        CheckStatus::pass);
  CHECK(judge_stuck(dstate(), samples_of({d(5), d(5), d(6), d(6), d(6)})).status ==
        CheckStatus::pass);
  ProcessState reused = d(5);
  reused.start_ticks = 900;
  CHECK(judge_stuck(dstate(), samples_of({d(5), d(5), reused, reused, reused})).status ==
        CheckStatus::pass);
  CHECK(judge_stuck(dstate(), samples_of({d(5), with_sleeps(5, 7), with_sleeps(5, 8),
                                          with_sleeps(5, 9), with_sleeps(5, 9)}))
            .status == CheckStatus::pass);
  // Its other threads run; its first one has not woken up.
  CHECK(judge_stuck(dstate(), samples_of({d(5), with_sleeps(50, 7), with_sleeps(60, 7),
                                          with_sleeps(70, 7), with_sleeps(80, 7)}))
            .status == CheckStatus::fail);
}

TEST_CASE("too few samples are unknown, unless nothing sleeps") {
  CHECK(judge_stuck(dstate(), {}).status == CheckStatus::unknown);
  CHECK(judge_stuck(dstate(), std::vector<ProcessStates>(5)).status == CheckStatus::unknown);
  CHECK(judge_stuck(dstate(), samples_of({in_state('D'), in_state('D')})).status ==
        CheckStatus::unknown);
  CHECK(judge_stuck(dstate(), samples_of({in_state('S')})).status == CheckStatus::pass);
  auto gone = samples_of({in_state('D'), in_state('D')});
  gone.resize(5);
  CHECK(judge_stuck(dstate(), gone).status == CheckStatus::pass);
}

TEST_CASE("states of processes come from their files") {
  SourceFiles files;
  files.add("/proc/41/stat", stat_text(41, "python", 'D', 5));
  files.add("/proc/41/status", status_text("python", 77));
  files.add("/proc/42/stat", "half");
  files.add("/proc/43/stat", FileReading{{}, "No such process", true});
  files.add("/proc/self/stat", stat_text(44, "me", 'R', 5));
  files.add("/proc/meminfo", "");
  const ProcessStates states = process_states_of(files);
  REQUIRE(states.size() == 1);
  CHECK(states.at(41).sleeps == 77);
  CHECK(process_sources_after(states) ==
        std::vector<std::string>{"/proc/41/stat", "/proc/41/status"});
  CHECK(process_sources_after({{1, in_state('S')}}).empty());
}

TEST_CASE("processes of an ended job are left over, by its token or its user") {
  const std::vector<ProcessSeen> processes{{10, 1000, 'S', "python", "job7.1"},
                                           {11, 1000, 'Z', "python", "job7.1"},
                                           {12, 1001, 'D', "nccl", ""},
                                           {13, 1002, 'S', "bash", "job8.1"},
                                           {14, 0, 'S', "sshd", ""}};
  const EndedJob by_token{"job7.1", {}};
  const EndedJob by_user{"", 1001};
  const auto pids = [&](std::vector<EndedJob> ended) {
    std::vector<int> found;
    for (const ProcessSeen& process : leftovers_of(processes, ended)) found.push_back(process.pid);
    return found;
  };
  CHECK(pids({by_token}) == std::vector{10});
  CHECK(pids({by_user}) == std::vector{12});
  CHECK(pids({by_token, by_user}) == std::vector{10, 12});
  CHECK(pids({{"", {}}}).empty());
  CHECK(judge_leftovers(leftovers(), processes, std::vector{by_token})->status ==
        CheckStatus::fail);
  CHECK(judge_leftovers(leftovers(), processes, std::vector{EndedJob{"job9.1", {}}})->status ==
        CheckStatus::pass);
  CHECK(judge_leftovers(leftovers(), {}, std::vector{by_token})->status == CheckStatus::unknown);
  CHECK_FALSE(judge_leftovers(leftovers(), processes, {}));
}

TEST_CASE("a finding names some of many processes") {
  std::vector<ProcessSeen> processes;
  for (int pid = 1; pid <= 500; ++pid) processes.push_back({pid, 1, 'S', "x", "t"});
  const auto finding = judge_leftovers(leftovers(), processes, std::vector{EndedJob{"t", {}}});
  CHECK(finding->value == "500");
  CHECK(finding->evidence.size() == 16);
}

TEST_CASE("a process's text of any bytes is read or refused") {
  std::mt19937 random(13);
  const std::string good = stat_text(41, "a b", 'D', 12345);
  for (int round = 0; round < 5000; ++round) {
    std::string text = good.substr(0, random() % (good.size() + 1));
    for (std::uint32_t times = random() % 6; times > 0 && !text.empty(); --times)
      text[random() % text.size()] = "() 9D\n\xff-"[random() % 8];
    parse_process_stat(text);
    parse_sleeps(text);
  }
}

TEST_CASE("the services of the profile run, each a program of its name") {
  HealthProfile profile;
  SourceFiles files;
  const auto add = [&](int pid, const std::string& name, char state) {
    files.add("/proc/" + std::to_string(pid) + "/stat", stat_text(pid, name, state, 5));
  };
  CHECK(judged("host.services", files, profile).empty());
  CHECK(std::ranges::count(host_sources(profile), "/proc/[0-9]*/stat") == 0);
  profile.host.services = {"sshd", "nvidia-persistenced", "chronyd"};
  CHECK(std::ranges::count(host_sources(profile), "/proc/[0-9]*/stat") == 1);
  const auto status = [&](const char* service) {
    return status_of(judged("host.services", files, profile), "host.services", service);
  };
  CHECK(status("sshd") == CheckStatus::unknown);
  add(70, "sshd", 'S');
  add(71, "nvidia-persiste", 'S');
  add(72, "chronyd", 'Z');
  CHECK(status("sshd") == CheckStatus::pass);
  CHECK(status("chronyd") == CheckStatus::unknown);  // another user's may be hidden
  add(1, "systemd", 'S');
  CHECK(status("nvidia-persistenced") == CheckStatus::pass);
  CHECK(status("chronyd") == CheckStatus::fail);
}
