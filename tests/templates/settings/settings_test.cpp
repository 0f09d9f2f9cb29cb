#include "templates/settings/setting_table.h"

#include <map>
#include <set>

#include "templates/job/job_file.h"
#include "templates/parse_file.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string settings_head =
    "command: x\nenvironment: azureml:host\ncompute: lab\nresources: {instance_count: 4}\n"
    "distribution: {type: pytorch}\n";

// One legal value for every setting, as a property's text.
const std::map<std::string, std::string>& legal_values() {
  static const std::map<std::string, std::string> values = {
      {"priority", "9"},
      {"preemptible", "true"},
      {"nodes.min", "3"},
      {"nodes.max", "5"},
      {"nodes.wait", "1m"},
      {"nodes.spares", "1"},
      {"nodes.gpus", "2"},
      {"processes_per_node", "6"},
      {"elastic.micro_batches", "8"},
      {"elastic.deterministic", "yes"},
      {"placement.labels", "a,!b"},
      {"placement.include", "n[01-03]"},
      {"placement.exclude", "m1,m2"},
      {"placement.fabric", "any"},
      {"health.start", "full"},
      {"health.failure", "quick"},
      {"health.run", "false"},
      {"health.skip", "gpu.clocks"},
      {"health.only", "gpu.count,host.programs"},
      {"checkpoint.path", "/ckpt"},
      {"checkpoint.local", "off"},
      {"checkpoint.format", "deepspeed"},
      {"checkpoint.marker", "*.done"},
      {"checkpoint.every", "50steps"},
      {"checkpoint.quarantine", "false"},
      {"checkpoint.keep", "2"},
      {"metrics.mlflow", "true"},
      {"metrics.regex", R"re(["hf", "loss=(?P<loss>\\S+)"])re"},
      {"resume.from", "/ckpt/step-1"},
      {"resume.argument", "--resume {checkpoint}"},
      {"restart.attempts", "1"},
      {"restart.interval", "10m"},
      {"restart.delay", "2s"},
      {"restart.delay_function", "constant"},
      {"restart.max_delay", "3s"},
      {"reschedule.attempts", "4"},
      {"reschedule.interval", "2h"},
      {"reschedule.unlimited", "on"},
      {"no_progress.cycles", "7"},
      {"classes.user.action", "stop"},
      {"classes.infra.action", "retry"},
      {"classes.hw.action", "exclude_node"},
      {"classes.hang.action", "backoff"},
      {"classes.sdc.action", "stop"},
      {"classes.preempted.action", "retry"},
      {"classes.divergence.action", "backoff"},
      {"rules", R"([{"when": {"exit_code": [3, "40-49"]}, "class": "infra", "mode": "log"}])"},
      {"elastic.mode", "restart"},
      {"elastic.wait", "11s"},
      {"elastic.grow_after", "12m"},
      {"hang.timeout", "5m"},
      {"hang.first_step", "10m"},
      {"hang.watch", "output"},
      {"debug.rank", "2"},
      {"debug.wait", "90s"},
      {"stop.signal", "SIGUSR1"},
      {"stop.grace", "1s"},
      {"stop.grace_max", "2s"},
      {"master_port", "29500"},
      {"mpi.launcher", "direct"},
      {"mpi.arguments", "--mca,pml,ob1"},
      {"env.export", "torch,slurm"},
      {"remote_start", "true"},
      {"data", R"({"train": "stream"})"},
  };
  return values;
}

