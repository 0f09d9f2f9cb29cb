// `muster plan FILE`: everything that `run` would do, short of doing it.
#include <nlohmann/json.hpp>

#include "cli/data/stores.h"
#include "cli/image/image.h"
#include "cli/job/plan.h"
#include "cli/job/report.h"
#include "cli/job/submission.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/names.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/sentences.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

constexpr const char* by_gpus = "one for each GPU";

std::string node_ranks_text(const JobPlan& plan, int node_index) {
  if (plan.spec.distribution.process_per_gpu) return by_gpus;
  std::int64_t first = -1;
  std::int64_t last = -1;
  for (const RankPlace& place : plan.ranks) {
    if (place.node_index != node_index) continue;
    if (first < 0) first = place.rank.value;
    last = place.rank.value;
  }
  if (first < 0) return "";
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

std::string wanted_nodes(const JobPlan& plan) {
  const MusterSettings& muster = plan.spec.muster;
  const std::size_t available = plan.nodes.size();
  const std::string eligible = std::to_string(available + plan.unavailable.size());
  const std::string others =
      plan.unavailable.empty() ? "" : "; " + std::to_string(available) + " of these available now";
  if (!is_elastic(plan.spec)) {
    return std::to_string(plan.spec.instance_count) + " of " + eligible + " eligible nodes" +
           others;
  }
  return std::to_string(muster.nodes_min) + " to " + std::to_string(muster.nodes_max) +
         " nodes, of " + eligible + " eligible" + others;
}

std::string heading(const JobPlan& plan) {
  const JobSpec spec = without_secrets(plan.spec);
  std::string text = "job       " + (spec.name.empty() ? "(a name is made)" : spec.name) + "\n";
  text += "target    " + plan.target.name + ": " + wanted_nodes(plan) + "\n";
  const std::string number =
      spec.distribution.process_per_gpu ? by_gpus : std::to_string(plan.ranks.size());
  text += "ranks     " + number + " (" + std::string(word(spec.distribution.type)) + ")\n";
  text += "restarts  " + std::to_string(spec.muster.restart.attempts) + " in place, " +
          std::to_string(spec.muster.reschedule.attempts) + " with replacement\n";
  text += "command   " + printable(with_expressions(spec.command)) +
          (spec.command.ends_with('\n') ? "" : "\n");
  for (const JobNeed& need : plan.needs) {
    const bool is_image = need.name == "image";
    text += (is_image ? "image     " : "data      " + need.name + ": ") + printable(need.text) +
            "\n          " + holdings_text(need.name, first_nodes(plan), plan.held) + "\n";
  }
  if (plan.memory) {
    text += "memory    " + printable(train_memory_text(*plan.memory)) + "\n";
    for (const std::string& remark : plan.memory->remarks) text += "warning   " + remark + "\n";
  }
  return text;
}

void print_plan(const JobPlan& plan, const CommonOptions& common) {
  Table nodes({"NODE RANK", "NODE", "RANKS"});
  for (int i = 0; i < plan.placed; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::string name = index < plan.nodes.size() ? plan.nodes[index].value : "";
    nodes.add({std::to_string(i), name, node_ranks_text(plan, i)});
  }
  std::string text = heading(plan) + "\n" + nodes.text(common);
  if (!plan.trees.empty()) {
    Table trees({"STAGED", "FROM", "FILES", "SIZE"});
    for (const PlannedTree& planned : plan.trees) {
      trees.add({planned.request.place, planned.request.source.string(),
                 std::to_string(planned.tree.files),
                 bytes_text(static_cast<std::uint64_t>(planned.tree.bytes))});
    }
    text += "\n" + trees.text(common);
  }
  write_all(Stream::out, text);
}

// The stores are asked what inputs are, and nodes what they have.
void plan_needs(JobPlan& plan, const CheckedJob& job, const std::optional<ImageBuild>& build,
                const CommonOptions& common) {
  const Home home = Home::from_environment();
  plan.data = job.data;
  or_end(list_inputs(home, *job.stores, plan.data, plan.spec), invalid_file);
  plan.data.outputs = outputs_to_stores(plan.spec, *job.stores);
  or_end(find_content(home, *job.stores, plan.spec, plan.data.outputs), invalid_file);
  plan.needs = needs_of(plan.spec, plan.data, build, *job.target, job.images);
  plan.held = ask_for_holdings(home, *job.target, first_nodes(plan), plan.spec, plan.data);
  const EnvironmentSpec& environment = plan.spec.environment;
  const bool is_copied =
      build ? !is_this_host(*job.target)
            : job.images.pull == ImageBringer::controller && !environment.digest.empty();
  if (is_copied)
    check_copies(environment.image_bytes, plan.spec.muster.nodes_max, job.images, common);
  say_warnings(plan.needs, common);
  for (const auto& [node, holdings] : plan.held) {
    for (const auto& [need, text] : holdings) {
      if (!text.starts_with(misfit_words)) continue;
      notice("warning: " + need + ": " + holdings_text(need, {node}, plan.held), common);
    }
  }
}

// A job that lacks nodes is queued and waits for them.
void report_unavailable(const JobPlan& plan, const UnavailableNodes& unavailable,
                        const CommonOptions& common) {
  for (const NodeId& node : plan.unavailable) notice("warning: " + unavailable.at(node), common);
  const auto least = static_cast<std::size_t>(plan.spec.muster.nodes_min);
  if (plan.unavailable.empty() || plan.nodes.size() >= least) return;
  notice("warning: the job would be pending: it needs " + count_text(least, "node") + ", and " +
             std::to_string(plan.nodes.size()) + " of " + plan.target.name + " can be had now",
         common);
}

}  // namespace

int plan_job(const RunOptions& options, const CommonOptions& common) {
  const CheckRequest& asked = options.submit.check;
  const CheckedJob job = or_end(check_job(asked, common), invalid_file);
  require_runnable(job, common);
  const UnavailableNodes unavailable = unavailable_nodes(Home::from_environment());
  JobSpec spec = job.file.spec;
  const auto build = plan_build(spec.environment, job.images, common);
  if (!build) pin_image(spec.environment, job.images, common);
  auto plan = or_end(make_plan(spec, *job.target, unavailable), invalid_file);
  plan_needs(plan, job, build, common);
  report_unavailable(plan, unavailable, common);
  for (const PlannedTree& planned : plan.trees) {
    for (const std::string& warning : planned.tree.warnings) notice("warning: " + warning, common);
  }
  if (plan.memory && plan.memory->lacks()) {
    notice("warning: memory " + train_memory_text(*plan.memory), common);
  }
  if (const auto text = measured_after_failure(job.file.spec, *job.target); !text.empty()) {
    notice(text, common);
  }
  if (!wants_table(common)) return print_document(plan_document(plan, unavailable), common);
  print_plan(plan, common);
  return 0;
}

void add_plan(CommandLine& line) {
  line.verb<RunOptions>(
      {"plan", "Show what run would do: target, nodes, ranks, memory, what would be copied"},
      plan_job, [](Arguments& of, RunOptions& options) {
        of.argument("FILE", options.submit.check.path, "Job file (YAML), - for standard input");
        of.settings(options.submit.check.sets, "Change one key of the file: a.b=value");
      });
}

}  // namespace muster
