#include "cli/job/report.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("every duration of a spec is in seconds") {
  JobSpec spec;
  spec.timeout = Seconds{3600};
  spec.muster.nodes_wait = Milliseconds{600'000};
  spec.muster.restart.interval = Seconds{3600};
  spec.muster.restart.delay = Milliseconds{1500};
  spec.muster.stop.grace = Milliseconds{30'000};
  spec.muster.hang.timeout = Milliseconds{60'000};
  RestartRule rule;
  rule.delay = Milliseconds{2000};
  spec.muster.rules = {rule, RestartRule{}};
  const Document out = spec_document(spec);
  CHECK(out["timeout"] == 3600);
  const Document& muster = out["muster"];
  CHECK(muster["nodes_wait"] == 600);
  CHECK(muster["restart"]["interval"] == 3600);
  CHECK(muster["restart"]["delay"] == 1.5);
  CHECK(muster["restart"]["max_delay"] == 120);
  CHECK(muster["stop"]["grace"] == 30);
  CHECK(muster["hang"]["timeout"] == 60);
  CHECK(muster["hang"]["first_step"] == 1200);
  CHECK(muster["rules"][0]["delay"] == 2);
  CHECK(spec_document(JobSpec{})["timeout"].is_null());
}

TEST_CASE("a path that is known on the node only is shown as the file wrote it") {
  JobSpec spec;
  spec.command = "x \x01inputs.data\x02";
  spec.outputs["o"].path = "/out/\x01name\x02";
  const Document out = spec_document(spec);
  CHECK(out["command"] == "x ${{inputs.data}}");
  CHECK(out["outputs"]["o"]["path"] == "/out/${{name}}");
}

TEST_CASE("what looks like a secret is masked, also where the command repeats it") {
  JobSpec spec;
  spec.command = "curl -H hunter2hunter2 https://ada:pw1@h/x 'https://a/b?sv=1&sig=abc%3D&x=1'";
  spec.environment_variables = {{"HF_TOKEN", "hf_abcdef"},
                                {"WANDB_API_KEY", "k"},
                                {"TOKENIZERS_PARALLELISM", "true"},
                                {"MONKEY", "m"}};
  spec.inputs["db-password"].is_literal = true;
  spec.inputs["db-password"].literal = "hunter2hunter2";
  spec.git_url = "git+https://oauth:tok@github.com/a/b";
  const std::string text = spec_document(spec).dump();
  for (const char* secret : {"hf_abcdef", "hunter2", "pw1", "abc%3D", "tok@", "\"k\""}) {
    INFO(secret);
    CHECK_THAT(text, !ContainsSubstring(secret));
  }
  for (const char* plain : {"\"true\"", "\"m\"", "https://***@h/x", "sig=***&x=1", "curl -H ***"}) {
    INFO(plain);
    CHECK_THAT(text, ContainsSubstring(plain));
  }
}

TEST_CASE("a spec without secrets has none in its command, and keeps what only looks near") {
  JobSpec spec;
  spec.command =
      "run abc hunter2hunter2 https://ada:pw1@h/x https://h/ada@b ftp://u@h 'h?token=t1'";
  spec.environment_variables = {{"MY-Key.x", "hunter2hunter2"}, {"PIN_PAT", "abc"}, {"KEYS", "v"}};
  spec.inputs["token"].is_literal = true;
  spec.inputs["token"].literal = "literal";
  spec.inputs["password"].literal = "a path";  // no literal: where the data lies
  spec.tags = {{"db.passwd", "tag"}, {"keyboard", "qwerty"}};
  const JobSpec shown = without_secrets(spec);
  CHECK(shown.command == "run abc *** https://***@h/x https://h/ada@b ftp://***@h 'h?token=***'");
  CHECK(shown.environment_variables.at("MY-Key.x") == "***");
  CHECK(shown.environment_variables.at("PIN_PAT") == "***");
  CHECK(shown.environment_variables.at("KEYS") == "v");
  CHECK(shown.inputs.at("token").literal == "***");
  CHECK(shown.inputs.at("password").literal == "a path");
  CHECK(shown.tags.at("db.passwd") == "***");
  CHECK(shown.tags.at("keyboard") == "qwerty");
}