void check_all_arrived(const MusterSettings& muster, const Distribution& distribution) {
  CHECK(muster.priority == 9);
  CHECK(muster.preemptible);
  CHECK(muster.nodes_min == 3);
  CHECK(muster.nodes_max == 5);
  CHECK(muster.nodes_wait == Milliseconds{60000});
  CHECK(muster.elastic.mode == ElasticMode::restart);
  CHECK(muster.elastic.wait == Milliseconds{11000});
  CHECK(muster.elastic.grow_after == Milliseconds{720000});
  CHECK(muster.nodes_spares == 1);
  CHECK(muster.nodes_gpus == 2);
  CHECK(distribution.processes_per_node == 6);
  CHECK(muster.labels == std::vector<std::string>{"a", "!b"});
  CHECK(muster.include_nodes == std::vector<std::string>{"n01", "n02", "n03"});
  CHECK(muster.exclude_nodes == std::vector<std::string>{"m1", "m2"});
  CHECK(muster.health_start == HealthLevel::full);
  CHECK(muster.checkpoint_format == "deepspeed");
  CHECK(muster.checkpoint_marker == "*.done");
  CHECK(muster.checkpoint_every == "50steps");
  CHECK_FALSE(muster.checkpoint_quarantine);
  CHECK(muster.metrics_mlflow);
  CHECK(muster.metrics_regex == std::vector<std::string>{"hf", "loss=(?P<loss>\\S+)"});
  CHECK(muster.health_skip == std::vector<std::string>{"gpu.clocks"});
  CHECK(muster.health_only == std::vector<std::string>{"gpu.count", "host.programs"});
  CHECK(muster.checkpoint_path == "/ckpt");
  CHECK(muster.resume_from == ResumeFrom::path);
  CHECK(muster.resume_path == "/ckpt/step-1");
  CHECK(muster.resume_argument == "--resume {checkpoint}");
  CHECK(muster.restart.attempts == 1);
  CHECK(muster.restart.interval == Seconds{600});
  CHECK(muster.restart.delay == Milliseconds{2000});
  CHECK(muster.restart.delay_function == DelayFunction::constant);
  CHECK(muster.restart.max_delay == Milliseconds{3000});
  CHECK(muster.reschedule.attempts == 4);
  CHECK(muster.reschedule.interval == Seconds{7200});
  CHECK(muster.reschedule.unlimited);
  CHECK(muster.no_progress_cycles == 7);
  CHECK(muster.class_actions.size() == 7);
  CHECK(muster.class_actions.at("hw") == Reaction::exclude_node);
  REQUIRE(muster.rules.size() == 1);
  REQUIRE(muster.rules[0].exit_codes.size() == 2);
  CHECK(muster.rules[0].exit_codes[0].holds(3));
  CHECK(muster.rules[0].exit_codes[1].holds(44));
  CHECK(muster.rules[0].failure_class == FailureClass::infra);
  CHECK(!muster.rules[0].enforce);
  CHECK(muster.stop.signal == "SIGUSR1");
  CHECK(muster.stop.grace == Milliseconds{1000});
  CHECK(muster.stop.grace_max == Milliseconds{2000});
  CHECK(muster.hang.off);  // by debug.rank
  CHECK(muster.hang.timeout == Milliseconds{300000});
  CHECK(muster.hang.first_step == Milliseconds{600000});
  CHECK(muster.hang.watch == HangWatch::output);
  CHECK(muster.master_port == 29500);
  CHECK(muster.mpi_launcher == MpiLauncher::direct);
  CHECK(muster.mpi_arguments == std::vector<std::string>{"--mca", "pml", "ob1"});
  CHECK(muster.remote_start);
  CHECK(muster.env_export == std::vector<std::string>{"torch", "slurm"});
}

// Those without a field of their own are kept as text.
const std::set<std::string> kept_as_text = {"elastic.micro_batches",
                                            "elastic.deterministic",
                                            "placement.fabric",
                                            "health.failure",
                                            "health.run",
                                            "checkpoint.local",
                                            "checkpoint.keep",
                                            "debug.rank",
                                            "debug.wait"};

TEST_CASE("every setting is accepted among the properties and reaches the JobSpec") {
  std::string text = settings_head + "properties:\n";
  for (const auto& [path, value] : legal_values()) {
    text += "  muster." + path + ": '" + value + "'\n";
  }
  const JobFile job = read_job(text);
  INFO(printed(job.findings));
  CHECK(!has_errors(job.findings));
  check_all_arrived(job.spec.muster, job.spec.distribution);
  for (const std::string& path : kept_as_text) {
    CHECK(job.spec.muster.other.at(path) == legal_values().at(path));
  }
  CHECK(job.spec.muster.other.at("data.train") == "stream");
  CHECK(job.spec.muster.other.size() == kept_as_text.size() + 1);
}

TEST_CASE("every setting is accepted in the map and reaches the JobSpec") {
  std::string text = settings_head + "muster:\n";
  for (const auto& [path, value] : legal_values()) {
    const bool list = value.find(',') != std::string::npos || path == "rules";
    const std::string shown = value.starts_with('[') ? value : '[' + value + ']';
    if (path == "placement.labels") {
      text += "  placement.labels: [a, '!b']\n";
    } else if (path == "data") {
      text += "  data: " + value + '\n';
    } else {
      text += "  " + path + ": " + (list ? shown : '\'' + value + '\'') + '\n';
    }
  }
  const JobFile job = read_job(text);
  INFO(printed(job.findings));
  CHECK(!has_errors(job.findings));
  check_all_arrived(job.spec.muster, job.spec.distribution);
}

