#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/health/cluster/fabric.h"
#include "health/output/finding_report.h"
#include "launcher/wire/json_fields.h"
#include "tests/catch.h"
#include "tests/health/fabric/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;
using namespace std::chrono_literals;

namespace {

// Tools that say what a test lets them, on a clock that it sets.
struct FakeFabric {
  std::map<FabricTool, FileReading> says{{FabricTool::discover, said(discovered)},
                                         {FabricTool::links, said(linked)},
                                         {FabricTool::errors, said(no_errors)},
                                         {FabricTool::manager, said(manager)}};
  std::map<FabricTool, int> asked;
  Time now = from_ms(1'700'000'000'000);
  HealthProfile profile;
  bool has_golden = true;
  std::vector<std::string> checks;
  FabricState state;

  FabricLookOptions options() {
    FabricLookOptions options;
    options.profile = profile;
    if (has_golden) options.golden = read_ibnetdiscover(said(discovered));
    options.checks = checks;
    options.host = "head";
    options.ask = [this](FabricTool tool) {
      ++asked[tool];
      return FabricToolAnswer{says[tool], 10ms};
    };
    options.now = [this] { return now; };
    return options;
  }
  // Looks until it is sure, as one run does, ten minutes after the last.
  FabricResult run(int looks_most = 5) {
    now += 10min;
    FabricLook look(options(), state);
    look.look();
    while (look.looks() < looks_most && look.is_open()) look.look();
    state = *read_versioned_json<FabricState>(versioned_json(look.state(), state_version),
                                              state_version);
    return look.result();
  }
  void enforce(const std::string& check) { profile.checks[check].mode = CheckMode::enforce; }
  void n2_is_down() {
    says[FabricTool::links] = said(replaced(
        without(linked, "0x0000000000100005 \""),
        "leaf1\"      2    3[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>  0x0000000000100005"
        "      6    1[  ] \"n2 mlx5_0\" (Could be 12X )",
        "leaf1\"      2    3[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )"));
  }
};

const FindingReport* find(const FabricResult& result, std::string_view check,
                          std::string_view host) {
  const auto found = std::ranges::find_if(result.look.findings, [&](const FindingReport& one) {
    return one.check == check && one.host == host;
  });
  return found == result.look.findings.end() ? nullptr : &*found;
}
std::vector<FindingReport> for_monitors(const FabricResult& fabric) {
  HealthResult result;
  result.hosts = {fabric.look};
  result.monitor_hosts = MonitorHosts::in_device;
  return findings_for_monitors(result);
}
std::size_t not_passed(const FabricResult& result) {
  return static_cast<std::size_t>(std::ranges::count_if(
      result.look.findings, [](const FindingReport& one) { return one.status != "pass"; }));
}

}  // namespace

TEST_CASE("a healthy fabric passes, its counters from the second run on") {
  FakeFabric fabric;
  const FabricResult first = fabric.run();
  CHECK(not_passed(first) == 0);
  CHECK(find(first, "fab.errors", "n2") == nullptr);
  CHECK(first.look.counts.first_readings > 0);
  CHECK(find(first, "fab.links", "n2")->device == "mlx5_0:1");
  CHECK(find(first, "fab.links", "n2")->source == "iblinkinfo -l");
  const FabricResult second = fabric.run();
  CHECK(not_passed(second) == 0);
  CHECK(find(second, "fab.errors", "n2")->status == "pass");
  CHECK(second.look.counts.first_readings == 0);
  CHECK(second.verdicts.empty());
  CHECK(fabric_exit(second) == HealthExit::healthy);
  CHECK(fabric.state.hosts.empty());
  CHECK_THAT(fabric_text(second, {}), ContainsSubstring("jobs from its 4 hosts"));
}

TEST_CASE("a first run that reads nothing but counters says that all is well so far") {
  FakeFabric fabric;
  fabric.checks = {"fab.errors"};
  const FabricResult first = fabric.run();
  CHECK(first.look.findings.empty());
  CHECK(fabric_exit(first) == HealthExit::healthy);
  const PluginAnswer plugin =
      nagios_answer(for_monitors(first), HostNames::left_out, first.look.counts.first_readings);
  CHECK(plugin.exit_code == 0);
  CHECK_THAT(plugin.line, ContainsSubstring("MUSTER OK - first run: "));
  fabric.state = {};
  fabric.says[FabricTool::errors] = {{}, "no answer", false};
  const FabricResult silent = fabric.run();
  CHECK(nagios_answer(for_monitors(silent), HostNames::left_out, silent.look.counts.first_readings)
            .exit_code == 3);
}

