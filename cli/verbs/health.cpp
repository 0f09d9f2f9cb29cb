// `muster health …`: whether this host is fit for jobs, for which no controller is needed, or nodes
// of the cluster.
#include "cli/health/benchmark.h"
#include "cli/health/cluster/fabric.h"
#include "cli/health/cluster/nodes.h"
#include "cli/health/cluster/pairs.h"
#include "cli/health/profile.h"
#include "cli/health/run.h"
#include "cli/verbs/verbs.h"

namespace muster {

namespace {

constexpr const char* health_group = "health";
constexpr const char* run_footer =
    "NODE is a name, several in brackets, or a pattern: h01 'h[02-16]' 'gpu*'. The profile is that "
    "of\n"
    "the compute target, unless --profile names one; where ranks run only what may run beside "
    "them\n"
    "is looked at. Nothing is drained: agents watch their nodes, and say so by themselves.\n"
    "Exit codes:\n"
    "  0    this host, or every one of the nodes, is ready\n"
    "  1    an active fault drains it, or one of them (the last line says which)\n"
    "  3    unknown: a check that the profile requires did not pass, or a failure of one that it\n"
    "       enforces is not yet confirmed; or a node does not answer;\n"
    "       or nothing was checked\n"
    "  90   invalid profile; 99: a result could not be written; 2: wrong usage\n"
    "  With -o nagios 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.\n"
    "  With --slurm 0, or 1 for a node that must not get jobs.\n"
    "What is remembered from run to run, such as counters, is stored in\n"
    "$MUSTER_HOME/health-HOST.state.";
constexpr const char* benchmark_footer =
    "Benchmarks and their tools: cpu, memory, cpu-sdc (stress-ng), disk (fio), ib-loop\n"
    "(perftest), gpu-host, gpu-memory, gpu-peer (nvbandwidth), gpu-nccl, gpu-nccl-loop\n"
    "(all_reduce_perf of nccl-tests), dcgm (dcgmi diag). Where a tool is not installed its\n"
    "metric is unknown, and the package is named. Without --only those that the profile has\n"
    "a minimum for; cpu-sdc and dcgm where it names perf.sdc, perf.dcgm in `checks` or\n"
    "`required` (`perf.dcgm: {level: 2}`: as `dcgmi diag -r 2`; `perf.sdc: {time_min: 60}`:\n"
    "processors for so long, else 20 s). How long that takes is said beforehand; each is\n"
    "killed at its limit. A host with ranks, processes on its GPUs or busy processors is\n"
    "refused with exit code 3. Otherwise exit codes as of `muster health`, which\n"
    "continues to report what failed until it passed three times.\n"
    "With NODE or --target those nodes are measured in parallel, by the profile of the target.\n"
    "One with a job, or that is not idle, is not, and says so: 3. From eight nodes of a target\n"
    "and profile on each metric is also compared with the median of all: 5 % below it fails, of\n"
    "disks 20 %.";
constexpr const char* fabric_footer =
    "Asks iblinkinfo, ibqueryerrors, sminfo and, with --baseline, ibnetdiscover, of the package\n"
    "infiniband-diags; most need root. One that is not there, or gave no answer twice, is\n"
    "unknown. Of error counters the growth is judged, over 5 minutes or more: what is\n"
    "remembered is stored in $MUSTER_HOME/fabric-HOST.state. Exit codes as of `muster health`;\n"
    "3 also when no tool answers.";
constexpr const char* pairs_footer =
    "Idle nodes measure their bandwidth in pairs, all pairs at the same time: over InfiniBand\n"
    "with the perftest tools where the nodes have it, else over TCP. Who is slow with several\n"
    "partners is named, with the measurements. One fault takes three rounds of --time for each\n"
    "rail, whatever the number of nodes. Nodes with a job are refused, and a job that begins\n"
    "ends the measurement on its nodes, as Ctrl-C does on all. Nothing is drained.\n"
    "FILE of --topology has lines \"node leaf\"; without it ibnetdiscover is asked, on this "
    "host.\n"
    "A slow link between switches shows as a path between two nodes; health fabric finds bad "
    "links.\n"
    "Exit codes:\n"
    "  0    no pair is slower than the others or than the profile's minimum\n"
    "  1    a node, rail, path or leaf is named\n"
    "  3    unknown: a node is not idle, too few take part, or the network is not quiet";
constexpr const char* learn_footer =
    "What was not read, or differs between devices, is skipped and named. A host that limits\n"
    "locked memory gets a profile that does not check host.rlimit.\n"
    "Exit codes: 0; 3: --measure on a host that is not idle; 99: no profile can be made;\n"
    "2: wrong usage.";
constexpr const char* checks_footer = "Exit codes: 0; 90: invalid profile; 2: wrong usage.";
constexpr const char* profiles_footer =
    "Exit codes: 0; 2: there is no such profile, or wrong usage.";
constexpr const char* root_help =
    "Check the host that was recorded in DIR, default $MUSTER_SYSROOT or this one";

bool is_of_cluster(const HealthAsked& asked) {
  return !asked.nodes.empty() || !asked.target.empty();
}

void declare_prometheus_file(Arguments& of, std::string& file) {
  of.option("--prometheus-file", file, "Also write this file, for a node exporter: DIR/NAME.prom");
}

void declare_kept(Arguments& of, HealthKept& options) {
  of.flag("--all", options.all, "Show the checks that passed, too");
  of.option("--state", options.state, "File for counters and faults kept between runs");
  of.flag("--no-state", options.forget, "Neither read nor write stored state");
  declare_prometheus_file(of, options.prometheus_file);
}

void declare_asked(Arguments& of, HealthAsked& options, const std::string& of_timeout,
                   const std::string& of_profile) {
  of.optional_arguments("NODE", options.nodes, "Nodes of the cluster, default this host");
  of.option("--target", options.target, "All nodes of this compute target, or NODE of it");
  of.option("--timeout", options.timeout, of_timeout);
  of.option("--profile", options.profile, of_profile);
  of.flag("--no-base-profile", options.profile_alone,
          "FILE is whole: it does not go over a shipped one");
}

void declare_run(Arguments& of, HealthRunOptions& options) {
  declare_asked(of, options, "With nodes: for each of them (default 30s)",
                "What a healthy host is: NAME or FILE, default by its GPUs");
  of.choice("--phase", options.phase, {std::begin(phase_names), std::end(phase_names)},
            "Only checks of this phase");
  of.repeated("--check", options.checks, "Only these, as 'gpu.*' (repeatable)");
  of.flag("--once", options.quick, "Read once; do not repeat readings to confirm a fault");
  of.flag("--idle", options.idle, "No job runs here: leftover processes of a job are faults");
  of.flag("--during-job", options.beside_ranks,
          "A job runs here: only what does not disturb it, whatever the phase");
  of.folder("--root", options.root, root_help);
  declare_kept(of, options);
  of.flag("--slurm", options.slurm, "Answer Slurm, and drain or undrain this node there");
  of.choice("--hook", options.hook, {"health", "prolog", "epilog"}, "With --slurm: who calls");
  of.option("--scontrol", options.scontrol, "With --slurm: the program");
}

int run(const HealthRunOptions& options, const CommonOptions& common) {
  if (is_of_cluster(options)) return run_health_nodes(options, common);
  return options.measured ? run_health_active(options, common) : run_health(options, common);
}

// `is_monitored`: of a verb whose result monitors read too.
VerbTexts texts_of(const std::string& name, const std::string& summary, const char* footer,
                   bool is_monitored = false) {
  return {.name = name,
          .summary = summary,
          .footer = footer,
          .azure_scope = false,
          .monitor_outputs = is_monitored};
}

void add_checks_and_profiles(CommandLine& line) {
  line.verb_of<HealthChecksOptions>(
      health_group,
      texts_of("checks", "List all checks, and how a profile takes them", checks_footer),
      show_checks, [](Arguments& of, HealthChecksOptions& options) {
        of.optional_argument("CHECK", options.name, "All of this one; or those that fit 'gpu.*'");
        of.option("--profile", options.profile, "NAME or FILE, default: none");
      });
  line.verb_of<std::string>(
      health_group,
      texts_of("profiles", "List the profiles that come with muster, or print one",
               profiles_footer),
      show_profiles, [](Arguments& of, std::string& name) {
        of.optional_argument("NAME", name, "Print this profile, to start your own");
      });
}

void add_learn_and_record(CommandLine& line) {
  VerbTexts learn =
      texts_of("learn", "Write a profile from this host, which is known to be good", learn_footer);
  learn.own_output_option = true;
  line.verb_of<HealthLearnOptions>(
      health_group, learn,
      [](const HealthLearnOptions& options, const CommonOptions& common) {
        return learn_health(own_sources(options.root), options, common);
      },
      [](Arguments& of, HealthLearnOptions& options) {
        of.option("--name", options.name, "Of the profile, default learned-HOST");
        of.option("-o,--output", options.file, "Write this file instead of printing");
        of.folder("--root", options.root, root_help);
        of.flag("--measure", options.measure, "Minimums too: load this idle host for some minutes");
        of.option("--disk", options.disk, "With --measure: the disk of this DIR too");
        of.flag("--force", options.force, "With --measure: even if the host is not idle");
      });
  line.verb_of<HealthRecordOptions>(
      health_group,
      texts_of("record", "Save what the checks read, to be looked at elsewhere",
               "Sources are recorded as they are, with lines of the kernel's log:\n"
               "read them before you give them away. Environments, keys and command lines are not "
               "among\n"
               "them."),
      record_health, [](Arguments& of, HealthRecordOptions& options) {
        of.argument("DIR", options.directory, "A new or an empty directory");
        of.option("--profile", options.profile, "NAME or FILE, default by the GPUs");
        of.folder("--root", options.root, root_help);
      });
}

void declare_benchmark(Arguments& of, HealthRunOptions& options) {
  BenchmarksAsked& asked = options.measured.emplace();
  declare_asked(of, options,
                "With nodes: for the benchmarks of each, default as long as they may take",
                "Profile with the minimums: NAME or FILE, default by the GPUs");
  of.repeated("--only", asked.only, "Only this benchmark, with a minimum or without (repeatable)");
  of.option("--burn-minutes", asked.burn_minutes,
            "Verified load on all processors too (cpu-sdc), for so long (1 to 120)");
  of.option("--disk", asked.disk, "The disk of this DIR is measured too");
  of.flag("--force", asked.force, "Measure even if the host is not idle");
  of.flag("--gate", asked.gate, "As before a job: processors may be busy; remembers nothing");
  declare_kept(of, options);
}

void declare_fabric(Arguments& of, HealthFabricOptions& options) {
  of.option("--profile", options.profile, "Rate and width of hosts' links: NAME or FILE");
  of.option("--baseline", options.golden, "Baseline to compare with: FILE");
  of.option("--save-baseline", options.save_golden, "Write what is there now to this FILE, only");
  of.option("--hca", options.hca, "Port of this host to query the fabric through, as mlx5_0:1");
  of.repeated("--check", options.checks, "Only these, as fab.links (repeatable)");
  of.option("--deadline", options.deadline, "Time limit for each tool, default 1m");
  of.flag("--once", options.quick, "Read once; do not repeat readings to confirm a fault");
  declare_kept(of, options);
}

void declare_pairs(Arguments& of, HealthPairsOptions& options) {
  of.optional_arguments("NODE", options.nodes, "Nodes of the cluster, as of `muster health`");
  of.option("--target", options.target, "All nodes of this compute target, or NODE of it");
  of.option("--profile", options.profile,
            "Whose minimums and ports are used: NAME or FILE, default the target's");
  of.option("--time", options.time, "Duration of a measurement (default 10s)");
  of.option("--timeout", options.timeout, "Time limit for reaching a node (default 30s)");
  of.option("--topology", options.leaves, "Which leaf switch each node is below: FILE");
  of.repeated("--hca", options.hcas,
              "Port of this host to query the fabric through (repeatable), as mlx5_0:1");
  of.flag("--tcp", options.tcp, "Over TCP, even if the nodes have InfiniBand");
  of.ignored_flag("--nccl", "All-reduces over the GPUs of both nodes");
  of.ignored_flag("--no-nccl", "No all-reduces");
  of.option("--port", options.port, "The first of the ports that are used (default 18700)");
  of.flag("--idle-only", options.idle_only, "Omit nodes that are not idle");
  of.flag("--force", options.force, "Also measure hosts that are busy without a job");
  of.flag("--all", options.all, "Show all tests that gave no result");
  declare_prometheus_file(of, options.prometheus_file);
}

}  // namespace

void add_health(CommandLine& line) {
  line.verb<HealthRunOptions>(
      texts_of(health_group, "Check this host or nodes, and show what keeps jobs from them",
               run_footer, true),
      run, declare_run);
  line.verb_of<HealthRunOptions>(
      health_group, texts_of("run", "The same as without a word: check once", run_footer, true),
      run, declare_run);
  add_checks_and_profiles(line);
  add_learn_and_record(line);
  line.verb_of<HealthRunOptions>(
      health_group,
      texts_of("benchmark", "Measure how fast this idle host is, or nodes, under load",
               benchmark_footer, true),
      run, declare_benchmark);
  line.verb_of<HealthFabricOptions>(
      health_group,
      texts_of("fabric", "Check the InfiniBand fabric that this host is on", fabric_footer, true),
      run_health_fabric, declare_fabric);
  line.verb_of<HealthPairsOptions>(
      health_group,
      texts_of("pairs", "Find the node, rail or path that makes a group of nodes slow",
               pairs_footer, true),
      run_health_pairs, declare_pairs);
}

}  // namespace muster
