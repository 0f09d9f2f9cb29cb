#include "cli/health/profile.h"

#include <nlohmann/json.hpp>

#include "cli/health/run.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

TEST_CASE("a profile is named by its name, or is a file over the shipped one of its name") {
  const CommonOptions common;
  const auto shipped = named_profile("standard_nd96isr_h100_v5", common);
  REQUIRE(shipped);
  CHECK(shipped->name == "ND96isr_H100_v5");
  CHECK(shipped->gpu.count == 8);
  const Folder folder;
  folder.append("site.yml", "profile: ND96isr_H100_v5\nhost: {cpus: 90}\n");
  const auto site = named_profile((folder.path() / "site.yml").string(), common);
  REQUIRE(site);
  CHECK(site->host.cpus == 90);
  CHECK(site->gpu.nvlinks == 18);
}

TEST_CASE("a profile that is not there is an error that says which was meant") {
  const CommonOptions common;
  CHECK_THAT(named_profile("ND96isr_H100_v6", common).error().message,
             ContainsSubstring("did you mean 'ND96isr_H100_v5'?"));
  CHECK_THAT(named_profile("nonsense", common).error().message,
             ContainsSubstring("`muster health profiles` lists them"));
  CHECK_THAT(named_profile("/no/such/file.yml", common).error().message,
             ContainsSubstring("cannot read /no/such/file.yml"));
}

TEST_CASE("a profile with mistakes is refused") {
  const Folder folder;
  folder.append("bad.yml", "profile: x\nhost: {cpu: 3}\n");
  const auto bad = named_profile((folder.path() / "bad.yml").string(), {});
  REQUIRE_FALSE(bad);
  CHECK_THAT(bad.error().message, ContainsSubstring("bad.yml has errors"));
}

TEST_CASE("all checks are listed with their modes under a profile") {
  const auto profile = named_profile("ND96isr_H100_v5", {});
  REQUIRE(profile);
  const Document checks = checks_document(*profile);
  CHECK(checks.size() > 110);
  const auto mode_of = [&](const std::string& id) -> std::string {
    for (const Document& one : checks) {
      if (one["id"] == id) return one["mode"];
    }
    return "";
  };
  CHECK(mode_of("ib.state") == "enforce");  // required
  CHECK(mode_of("host.swap") == "observe");
  for (const Document& one : checks) {
    for (const char* key : {"source", "criterion", "severity", "class", "phases"}) {
      CAPTURE(one["id"], key);
      CHECK_FALSE(one[key].empty());
    }
  }
}