TEST_CASE("a link that is down is its host's, and drains it where that is enforced") {
  FakeFabric fabric;
  fabric.n2_is_down();
  const FabricResult observed = fabric.run();
  REQUIRE(find(observed, "fab.links", "n2"));
  CHECK(find(observed, "fab.links", "n2")->status == "fail");
  CHECK(observed.look.looks == 1);
  CHECK(fabric_exit(observed) == HealthExit::healthy);
  fabric.state = {};
  fabric.enforce("fab.links");
  const FabricResult enforced = fabric.run();
  CHECK(enforced.look.looks == 3);
  CHECK(fabric_exit(enforced) == HealthExit::drained);
  CHECK(enforced.verdicts.at("n2").is_drained());
  CHECK(enforced.verdicts.at("n2").reason->starts_with("muster:node:fab.links:mlx5_0:1 "));
  CHECK_THAT(fabric_text(enforced, {}), ContainsSubstring("1 host unavailable: n2"));
  const Document document = fabric_document(enforced);
  CHECK(document["state"] == "drained");
  CHECK(document["hosts"]["n2"]["state"] == "drained");
  CHECK(document["counts"]["fail"] == not_passed(enforced));
}

TEST_CASE("one look at a link that is down is not believed") {
  FakeFabric fabric;
  fabric.enforce("fab.links");
  fabric.n2_is_down();
  const FabricResult result = fabric.run(1);
  CHECK(fabric_exit(result) == HealthExit::unclear);
  CHECK_THAT(fabric_text(result, {}), ContainsSubstring("the state of the fabric is unknown"));
  CHECK_THAT(fabric_text(result, {}),
             ContainsSubstring("failed, not yet confirmed: fab.links n2 mlx5_0:1\n"));
  fabric.says[FabricTool::links] = said(linked);
  CHECK(fabric_exit(fabric.run()) == HealthExit::healthy);
}

TEST_CASE("a look leaves nothing open where all is well, or where what is drained is sure") {
  FakeFabric fabric;
  fabric.enforce("fab.links");
  const auto is_open_after = [&](int looks) {
    FabricLook look(fabric.options(), {});
    for (int i = 0; i < looks; ++i) look.look();
    return look.is_open();
  };
  CHECK_FALSE(is_open_after(1));
  fabric.n2_is_down();
  CHECK(is_open_after(1));
  CHECK(is_open_after(2));
  CHECK_FALSE(is_open_after(3));
  // A fault that is only observed keeps nobody waiting, nor does a tool that is silent.
  FakeFabric observing;
  observing.n2_is_down();
  CHECK(observing.run().look.looks == 1);
  FakeFabric silent;
  silent.profile.required = {"fab.links"};
  silent.says[FabricTool::links] = failed("iblinkinfo ended with 1");
  CHECK(silent.run().look.looks == 1);
}

TEST_CASE("what the profile requires of a host and nothing tells of is asked for by its name") {
  FakeFabric fabric;
  fabric.run();
  fabric.profile.required = {"fab.errors"};
  fabric.says[FabricTool::errors] = failed("ibqueryerrors ended with 1");
  const std::string text = fabric_text(fabric.run(), {});
  CHECK_THAT(text, ContainsSubstring("required check did not pass: fab.errors\n"));
}

TEST_CASE("counters that grew between two runs are told, those that stood are not") {
  FakeFabric fabric;
  fabric.says[FabricTool::errors] = said(counted);
  fabric.run();
  CHECK(not_passed(fabric.run()) == 0);
  fabric.says[FabricTool::errors] =
      said(replaced(counted, "SymbolErrorCounter == 42", "SymbolErrorCounter == 173"));
  const FabricResult grown = fabric.run();
  const FindingReport* n2 = find(grown, "fab.errors", "n2");
  REQUIRE(n2);
  CHECK(n2->status == "fail");
  CHECK(n2->value.whole == 131);
  CHECK(not_passed(grown) == 1);
  CHECK(fabric.asked[FabricTool::errors] == 3);
}

