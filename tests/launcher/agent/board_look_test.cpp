// When an agent asks the board's controller, and how it stops: a real helper, a script as ipmitool.
#include "launcher/agent/board_look.h"

#include <chrono>
#include <thread>

#include "health/monitor/node_monitor.h"
#include "tests/catch.h"
#include "tests/health/fake_board.h"
#include "tests/health/reader_fixture.h"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr const char* answers = R"(
case "$*" in
  "sel time get") echo "11/23/26 11:49:42 UTC";;
  "-c sel list") echo "1b,11/23/26,10:49:42 UTC,Memory #0x53,Uncorrectable ECC,Asserted";;
  *) echo "CPU0 Temp,45,degrees C,ok";;
esac)";
constexpr const char* hangs = "echo $$ > $(dirname $0)/pid; exec sleep 60";

struct Agent {
  explicit Agent(const std::string& script) : board(script) {}

  FakeBoard board;
  NodeMonitor monitor{HealthProfile{}, {.root = board.root().path(), .nvml_library = {}}};
  BoardLook look{{helper_program()}};
  bool has_fault = false;

  bool is_due() {
    return look.is_due([this] { return has_fault; });
  }
  void begin() {
    CheckSituation situation;
    situation.phase = Phase::on_failure;
    situation.groups = static_cast<SourceGroups>(SourceGroup::board);
    look.begin(monitor, situation);
  }
  template <class IsDone>
  static bool until(const IsDone& is_done) {
    const auto began = std::chrono::steady_clock::now();
    while (!is_done()) {
      if (since(began) > 20s) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }
};

bool is_gone(const std::string& pid) {
  const auto fields = process_fields(pid);
  return fields.empty() || fields.front() == "Z";
}

}  // namespace

TEST_CASE("the board is asked once after a failure") {
  Agent agent(answers);
  CHECK_FALSE(agent.is_due());
  agent.look.owe();
  CHECK(agent.is_due());
  agent.begin();
  CHECK(agent.look.is_looking());
  std::optional<std::vector<HealthFinding>> found = agent.look.poll({});
  CHECK(agent.look.sessions().size() == 1);
  REQUIRE(Agent::until([&] {
    if (!found) found = agent.look.poll({});
    return found.has_value();
  }));
  REQUIRE(found->size() == 1);
  CHECK(found->front().check == "host.bmc");
  CHECK(found->front().value == "Memory #0x53 Uncorrectable ECC");
  CHECK_FALSE(agent.look.is_looking());
  agent.has_fault = true;  // of which one hears again in ten minutes
  CHECK_FALSE(agent.is_due());
  CHECK(Agent::until([&] {
    agent.look.poll({});
    return agent.look.sessions().empty();
  }));
}

TEST_CASE("a job that comes ends the question at once, and it stays owed") {
  Agent agent(hangs);
  agent.look.owe();
  agent.begin();
  const std::string pid_file = agent.board.root().path() + "/bin/pid";
  REQUIRE(Agent::until([&] {
    agent.look.poll({});
    return text_of_file(pid_file).ends_with('\n');
  }));
  std::string pid = text_of_file(pid_file);
  pid.pop_back();
  CHECK_FALSE(is_gone(pid));
  const auto began = std::chrono::steady_clock::now();
  agent.look.stop();
  CHECK(since(began) < 2s);
  CHECK_FALSE(agent.look.is_looking());
  CHECK_FALSE(agent.is_due());  // the node is not left alone yet
  CHECK(Agent::until([&] { return is_gone(pid); }));
}

TEST_CASE("a board that is owed a question is asked once the node was left alone, and not before") {
  BoardLook look({helper_program()}, 50ms);
  const auto none = [] { return false; };
  look.owe();
  look.stop();  // a job's last word
  CHECK_FALSE(look.is_due(none));
  CHECK(Agent::until([&] { return look.is_due(none); }));
}

TEST_CASE("a board that is asked is not owed any more, unless a job ends the question") {
  Agent agent(hangs);
  BoardLook look({helper_program()}, 0ms);
  look.owe();
  CheckSituation situation;
  situation.phase = Phase::on_failure;
  situation.groups = static_cast<SourceGroups>(SourceGroup::board);
  look.begin(agent.monitor, situation);
  look.poll({});
  CHECK_FALSE(look.is_due([] { return true; }));
  CHECK(look.sessions().size() == 1);
  look.stop();
  CHECK_FALSE(look.is_looking());
  CHECK(look.is_due([] { return false; }));
  CHECK(Agent::until([&] {
    look.poll({});
    return look.sessions().empty();
  }));
}
