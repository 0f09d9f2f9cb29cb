// Pipeline jobs and pipeline components: steps whose order comes from their bindings alone.
#pragma once

#include "scheduler/model/job_spec.h"
#include "templates/job/reading.h"
#include "templates/pipeline/component.h"

namespace muster {

void read_pipeline_job(const Value& root, Reading& reading, JobSpec& spec);
void read_pipeline_component(const Value& root, Reading& reading, ComponentShape& shape);

}  // namespace muster
