#include "health/checks/host/processes.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/health/fake_host.h"
#include "tests/health/judged.h"

using namespace muster;

namespace {

std::string status_text(const std::string& name, int sleeps) {
  return "Name:\t" + name + "\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t" +
         std::to_string(sleeps) + "\nnonvoluntary_ctxt_switches:\t3\n";
}

// Of process 41.
std::optional<ProcessState> read_process(const std::string& stat, const std::string& status = {}) {
  SourceFiles files;
  files.add("/proc/41/stat", stat);
  files.add("/proc/41/status", status);
  const ProcessStates states = process_states_of(files);
  return states.empty() ? std::nullopt : std::optional(states.at(41));
}

HealthFinding judged_looks(const std::vector<SourceFiles>& looks) {
  const HealthProfile profile;
  CheckInput input{looks.front(), profile, find_check("host.dstate")};
  input.looks = looks;
  return input.check().judge(input).at(0);
}

struct Sample {
  char state;
  int cpu_ticks = 5;
  std::optional<int> sleeps{};
  int start_ticks = 100;
};

// Of process 41, beside one that sleeps as most do.
std::vector<SourceFiles> looks_at(const std::vector<Sample>& samples) {
  std::vector<SourceFiles> looks;
  for (const Sample& one : samples) {
    SourceFiles& look = looks.emplace_back();
    look.add("/proc/1/stat", stat_text(1, "systemd", 'S', 5));
    look.add("/proc/41/stat", stat_text(41, "python", one.state, one.cpu_ticks, one.start_ticks));
    if (one.sleeps) look.add("/proc/41/status", status_text("python", *one.sleeps));
  }
  return looks;
}

// A process of a user, beside others of the root.
SourceFiles owned(int pid, int uid, char state) {
  SourceFiles files;
  const auto add = [&](int one, int owner, char in_state) {
    files.add("/proc/" + std::to_string(one) + "/stat", stat_text(one, "python", in_state, 5));
    files.add("stat:/proc/" + std::to_string(one), "uid " + std::to_string(owner) + "\n");
  };
  add(1, 0, 'S');
  add(pid, uid, state);
  return files;
}

}  // namespace

// The first line is from a Debian 12 host.
TEST_CASE("a process's state is read, whatever its name") {
  const auto shell = read_process(
      "534 (checkpoint_tort) T 1 534 534 0 -1 4194304 1105 0 0 0 2011 403 0 0 30 10 1 0 283120 "
      "6905856 1204 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0");
  REQUIRE(shell);
  CHECK(shell->name == "checkpoint_tort");
  CHECK(shell->state == 'T');
  CHECK(shell->cpu_ticks == 2414);
  CHECK(shell->start_ticks == 283120);
  const std::string odd_text = stat_text(7, "a) D (b) ", 'S', 3);
  const auto odd = read_process(odd_text, status_text("voluntary_ctxt_switches:\t9", 12));
  REQUIRE(odd);
  CHECK(odd->name == "a) D (b) ");
  CHECK(odd->state == 'S');
  CHECK(odd->sleeps == 12);
  CHECK_FALSE(read_process(odd_text, "Name:\tx\nvoluntary_ctxt_switches:")->sleeps);
  CHECK_FALSE(read_process(odd_text, "\nvoluntary_ctxt_switches:\tx\n")->sleeps);
  const std::string whole = stat_text(7, "x", 'D', 3);
  for (std::size_t size = 0; size < 40; ++size) CHECK_FALSE(read_process(whole.substr(0, size)));
  CHECK_FALSE(read_process(")("));
}

TEST_CASE("a process that never wakes in five samples is stuck") {
  const HealthFinding finding = judged_looks(looks_at({{'D'}, {'D'}, {'D'}, {'D'}, {'D'}}));
  CHECK(finding.status == CheckStatus::fail);
  CHECK(finding.value == "1");
  CHECK(finding.evidence == std::vector<std::string>{"process 41 python"});
  CHECK(text_of(finding.severity) == "drain>reboot");
}

TEST_CASE("a process that gets on is not stuck, though it was found asleep each time") {
  const std::vector<Sample> getting_on[] = {
      {{'D'}, {'D'}, {'R'}, {'D'}, {'D'}},
      {{'D'}, {'D'}, {'D', 6}, {'D', 6}, {'D', 6}},
      {{'D'}, {'D'}, {'D', 5, {}, 900}, {'D', 5, {}, 900}, {'D', 5, {}, 900}},  // another one
      {{'D'}, {'D', 5, 7}, {'D', 5, 8}, {'D', 5, 9}, {'D', 5, 9}}};
  for (const auto& samples : getting_on)
    CHECK(judged_looks(looks_at(samples)).status == CheckStatus::pass);
  // Its other threads run; its first one has not woken up.
  CHECK(judged_looks(looks_at({{'D'}, {'D', 50, 7}, {'D', 60, 7}, {'D', 70, 7}, {'D', 80, 7}}))
            .status == CheckStatus::fail);
}

TEST_CASE("too few samples are unknown, unless nothing sleeps") {
  CHECK(judged_looks(std::vector<SourceFiles>(5)).status == CheckStatus::unknown);
  CHECK(judged_looks(looks_at({{'D'}, {'D'}})).status == CheckStatus::unknown);
  CHECK(judged_looks(looks_at({{'S'}})).status == CheckStatus::pass);
  auto gone = looks_at({{'D'}, {'D'}});
  gone.resize(5);
  CHECK(judged_looks(gone).status == CheckStatus::pass);
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
  CHECK(process_sources_after({{1, {"x", 'S', 100, 5, {}}}}).empty());
}

TEST_CASE("processes of a user whose jobs ended are left over") {
  const auto left = [](const SourceFiles& files, std::set<std::int64_t> ended) {
    return judged_one("host.leftovers", files, {}, {.ended_uids = std::move(ended)});
  };
  const auto found = left(owned(12, 1001, 'D'), {1000, 1001});
  CHECK(found->status == CheckStatus::fail);
  CHECK(found->evidence == std::vector<std::string>{"process 12 python"});
  CHECK(left(owned(12, 1001, 'Z'), {1001})->status == CheckStatus::pass);
  CHECK(left(owned(12, 1002, 'S'), {1001})->status == CheckStatus::pass);
  CHECK(left(SourceFiles{}, {1001})->status == CheckStatus::unknown);
  CHECK_FALSE(left(owned(12, 1001, 'S'), {}));
}

TEST_CASE("a finding names some of many processes") {
  SourceFiles files;
  for (int pid = 1; pid <= 500; ++pid) {
    files.add("/proc/" + std::to_string(pid) + "/stat", stat_text(pid, "x", 'S', 5));
    files.add("stat:/proc/" + std::to_string(pid), "uid 1\n");
  }
  const auto finding = judged_one("host.leftovers", files, {}, {.ended_uids = {1}});
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
    read_process(text, text);
    read_process(good, "\nvoluntary_ctxt_switches:" + text);
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
