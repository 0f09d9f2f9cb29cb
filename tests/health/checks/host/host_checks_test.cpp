#include "health/checks/host/host_checks.h"

#include <algorithm>
#include <random>

#include "health/model/check.h"
#include "health/read/files.h"
#include "tests/catch.h"
#include "tests/health/fake_host.h"

using namespace muster;

namespace {

const HostSituation usual{Milliseconds(3), {1000}};

std::vector<HealthFinding> judge_host(const SourceFiles& files, const HealthProfile& profile,
                                      const HostSituation& situation) {
  CheckInput input{files, profile};
  input.host = &situation;
  return judge_group(host_checks(), SourceGroup::host, input);
}

std::string told(const std::vector<HealthFinding>& findings) {
  std::string text;
  for (const HealthFinding& finding : findings) {
    if (finding.status == CheckStatus::pass) continue;
    text += finding.check + ":" + finding.device + " " + std::string(word_of(finding.status)) +
            " " + finding.value + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a healthy host passes every check") {
  const auto findings = judge_host(healthy_host(), fake_profile(), usual);
  CHECK(told(findings).empty());
  for (const char* check :
       {"host.mem", "host.swap", "host.hugepages", "host.ro", "host.nvme", "host.clock",
        "host.taint", "host.shm", "host.rlimit", "host.cpu", "host.numa"}) {
    INFO(check);
    CHECK(status_of(findings, check) == CheckStatus::pass);
  }
}

TEST_CASE("the host's sources read all that its checks judge") {
  const FakeRoot root;
  root.write(healthy_host());
  const SourceFiles files = read_files({root.path(), host_sources(fake_profile())});
  CHECK(told(judge_host(files, fake_profile(), usual)).empty());
  CHECK(judge_host(files, fake_profile(), usual) ==
        judge_host(healthy_host(), fake_profile(), usual));
}

TEST_CASE("a host of which nothing was read passes nothing and fails nothing") {
  for (const HealthFinding& finding : judge_host(SourceFiles{}, fake_profile(), {})) {
    INFO(finding.check);
    CHECK(finding.status == CheckStatus::unknown);
    CHECK_FALSE(finding.evidence.empty());
  }
}

TEST_CASE("a source that cannot be read fails no check") {
  const SourceFiles healthy = healthy_host();
  for (const auto& [path, reading] : healthy.all()) {
    INFO(path);
    SourceFiles files = healthy;
    files.add(path, refused());
    for (const HealthFinding& finding : judge_host(files, fake_profile(), usual))
      CHECK(finding.status != CheckStatus::fail);
  }
}

TEST_CASE("sources of any bytes are judged") {
  std::mt19937 random(17);
  const SourceFiles healthy = healthy_host();
  for (int round = 0; round < 300; ++round) {
    SourceFiles files;
    for (const auto& [path, reading] : healthy.all()) {
      std::string text = reading.text.substr(0, random() % (reading.text.size() + 1));
      if (random() % 2 == 0 && !text.empty())
        text[random() % text.size()] = static_cast<char>(random() % 256);
      files.add(path, text);
    }
    CHECK_FALSE(judge_host(files, fake_profile(), usual).empty());
  }
}

TEST_CASE("every finding of the host is of a check in its catalogue") {
  for (const CheckSpec& spec : host_checks()) {
    INFO(spec.id);
    CHECK(spec.id.starts_with("host."));
    CHECK(has(spec.phases, Phase::qualification));
    CHECK((spec.phases & ~static_cast<int>(Phase::qualification)) != 0);
  }
  CHECK(text_of(find_check("host.edac")->severity) == "!reboot>rma");
  CHECK(find_check("host.oom")->fault == FaultClass::user);
}
