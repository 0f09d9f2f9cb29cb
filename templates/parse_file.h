// Reads a job file: YAML text in, a JobSpec and everything there is to say about it out. Pure:
// files named by the job are seen through a FileView that the caller supplies; no clock, no
// environment, no randomness. Never throws on any input; time and memory are bounded
// (templates/yaml/reader.h).
//
// The dialect is documented in docs; one file has one meaning here and in Azure ML.
#pragma once

#include <string>
#include <string_view>

#include "templates/job/job_file.h"

namespace muster {

// `path` is what findings print and what relative paths inside start from.
JobFile read_job_file(const std::string& path, std::string_view text, const ReadOptions& options);

}  // namespace muster