TEST_CASE("muster.metrics.regex takes patterns with named groups and presets, nothing else") {
  const auto findings = [](const std::string& value) {
    return read_job(settings_head + "muster: {metrics.regex: " + value + "}\n").findings;
  };
  CHECK(!has_errors(findings("hf")));
  CHECK(!has_errors(findings("['step (?P<step>\\d+)', hf]")));
  for (const char* wrong :
       {"keras", "'loss=(\\S+)'", "'(?P<loss>'", "''", "[[hf]]", "'(?P<a>x)(?=y)'"}) {
    INFO(wrong);
    CHECK(has_errors(findings(wrong)));
  }
}

TEST_CASE("muster.hang.timeout is a time, learned, or off") {
  const HangSettings by_default = read_job(settings_head).spec.muster.hang;
  CHECK(!by_default.off);
  CHECK(!by_default.timeout);
  CHECK(by_default.first_step == Milliseconds{20 * 60'000});
  const auto hang = [](const std::string& value) {
    return read_job(settings_head + "muster: {hang.timeout: " + value + "}\n").spec.muster.hang;
  };
  CHECK(!hang("auto").timeout);
  CHECK(!hang("auto").off);
  CHECK(hang("off").off);
  CHECK(hang("'off'").off);
  CHECK(hang("90s").timeout == Milliseconds{90'000});
  for (const char* wrong :
       {"hang.timeout: soon", "hang.timeout: 0", "hang.timeout: 0.4ms", "hang.first_step: 0s"}) {
    INFO(wrong);
    CHECK(has_errors(read_job(settings_head + "muster: {" + wrong + "}\n").findings));
  }
  CHECK(has_errors(
      read_job(settings_head + "muster: {hang: {timeout: auto, watch: output}}\n").findings));
}

TEST_CASE("a rank that waits for a debugger is warned of, and its job not called hung") {
  const auto read = [](const std::string& text) {
    return read_job(settings_head + "muster: {debug: {" + text + "}}\n");
  };
  using Kept = std::map<std::string, std::string>;
  const JobFile job = read("wait: 2m");
  CHECK(job.spec.muster.other == Kept{{"debug.rank", "0"}, {"debug.wait", "2m"}});
  CHECK(job.spec.muster.hang.off);
  CHECK(!has_errors(job.findings));
  CHECK_THAT(printed(job.findings),
             ContainsSubstring("warning: muster.debug.wait: while rank 0 waits, every user of its "
                               "node can attach: debugpy asks for no password"));
  CHECK(printed(cannot_run_yet(job)) == "");
  CHECK(read("rank: 0").spec.muster.other == Kept{{"debug.rank", "0"}, {"debug.wait", "10m"}});
  CHECK_THAT(printed(read("rank: 4711").findings), ContainsSubstring("ranks, counted from 0"));
  for (const char* wrong : {"rank: -1", "rank: all", "wait: 0s", "wait: soon", "port: 1"}) {
    INFO(wrong);
    CHECK(has_errors(read(wrong).findings));
  }
}

TEST_CASE("the test above covers the whole table of settings") {
  std::set<std::string> in_table;
  for (const Setting& setting : setting_table()) in_table.insert(setting.path);
  std::set<std::string> tested;
  for (const auto& [path, value] : legal_values()) tested.insert(path);
  CHECK(in_table == tested);
}

TEST_CASE("no delay of a restart is shorter than the first, whatever the longest was to be") {
  const auto longest = [](const std::string& restart) {
    const JobFile job = read_job(settings_head + "muster: {restart: {" + restart + "}}\n");
    CHECK(printed(job.findings) == "");
    return job.spec.muster.restart.max_delay;
  };
  CHECK(longest("delay: 5m") == Seconds{300});
  CHECK(longest("delay: 5m, max_delay: 1m") == Seconds{300});
  CHECK(longest("delay: 5m, max_delay: 10m") == Seconds{600});
}

TEST_CASE("a setting in both places is an error at the second") {
  const JobFile job =
      read_job(settings_head + "properties: {muster.priority: '1'}\nmuster: {priority: 2}\n");
  CHECK_THAT(printed(job.findings),
             ContainsSubstring("error: properties.muster.priority: already set by "
                               "'muster.priority'; keep one of the two"));
}

TEST_CASE("a master port is above the system's, and not the one that Azure's variable names") {
  const auto said = [](const std::string& port) {
    return printed(read_job(settings_head + "muster: {master_port: " + port + "}\n").findings);
  };
  for (const char* good : {"1024", "5999", "6001", "65535", "auto"}) {
    CAPTURE(good);
    CHECK(said(good) == "");
  }
  CHECK_THAT(said("6000"), ContainsSubstring("error: muster.master_port: 6000 is the port that "
                                             "AZ_BATCH_MASTER_NODE names; choose another"));
  CHECK_THAT(said("1023"), ContainsSubstring("expected 1024 or more"));
  CHECK_THAT(said("65536"), ContainsSubstring("expected at most 65535"));
  CHECK_FALSE(read_job(settings_head + "muster: {master_port: auto}\n").spec.muster.master_port);
}

TEST_CASE("settings that are not acted on are warned about, never ignored in silence") {
  const JobFile job = read_job(settings_head + "muster: {checkpoint: {keep: 2}}\n");
  CHECK(printed(job.findings) == "");
  CHECK_THAT(printed(cannot_run_yet(job)),
             ContainsSubstring("warning: muster.checkpoint.keep is not implemented"));
}

TEST_CASE("whether a job's node is watched is kept in one spelling, and acted on") {
  const auto kept = [](const std::string& text) {
    const JobFile job = read_job(settings_head + "muster: {" + text + "}\n");
    CHECK(printed(job.findings) == "");
    CHECK(printed(cannot_run_yet(job)) == "");
    return job.spec.muster.other;
  };
  using Kept = std::map<std::string, std::string>;
  CHECK(kept("health.run: No") == Kept{{"health.run", "false"}});
  CHECK(kept("health.run: 'on'") == Kept{{"health.run", "true"}});
  CHECK(kept("health.failure: Quick") == Kept{{"health.failure", "quick"}});
  CHECK(kept("health.failure: false") == Kept{{"health.failure", "off"}});
  CHECK(has_errors(read_job(settings_head + "muster: {health.failure: often}\n").findings));
  CHECK(printed(cannot_run_yet(read_job(settings_head + "muster: {health.start: full}\n"))) == "");
  CHECK(printed(cannot_run_yet(read_job(settings_head + "muster: {health.failure: full}\n"))) ==
        "");
}

TEST_CASE("a check that does not exist can neither be skipped nor asked for") {
  const auto said = [](const std::string& text) {
    return printed(read_job(settings_head + "muster: {" + text + "}\n").findings);
  };
  CHECK_THAT(said("health.skip: [gpu.clocks, gpu.clock]"),
             ContainsSubstring("there is no check 'gpu.clock'") &&
                 ContainsSubstring("did you mean 'gpu.clocks'?"));
  CHECK_THAT(said("health.only: host.program"), ContainsSubstring("did you mean 'host.programs'?"));
  CHECK_THAT(said("health.skip: ib"), ContainsSubstring("there is no check 'ib'"));
  CHECK(said("health.skip: [host.name, perf.sdc, fab.sm]") == "");
  CHECK_THAT(said("health.only: [gpu.count, perf.hbm]"),
             ContainsSubstring("no start gate runs a check 'perf.hbm'"));
}

TEST_CASE("one process for each GPU is counted on the node, unless their number is known") {
  struct GpuRow {
    const char* settings;
    bool is_counted_there;
    int processes;
    std::optional<int> gpus;
  };
  for (const GpuRow& row : {GpuRow{"processes_per_node: gpus", true, 1, {}},
                            GpuRow{"processes_per_node: gpus, nodes: {gpus: 4}", false, 4, 4}}) {
    CAPTURE(row.settings);
    const JobFile job = read_job(settings_head + "muster: {" + row.settings + "}");
    CHECK(job.spec.distribution.process_per_gpu == row.is_counted_there);
    CHECK(job.spec.distribution.processes_per_node == row.processes);
    CHECK(job.spec.muster.nodes_gpus == row.gpus);
    CHECK(printed(job.findings) == "");
    CHECK(printed(cannot_run_yet(job)) == "");
  }
}

TEST_CASE("one process for each GPU of none is a mistake, wherever it is written") {
  for (const char* settings :
       {"muster: {processes_per_node: gpus, nodes: {gpus: 0}}",
        "properties: {muster.processes_per_node: gpus, muster.nodes.gpus: '0'}\n"}) {
    CHECK_THAT(printed(read_job(settings_head + settings).findings),
               ContainsSubstring("error: muster.processes_per_node: 'gpus' needs a GPU, and "
                                 "muster.nodes.gpus is 0"));
  }
}

TEST_CASE("one process for each GPU has no effect on a job with one process") {
  const JobFile job =
      read_job("command: x\nenvironment: azureml:host\nmuster: {processes_per_node: gpus}\n");
  CHECK(!job.spec.distribution.process_per_gpu);
  CHECK_THAT(printed(job.findings), ContainsSubstring("has no effect without distribution.type"));
}

}  // namespace
}  // namespace muster
