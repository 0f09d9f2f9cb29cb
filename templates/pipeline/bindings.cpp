#include "templates/pipeline/bindings.h"

#include <algorithm>

#include "scheduler/text/spelling.h"
#include "templates/job/expression.h"

namespace muster {
namespace {

using Edges = std::map<std::string, std::set<std::string>>;

bool holds_bindings(std::string_view key) {
  return key == "inputs" || key == "outputs" || key == "resources" || key == "compute";
}

// `shown` has the same shape as `node`, for positions; `node` loses its bindings.
void collect(const Value& shown, YamlNode& node, std::vector<Binding>& out) {
  if (node.kind == YamlNode::Kind::scalar) {
    const Expressions all = find_expressions(node.text);
    if (all.found.empty()) return;
    for (const Expression& expression : all.found) out.push_back({shown, expression.name});
    node.kind = YamlNode::Kind::null;
    node.text.clear();
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) collect(shown.item(i), node.items[i], out);
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    collect(shown.entry(shown.node().entries[i]), node.entries[i].value, out);
  }
}

// A map whose `path` was a binding is a bound value too; the rest of it needs no path.
void drop_bound_maps(YamlNode& map) {
  for (Entry& entry : map.entries) {
    const YamlNode* path = entry.value.find("path");
    if (!path || path->kind != YamlNode::Kind::null) continue;
    YamlNode bound;
    bound.place = entry.value.place;
    entry.value = std::move(bound);
  }
}

class BindingCheck {
 public:
  explicit BindingCheck(const PipelineNames& names) : names_(names) {}

  // The step it depends on, empty for the pipeline's own values and after a finding.
  std::string check(const Binding& binding) const {
    const std::string& target = binding.target;
    if (target.starts_with("parent.inputs.")) {
      expect(binding, "parent.inputs.", names_.inputs);
    } else if (target.starts_with("parent.outputs.")) {
      expect(binding, "parent.outputs.", names_.outputs);
    } else if (target.starts_with("parent.jobs.")) {
      return step_of(binding);
    } else if (target != "name" && target != "output_name" && target != "default_datastore") {
      binding.where.error("unknown expression " + shown(target),
                          "expected ${{parent.inputs.<name>}} or "
                          "${{parent.jobs.<step>.outputs.<name>}}");
    }
    return "";
  }

 private:
  static std::string shown(const std::string& target) { return quoted_text("${{" + target + "}}"); }

  static void expect(const Binding& binding, const std::string& prefix,
                     const std::set<std::string>& known) {
    const std::string name = binding.target.substr(prefix.size());
    if (known.count(name)) return;
    binding.where.error(shown(binding.target) + " names nothing in the pipeline",
                        binding.where.suggest(name, known));
  }

  std::string step_of(const Binding& binding) const {
    const std::string rest = binding.target.substr(12);
    const std::size_t dot = rest.find('.');
    const std::string step = rest.substr(0, dot);
    const auto found = names_.steps.find(step);
    if (found == names_.steps.end()) {
      std::vector<std::string> known;
      for (const auto& [name, shape] : names_.steps) known.push_back(name);
      binding.where.error("there is no step " + quoted_text(step),
                          binding.where.suggest(step, known));
      return "";
    }
    const std::string part = dot == std::string::npos ? "" : rest.substr(dot + 1);
    const bool output = part.starts_with("outputs.");
    if (!output && !part.starts_with("inputs.")) {
      binding.where.error("expected ${{parent.jobs." + step + ".outputs.<name>}}, got " +
                          shown(binding.target));
      return "";
    }
    const ComponentShape& shape = found->second;
    if (shape.known) {
      expect(binding, "parent.jobs." + step + (output ? ".outputs." : ".inputs."),
             output ? shape.outputs : shape.inputs);
    }
    return step;
  }

  const PipelineNames& names_;
};

// Removes steps that wait for nothing until none is left or only cycles (and what hangs on them)
// are.
std::set<std::string> steps_in_cycles(Edges edges) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto at = edges.begin(); at != edges.end();) {
      const auto& needs = at->second;
      const bool free = std::none_of(needs.begin(), needs.end(),
                                     [&](const std::string& step) { return edges.count(step); });
      at = free ? edges.erase(at) : std::next(at);
      changed = changed || free;
    }
  }
  std::set<std::string> out;
  for (const auto& [step, needs] : edges) out.insert(step);
  return out;
}

// Follows unfinished steps from `start` until one repeats: the cycle, in order.
std::vector<std::string> cycle_from(const std::string& start, const Edges& edges,
                                    const std::set<std::string>& inside) {
  std::vector<std::string> walked{start};
  while (true) {
    const auto& needs = edges.at(walked.back());
    const auto next = std::find_if(needs.begin(), needs.end(),
                                   [&](const std::string& step) { return inside.count(step) > 0; });
    const auto before = std::find(walked.begin(), walked.end(), *next);
    if (before != walked.end()) return {before, walked.end()};
    walked.push_back(*next);
  }
}

}  // namespace

BoundStep take_bindings(const Value& step) {
  BoundStep out;
  out.without_bindings = step.node();
  for (std::size_t i = 0; i < out.without_bindings.entries.size(); ++i) {
    Entry& entry = out.without_bindings.entries[i];
    if (!holds_bindings(entry.key)) continue;
    collect(step.entry(step.node().entries[i]), entry.value, out.bindings);
    if (entry.key == "inputs" || entry.key == "outputs") drop_bound_maps(entry.value);
  }
  return out;
}

void check_bindings(const std::map<std::string, std::vector<Binding>>& of_steps,
                    const PipelineNames& names) {
  const BindingCheck check(names);
  Edges edges;
  std::map<std::string, Value> first_place;
  for (const auto& [step, bindings] : of_steps) {
    edges[step];
    for (const Binding& binding : bindings) {
      const std::string needed = check.check(binding);
      if (needed.empty()) continue;
      edges[step].insert(needed);
      first_place.emplace(step, binding.where);
    }
  }
  std::set<std::string> inside = steps_in_cycles(edges);
  while (!inside.empty()) {
    const std::vector<std::string> cycle = cycle_from(*inside.begin(), edges, inside);
    std::string text;
    for (const std::string& step : cycle) text += step + " needs ";
    first_place.at(cycle.front()).error("the steps wait for each other: " + text + cycle.front());
    for (const std::string& step : cycle) edges.erase(step);
    inside = steps_in_cycles(edges);
  }
}

}  // namespace muster
