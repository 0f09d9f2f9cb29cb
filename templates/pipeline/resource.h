// Resource files: compute, environments, datastores and data assets as Azure ML writes them.
// Checked only; secrets are looked for and never copied into a finding.
#pragma once

#include "templates/job/reading.h"

namespace muster {

void read_compute_file(const Value& root);
void read_environment_file(const Value& root, Reading& reading);
void read_datastore_file(const Value& root);
void read_data_asset_file(const Value& root, Reading& reading);

}  // namespace muster
