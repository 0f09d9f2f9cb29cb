// A file system for tests: a map from absolute path to text; a path ending in '/' is a directory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "templates/parse_file.h"

namespace muster {

FileView files_in_memory(const std::map<std::string, std::string>& files);

// Options as seen from /project, with `files` on disk.
ReadOptions in_project(const std::map<std::string, std::string>& files = {});

// What the files in golden/ name: code, data, an environment, components (one includes itself).
ReadOptions sample_project();

// The texts of golden/*.yml in the order of their names.
std::vector<std::string> golden_samples();
std::string golden_directory();
std::string content_of(const std::string& path);

// The job file `/project/job.yml` with this text.
JobFile read_job(const std::string& text, const ReadOptions& options = in_project());

// All findings printed, one after the other.
std::string printed(const std::vector<Finding>& findings);

}  // namespace muster
