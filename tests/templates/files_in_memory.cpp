#include "tests/templates/files_in_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace muster {

FileView files_in_memory(const std::map<std::string, std::string>& files) {
  FileView view;
  view.kind_of = [files](const std::string& path) {
    if (files.count(path)) return OnDisk::file;
    return files.count(path + '/') ? OnDisk::directory : OnDisk::missing;
  };
  view.read = [files](const std::string& path, std::size_t limit) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return Error{"there is no file '" + path + "'"};
    if (found->second.size() > limit) return Error{"'" + path + "' is too large"};
    return found->second;
  };
  return view;
}

ReadOptions in_project(const std::map<std::string, std::string>& files) {
  ReadOptions options;
  options.cwd = "/project";
  options.files = files_in_memory(files);
  return options;
}

ReadOptions sample_project() {
  return in_project({
      {"/project/src/", ""},
      {"/project/data/", ""},
      {"/project/data/one.csv", "a,b"},
      {"/project/env/env.yml",
       "image: mcr.microsoft.com/x:1\nconda_file: conda.yml\nname: here\n"},
      {"/project/env/conda.yml", "channels: [conda-forge]\n"},
      {"/project/components/src/", ""},
      {"/project/components/train.yml", content_of(golden_directory() + "/component.yml")},
      {"/project/components/loop.yml",
       "type: pipeline\nname: loop\njobs:\n  again: {component: ./loop.yml}\n"},
  });
}

std::string golden_directory() {
  return std::string(MUSTER_SOURCE_DIR) + "/tests/templates/golden";
}

std::string content_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::vector<std::string> golden_samples() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(golden_directory())) {
    if (entry.path().extension() == ".yml") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const std::string& path : paths) texts.push_back(content_of(path));
  return texts;
}

JobFile read_job(const std::string& text, const ReadOptions& options) {
  return read_job_file("job.yml", text, options);
}

std::string printed(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) out += print(finding);
  return out;
}

}  // namespace muster
