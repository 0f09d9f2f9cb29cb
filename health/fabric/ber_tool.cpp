#include "health/fabric/ber_tool.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "health/read/tool_process.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int not_found = 127;  // of env
constexpr std::size_t said_max = 200;
constexpr const char* tables_file = "ibdiagnet2.db_csv";
// The tool fills some hundred MiB of a great fabric.
constexpr std::size_t part_bytes = 1u << 16;

// Where the tool writes its files; gone with this.
class Folder {
 public:
  Folder() {
    std::error_code failed;
    std::string name = (fs::temp_directory_path(failed) / "muster-ibdiagnet-XXXXXX").string();
    if (!failed && ::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }  // empty: there is none

 private:
  std::string path_;
};

std::vector<std::string> argv_of(std::vector<std::string> words, const BerToolOptions& options,
                                 const std::string& folder) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> argv{
      "/usr/bin/env", "LC_ALL=C",
      "PATH=" + std::string(path == nullptr ? "/usr/bin:/bin" : path) + ":/usr/sbin:/sbin",
      "ibdiagnet"};
  argv.insert(argv.end(), words.begin(), words.end());
  argv.insert(argv.end(), {"-o", folder});
  if (options.port)
    argv.insert(argv.end(), {"-i", options.port->device, "-p", std::to_string(options.port->port)});
  return argv;
}

// Of what it says the first trouble; it prints both kinds of errors as lines.
std::string trouble_in(const ToolRun& run) {
  for (const char* mark : {"-F-", "-E-"}) {
    const std::size_t at = run.output.find(mark);
    if (at == std::string::npos) continue;
    const std::string_view line = std::string_view(run.output).substr(at, said_max);
    return ": " + std::string(trimmed(line.substr(0, line.find('\n'))));
  }
  const std::string_view said = trimmed(run.errors);
  if (said.empty()) return {};
  return ": " + std::string(said.substr(0, std::min(said.find('\n'), said_max)));
}

BerReading failed(std::string why, bool is_missing = false) {
  BerReading reading;
  reading.error = std::move(why);
  reading.is_missing = is_missing;
  return reading;
}

// That it ends with something else than 0 may be what it found. The file says that it got so far.
std::optional<BerReading> why_not(const ToolRun& run, const std::string& folder,
                                  const BerToolOptions& options) {
  if (!run.exit_code) {
    return failed("ibdiagnet gave no answer within " + std::to_string(options.limit.count()) +
                  " ms" + trouble_in(run));
  }
  if (*run.exit_code == not_found)
    return failed("ibdiagnet is not installed; NVIDIA's ibutils2 has it", true);
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / tables_file, ignored)) return std::nullopt;
  return failed("ibdiagnet ended with " + std::to_string(*run.exit_code) + " and wrote no " +
                tables_file + trouble_in(run));
}

BerReading read_tables(const std::string& folder) {
  std::ifstream file(fs::path(folder) / tables_file, std::ios::binary);
  BerReader reader;
  std::array<char, part_bytes> part;
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    reader.feed({part.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) return failed(std::string(tables_file) + " cannot be read");
  return reader.done();
}

BerReading run_ibdiagnet(std::vector<std::string> words, const BerToolOptions& options) {
  const Folder folder;
  if (folder.path().empty()) return failed("there is no room for temporary files");
  const ToolRun run = ToolProcess(argv_of(std::move(words), options, folder.path()))
                          .wait(Clock::now() + options.limit);
  if (auto no = why_not(run, folder.path(), options)) return *std::move(no);
  return read_tables(folder.path());
}

}  // namespace

BerReading measure_ber(const BerToolOptions& options) {
  BerReading cleared = run_ibdiagnet({"--pc", "--reset_phy_info"}, options);
  if (!cleared.error.empty()) return failed(cleared.error, cleared.is_missing);
  if (options.wait) options.wait();
  return run_ibdiagnet({"--get_phy_info"}, options);
}

}  // namespace muster
