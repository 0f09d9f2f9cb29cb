// Every kind of file but command jobs and clusters: pipelines, whose order comes from their steps'
// bindings alone, their components, sweeps, and resources as Azure ML writes them. Checked; run by
// nothing yet. Secrets are looked for and never copied into a finding.
#pragma once

#include <set>
#include <string>

#include "scheduler/model/job_spec.h"
#include "templates/job/command_job.h"

namespace muster {

void read_pipeline_job(const Value& root, Reading& reading, JobSpec& spec);

// What a step may bind to: the declared names. `known` is false for components of a catalogue.
struct ComponentShape {
  bool known = false;
  std::set<std::string> inputs;
  std::set<std::string> required_inputs;  // neither optional nor with a default
  std::set<std::string> outputs;
};

ComponentShape read_pipeline_component(const Value& root, Reading& reading);
ComponentShape read_command_component(const Value& root, Reading& reading);

// A component named by path, `file:` path or catalogue name.
ComponentShape read_component_reference(const Value& value, Reading& reading);
// A component written out as a map.
ComponentShape read_component_map(const Value& value, Reading& reading);

// Checks the whole file; what a trial would be is left in `spec`.
void read_sweep_job(const Value& root, Reading& reading, JobSpec& spec);
// The keys of a sweep in a file that is also something else (a pipeline step). `base` has the base
// keys already taken.
void read_sweep_keys(MapReader& base, Reading& reading, JobSpec& spec);

void read_compute_file(const Value& root);
void read_environment_file(const Value& root, Reading& reading, EnvironmentSpec& spec);

}  // namespace muster