TEST_CASE("a tool that is not there makes its checks unknown, of class setup") {
  FakeFabric fabric;
  fabric.profile.required = {"fab.links", "gpu.count"};
  fabric.says[FabricTool::links] = {"", "iblinkinfo is not installed", true};
  const FabricResult result = fabric.run();
  const FindingReport* links = find(result, "fab.links", "");
  REQUIRE(links);
  CHECK(links->status == "unknown");
  CHECK(links->fault_class == "setup");
  CHECK(links->evidence == std::vector<std::string>{"iblinkinfo is not installed"});
  CHECK(fabric_exit(result) != HealthExit::healthy);
  CHECK(find(result, "fab.sm", "")->status == "pass");
  CHECK(find(result, "fab.discover", "n2")->status == "pass");
}

TEST_CASE("counters that could not be read are unknown, and not compared with") {
  FakeFabric fabric;
  fabric.says[FabricTool::errors] = failed("ibqueryerrors gave no answer within 60000 ms, twice");
  const FabricResult result = fabric.run();
  CHECK(find(result, "fab.errors", "")->status == "unknown");
  CHECK(fabric.state.counts.empty());
  fabric.says[FabricTool::errors] = said("Errors for \"n2 mlx5_0\"\n");
  CHECK(find(fabric.run(), "fab.errors", "")->status == "unknown");
  CHECK(fabric.state.counts.empty());
}

TEST_CASE("a fabric that no tool tells of is unknown, and their words are kept") {
  FakeFabric fabric;
  fabric.has_golden = false;
  const std::string panic = "ibpanic: [3] can't open UMAD port\n";
  fabric.says[FabricTool::links] = failed("iblinkinfo ended with 1");
  fabric.says[FabricTool::errors] = said(panic);
  fabric.says[FabricTool::manager] = said(panic);
  const FabricResult result = fabric.run();
  CHECK(fabric_exit(result) == HealthExit::unclear);
  CHECK_THAT(fabric_text(result, {}), ContainsSubstring("nothing is known of the fabric"));
  for (const char* check : {"fab.errors", "fab.sm"}) {
    REQUIRE(find(result, check, ""));
    CHECK_THAT(find(result, check, "")->evidence.front(), ContainsSubstring("open UMAD port"));
  }
}

TEST_CASE("what is missing is told with a golden topology only") {
  FakeFabric fabric;
  fabric.says[FabricTool::discover] = said(without(discovered, "n2 mlx5_0"));
  CHECK(find(fabric.run(), "fab.discover", "n2")->value.text == "missing");
  fabric.has_golden = false;
  fabric.asked.clear();
  CHECK(not_passed(fabric.run()) == 0);
  CHECK(fabric.asked.count(FabricTool::discover) == 0);
}

TEST_CASE("a host that was taken out of the golden topology is forgotten") {
  FakeFabric fabric;
  fabric.enforce("fab.links");
  fabric.n2_is_down();
  CHECK(fabric_exit(fabric.run()) == HealthExit::drained);
  CHECK(fabric_exit(fabric.run(1)) == HealthExit::drained);
  fabric.has_golden = false;  // nothing says that there was a cable
  CHECK(fabric_exit(fabric.run()) == HealthExit::healthy);
  CHECK(fabric.state.hosts.empty());
}

TEST_CASE("only the checks that were asked for are made") {
  FakeFabric fabric;
  fabric.checks = {"fab.s*"};
  const FabricResult result = fabric.run();
  CHECK(result.look.findings.size() == 1);
  CHECK(fabric.asked == std::map<FabricTool, int>{{FabricTool::manager, 1}});
}

TEST_CASE("forms without a place for a host say it with the device") {
  FakeFabric fabric;
  fabric.n2_is_down();
  const FabricResult result = fabric.run();
  const auto reports = for_monitors(result);
  CHECK(std::ranges::any_of(reports, [](const FindingReport& one) {
    return one.check == "fab.links" && one.device == "n2 mlx5_0:1" && one.status == "fail";
  }));
}

TEST_CASE("a fabric's state that is broken is refused") {
  for (const char* text :
       {"", "{", "[]", "{\"version\": 2}", "{\"version\": \"1\"}",
        "{\"version\": 1, \"counts\": 3}", "{\"version\": 1, \"hosts\": {\"n1\": []}}"}) {
    CAPTURE(text);
    CHECK_FALSE(read_versioned_json<FabricState>(text, state_version));
  }
  CHECK(read_versioned_json<FabricState>("{\"version\": 1}", state_version));
}
