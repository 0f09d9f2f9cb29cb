// `muster agent …` alone, so that these tests need nothing of the command line. Asked to measure,
// it says what stands in the file $MUSTER_TEST_MEASURED, or hangs when that says so, and counts.
// When that says "linger", a process of it takes two seconds to die, with "hold" eight. Of several
// texts with lines `then` between them it says the first, and leaves the others for the next times.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "health/benchmark/command.h"
#include "health/read/node_reader.h"
#include "launcher/agent/node/run_directory.h"

namespace {

int measure() {
  const char* file = std::getenv("MUSTER_TEST_MEASURED");
  if (file == nullptr) return 2;
  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string between = "\nthen\n";
  if (const std::size_t end = text.find(between); end != text.npos) {
    std::ofstream(file) << text.substr(end + between.size());
    text.resize(end);
  }
  const auto tell = [&](const char* what) {
    std::ofstream(std::string(file) + ".asked", std::ios::app) << what;
  };
  const bool lingers = text.starts_with("linger") || text.starts_with("hold");
  if (lingers) {
    const pid_t lingering = ::fork();
    if (lingering == 0) {
      ::sleep(text.starts_with("hold") ? 8 : 2);
      tell("gone\n");
      return 0;
    }
    ::setpgid(lingering, lingering);  // no killed group has it
  }
  tell("asked\n");
  if (text.starts_with("hang") || lingers) ::pause();
  if (text.starts_with("{")) {
    std::cout << text;
    return 0;
  }
  std::cerr << "muster: " << text << "\n";
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 2 && words[0] == "health" && words[1] == "benchmark") return measure();
  if (words.size() < 2 || words[0] != "agent") return 2;
  muster::AgentOptions options;
  options.build_id = "test";
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    if (words[i] == "--home") options.home = words[i + 1];
    if (words[i] == "--controller") options.controller = words[i + 1];
    if (words[i] == "--node") options.node = words[i + 1];
  }
  if (words[1] == "read-health") return muster::serve_node_reads(3);
  if (words[1] == "probe") return muster::run_probe({words.begin() + 2, words.end()});
  if (words[1] == "serve") return muster::agent_serve(options);
  if (words[1] == "attach") return muster::agent_attach(options);
  if (words[1] == "mpi-start") return muster::agent_mpi_start({words.begin() + 2, words.end()});
  if (words[1] == "mpi-rank") return muster::agent_mpi_rank();
  return 2;
}
